"""Compiles probe.cpp on demand: a kernel that only moves the bytes of a step."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).parent
SOURCES = HERE.parent / "src" / "gradagrad" / "kernel" / "csrc"


@cache
def probe_ops() -> Any | None:
    """The probe's ops, or None without a compiler."""
    compiler = next((found for name in ("c++", "g++", "clang++") if (found := shutil.which(name))), None)
    if compiler is None:
        return None
    home = Path(torch.__file__).parent
    built = Path(tempfile.mkdtemp()) / "probe.so"
    command = [compiler, "-std=c++17", "-O2", "-fPIC", "-shared", "-DTORCH_TARGET_VERSION=0x020a000000000000"]
    command += [f"-I{SOURCES}", "-isystem", str(home / "include"), "-o", str(built)]
    command += [str(HERE / "probe.cpp"), str(SOURCES / "tensors.cpp"), f"-L{home / 'lib'}", "-ltorch_cpu"]
    subprocess.run(command, check=True)
    torch.ops.load_library(built)
    shutil.rmtree(built.parent)
    return torch.ops.gradagrad_probe
