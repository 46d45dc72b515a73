"""Promises about the code itself: imports, no waiting for the device, .grad never written, nothing printed."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cases import DRIVERS, GRANULARITIES, OPTIONS, noisy_gradients, parameters
from torch.utils._python_dispatch import TorchDispatchMode

import gradagrad
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.engine import optimizer as optimizers
from gradagrad.engine import step as engine
from gradagrad.engine.step import look_on_device

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")

LIBRARY = Path(gradagrad.__file__).parent


def imports(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


def test_the_rules_import_no_framework():
    for path in (LIBRARY / "rules").glob("*.py"):
        assert imports(path) <= {"gradagrad", *sys.stdlib_module_names}, path
        tree = ast.parse(path.read_text())
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert all(m.startswith("gradagrad.rules") for m in modules if m and m.startswith("gradagrad")), path


def test_the_library_does_not_import_the_lab():
    for path in LIBRARY.rglob("*.py"):
        assert "gradagrad_lab" not in imports(path), path


# docs/architecture.md counts them: what else there is to know of a setting or a field follows from these files.
HOMES = {
    "growth_limit": {"checks/arguments.py", "rules/gradagrad.py"},
    "gamma0": {"auto.py", "checks/arguments.py", "rules/auto.py"},
    "growth": {"rules/gradagrad.py"},
    "agreement_square": {"functional.py", "rules/auto.py"},
}
ELSEWHERE = ("optax", "sklearn")  # which have arguments and state of their own


@pytest.mark.parametrize("name", HOMES)
def test_a_setting_and_a_field_are_named_in_few_files(name):
    found = set()
    for path in LIBRARY.rglob("*.py"):
        place = path.relative_to(LIBRARY).as_posix()
        texts = [n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)]
        names = {n.attr for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)}
        if not place.startswith(ELSEWHERE) and name in {*texts, *names}:
            found.add(place)
    assert found == HOMES[name]
    for path in (LIBRARY / "kernel" / "csrc").glob("*"):
        assert path.name == "rules_generated.h" or name not in path.read_text(), path


# Home-made words that DESIGN replaced by the field's own; none of them may come back.
REPLACED = (
    "slots?", "arrival", "settled?", "begin_rest", "dress_scalars", "way_scale", "TENTHING", "complaints?",
    "POINT_WORD", "edition", "last_rows", "TensorList", "ListOps", "last point", "the way so far", "raises a sentence",
    "for torch refuses",
)  # fmt: skip
ROOT = Path(__file__).parents[1]


def test_replaced_words_stay_away():
    texts = [p for folder in ("src", "tests", "tools", "benchmarks", "examples") for p in (ROOT / folder).rglob("*.py")]
    texts += [*(LIBRARY / "kernel/csrc").glob("*.*"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    pattern = re.compile(r"\b(?:" + "|".join(REPLACED) + r")\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in texts
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := pattern.search(line))
    ]
    assert not found, "\n".join(found)


def test_the_tree_is_a_table_of_contents():
    assert len(list(LIBRARY.glob("*.py"))) <= 12  # ten modules, and two that Python names
    names = {path.stem.partition("_")[0] for path in LIBRARY.glob("*.py") if "_" in path.stem.strip("_")}
    assert names <= {"from", "in"}, "a prefix that a folder could carry"


# What must not be loaded, and by importing what; for each line an interpreter.
UNLOADED = {
    ("torch", "jax", "numpy"): (
        "gradagrad", "gradagrad.checks.arguments", "gradagrad.rules.scope", "gradagrad.rules.rule",
        "gradagrad.rules.gradagrad", "gradagrad.rules.auto", "gradagrad.codegen.trace",
    ),
    ("jax", "optax"): ("gradagrad.gradagrad", "gradagrad.auto"),
    ("torch", "flax", "equinox", "pandas", "sklearn"): ("gradagrad.optax",),
    ("torch", "jax"): ("gradagrad.sklearn",),
}  # fmt: skip


@pytest.mark.parametrize("unwanted", UNLOADED, ids=str)
def test_each_half_loads_no_more_than_it_needs(unwanted):
    code = (
        f"import sys, importlib\nfor name in {UNLOADED[unwanted]}:\n    importlib.import_module(name)\n"
        f"    print(*(name + ' loads ' + other for other in {unwanted} if other in sys.modules))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    assert not subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.strip()


def test_optax_loads_few_modules_beyond_jax_and_none_of_others():
    code = (
        "import sys, jax, optax; before = set(sys.modules); import gradagrad.optax; print(*set(sys.modules) - before)"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True).stdout.split()
    assert "gradagrad.optax" in loaded
    assert {name.partition(".")[0] for name in loaded} <= {"gradagrad", *sys.stdlib_module_names}
    assert len(loaded) < 30, loaded


def test_public_names_are_found_listed_and_nothing_else():
    for name in gradagrad.__all__:
        assert getattr(gradagrad, name) is getattr(gradagrad, name)
    assert set(gradagrad.__all__) <= set(dir(gradagrad))
    with pytest.raises(AttributeError, match="has no attribute 'Gradagrad'"):
        _ = gradagrad.Gradagrad  # pyright: ignore[reportAttributeAccessIssue]


def test_torch_is_the_only_hard_dependency():
    """In an interpreter that has nothing but torch and the standard library to offer, the package imports."""
    code = (
        "import sys\n"
        "for name in ('numpy', 'scipy', 'sklearn', 'matplotlib', 'rich', 'typer', 'jax'): sys.modules[name] = None\n"
        "import torch, gradagrad; gradagrad.GradaGrad([torch.nn.Parameter(torch.ones(2))])"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)


class NoWaiting(TorchDispatchMode):
    """Raises on whatever reads a tensor's value back to the host."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name in ("aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero", "aten::equal"):
            raise AssertionError(f"{func} waits for the device")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_step_never_waits_for_the_device(granularity, name, driver, monkeypatch):
    monkeypatch.setattr(optimizers, "show", lambda *_: None)  # It reads numbers on a CPU only: see test_diagnostics.
    params = parameters()
    # The kernel's lr is a number on the CPU, whose reading waits for nothing.
    lr = 0.1 if driver == "fused" else torch.tensor(0.1)
    optimizer = GradaGrad(params, lr=lr, lr_decay=0.1, granularity=granularity, **DRIVERS[driver], **OPTIONS[name])
    for k in range(3):
        noisy_gradients(params, k)
        if k == 0:  # the first step looks at itself once
            optimizer.step()
        else:
            with NoWaiting():
                optimizer.step()


@pytest.mark.parametrize("driver", ["loop", "foreach"])
def test_a_step_that_learns_never_waits_either(driver, monkeypatch):
    monkeypatch.setattr(engine, "look", look_on_device)
    monkeypatch.setattr(optimizers, "show", lambda *_: None)
    params = parameters()
    optimizer = AutoGradaGrad(params, **DRIVERS[driver])
    noisy_gradients(params, 0)
    optimizer.step()
    with NoWaiting():
        optimizer.step()


def test_nothing_is_printed(capfd):
    params = parameters()
    optimizer = GradaGrad(params, lr=0.1)
    noisy_gradients(params, 0)
    optimizer.step()
    optimizer.diagnostics()
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""


def test_version_matches_the_metadata():
    from importlib.metadata import version

    assert version("gradagrad") == gradagrad.__version__
