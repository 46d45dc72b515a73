"""Builds the compiled kernel, and records the outcome for `gradagrad.kernel.load` to report.

The kernel needs the headers and the library of torch, though torch is not imported: build it with
``pip install --no-build-isolation .``, since an isolated build sees no torch and leaves it out. GRADAGRAD_KERNEL=1
makes that an error, =0 leaves the kernel out on purpose, =portable makes the wheel for every platform.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

from setuptools import Command, Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent
SOURCES = Path("src/gradagrad/kernel/csrc")  # setuptools wants paths relative to this file
OLDEST_PYTHON = "cp311"  # one library for this Python and every later one
OLDEST_TORCH = (2, 10)  # the first whose stable interface has all that the kernel calls
RECORD = "_build.json"

# Contraction off: results then depend neither on the instruction set nor on where a thread's share of a tensor begins.
# -O2 with loop vectorization, as -O3 takes twice as long to compile and the loops come out the same.
FLAGS = {
    "every compiler": [
        "-std=c++17", "-O2", "-g0", "-fvisibility=hidden", "-fopenmp-simd",
        "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off",
    ],
    # Jump threading turns the loops' selections into combinations of masks, which costs a quarter of their speed.
    "gcc": ["-ftree-loop-vectorize", "-fvect-cost-model=dynamic", "-fno-thread-jumps"],
    # It vectorizes at -O2 as it is; GCC's pragmas are unknown to it.
    "clang": ["-Wno-unknown-pragmas"],
}  # fmt: skip
MACROS: list[tuple[str, str | None]] = [
    ("TORCH_TARGET_VERSION", f"0x{OLDEST_TORCH[0]:02x}{OLDEST_TORCH[1]:02x}000000000000")
]


class NoKernelError(Exception):
    """There will be no kernel: the kind of reason (see `gradagrad.kernel.load`) and the particulars."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind, self.detail = kind, detail


class Outcome:
    """What becomes of the kernel in this build."""

    def __init__(self) -> None:
        self.wanted = os.environ.get("GRADAGRAD_KERNEL", "")
        self.record: dict[str, Any] = {"kernel": False}

    def leave_out(self, reason: NoKernelError) -> None:
        """Says why and goes on without, unless the kernel was asked for."""
        if self.wanted == "1":
            raise SystemExit(f"gradagrad: GRADAGRAD_KERNEL=1, but the kernel cannot be built: {reason}")
        self.record |= {"kernel": False, "kind": reason.kind, "detail": reason.detail}
        print(f"gradagrad: without the compiled kernel: {reason}", file=sys.stderr)


outcome = Outcome()


def compiler() -> str:
    """The C++ compiler that will be used."""
    configured = os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "c++"
    for name in (configured.split()[0], "c++", "g++", "clang++"):
        if found := shutil.which(name):
            return found
    raise NoKernelError("no compiler", "none of $CXX, c++, g++ and clang++ is there")


def family(command: str) -> str:
    """Whose flags a compiler takes. Its name does not tell: c++ is clang on a Mac."""
    result = subprocess.run([command, "-dM", "-E", "-x", "c++", os.devnull], capture_output=True, text=True)
    return "clang" if "__clang__" in result.stdout else "gcc"


def flags(command: str) -> list[str]:
    """What this compiler is given; tools/ builds with the same."""
    return FLAGS["every compiler"] + FLAGS[family(command)]


def torch_folder() -> Path:
    """Where torch is, without importing it: that takes seconds, and needs libraries that compiling does not."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise NoKernelError("no torch")
    if tuple(int(part) for part in version("torch").split(".")[:2]) < OLDEST_TORCH:
        raise NoKernelError("old torch", version("torch"))
    return Path(spec.origin).parent


def generate() -> None:
    """Writes the kernel's loops from the rules of this tree. The rules import nothing but Python."""
    sys.path.insert(0, str(ROOT / "src"))
    from gradagrad.codegen import cpp

    text = cpp.header()
    if not cpp.PATH.exists() or cpp.PATH.read_text(encoding="utf-8") != text:  # an older file would be compiled again
        cpp.PATH.write_text(text, encoding="utf-8")


def sources() -> list[str]:
    """Whatever is there: files come and go."""
    return sorted(str(path) for path in SOURCES.glob("*.cpp"))


