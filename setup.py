"""Adds the optional kernel to what pyproject.toml says. Without torch or a C++ compiler the install is pure Python.

The kernel needs the torch that will run it, so build it with ``pip install --no-build-isolation .``; an isolated build
sees no torch and leaves it out. GRADAGRAD_KERNEL=0 leaves it out on purpose, GRADAGRAD_KERNEL=1 makes failing an error.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import Command, setup

WANTED = os.environ.get("GRADAGRAD_KERNEL", "")
SOURCES = "src/gradagrad/csrc"
# Contraction off: results then depend neither on the instruction set nor on where a thread's share of a tensor begins.
# -O2 with loop vectorization, as -O3 takes twice as long to compile and the loops come out the same.
FLAGS = ["-std=c++17", "-O2", "-ftree-loop-vectorize", "-g0", "-fvisibility=hidden", "-fopenmp-simd"]
FLAGS += ["-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
# Jump threading turns the loops' selections into combinations of masks, which costs a quarter of their speed.
GCC_FLAGS = ["-fvect-cost-model=dynamic", "-fno-thread-jumps"]


def compiler() -> str | None:
    """The C++ compiler that will be used, if there is one."""
    configured = os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "c++"
    return next(
        (found for name in (configured.split()[0], "c++", "g++", "clang++") if (found := shutil.which(name))), None
    )


def leave_out(reason: str) -> dict[str, Any]:
    """Says why there is no kernel and what to do about it."""
    if WANTED == "1":
        raise SystemExit(f"gradagrad: GRADAGRAD_KERNEL=1, but the kernel cannot be built: {reason}")
    print(f"gradagrad: installing without the fused kernel: {reason}", file=sys.stderr)
    return {}


def kernel() -> dict[str, Any]:
    """The arguments of `setup` that build the kernel; none if it cannot be built."""
    if WANTED == "0":
        return leave_out("GRADAGRAD_KERNEL=0.")
    try:
        import torch
        from torch.utils.cpp_extension import BuildExtension, CppExtension
    except ImportError as error:
        return leave_out(
            f"torch cannot be imported here ({error}); install torch, then pip install --no-build-isolation ."
        )
    if (found := compiler()) is None:
        return leave_out("there is no C++ compiler; install g++ or clang++, or name one in the variable CXX.")
    if sys.platform == "win32":
        return leave_out("Windows is not supported yet.")
    if "CXX" not in os.environ:
        os.environ["CXX"] = found
    library = Path(torch.__file__).parent / "lib"

    class Build(BuildExtension):
        """A kernel that fails to compile must not fail the install."""

        def run(self) -> None:
            try:
                super().run()
            except Exception as error:
                leave_out(f"compiling failed: {error}")
                self.extensions = []

        def get_outputs(self) -> list[str]:
            return [name for name in super().get_outputs() if os.path.exists(name)]

    extension = CppExtension(
        "gradagrad._kernel",
        sorted(str(path) for path in Path(SOURCES).glob("*.cpp")),
        include_dirs=[SOURCES],
        depends=sorted(str(path) for path in Path(SOURCES).glob("*.h")),
        define_macros=[("TORCH_TARGET_VERSION", "0x020a000000000000")],  # torch 2.10
        extra_compile_args=FLAGS + ([] if "clang" in found else GCC_FLAGS),
        libraries=["torch_cpu"],
        library_dirs=[str(library)],
        py_limited_api=True,
    )
    command: type[Command] = Build.with_options(use_ninja=_ninja())  # pyright: ignore[reportAssignmentType]
    return {"ext_modules": [extension], "cmdclass": {"build_ext": command}}


def _ninja() -> bool:
    return shutil.which("ninja") is not None


setup(**kernel())
