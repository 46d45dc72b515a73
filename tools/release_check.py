"""Installs what `make wheels` built into empty environments and checks that it works.

    python tools/release_check.py [--quick] [--dist dist]

Checks the files themselves (twine, contents, platform, versions), then every way to install, with and without the
kernel, then every Python found here with every torch that the package index has. --quick tries only this Python with
the pinned torch. The exit code is 1 if anything fails. Versions that could not be installed are listed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import foreign_torch
import wheels

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build" / "release"
OLDEST_TORCH = (2, 10)
LIBRARIES = ["gradagrad/kernel/_kernel.abi3.so"]
NEWEST_GLIBC = (2, 28)
NOT_IN_SDIST = {".gitignore"}


class Report:
    """Prints each check and counts the failures."""

    def __init__(self) -> None:
        self.failed = 0
        self.missing: list[str] = []

    def check(self, name: str, run: Callable[[], str | None]) -> None:
        """Runs one check and prints what it returns. An exception is a failure."""
        try:
            print(f"ok      {name}: {run() or 'fine'}", flush=True)
        except (AssertionError, OSError, SystemExit, subprocess.CalledProcessError) as error:
            self.failed += 1
            output = f"\n{error.stdout}{error.stderr}" if isinstance(error, subprocess.CalledProcessError) else ""
            print(f"FAILED  {name}: {error}{output}", flush=True)


def run(*command: str | Path, **environment: str) -> str:
    """A command's output. It runs outside the source tree so that only what is installed can be imported."""
    with tempfile.TemporaryDirectory() as folder:
        words, variables = [str(word) for word in command], os.environ | environment
        shown = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, check=True)
    return shown.stdout.strip()


def check_versions(version: str) -> str:
    """Three files name the same version."""
    text = (ROOT / "src/gradagrad/__init__.py").read_text()
    assert f'__version__ = "{version}"' in text, f"src/gradagrad/__init__.py does not say {version}"
    assert f"\n## [{version}] - " in (ROOT / "CHANGELOG.md").read_text(), f"CHANGELOG.md has no heading [{version}]"
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(), f"CITATION.cff does not say {version}"
    return version


def check_description(files: list[Path]) -> str:
    """The package index can render the description."""
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    return f"{len(files)} files"


def check_sdist(sdist: Path) -> str:
    """The sdist holds every file of the repository."""
    shown = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if shown.returncode:
        return "not compared, because this is no git repository"
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    lost = {name for name in shown.stdout.split("\n") if name and (ROOT / name).exists()} - held - NOT_IN_SDIST
    assert not lost, f"it lacks: {sorted(lost)[:10]}"
    return f"{len(held)} files"


def check_wheel(wheel: Path, kernel: bool) -> str:
    """The wheel holds the package, the licence and the record of the build, and no tests or sources."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"gradagrad", "gradagrad_lab"}, tops
    for wanted in ("gradagrad/py.typed", "gradagrad/kernel/_build.json"):
        assert wanted in names, f"{wanted} is missing"
    assert any(name.endswith("licenses/LICENSE") for name in names), "the licence is missing"
    assert not [name for name in names if name.endswith((".cpp", ".h"))], "it holds the kernel's sources"
    held = [name for name in names if name.endswith((".so", ".dylib"))]
    assert sorted(held) == (LIBRARIES if kernel else []), held
    return f"{len(names)} files"


def check_links(wheel: Path) -> str:
    """The description has no relative links."""
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    text = archive.read(name).decode()
    links = re.findall(r"\]\(([^)]+)\)", text)
    relative = [link for link in links if not re.match(r"https?://|#", link)]
    assert links, "there are no links at all"
    assert not relative, relative
    assert "Project-URL: Repository" in text, "no project URLs"
    return f"{len(links)} links"


def check_library(wheel: Path) -> str:
    """The kernel needs nothing newer than the platform tag promises, and it does not link to Python."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(zipfile.ZipFile(wheel).extract(name, folder)) for name in LIBRARIES]
        asked = sorted({name for library in files for name in foreign_torch.needed(library)})
        symbols = "\n".join(run("readelf", "--dyn-syms", "--wide", library) for library in files)
    python = sorted(set(re.findall(r"UND (_?Py\w+)", symbols)))
    assert not python, f"it calls Python: {python[:5]}"
    allowed = r"lib(torch_cpu|c10|stdc\+\+|gcc_s|m|c|pthread)\.so|ld-linux"
    strangers = [name for name in asked if not re.match(allowed, name)]
    assert not strangers, strangers
    newest = max(tuple(int(part) for part in found.split(".")) for found in re.findall(r"@GLIBC_([\d.]+)", symbols))
    assert newest <= NEWEST_GLIBC, f"it needs glibc {newest}"
    return f"glibc {'.'.join(map(str, newest))} is enough; links to {', '.join(asked)}"


