"""Installs a torch for any version, Python and machine that can be imported without CUDA.

The package index has only CUDA builds of torch for Linux, and importing one needs gigabytes of NVIDIA's libraries. A
CPU calls nothing in them. So empty libraries replace all but the small runtime, with which torch registers its kernels
on import. Functions are looked up at their first call (`RTLD_LAZY`). Variables and addresses of functions are looked up
at once, so the empty libraries define the versioned names that torch expects.
"""

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LAZY = "import os, sys\n\nsys.setdlopenflags(os.RTLD_LAZY)\n"


def pip_target(folder: Path, python: str, machine: str, *packages: str) -> None:
    """Installs wheels made for another Python, or on Linux for another machine, into a folder."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--target", str(folder)]
    command += ["--upgrade", "--only-binary", ":all:", "--python-version", python]
    for system in ("manylinux_2_28", "manylinux_2_17", "manylinux2014") if sys.platform == "linux" else ():
        command += ["--platform", f"{system}_{machine}"]
    result = subprocess.run([*command, *packages], capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"pip could not install {' '.join(packages)}:\n{result.stderr[-1500:]}")


def needed(library: Path) -> list[str]:
    """The libraries that a library links to. readelf reads those of every machine."""
    shown = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", shown)


def versioned(libraries: list[Path], name: str) -> dict[str, set[str]]:
    """The symbols that these libraries expect in the named one, by version."""
    found: dict[str, set[str]] = {}
    for library in (path for path in libraries if name in needed(path)):
        shown = subprocess.run(["readelf", "-V", "--dyn-syms", "--wide", str(library)], capture_output=True, text=True)
        (versions,) = re.findall(rf"File: {re.escape(name)} .*((?:\n.*Name: .*)*)", shown.stdout) or [""]
        for version in re.findall(r"Name: (\S+)", versions):
            symbols = re.findall(rf" UND (\w+)@{re.escape(version)}\b", shown.stdout)
            found.setdefault(version, set()).update(symbols)
    return found


def make_empty(library: Path, symbols: dict[str, set[str]], compiler: str) -> None:
    """Builds a library that defines only these names."""
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "empty.c"), Path(folder, "versions")
        names = sorted(set().union(*symbols.values()))
        source.write_text("".join(f"char {symbol}[8];\n" for symbol in names))
        script.write_text(
            "".join(f"{v} {{ global: {' '.join(f'{s};' for s in sorted(symbols[v]))} }};\n" for v in symbols)
        )
        command = [compiler, "-shared", str(source), "-o", str(library), f"-Wl,-soname,{library.name}"]
        subprocess.run([*command, *([f"-Wl,--version-script,{script}"] if symbols else [])], check=True)


def stand_in_for_cuda(torch: Path, python: str, machine: str, compiler: str) -> list[str]:
    """Puts NVIDIA's runtime and empty libraries beside torch's own; returns their names."""
    library = torch / "lib"
    own = list(library.glob("*.so*"))
    asked = {name for path in own for name in needed(path)}
    names = sorted(n for n in asked if re.match(r"lib(cu|nccl|nv(?!pl))", n) and not (library / n).exists())
    for name in names:
        if name.startswith("libcudart.so."):
            major = name.rpartition(".")[2]
            package = f"nvidia-cuda-runtime-cu{major}" if int(major) < 13 else f"nvidia-cuda-runtime=={major}.*"
            with tempfile.TemporaryDirectory() as scratch:
                pip_target(Path(scratch), python, machine, "--no-deps", package)
                shutil.copy(next(Path(scratch).rglob(name)), library / name)
            continue
        make_empty(library / name, versioned(own, name), compiler)
    return names


def install(folder: Path, version: str, python: str, machine: str = platform.machine(), compiler: str = "cc") -> Path:
    """A folder for PYTHONPATH with this torch and what it imports. An existing folder is reused."""
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
