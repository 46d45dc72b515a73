"""Promises about the code itself: imports, no waiting for the device, .grad never written, nothing printed."""

import ast
import dataclasses
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
from gradagrad.engine.batch import Batch
from gradagrad.engine.gradients import look_on_device

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
    "growth_limit": {"gradagrad.py", "checks/arguments.py", "rules/gradagrad.py"},
    "gamma0": {"auto.py", "checks/arguments.py", "rules/auto.py"},
    "growth": {"rules/gradagrad.py"},
    "agreement_square": {"rules/auto.py"},
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


# What must not be loaded, by whoever is imported; each in an interpreter of its own.
UNLOADED = {
    "gradagrad": ("torch", "jax", "numpy"),
    "gradagrad.checks.arguments": ("torch", "jax", "numpy"),
    "gradagrad.rules.scope": ("torch", "jax", "numpy"),
    "gradagrad.rules.rule": ("torch", "jax", "numpy"),
    "gradagrad.rules.gradagrad": ("torch", "jax", "numpy"),
    "gradagrad.rules.auto": ("torch", "jax", "numpy"),
    "gradagrad.codegen.trace": ("torch", "jax", "numpy"),
    "gradagrad.gradagrad": ("jax", "optax"),
    "gradagrad.auto": ("jax", "optax"),
    "gradagrad.optax": ("torch", "flax", "equinox", "pandas", "sklearn"),
}


def test_each_half_loads_no_more_than_it_needs():
    for name, unwanted in UNLOADED.items():
        code = f"import sys, {name}; print(*(n for n in {unwanted} if n in sys.modules))"
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120, check=True
        )
        assert not result.stdout.strip(), f"importing {name} loads {result.stdout}"


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


def walk(step):
    """The functions of the library that a step passes through, in order, as (file, name)."""
    seen = {}

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(LIBRARY)) and code.co_name.isidentifier():
            seen.setdefault((str(Path(code.co_filename).relative_to(LIBRARY)), code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(before)
    return list(seen)


def sharded(params):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, distribute_tensor

    mesh = init_device_mesh("cpu", (1,))
    return [torch.nn.Parameter(distribute_tensor(p.detach(), mesh, [Replicate()])) for p in params]


@pytest.fixture
def one_rank(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


# At most so many functions and files; the rule itself counts.
WALKS = {
    "fused": ({"fused": True}, 15, 3),
    "unfused": ({"fused": False, "foreach": False}, 45, 6),
    "foreach": ({"foreach": True}, 45, 6),
    "sparse": ({"lazy": True, "granularity": "row"}, 28, 9),
    "sharded": ({"fused": False, "granularity": "group"}, 73, 11),
}
FIRST = {"fused": (52, 16)}


@pytest.mark.parametrize("kind", WALKS)
def test_the_walk_of_a_step_is_short(kind, one_rank):
    """A reader can follow a step with a finger: ``-s`` prints its functions and files."""
    options, functions, files = WALKS[kind]
    params = [torch.nn.Parameter(torch.randn(4, 2)) for _ in range(3)]
    if kind == "sharded":
        params = sharded(params)
    optimizer = GradaGrad(params, lr=1e-6, **options)
    walks = []
    for _ in range(2):
        for p in params:
            gradient = torch.randn(4, 2).to_sparse(1) if kind == "sparse" else torch.randn(4, 2)
            p.grad = sharded([gradient])[0].data if kind == "sharded" else gradient
        walks.append(walk(optimizer.step))
    first, passed = walks
    print(f"\n{kind}: {len(passed)} functions in {len({file for file, _ in passed})} files")
    for file, name in passed:
        print(f"  {file:28} {name}")
    assert len(passed) <= functions
    assert len({file for file, _ in passed}) <= files
    if kind in FIRST:
        assert (len(first), len({file for file, _ in first})) <= FIRST[kind]


def test_a_batch_has_few_fields():
    assert len(dataclasses.fields(Batch)) <= 11
