"""Checks an installed gradagrad, or a build of its kernel. The other checks in this folder run it.

    python smoke.py kernel|pure [words that the missing kernel's reason must contain]
    python smoke.py jax

The first form needs only torch and gradagrad. It compares steps of the kernel with the Python steps in float64. The
second needs JAX and Optax, and no torch. It compares compiled steps with steps that run operation by operation.
"""

import importlib.util
import io
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import gradagrad

STEPS = 5


def check_installed() -> None:
    """Raises if the source tree was imported instead of what is installed."""
    assert Path(sys.prefix) in Path(gradagrad.__file__).parents, f"this is not the installed one: {gradagrad.__file__}"


def trained(make: Any, fused: bool | None, sparse: bool = False) -> Any:
    """The parameters of a small model after a few steps."""
    import torch

    torch.manual_seed(0)
    first = torch.nn.EmbeddingBag(30, 6, sparse=sparse, dtype=torch.float64)
    model = torch.nn.Sequential(first, torch.nn.Tanh(), torch.nn.Linear(6, 3, dtype=torch.float64))
    optimizer = make(model.parameters(), fused=fused)
    for step in range(STEPS):
        optimizer.zero_grad()
        words = torch.randint(0, 30, (8, 4))
        torch.nn.functional.cross_entropy(model(words), torch.arange(8) % 3).backward()
        optimizer.step()
        if step == 2:  # a checkpoint goes through a file
            file = io.BytesIO()
            torch.save(optimizer.state_dict(), file)
            file.seek(0)
            optimizer.load_state_dict(torch.load(file, weights_only=True))
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def check_torch(expected: str, words: list[str]) -> str:
    """Steps with and without the kernel."""
    import torch

    methods: dict[str, dict[str, Any]] = {
        "element": {},
        "momentum": {"momentum": 0.9, "lazy": True},
        "row, lazy": {"granularity": "row", "lazy": True},
        "group": {"granularity": "group"},
        "bf16 state": {"state_dtype": torch.bfloat16},
    }
    makes = {k: lambda p, fused, o=o: gradagrad.GradaGrad(p, 0.01, fused=fused, **o) for k, o in methods.items()}
    makes["auto"] = lambda p, fused: gradagrad.AutoGradaGrad(p, fused=fused)
    status = gradagrad.kernel_status()
    if "GRADAGRAD_KERNEL_PATH" not in os.environ:  # the variable selects a build of the source tree
        check_installed()
    assert status.loaded == (expected == "kernel"), str(status)
    for word in words:
        assert word in str(status), f"{word!r} is missing in: {status}"
    for name, make in makes.items():
        for sparse in (False, True):
            plain = trained(make, False, sparse)
            assert torch.isfinite(plain).all(), name
            if status.loaded:
                torch.testing.assert_close(trained(make, None, sparse), plain, rtol=1e-12, atol=1e-14, msg=name)
    if not status.loaded:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trained(makes["element"], None)
        assert [w.category for w in caught] == [gradagrad.KernelMissingWarning], [str(w.message) for w in caught]
    return f"torch {torch.__version__}, {'with' if status.loaded else 'without'} the kernel"


def check_jax() -> str:
    """Steps for JAX on a machine without torch."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    import optax

    from gradagrad.optax import auto_gradagrad, gradagrad

    check_installed()
    assert importlib.util.find_spec("torch") is None, "torch is installed, so this check shows too little"
    makes = {
        "element": gradagrad(0.01),
        "row, momentum": gradagrad(0.01, momentum=0.9, granularity="row"),
        "auto": auto_gradagrad(),
    }
    for name, optimizer in makes.items():

        def step(weights: Any, state: Any, optimizer: Any = optimizer) -> Any:
            slope = jax.grad(lambda w: jnp.sum(jnp.cos(3.0 * w["table"]) * (1.0 + w["bias"])))(weights)
            updates, state = optimizer.update(slope, state, weights)
            return optax.apply_updates(weights, updates), state

        ends = []
        for run in (step, jax.jit(step)):
            weights = {"table": jnp.linspace(-1.0, 1.0, 2048).reshape(-1, 128), "bias": jnp.zeros(128)}
            state = optimizer.init(weights)
            for _ in range(STEPS):
                weights, state = run(weights, state)
            ends.append(jax.tree.leaves(weights))
        for a, b in zip(*ends, strict=True):
            assert jnp.isfinite(a).all(), name
            assert jnp.allclose(a, b, rtol=1e-11, atol=1e-13), name
    return f"jax {jax.__version__}, no torch"


if __name__ == "__main__":
    found = check_jax() if sys.argv[1] == "jax" else check_torch(sys.argv[1], sys.argv[2:])
    print(f"Python {sys.version.split()[0]}, {found}: passed")
