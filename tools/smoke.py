"""Is an installed gradagrad, or a build of its kernel, in order? Run by the checks beside this file.

    python smoke.py kernel|pure [words that the missing kernel's reason must contain]

Needs nothing but torch and gradagrad. Steps of the kernel are compared with the Python steps in float64.
"""

import io
import os
import sys
import warnings
from pathlib import Path

import torch

import gradagrad

STEPS = 5


def trained(make, fused, sparse=False):
    """The parameters of a small model after a few steps."""
    torch.manual_seed(0)
    first = torch.nn.EmbeddingBag(30, 6, sparse=sparse, dtype=torch.float64)
    model = torch.nn.Sequential(first, torch.nn.Tanh(), torch.nn.Linear(6, 3, dtype=torch.float64))
    optimizer = make(model.parameters(), fused=fused)
    for step in range(STEPS):
        optimizer.zero_grad()
        words = torch.randint(0, 30, (8, 4))
        torch.nn.functional.cross_entropy(model(words), torch.arange(8) % 3).backward()
        optimizer.step()
        if step == 2:  # through a file, as a checkpoint
            file = io.BytesIO()
            torch.save(optimizer.state_dict(), file)
            file.seek(0)
            optimizer.load_state_dict(torch.load(file, weights_only=True))
    return torch.cat([p.detach().flatten() for p in model.parameters()])


METHODS = {
    "element": lambda p, fused: gradagrad.GradaGrad(p, 0.01, fused=fused),
    "momentum": lambda p, fused: gradagrad.GradaGrad(p, 0.01, momentum=0.9, lazy=True, fused=fused),
    "row, lazy": lambda p, fused: gradagrad.GradaGrad(p, 0.01, granularity="row", lazy=True, fused=fused),
    "group": lambda p, fused: gradagrad.GradaGrad(p, 0.01, granularity="group", fused=fused),
    "bf16 state": lambda p, fused: gradagrad.GradaGrad(p, 0.01, state_dtype=torch.bfloat16, fused=fused),
    "auto": lambda p, fused: gradagrad.AutoGradaGrad(p, fused=fused),
}


def main(expected: str, words: list[str]) -> None:
    """Raises on the first thing that is not as it should be."""
    status = gradagrad.kernel_status()
    if "GRADAGRAD_KERNEL_PATH" not in os.environ:  # else a build is tried from the source tree
        assert Path(sys.prefix) in Path(gradagrad.__file__).parents, f"not the installed one: {gradagrad.__file__}"
    assert status.loaded == (expected == "kernel"), str(status)
    for word in words:
        assert word in str(status), f"{word!r} is missing in: {status}"
    for name, make in METHODS.items():
        for sparse in (False, True):
            plain = trained(make, False, sparse)
            assert torch.isfinite(plain).all(), name
            if status.loaded:
                torch.testing.assert_close(trained(make, None, sparse), plain, rtol=1e-12, atol=1e-14, msg=name)
    if not status.loaded:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trained(METHODS["element"], None)
        assert [w.category for w in caught] == [gradagrad.KernelMissingWarning], [str(w.message) for w in caught]
    kernel = "with the kernel" if status.loaded else "without the kernel"
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {kernel}: in order")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
