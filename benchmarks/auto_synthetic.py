"""AutoGradaGrad's rule where the right answer is known: flat noise, a γ₀ that is far too large, the safe forms.

    python -m benchmarks.auto_synthetic [noise] [theorem] [fall] [forms] [average] [picture=FILE.png]

``noise``: gradients that are noise alone. γ has nothing to learn, so growth is error; symmetric noise of any rank is
what the theorem is about, skewed noise is outside of it. ``theorem``: how often γ ever grows M-fold on symmetric noise,
beside the 1/M that the theorem allows. ``fall``: from γ₀ = 1 on problems whose best γ is far below; ``picture`` draws
γ from several γ₀. ``forms``: the safe recursions against the sums they stand for, and the least share 2^-20.
``average``: how far the polynomial average in float32 follows a small change, late in a long run.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.auto_reference import LEAST_SHARE, AutoRows, Guard, Setting
from gradagrad.rules.auto import POWER
from gradagrad_lab.report import style

ELEMENTS, SEEDS, STEPS = 200, 12, 10_000
GUARDS: tuple[Guard, ...] = ("off", "norm", "tensor")
Draw = Callable[[torch.Generator], Tensor]


def _low_rank(rank: int, draw: Draw) -> Draw:
    """Noise that moves all elements together: ``rank`` sources, each with a fixed direction."""
    directions = torch.randn(SEEDS, rank, ELEMENTS, generator=torch.Generator().manual_seed(7))
    return lambda random: (draw(random)[:, None, :rank] @ directions)[:, 0]


def _normal(random: torch.Generator) -> Tensor:
    return torch.randn(SEEDS, ELEMENTS, generator=random)


def _exponential(random: torch.Generator) -> Tensor:
    return -torch.rand(SEEDS, ELEMENTS, generator=random).clamp_min(1e-7).log() - 1


def _lognormal(random: torch.Generator) -> Tensor:
    return _normal(random).exp() - math.exp(0.5)


def _student(random: torch.Generator) -> Tensor:
    """Symmetric with very heavy tails: Student's t of two degrees of freedom, its variance is infinite."""
    return _normal(random) / (-torch.rand(SEEDS, ELEMENTS, generator=random).clamp_min(1e-7).log()).sqrt()


def _rare(random: torch.Generator) -> Tensor:
    """−1, and +999 once in a thousand: of mean 0, and a steady signal until the first such event."""
    return torch.where(torch.rand(SEEDS, ELEMENTS, generator=random) < 1e-3, 999.0, -1.0)


NOISES: dict[str, Draw] = {
    "normal, rank 1": _low_rank(1, _normal),
    "normal, rank 10": _low_rank(10, _normal),
    "normal, full rank": _normal,
    "Student t (2), full rank": _student,
    "exponential, rank 1": _low_rank(1, _exponential),
    "exponential, full rank": _exponential,
    "log-normal, rank 1": _low_rank(1, _lognormal),
    "log-normal, full rank": _lognormal,
    "rare and one-sided, rank 1": _low_rank(1, _rare),
}


def noise() -> None:
    """The largest growth γ/γ₀ within the run, and how many of the seeds passed tenfold."""
    settings = [Setting(guard=guard) for guard in (*GUARDS, "element")]
    print(f"flat noise, {ELEMENTS} elements, {STEPS:,} steps, {SEEDS} seeds: largest growth of γ (seeds beyond 10 ×)")
    print("| noise | " + " | ".join(f"guard {s.guard}" for s in settings) + " |")
    print("|---" * (len(settings) + 1) + "|")
    tensors = torch.arange(ELEMENTS) // (ELEMENTS // 4)
    for name, draw in NOISES.items():
        random = torch.Generator().manual_seed(5)
        rule = AutoRows(
            torch.zeros(len(settings) * SEEDS, ELEMENTS), [s for s in settings for _ in range(SEEDS)], tensors
        )
        start = rule.gamma.clone()
        peak = start.clone()
        for _ in range(STEPS):
            rule.step(draw(random).repeat(len(settings), 1))
            peak = torch.maximum(peak, rule.gamma)
        grown = (peak / start).view(len(settings), SEEDS)
        cells = [f"{float(row.max()):.3g} ({int((row > 10).sum())})" for row in grown]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def theorem() -> None:
    """The share of runs in which γ ever grows M-fold: ranks × seeds, heavy tails, a scale that changes in time."""
    seeds, elements, steps, marks = 250, 30, 2_000, (1.5, 2, 3, 5, 10, 30)
    print(f"\nsymmetric noise, {elements} elements, {steps:,} steps, {seeds} seeds: share of runs beyond M-fold growth")
    print("| M | " + " | ".join(f"{mark:g}" for mark in marks) + " |\n" + "|---" * (len(marks) + 1) + "|")
    print("| allowed: 1/M | " + " | ".join(f"{1 / mark:.3f}" for mark in marks) + " |")
    for guard in ("off", "norm"):
        for rank in (1, 3, 10, elements):
            random = torch.Generator().manual_seed(11)
            directions = torch.randn(seeds, rank, elements, generator=random)
            rule = AutoRows(torch.zeros(seeds, elements), [Setting(guard=guard)] * seeds)
            peak = rule.gamma.clone()
            for _ in range(steps):
                sources = torch.randn(seeds, 1, rank, generator=random)
                scale = torch.randn(seeds, 1, generator=random).exp()
                rule.step(scale * (sources @ directions)[:, 0])
                peak = torch.maximum(peak, rule.gamma)
            shares = [float((peak / 1e-4 >= mark).double().mean()) for mark in marks]
            print(
                f"| rank {rank}, guard {guard} | " + " | ".join(f"{share:.3f}" for share in shares) + " |", flush=True
            )


