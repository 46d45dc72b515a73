"""Around the library: why there is no kernel, the command without the lab's packages, the package page."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gradagrad
from gradagrad.kernel import load as kernel

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def setup():
    pytest.importorskip("setuptools")
    spec = importlib.util.spec_from_file_location("gradagrad_setup", ROOT / "setup.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WORKFLOWS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / ".github/workflows").glob("*.yml")}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_run_nothing_that_can_change_behind_our_back(name):
    """Actions by commit, packages by version, and no permission but to read unless a job names it."""
    text = WORKFLOWS[name]
    actions = re.findall(r"uses: (.+)", text)
    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)] == []
    packages = [word for line in re.findall(r"pip install (.+)", text) for word in line.split()]
    assert [package for package in packages if not re.fullmatch(r"[\w-]+==[\w.]+", package)] == []
    assert re.findall(r"^permissions:\n((?:  .+\n)+)", text, re.MULTILINE) == ["  contents: read\n"]
    assert set(re.findall(r"^ {6}(.+: write)$", text, re.MULTILINE)) <= {"id-token: write", "pages: write"}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_what_workflows_name_exists(name):
    text = "\n".join(line for line in WORKFLOWS[name].splitlines() if "uses:" not in line)
    made = ("docs/_build", "src/gradagrad/kernel/_kernel.abi3.so")
    paths = re.findall(r"(?<![\w./-])(?:\.ci|\.github|docs|src|tests|tools)/[\w./*-]+", text)
    assert [p for p in paths if not p.startswith(made) and not any(ROOT.glob(p))] == []
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"run: make (\w+)", text)) <= set(targets)


def test_windows_is_tested():
    job = WORKFLOWS["test.yml"].partition("\n  windows:\n")[2]
    assert "runs-on: windows" in job
    assert "tests/test_sparse.py" in job


def test_every_wheel_that_is_published_was_checked_where_it_runs():
    jobs = {
        job.partition(":")[0]: job for job in re.split(r"^  (?=\w+:\n)", WORKFLOWS["wheels.yml"], flags=re.MULTILINE)
    }
    built, checked = (re.findall(r"runs-on: (\[.+\])", jobs[name]) for name in ("kernel", "check"))
    assert built == checked != []
    assert 'pattern: "{kernel-${{ matrix.runs-on }},portable}"' in jobs["check"]
    assert "needs: check\n" in jobs["publish"]


# What setup.py records, a word of the reason, a word of the remedy, and what the remedy must not advise: it was done.
RECORDS = [
    ({"kind": "no torch"}, "built without torch", "--no-build-isolation", "compiler"),
    ({"kind": "old torch", "detail": "2.4.1"}, "torch 2.4.1", "torch that is installed now", "compiler"),
    ({"kind": "no compiler", "detail": "none"}, "no C++ compiler", "Install g++ or clang++", "Try another"),
    (
        {"kind": "failed", "detail": "a.h:1: error: no.", "compiler": "g++ 12"},
        "a.h:1: error: no",
        "export CXX=clang++",
        "Install",
    ),
    ({"kind": "failed", "detail": "bad", "compiler": "Debian clang version 14"}, "bad", "export CXX=g++", "Install"),
    ({"kind": "unwanted"}, "GRADAGRAD_KERNEL=0", "Unset that variable", "compiler"),
    ({"kind": "portable"}, "wheel for all platforms", "--no-binary", "Install"),
    ({"kind": "windows"}, "Windows", "WSL", "pip"),
    ({}, "not been built", "--editable", "--force-reinstall"),
    ({"kind": "of a later version"}, "not been built", "--editable", "--force-reinstall"),
]


@pytest.mark.parametrize(("record", "reason", "remedy", "done_already"), RECORDS)
def test_the_reason_recorded_is_told_with_a_remedy_that_fits(
    monkeypatch, tmp_path, record, reason, remedy, done_already
):
    monkeypatch.delenv("GRADAGRAD_KERNEL_PATH", raising=False)
    monkeypatch.setattr(kernel, "__file__", str(tmp_path / "kernel.py"))  # where there is no library
    monkeypatch.setattr(kernel, "build_record", lambda: record)
    kernel.kernel_status.cache_clear()
    try:
        status = kernel.kernel_status()
    finally:
        kernel.kernel_status.cache_clear()
    assert not status.loaded
    assert reason in status.reason
    assert remedy in status.remedy
    assert done_already not in status.remedy
    assert "{" not in str(status)


def test_every_kind_that_setup_records_has_a_text(setup):
    kinds = set(re.findall(r'NoKernelError\(\s*"([^"]+)"', Path(setup.__file__).read_text())) | {"unwanted"}
    assert kinds == set(kernel._REASONS) - {""}


def test_a_compiler_that_fails_does_not_fail_the_build_and_is_recorded(tmp_path):
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho 'step.cpp:1: error: no such luck' >&2\nexit 1\n")
    broken.chmod(0o755)
    command = [sys.executable, "setup.py", "--quiet", "build", "--build-base", str(tmp_path / "build")]
    environment = os.environ | {"CXX": str(broken), "GRADAGRAD_KERNEL": ""}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
    (record,) = (tmp_path / "build").rglob("_build.json")
    kept = json.loads(record.read_text(encoding="utf-8"))
    assert (kept["kernel"], kept["kind"]) == (False, "failed")
    assert kept["detail"] == "step.cpp:1: error: no such luck"
    assert subprocess.run(
        command, cwd=ROOT, env=environment | {"GRADAGRAD_KERNEL": "1"}, capture_output=True
    ).returncode


def test_a_damaged_record_is_no_trouble(monkeypatch, tmp_path):
    (tmp_path / "_build.json").write_text("{")
    monkeypatch.setattr(kernel, "__file__", str(tmp_path / "kernel.py"))
    assert kernel.build_record.__wrapped__() == {}


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The `gradagrad` command where typer is not installed."""
    code = f"import sys; sys.modules['typer'] = None\nfrom gradagrad_lab.cli.entry import main; main({list(arguments)})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(("arguments", "exit_code"), [([], 0), (["--help"], 0), (["reproduce", "--quick"], 2)])
