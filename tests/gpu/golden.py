"""Pins the generated kernels: ``python tests/gpu/golden.py`` writes them anew, and a review shows what changed."""

from pathlib import Path
from typing import Any

import torch

from gradagrad.rules import auto, gradagrad
from gradagrad.triton.source import Spec, source_of

FOLDER = Path(__file__).parent / "golden"


def _spec(rule: Any, scope: str, dtypes: dict[str, str], numbers: tuple[str, ...], settings: Any, **more: Any) -> Spec:
    settings = settings._replace(**dict.fromkeys(numbers, 1.0))
    return Spec(rule, settings, numbers, scope, "flat", tuple(dtypes.items()))._replace(**more)


_F, _H, _D = "float32", "bfloat16", "float64"
_BLOCK = {"growth": _F, "accumulator": _F}
_SHARED = dict.fromkeys(("clock", "gamma", "agreement_square", "displacement_scale"), _D)
SPECS = {
    "gradagrad_element": _spec(
        gradagrad.RULE,
        "element",
        {"x": _F, "g": _F, "momentum": _F, **_BLOCK},
        ("lr", "rho", "eps"),
        gradagrad.Settings(),
    ),
    "gradagrad_element_options": _spec(
        gradagrad.RULE,
        "element",
        {"x": _H, "g": _H, "momentum": _H, "growth": _H, "accumulator": _H},
        ("lr", "rho", "beta", "eps", "weight_decay", "gamma_max", "growth_limit", "grad_bound"),
        gradagrad.Settings(lazy=True),
        coupled=True,
        maximize=True,
        lr_decay=True,
        lr="float32",
        counter="device",
        box=(-1.0, 1.0),
        stochastic=True,
    ),
    "gradagrad_group": _spec(
        gradagrad.RULE,
        "group",
        {"x": _F, "g": _F, "momentum": _F, "growth": _D, "accumulator": _D},
        ("lr", "rho", "beta", "eps"),
        gradagrad.Settings(),
    ),
    "gradagrad_row_sparse": _spec(
        gradagrad.RULE,
        "row",
        {"x": _F, "g": _F, "momentum": _F, **_BLOCK},
        ("lr", "rho", "eps", "grad_bound"),
        gradagrad.Settings(),
        layout="sparse",
        counter="argument",
    ),
    "auto": _spec(
        auto.RULE,
        "all",
        {
            "x": _F,
            "g": _F,
            "momentum": _F,
            "accumulator": _F,
            "displacement": _F,
            "average": _F,
            **_SHARED,
            "square_total": _D,
        },
        ("lr", "steady_lr", "gamma0", "beta", "weight_decay"),
        auto.Settings(guard=True, averaging=True),
    ),
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