def picture(path: Path) -> None:
    """γ step by step from γ₀ = 1e-8 to 1: it comes down as it goes up."""
    beginnings = (1.0, 1e-2, 1e-4, 1e-6, 1e-8)
    names = ("|x| from 3", "the same with noise of 0.01", "Σ|x| of 100 from 0.01, with noise")
    titles = ("|x| from 3", "noisy quadratic, 100 curvatures", "Σ|x| of 100, noise")
    figure, panels = style.subplots(1, len(names), width=9.6, height=3.1, sharey=True)
    shades = style.ramp(len(beginnings))
    found = {name: (start, gradient) for name, start, gradient, _ in _falls()}
    for axes, name, title in zip(panels[0], names, titles, strict=True):
        start, gradient = found[name]
        rule = AutoRows(start.expand(len(beginnings), -1).clone(), [Setting(g, guard="norm") for g in beginnings])
        random = torch.Generator().manual_seed(3)
        paths = []
        for _ in range(STEPS):
            rule.step(gradient(rule.x, torch.randn(1, len(start), generator=random)))
            paths.append(rule.gamma.flatten().clone())
        for row, beginning in enumerate(beginnings):
            ys = [float(gamma[row]) for gamma in paths]
            axes.plot(range(1, STEPS + 1), ys, color=shades[row], label=f"γ₀ = {beginning:g}", linewidth=1.4)
        axes.set(xscale="log", yscale="log", title=title, xlabel="step")
    panels[0, 0].set_ylabel("γ")
    panels[0, -1].legend(fontsize=8, loc="lower right")
    path.write_bytes(style.render(figure, "png", dpi=130))


def _falls() -> Iterator[tuple[str, Tensor, Callable[[Tensor, Tensor], Tensor], Callable[[Tensor], Tensor]]]:
    curvature = torch.logspace(-2, 0, 100)
    yield "|x| from 3", torch.full((1,), 3.0), lambda x, _: x.sign(), lambda x: x.abs().sum(-1)
    yield "x² from 1e-3", torch.full((1,), 1e-3), lambda x, _: 2 * x, lambda x: x.square().sum(-1)
    yield (
        "quadratic, 100 curvatures from 0.01",
        torch.full((100,), 0.01),
        lambda x, _: curvature * x,
        lambda x: 0.5 * (curvature * x.square()).sum(-1),
    )
    yield (
        "the same with noise of 0.01",
        torch.full((100,), 0.01),
        lambda x, z: curvature * x + 0.01 * z,
        lambda x: 0.5 * (curvature * x.square()).sum(-1),
    )
    yield (
        "Σ|x| of 100 from 0.01, with noise",
        torch.full((100,), 0.01),
        lambda x, z: x.sign() + z,
        lambda x: x.abs().sum(-1),
    )