def empty_environment(python: str | Path, folder: Path) -> Path:
    """The Python of a new environment with nothing in it, not even pip."""
    run(python, "-m", "venv", "--without-pip", folder)
    return folder / "bin" / "python"


def check_install(python: str | Path, torch: Path, what: list[str], expected: list[str], **environment: str) -> str:
    """Installs and steps. torch comes from its own folder, which saves a download each time."""
    with tempfile.TemporaryDirectory() as scratch:
        inside = empty_environment(python, Path(scratch) / "venv")
        there = {"PYTHONPATH": str(torch)}
        run(sys.executable, "-m", "pip", "--python", inside, "install", "--quiet", *what, **there, **environment)
        return run(inside, "-W", "ignore", ROOT / "tools" / "smoke.py", *expected, **there)


def check_jax(wheel: Path, jax: str) -> str:
    """The optimizers for JAX work where torch is not installed."""
    with tempfile.TemporaryDirectory() as scratch:
        inside = empty_environment(sys.executable, Path(scratch) / "venv")
        install = [sys.executable, "-m", "pip", "--python", inside, "install", "--quiet"]
        run(*install, jax, "optax")
        run(*install, "--no-deps", wheel)
        return run(inside, ROOT / "tools" / "smoke.py", "jax")


def check_commands(wheel: Path, torch: Path) -> str:
    """`gradagrad` without the lab's packages prints what `python -m gradagrad` prints, and how to install them."""
    with tempfile.TemporaryDirectory() as scratch:
        inside = empty_environment(sys.executable, Path(scratch) / "venv")
        there = {"PYTHONPATH": str(torch)}
        run(sys.executable, "-m", "pip", "--python", inside, "install", "--quiet", wheel, **there)
        script = inside.parent / "gradagrad"
        version = run(script, "--version", **there)
        assert version == f"gradagrad {release_version()}", version
        shown = run(script, **there)
        assert "pip install 'gradagrad[lab]'" in shown, shown
        assert run(inside, "-m", "gradagrad", **there) in shown, shown
    return version


def ways_to_install(dist: dict[str, Path]) -> Iterator[tuple[str, list[str], list[str], dict[str, str]]]:
    """Yields name, pip's arguments, what the smoke test expects, and variables. None of these compiles anything."""
    here = ["--no-build-isolation", str(dist["sdist"])]
    yield "wheel with the kernel", [str(dist["native"])], ["kernel"], {}
    yield "wheel without", [str(dist["pure"])], ["pure", "wheel for all platforms"], {}
    yield "sdist, isolated", [str(dist["sdist"])], ["pure", "built without torch", "--no-build-isolation"], {}
    yield "sdist, GRADAGRAD_KERNEL=0", here, ["pure", "Unset that variable"], {"GRADAGRAD_KERNEL": "0"}
    yield "sdist, no compiler", here, ["pure", "no C++ compiler", "Install g++"], {"PATH": os.devnull}
    broken = {"CXX": shutil.which("false") or "false"}
    yield "sdist, a compiler that fails", here, ["pure", "could not compile", "another compiler", "export CXX="], broken


