"""Importing `gradagrad.optax` loads only its own few modules beyond JAX and Optax: no torch, and nothing compiled."""

import subprocess
import sys

CODE = """
import sys, jax, optax
before = set(sys.modules)
import gradagrad.optax
print(*sorted(set(sys.modules) - before))
"""


def test_it_loads_little_of_its_own_and_nothing_of_others():
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, timeout=280, check=True
    )
    loaded = result.stdout.split()
    strangers = {name.partition(".")[0] for name in loaded} - {"gradagrad", *sys.stdlib_module_names}
    assert "gradagrad.optax" in loaded
    assert not strangers
    assert len(loaded) < 30, loaded