def fall() -> None:
    """γ and loss on the way down from γ₀ = 1; beside it the last loss from γ₀ = 1e-4."""
    marks = (1, 10, 100, 1_000, 10_000)
    settings = [Setting(gamma0=g, w=w) for w in (0.5, 0.7) for g in (1.0, 1e-4)]
    print("γ at step 1, 10, 100, 1,000 and 10,000; loss at the start and at the end")
    for name, start, gradient, value in _falls():
        rule = AutoRows(start.expand(len(settings), -1).clone(), settings)
        random = torch.Generator().manual_seed(3)
        seen: list[Tensor] = []
        for step in range(1, marks[-1] + 1):
            rule.step(gradient(rule.x, torch.randn(1, len(start), generator=random)))
            if step in marks:
                seen.append(rule.gamma.flatten().clone())
        print(f"{name}: loss {float(value(start)):.2g} at the start")
        for row, setting in enumerate(settings):
            path = " → ".join(f"{float(gamma[row]):.2g}" for gamma in seen)
            print(f"    γ₀ = {setting.gamma0:g}, w = {setting.w:g}: γ {path}; loss {float(value(rule.x)[row]):.2g}")


def forms() -> None:
    """What the rule keeps against what it stands for: k·a = 2B/(k+1), and c·Y = y_k = (y + u)(1 − w/(k+1))."""
    for dtype, steps, w in (
        (torch.float64, 3_000, 0.5),
        (torch.float32, 3_000, 0.5),
        (torch.float32, 3_000, 1.0),
        (torch.float32, 100_000, 0.5),
    ):
        a_error, y_error = _off(dtype, steps, w)
        print(f"{str(dtype)[6:]}, {steps:,} steps, w = {w:g}: k·a off by {a_error:.1e}, c·Y by {y_error:.1e}")
    random = torch.Generator().manual_seed(4)
    for share in (2.0 / (1e8 + 1), LEAST_SHARE):  # what step 1e8 would use without the least share, and with it
        a = torch.ones(200)
        wide, steps = a.double(), 200_000
        for _ in range(steps):
            square = 4 * torch.randn(200, generator=random).square()
            a.lerp_(square, share)
            wide.lerp_(square.double(), share)
        print(f"share {share:.1e}, {steps:,} steps from 1 towards 4: float32 {float(a.mean()):.4f}, ", end="")
        print(f"float64 {float(wide.mean()):.4f}")


def _off(dtype: torch.dtype, steps: int, w: float) -> tuple[float, float]:
    random = torch.Generator().manual_seed(2)
    rule = AutoRows(torch.ones(1, 50, dtype=dtype), [Setting(w=w, rest=False)])
    B, y, h = (torch.zeros(50, dtype=torch.float64) for _ in range(3))
    for k in range(1, steps + 1):
        g = (torch.randn(1, 50, generator=random, dtype=torch.float64) * (1 + math.sin(k / 50))).to(dtype)
        gamma = float(rule.gamma)
        rule.step(g)
        exact = g[0].double()
        B += k * exact.square()
        h += 0.3 * (exact - h)
        y = (y + gamma**0.5 * h / (2 * B / (k + 1)).sqrt()) * (1 - w / (k + 1))
    alpha = 2 * B / (steps + 1)
    way = float(rule.c) * rule.Y[0].double()
    return float(((steps * rule.a[0].double() - alpha) / alpha).abs().max()), float((way - y).norm() / y.norm())


def average() -> None:
    """The share of a change that the average has made after a ninth of the run more: late, float32 rounds it away."""
    changes = (1e-4, 1e-3, 1e-2, 1e-1)
    print("the part of a lasting relative change of the points that the average has followed after k/9 steps more")
    print("| k | exact | " + " | ".join(f"change of {change:g}" for change in changes) + " |")
    print("|---" * (2 + len(changes)) + "|")
    sizes = torch.rand(500, generator=torch.Generator().manual_seed(6)) + 1
    for begin in (10_000, 100_000, 1_000_000, 10_000_000):
        means = sizes.expand(len(changes), -1).clone()
        points, exact, steps = means * (1 + torch.tensor(changes)[:, None]), 1.0, begin // 9
        for k in range(begin + 1, begin + steps + 1):
            share = (POWER + 1) / (k + POWER)
            means += (points - means) * share
            exact *= 1 - share
        followed = ((means - sizes) / (points - sizes)).mean(1)
        print(
            f"| {begin:,} | {1 - exact:.2f} | " + " | ".join(f"{float(part):.2f}" for part in followed) + " |",
            flush=True,
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    parts = {"noise": noise, "theorem": theorem, "fall": fall, "forms": forms, "average": average}
    for word in sys.argv[1:] or parts:
        if word.startswith("picture="):
            picture(Path(word.removeprefix("picture=")))
        elif word in parts:
            parts[word]()
        else:
            sys.exit(f"parts must be among {', '.join(parts)} and picture=FILE.png, got {word!r}.")
