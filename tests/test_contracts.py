"""Promises about the code itself: who imports what, no waiting for the device, .grad never written, nothing printed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cases import DRIVERS, GRANULARITIES, OPTIONS, noisy_gradients, parameters
from torch.utils._python_dispatch import TorchDispatchMode

import gradagrad
from gradagrad import GradaGrad

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
ELSEWHERE = ("optax", "keras", "sklearn")  # which have arguments and state of their own


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
    "gradagrad.optax": ("torch", "flax", "equinox", "keras", "pandas", "sklearn"),
}


def test_each_half_loads_no_more_than_it_needs():
    for name, unwanted in UNLOADED.items():
        code = f"import sys, {name}; print(*(n for n in {unwanted} if n in sys.modules))"
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120, check=True
        )
        assert not result.stdout.strip(), f"importing {name} loads {result.stdout}"


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
def test_a_step_never_waits_for_the_device(granularity, name, driver):
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


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1, "maximize": True}, {"momentum": 0.9}], ids=str)
@pytest.mark.parametrize("driver", DRIVERS)
def test_gradients_are_never_written(granularity, options, driver):
    params = parameters()
    optimizer = GradaGrad(params, lr=0.1, granularity=granularity, **DRIVERS[driver], **options)
    for k in range(3):
        noisy_gradients(params, k)
        kept = [(p.grad, p.grad.clone(), p.grad._version) for p in params if p.grad is not None]
        optimizer.step()
        for p, (grad, values, version) in zip(params, kept, strict=True):
            assert p.grad is grad
            assert grad._version == version
            assert torch.equal(grad, values)
            assert optimizer.state[p]["momentum"].data_ptr() != grad.data_ptr() or not grad.numel()


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