def kernel() -> Extension:
    """The kernel as an extension; raises `NoKernelError` if it cannot be built."""
    if outcome.wanted in ("0", "portable"):
        raise NoKernelError("portable" if outcome.wanted == "portable" else "unwanted")
    if sys.platform == "win32":
        raise NoKernelError("windows")
    torch, command = torch_folder(), compiler()
    os.environ.setdefault("CXX", command)
    named = subprocess.run([command, "--version"], capture_output=True, text=True).stdout.splitlines()
    outcome.record |= {"compiler": named[0] if named else command, "torch": version("torch")}
    return Extension(
        "gradagrad.kernel._kernel",
        sources(),
        include_dirs=[str(SOURCES), str(torch / "include")],
        depends=sorted(str(path) for path in SOURCES.glob("*.h")),
        define_macros=MACROS,
        extra_compile_args=flags(command),
        libraries=["torch_cpu"],
        library_dirs=[str(torch / "lib")],
        language="c++",
        py_limited_api=True,
    )


class BuildKernel(build_ext):
    """Compiles files side by side. Failing must not fail the install, so what the compiler said is kept."""

    def run(self) -> None:
        try:
            generate()
            super().run()
            outcome.record["kernel"] = bool(self.extensions)
        except Exception as error:  # setuptools' own have no common base
            outcome.leave_out(NoKernelError("failed", str(error)))
            self.extensions = []

    def build_extension(self, ext: Extension) -> None:
        compiler: Any = self.compiler
        compile_all = compiler.compile
        compiler.call = compiler.spawn = self._run  # setuptools' name for it, and what it was before
        with ThreadPoolExecutor(int(os.environ.get("MAX_JOBS", 0)) or os.cpu_count()) as pool:

            def compile_each(files: list[str], **options: Any) -> list[str]:
                return [made for each in pool.map(lambda file: compile_all([file], **options), files) for made in each]

            compiler.compile = compile_each
            try:
                super().build_extension(ext)
            finally:
                compiler.compile = compile_all

    @staticmethod
    def _run(command: list[str], **_: Any) -> None:
        result = subprocess.run(command, capture_output=True, text=True)
        sys.stderr.write(result.stderr)
        if result.returncode:
            lines = result.stderr.splitlines() or [f"{command[0]} gave exit code {result.returncode}"]
            raise CompileError(next((line for line in lines if "error" in line), lines[-1]))


class Sdist(sdist):
    """The usual source distribution, with the generated loops in it."""

    def run(self) -> None:
        generate()
        super().run()


class RecordKernel(Command):
    """Writes the outcome beside the package, where it will be imported from."""

    editable_mode = False
    build_lib: str | None = None

    def initialize_options(self) -> None: ...

    def finalize_options(self) -> None:
        self.set_undefined_options("build", ("build_lib", "build_lib"))

    def _file(self) -> Path:
        return Path("src" if self.editable_mode else self.build_lib or "build/lib") / "gradagrad" / "kernel" / RECORD

    def run(self) -> None:
        self._file().parent.mkdir(parents=True, exist_ok=True)
        self._file().write_text(json.dumps(outcome.record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def get_source_files(self) -> list[str]:
        return []

    def get_outputs(self) -> list[str]:
        return [] if self.editable_mode else [str(self._file())]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class Build(build):
    """The usual build, and the record at its end."""

    sub_commands = [*build.sub_commands, ("record_kernel", None)]  # noqa: RUF012


def readme() -> str:
    """README for a package's page, where relative links would lead nowhere: to the files of this very version."""
    repository = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
    found = re.search(r'^__version__ = "(.+)"', (ROOT / "src/gradagrad/__init__.py").read_text(), re.MULTILINE)
    assert found, "src/gradagrad/__init__.py says __version__ as a plain string"
    text = (ROOT / "README.md").read_text()
    text = re.sub(r"(!\[[^\]]*\])\((?!\w+:|#)([^)]+)\)", rf"\1({repository}/raw/v{found[1]}/\2)", text)
    return re.sub(r"\]\((?!\w+:|#)([^)]+)\)", rf"]({repository}/blob/v{found[1]}/\1)", text)  # badges too


def main() -> None:
    """Hands all of it to setuptools."""
    arguments: dict[str, Any] = {
        "cmdclass": {"build": Build, "build_ext": BuildKernel, "sdist": Sdist, "record_kernel": RecordKernel}
    }
    try:
        arguments["ext_modules"] = [kernel()]
    except NoKernelError as reason:
        outcome.leave_out(reason)
    else:
        arguments["options"] = {"bdist_wheel": {"py_limited_api": OLDEST_PYTHON}}
    setup(long_description=readme(), long_description_content_type="text/markdown", **arguments)


if __name__ == "__main__":
    main()
