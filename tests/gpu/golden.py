"""Writes the generated kernels to files, so that a review shows what changed: ``python tests/gpu/golden.py``."""

import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for a run as a script
from gpu.interpreted.batches import batch_of
from gradagrad.triton import launch
from gradagrad.triton.source import Spec, source_of

FOLDER = Path(__file__).parent / "golden"


def _spec(scope: str, **more: Any) -> Spec:
    batch = batch_of(scope, shapes=((4, 6),), **more)
    return launch.specs_of(batch, launch.common_spec(batch))[0]


_OPTIONS = {"coupled_decay": 0.1, "maximize": True, "stochastic_rounding": True}
_SETTINGS = {"lr": torch.tensor(0.1), "beta": 0.9, "weight_decay": 0.1, "lazy": True}
_LIMITS = {"gamma_max": 1.0, "growth_limit": 1.1, "grad_bound": 1.0}
SPECS = {
    "gradagrad_element": _spec("element"),
    "gradagrad_element_options": _spec(
        "element", dtype=torch.bfloat16, state=torch.bfloat16, options=_OPTIONS, **_SETTINGS, **_LIMITS
    ),
    "gradagrad_group": _spec("group", beta=0.9),
    "auto": _spec("auto", weight_decay=0.1, moved=torch.tensor(1.0, dtype=torch.float64)),
}


def path(name: str) -> Path:
    return FOLDER / f"{name}.py.txt"


def main() -> None:
    torch.set_num_threads(1)
    for name, spec in SPECS.items():
        path(name).write_text(source_of(spec).text())
        print(f"wrote {path(name).relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