def test_without_the_labs_packages_the_command_says_how_to_get_them(arguments, exit_code):
    result = command(*arguments)
    assert result.returncode == exit_code
    assert "pip install 'gradagrad[lab]'" in (result.stderr if exit_code else result.stdout)
    assert gradagrad.__version__ in result.stdout
    assert "kernel" in result.stdout
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("module", ["gradagrad", "gradagrad_lab"])
def test_version_alone(module):
    shown = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, timeout=120)
    assert shown.stdout == f"gradagrad {gradagrad.__version__}\n"


def test_each_compiler_gets_flags_it_knows(setup, monkeypatch):
    """-ftree-loop-vectorize is an error in clang, whatever name clang goes by."""
    for predefined, name in (("#define __clang__ 1", "clang"), ("#define __GNUC__ 12", "gcc")):
        answer = subprocess.CompletedProcess([], 0, predefined, "")
        monkeypatch.setattr(setup.subprocess, "run", lambda *a, answer=answer, **k: answer)
        assert setup.family("c++") == name
        assert ("-ftree-loop-vectorize" in setup.flags("c++")) == (name == "gcc")


def test_the_package_page_has_no_relative_links(setup):
    links = re.findall(r"\]\(([^)]+)\)", setup.readme())
    assert links
    assert all(re.match(r"https?://|#", link) for link in links)
    inside = [link for link in links if f"/v{gradagrad.__version__}/" in link]
    assert inside
    for link in inside:
        assert (ROOT / link.partition(f"/v{gradagrad.__version__}/")[2].partition("#")[0]).exists(), link
