"""What bf16 state costs in accuracy: ``python -m benchmarks.precision``. The same runs with float32 and bf16 state.

Two convex problems (softmax regression on digits, a badly scaled quadratic) and two neural ones (an MLP on digits, a
small character model), with and without momentum, over several seeds. Beside stochastic rounding it shows rounding to
nearest, which is what one would get without it.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gradagrad import GradaGrad, rounding

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


def _train(problem: Problem, lr: float, seed: int, steps: int, **options: Any) -> float:
    params, loss, final = problem(seed)
    optimizer = GradaGrad(params, lr, **options)
    for step in range(steps):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
    with torch.no_grad():
        return float(final(0))


def _nearest(*args: Any, **options: Any) -> float:
    """The same with rounding to nearest in the Python steps."""
    kept = rounding.rounded
    rounding.rounded = lambda values, random16: values.to(torch.bfloat16)
    try:
        return _train(*args, state_dtype=torch.bfloat16, fused=False, **options)
    finally:
        rounding.rounded = kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--to", type=Path, default=Path("benchmarks/results/precision.json"))
    options = parser.parse_args()
    print(f"final training loss after {options.steps} steps, mean of {options.seeds} seeds; ratios to float32 state")
    print(f"{'':34} {'momentum':>8} {'float32':>10} {'bf16':>7} {'± seeds':>8} {'nearest':>8}")
    rows = []
    for name, (problem, lr) in PROBLEMS.items():
        for momentum in (0.0, 0.9):
            runs = {"float32": [], "bf16": [], "nearest": []}
            for seed in range(options.seeds):
                common = (problem, lr, seed, options.steps)
                runs["float32"].append(_train(*common, momentum=momentum))
                runs["bf16"].append(_train(*common, momentum=momentum, state_dtype=torch.bfloat16))
                runs["nearest"].append(_nearest(*common, momentum=momentum))
            mean = {kind: statistics.mean(values) for kind, values in runs.items()}
            spread = statistics.stdev(runs["float32"]) / mean["float32"] if options.seeds > 1 else 0.0
            ratios = mean["bf16"] / mean["float32"], mean["nearest"] / mean["float32"]
            print(
                f"{name:34} {momentum:8} {mean['float32']:10.4g} {ratios[0]:7.3f} {spread:8.3f} {ratios[1]:8.3f}",
                flush=True,
            )
            rows.append({"problem": name, "momentum": momentum, "spread": spread, "losses": runs})
    options.to.parent.mkdir(parents=True, exist_ok=True)
    options.to.write_text(json.dumps({"steps": options.steps, "results": rows}, indent=1))
    print(f"written: {options.to}")


if __name__ == "__main__":
    main()
