"""A torch of any version, for any Python and machine, that can be imported where there is no CUDA.

The package index has torch for Linux with CUDA only, and importing that takes gigabytes of NVIDIA's libraries. On a CPU
nothing of them is ever called. So empty libraries stand in for all but the small runtime, to which torch announces its
kernels while it is loaded, and names are looked up when they are first called (`RTLD_LAZY`).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LAZY = "import os, sys\n\nsys.setdlopenflags(os.RTLD_LAZY)\n"


def pip_target(folder: Path, python: str, machine: str, *packages: str) -> None:
    """Installs wheels made for another Python or machine into a folder."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--target", str(folder)]
    command += ["--upgrade", "--only-binary", ":all:", "--python-version", python]
    for platform in ("manylinux_2_28", "manylinux_2_17", "manylinux2014"):
        command += ["--platform", f"{platform}_{machine}"]
    result = subprocess.run([*command, *packages], capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"pip could not install {' '.join(packages)}:\n{result.stderr[-1500:]}")


def needed(library: Path) -> list[str]:
    """The libraries that one asks for; readelf knows every machine's."""
    shown = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", shown)


def stand_in_for_cuda(torch: Path, python: str, machine: str, compiler: str) -> list[str]:
    """Puts NVIDIA's runtime and empty libraries beside torch's own; says which."""
    library = torch / "lib"
    asked = {name for path in library.glob("*.so*") for name in needed(path)}
    names = sorted(n for n in asked if re.match(r"lib(cu|nccl|nv(?!pl))", n) and not (library / n).exists())
    for name in names:
        if name.startswith("libcudart.so."):
            major = name.rpartition(".")[2]
            package = f"nvidia-cuda-runtime-cu{major}" if int(major) < 13 else f"nvidia-cuda-runtime=={major}.*"
            with tempfile.TemporaryDirectory() as scratch:
                pip_target(Path(scratch), python, machine, "--no-deps", package)
                shutil.copy(next(Path(scratch).rglob(name)), library / name)
            continue
        command = [compiler, "-shared", "-x", "c", os.devnull, "-o", str(library / name), f"-Wl,-soname,{name}"]
        subprocess.run(command, check=True)
    return names


def install(folder: Path, version: str, python: str, machine: str = "x86_64", compiler: str = "cc") -> Path:
    """A folder for PYTHONPATH with this torch and what it imports; kept if it is there already."""
    if (folder / "ready").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    pip_target(folder, python, machine, "--no-deps", f"torch=={version}")
    (metadata,) = folder.glob("torch-*.dist-info/METADATA")
    requirements = re.findall(r"^Requires-Dist: ([^;\n]+)$", metadata.read_text(), re.MULTILINE)
    pip_target(folder, python, machine, *requirements, "numpy")
    stand_in_for_cuda(folder / "torch", python, machine, compiler)
    (folder / "sitecustomize.py").write_text(LAZY)
    (folder / "ready").touch()
    return folder