def pythons() -> list[Path]:
    """One Python of each minor version from 3.11: pyenv's, and those on the path."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    on_path = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    candidates = [sys.executable, *root.glob("versions/*/bin/python3"), *on_path]
    found: dict[tuple[int, ...], Path] = {}
    for candidate in filter(None, candidates):
        question = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
        answer = subprocess.run([str(candidate), "-c", question], capture_output=True, text=True)
        if answer.returncode == 0 and (version := tuple(map(int, answer.stdout.split()))) >= (3, 11):
            found.setdefault(version, Path(candidate))
    return [found[version] for version in sorted(found)]


def minor(python: Path) -> str:
    """The minor version, for example 3.12."""
    return run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")


def torches() -> list[str]:
    """The last release of each minor version of torch that the kernel is made for."""
    shown = run(sys.executable, "-m", "pip", "index", "versions", "torch")
    last: dict[tuple[int, int], tuple[int, str]] = {}
    for version in re.findall(r"\b(\d+\.\d+\.\d+)(?=,|$|\n)", shown.partition("Available versions:")[2]):
        major, middle, patch = map(int, version.split("."))
        if (major, middle) >= OLDEST_TORCH:
            last[major, middle] = max(last.get((major, middle), (-1, "")), (patch, version))
    return [last[key][1] for key in sorted(last)]


def pinned_torch() -> str:
    """The version of torch in constraints.txt."""
    return (ROOT / "constraints.txt").read_text().partition("torch==")[2].split()[0]


def release_version() -> str:
    """The package's own version."""
    found = re.search(r'^__version__ = "(.+)"', (ROOT / "src/gradagrad/__init__.py").read_text(), re.MULTILINE)
    assert found, "no __version__"
    return found[1]


def combinations(quick: bool) -> list[tuple[Path, str]]:
    """This Python with every torch, every other Python with the newest torch and the oldest."""
    here, pinned = minor(Path(sys.executable)), pinned_torch()
    versions = [pinned] if quick else torches()
    chosen: list[tuple[Path, str]] = []
    for python in pythons():
        if minor(python) == here:
            chosen += [(python, version) for version in versions if version != pinned]
        elif not quick:
            chosen += [(python, version) for version in (versions[0], versions[-1])]
    return chosen


def main() -> int:
    """Runs all checks, the cheap ones first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder that holds the files")
    parser.add_argument("--quick", action="store_true", help="only with this Python and the pinned torch")
    options = parser.parse_args()
    report, files = Report(), sorted(options.dist.resolve().glob("gradagrad-*"))
    dist = {"sdist" if f.suffix == ".gz" else "pure" if "none-any" in f.name else "native": f for f in files}
    if set(dist) != {"sdist", "pure", "native"}:
        raise SystemExit(f"{options.dist} holds {sorted(dist)}, not an sdist and two wheels: run `make wheels` first.")

    report.check("versions agree", lambda: check_versions(release_version()))
    report.check("twine", lambda: check_description(files))
    report.check("sdist", lambda: check_sdist(dist["sdist"]))
    report.check("wheel with the kernel", lambda: check_wheel(dist["native"], True))
    report.check("wheel without", lambda: check_wheel(dist["pure"], False))
    report.check("links", lambda: check_links(dist["pure"]))
    if sys.platform == "linux":
        report.check("platform", lambda: check_library(dist["native"]))

    here = minor(Path(sys.executable))
    torch = foreign_torch.install(SCRATCH / f"torch-{pinned_torch()}-{here}", pinned_torch(), here)
    for name, what, expected, variables in ways_to_install(dist):
        report.check(name, lambda w=what, e=expected, v=variables: check_install(sys.executable, torch, w, e, **v))
    report.check("the command", lambda: check_commands(dist["native"], torch))
    for jax in ("jax", f"jax=={wheels.OLDEST_JAX}"):
        report.check(jax, lambda which=jax: check_jax(dist["pure"], which))
    for python, version in combinations(options.quick):
        name = f"Python {minor(python)}, torch {version}"
        folder = SCRATCH / f"torch-{version}-{minor(python)}"
        try:
            foreign_torch.install(folder, version, minor(python))
        except SystemExit as error:
            report.missing.append(f"{name}: {str(error).splitlines()[-1]}")
            continue
        what = ["--no-deps", str(dist["native"])]  # otherwise pip would install what that torch needs for GPUs
        report.check(name, lambda p=python, f=folder, w=what: check_install(p, f, w, ["kernel"]))
        shutil.rmtree(folder)  # two gigabytes each
    for line in report.missing:
        print(f"could not be installed: {line}")
    print(f"{report.failed} failed" if report.failed else "everything passed")
    return bool(report.failed)


if __name__ == "__main__":
    sys.exit(main())
