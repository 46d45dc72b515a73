"""The Keras optimizers, in one process for each backend, because Keras has one backend per process."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_it_follows_the_listing_trains_and_refuses(backend, request):
    root = request.config.rootpath
    paths = os.pathsep.join([str(root / "tests"), str(root / "src")])
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": paths, "JAX_ENABLE_X64": "1"}
    script = root / "tests" / "jax_half" / "keras_script.py"
    subprocess.run([sys.executable, "-W", "ignore", str(script)], check=True, timeout=280, env=environment)
