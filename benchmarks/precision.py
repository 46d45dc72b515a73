"""What fewer bits cost in accuracy: ``python -m benchmarks.precision [state | weights | eight-bits]``.

Two convex problems (softmax regression on digits, a badly scaled quadratic) and two neural ones (an MLP on digits, a
small character model), over several seeds.

``state``: bf16 state beside float32, with and without momentum; beside stochastic rounding it shows rounding to
nearest, which is what one would get without it. ``weights``: the model itself in bf16, with stochastic_rounding=True
and without, beside its twin in float32 that starts from the same numbers; GradaGrad and AutoGradaGrad.
``eight-bits``: what state of 8 bits with scales for each block would do, acted out in float32; the library has no such
state, and this is why.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gradagrad import AutoGradaGrad, GradaGrad, rounding

Loss = Callable[[int], Tensor]
Problem = Callable[[int], tuple[list[nn.Parameter], Loss, Loss]]


def _digits() -> tuple[Tensor, Tensor]:
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    return torch.tensor(data.data, dtype=torch.float32) / 16.0, torch.tensor(data.target)


def _classifier(make: Callable[[], nn.Module], batch: int) -> Problem:
    x, y = _digits()

    def problem(seed: int) -> tuple[list[nn.Parameter], Loss, Loss]:
        torch.manual_seed(seed)
        model = make()

        def loss(step: int) -> Tensor:
            chosen = torch.randint(len(x), (batch,), generator=torch.Generator().manual_seed(10_000 * seed + step))
            return nn.functional.cross_entropy(model(x[chosen]), y[chosen])

        return list(model.parameters()), loss, lambda _: nn.functional.cross_entropy(model(x), y)

    return problem


def _quadratic(seed: int) -> tuple[list[nn.Parameter], Loss, Loss]:
    torch.manual_seed(seed)
    curvature = torch.logspace(-3, 1, 200)
    point = nn.Parameter(torch.randn(200) * 3)

    def noisy(step: int) -> Tensor:
        noise = torch.randn(200, generator=torch.Generator().manual_seed(10_000 * seed + step))
        return (0.5 * curvature * point.square() + 0.1 * noise * point).sum()

    return [point], noisy, lambda _: (0.5 * curvature * point.square()).sum()


def _characters(seed: int) -> tuple[list[nn.Parameter], Loss, Loss]:
    """Next character of a periodic text from an embedding of the last three."""
    torch.manual_seed(seed)
    text = torch.tensor([ord(c) % 64 for c in "the numerator grows while consecutive gradients agree; " * 40])
    windows, following = text.unfold(0, 4, 1)[:, :3], text.unfold(0, 4, 1)[:, 3]
    table, hidden, head = nn.Embedding(64, 16), nn.Linear(48, 64), nn.Linear(64, 64)

    def on(rows: Tensor) -> Tensor:
        features = torch.tanh(hidden(table(windows[rows]).flatten(1)))
        return nn.functional.cross_entropy(head(features), following[rows])

    def loss(step: int) -> Tensor:
        return on(torch.randint(len(windows), (64,), generator=torch.Generator().manual_seed(10_000 * seed + step)))

    params = [p for layer in (table, hidden, head) for p in layer.parameters()]
    return params, loss, lambda _: on(torch.arange(len(windows)))


PROBLEMS: dict[str, tuple[Problem, float]] = {
    "softmax regression (convex)": (_classifier(lambda: nn.Linear(64, 10), 32), 1.0),
    "badly scaled quadratic (convex)": (_quadratic, 1.0),
    "MLP": (_classifier(lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), 64), 0.01),
    "character model": (_characters, 0.01),
}


def _train(
    problem: Problem,
    lr: float,
    seed: int,
    steps: int,
    *,
    kind: type[GradaGrad | AutoGradaGrad] = GradaGrad,
    dtype: torch.dtype | None = None,
    bits: int | None = None,
    **options: Any,
) -> float:
    """The final loss. With a dtype the weights start from what it can hold; gradients are worked out in float32."""
    params, loss, final = problem(seed)
    weights = params
    if dtype is not None:
        weights = [nn.Parameter(p.detach().bfloat16().to(dtype)) for p in params]
    optimizer = kind(weights, lr, **options) if kind is GradaGrad else kind(weights, **options)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        with torch.no_grad():
            for p, weight in zip(params, weights, strict=True):
                p.copy_(weight)
                p.grad = None
        loss(step).backward()
        for p, weight in zip(params, weights, strict=True):
            weight.grad = p.grad if p.grad is None else p.grad.to(weight.dtype)
        optimizer.step()
        if bits is not None:
            for weight in weights:
                for key, value in optimizer.state[weight].items():
                    if value.shape == weight.shape and value.dim():
                        value.copy_(_in_blocks(key, value, bits, generator))
    with torch.no_grad():
        for p, weight in zip(params, weights, strict=True):
            p.copy_(weight)
        return float(final(0))


SIGNED = ("momentum", "way")
"""The state fields that can be negative; the others are positive and cover many magnitudes."""
BLOCK = 64


def _in_blocks(key: str, values: Tensor, bits: int, generator: torch.Generator) -> Tensor:
    """What is left of a field in ``bits`` bits with scales for each block: evenly spaced numbers where signed, evenly
    spaced logarithms where not; stochastically rounded, so that the mean is right."""
    flat = nn.functional.pad(values.flatten(), (0, -values.numel() % BLOCK), value=float(values.flatten()[-1]))
    flat = flat.view(-1, BLOCK)
    top = 2**bits - 1
    spread = flat if key in SIGNED else flat.clamp(min=1e-30).log()
    low, high = spread.amin(1, keepdim=True), spread.amax(1, keepdim=True)
    if key in SIGNED:  # zero is one of the numbers
        high = torch.maximum(high, -low)
        low, top = -high, top - 1
    width = ((high - low) / top).clamp(min=1e-30)
    code = ((spread - low) / width).clamp(0, top)
    below = code.floor().clamp(max=top - 1)

    def value(level: Tensor) -> Tensor:
        number = low + level * width
        return number if key in SIGNED else number.exp()

    beneath, above = value(below), value(below + 1)
    chance = (flat - beneath) / (above - beneath).clamp(min=1e-30)
    up = torch.rand(flat.shape, generator=generator) < chance
    kept = torch.where(up, above, beneath).flatten()[: values.numel()].view_as(values)
    return torch.where(values == 0, 0.0, kept)


def _nearest(*args: Any, **options: Any) -> float:
    """The same with rounding to nearest in the Python steps."""
    kept = rounding.rounded
    rounding.rounded = lambda values, random16: values.to(torch.bfloat16)
    try:
        return _train(*args, state_dtype=torch.bfloat16, fused=False, **options)
    finally:
        rounding.rounded = kept


# What is compared: columns, each with what it hands to `_train`; the first is what the others are divided by.
COLUMNS: dict[str, dict[str, dict[str, Any]]] = {
    "state": {"float32": {}, "bf16": {"state_dtype": torch.bfloat16}, "nearest": {}},
    "weights": {
        "float32": {"dtype": torch.float32},
        "stochastic": {"dtype": torch.bfloat16, "stochastic_rounding": True},
        "nearest": {"dtype": torch.bfloat16},
    },
    "eight-bits": {"float32": {}, "bf16": {"state_dtype": torch.bfloat16}, "8 bits": {"bits": 8}},
}
METHODS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "state": [("momentum 0", {"momentum": 0.0}), ("momentum 0.9", {"momentum": 0.9})],
    "weights": [("GradaGrad", {"momentum": 0.9}), ("AutoGradaGrad", {"kind": AutoGradaGrad})],
    "eight-bits": [("GradaGrad", {"momentum": 0.9}), ("AutoGradaGrad", {"kind": AutoGradaGrad})],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=COLUMNS, nargs="?", default="state")
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--to", type=Path, help="default: benchmarks/results/precision-WHAT.json")
    options = parser.parse_args()
    columns = COLUMNS[options.what]
    first, *others = columns
    print(f"final training loss after {options.steps} steps, mean of {options.seeds} seeds; ratios to {first}")
    print(f"{'':34} {'':>13} {first:>10} {'± seeds':>8}" + "".join(f" {name:>10}" for name in others))
    rows = []
    for problem_name, (problem, lr) in PROBLEMS.items():
        for method, arguments in METHODS[options.what]:
            runs: dict[str, list[float]] = {name: [] for name in columns}
            for seed in range(options.seeds):
                for name, column in columns.items():
                    train = _nearest if (options.what, name) == ("state", "nearest") else _train
                    runs[name].append(train(problem, lr, seed, options.steps, **arguments, **column))
            mean = {name: statistics.mean(values) for name, values in runs.items()}
            spread = statistics.stdev(runs[first]) / mean[first] if options.seeds > 1 else 0.0
            ratios = "".join(f" {mean[name] / mean[first]:10.3f}" for name in others)
            print(f"{problem_name:34} {method:>13} {mean[first]:10.4g} {spread:8.3f}{ratios}", flush=True)
            rows.append({"problem": problem_name, "method": method, "spread": spread, "losses": runs})
    to = options.to or Path(f"benchmarks/results/precision-{options.what}.json")
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(json.dumps({"what": options.what, "steps": options.steps, "results": rows}, indent=1))
    print(f"written: {to}")


if __name__ == "__main__":
    main()
