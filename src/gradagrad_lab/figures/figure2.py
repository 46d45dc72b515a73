"""Figure 2: |x| from good and bad γ₀. AdaGrad's learning rate only falls. GradaGrad's can correct itself.

Everything in float32, down to γ₀ = 1e-12: the paper expects no adaptivity below about 1e-6 in that precision.

    python -m gradagrad_lab.figures.figure2 --readme docs/pictures/abs.png
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gradagrad_lab.context import Context
from gradagrad_lab.methods import LEARNING_RATE
from gradagrad_lab.problems.toy import AbsoluteValue
from gradagrad_lab.records import Record, write_atomically
from gradagrad_lab.report import style
from gradagrad_lab.report.content import About, Claim, Panel, Picture, Table, Verdict
from gradagrad_lab.study import Frame, Method, Plan, Run, Study
from gradagrad_lab.train import train

INITIAL = (1.0, 1e-1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-12)
STEPS = 400
SHOWN = 120
NEAR = 0.1
TITLES = {"adagrad": "AdaGrad", "gradagrad": "GradaGrad"}
FLAT = "gradagrad with rho 1"
PROBLEM = AbsoluteValue()


class Trajectory(NamedTuple):
    """One run: the iterates x₀, x₁, … and the learning rate of each step."""

    initial: float
    x: np.ndarray
    rate: np.ndarray

    @property
    def reached_at(self) -> int | None:
        """Steps until |x| is first below NEAR."""
        near = np.flatnonzero(np.abs(self.x) < NEAR)
        return int(near[0]) if near.size else None

    @property
    def crossing(self) -> int:
        """Steps until x is no longer positive: as many learning rates were used before."""
        crossed = np.flatnonzero(self.x <= 0)
        return int(crossed[0]) if crossed.size else self.x.size - 1

    @property
    def standing(self) -> int:
        """The number of first steps that leave the float32 number x unchanged, bit for bit."""
        moved = np.flatnonzero(self.x != self.x[0])
        return int(moved[0]) - 1 if moved.size else self.x.size - 1


Results = dict[str, list[Trajectory]]


def groups(gamma0: tuple[float, ...] = ()) -> dict[str, list[Run]]:
    """AdaGrad and GradaGrad from every γ₀, and GradaGrad with ρ = 1 from two; or only the γ₀ of the command line."""
    every = {name: [Method.of(name, lr=initial) for initial in gamma0 or INITIAL] for name in TITLES}
    if not gamma0:
        every[FLAT] = [Method.of("gradagrad", lr=initial, rho=1.0) for initial in (0.1, 0.01)]
    return {name: [Run(PROBLEM, method, 0, STEPS) for method in methods] for name, methods in every.items()}


def plan(context: Context) -> Plan:
    """All of them; they are short."""
    return Plan([run for group in groups(context.gamma0).values() for run in group])


def path_of(record: Record) -> Trajectory:
    """The trajectory that a record holds."""
    x = np.array([record.config["problem"]["start"], *record.curves["x"]])
    return Trajectory(record.config["options"]["lr"], x, np.array(record.curves[LEARNING_RATE]))


def read(frame: Frame) -> Results:
    """All trajectories, by group."""
    return {name: [path_of(frame.record(run)) for run in runs] for name, runs in groups(frame.context.gamma0).items()}


def draw(drawn: Results) -> list[Picture]:
    """Trajectories and learning rates, AdaGrad before GradaGrad."""
    panels = []
    for name, title in TITLES.items():
        panels.append(Panel(lambda axes, group=drawn[name]: _positions(axes, group), f"{title}: x"))
        panels.append(Panel(lambda axes, group=drawn[name]: _rates(axes, group), f"{title}: learning rate"))
    return [
        Picture(
            "Trajectories and learning rates on |x|",
            "figure2",
            f"The first {SHOWN} of {STEPS} steps. AdaGrad moves only where γ₀ was large enough to begin with; "
            "GradaGrad multiplies its learning rate by √2 per step until it overshoots, whatever it started from.",
            "Four panels. AdaGrad: x stays near 3 for every initial rate of 0.01 or less, and all learning rates "
            "fall. GradaGrad: every x drops to 0, the later the smaller the initial rate, and every learning rate "
            "climbs in a straight line on a logarithmic axis to about 1, then falls slowly.",
            panels,
            columns=2,
            size=(4.2, 2.2),
        )
    ]


def _lines(axes: Any, group: list[Trajectory], steps: Any, values: Any) -> None:
    for path, shade in zip(group, style.ramp(len(group)), strict=True):
        axes.plot(steps, values(path), color=shade, label=f"γ₀ = {style.power(path.initial)}")
    axes.set(xlim=(0, SHOWN), xlabel="step")


def _positions(axes: Any, group: list[Trajectory]) -> None:
    _lines(axes, group, np.arange(SHOWN + 1), lambda path: path.x[: SHOWN + 1])
    axes.set(ylim=(-1.7, 3.4), yticks=[-1, 0, 1, 2, 3])
    axes.axhline(0, color=style.MUTED, linewidth=0.8, zorder=1)


def _rates(axes: Any, group: list[Trajectory]) -> None:
    _lines(axes, group, np.arange(1, SHOWN + 1), lambda path: path.rate[:SHOWN])
    axes.set(yscale="log", ylim=(2e-14, 2e1))
    axes.set_yticks([1e-12, 1e-9, 1e-6, 1e-3, 1], ["1e−12", "1e−9", "1e−6", "1e−3", "1"])


def draw_readme(drawn: Results) -> Any:
    """The picture of docs/method.md: only x from four γ₀, the two methods side by side."""
    shown = {name: [path for path in drawn[name] if path.initial in (1.0, 1e-2, 1e-6, 1e-12)] for name in TITLES}
    panels = [Panel(lambda axes, group=shown[name]: _positions(axes, group), title) for name, title in TITLES.items()]
    return style.sheet(Picture("|x|", "abs", "", "x from four γ₀", panels, columns=2, size=(3.5, 2.4)))


def about(drawn: Results) -> About:
    """Words around the figure."""
    adagrad, ours = drawn["adagrad"], drawn["gradagrad"]
    arrived = [path.reached_at for path in ours if path.reached_at is not None]
    others = sum(path.reached_at is not None for path in adagrad)
    start = f"x₀ = {ours[0].x[0]:g}"
    return About(
        intro=f"f(x) = |x| from {start}, without noise, in float32. The gradient is ±1, so only the learning rate "
        "matters.",
        paper="On |x| GradaGrad repairs a learning rate that is too small, while AdaGrad's can only fall.",
        number=f"arrives from {len(arrived)} of {len(ours)} γ₀, AdaGrad from {others}",
        summary=f"On f(x) = |x|, GradaGrad arrives from {len(arrived)} of {len(ours)} initial rates γ₀"
        + (f", in {min(arrived)} to {max(arrived)} steps" if arrived else "")
        + f"; AdaGrad arrives from {others}. All runs use float32.",
        settings={
            "start": start,
            "steps": str(STEPS),
            "AdaGrad": "torch.optim.Adagrad(lr=γ₀), otherwise defaults",
            "GradaGrad": "gradagrad.GradaGrad(lr=γ₀), otherwise defaults (ρ = 2, no momentum)",
            "precision": "float32",
        },
    )


def claims(drawn: Results) -> list[Claim]:
    """The verdicts of the runs on the paper's sentences."""
    if FLAT not in drawn:
        return []  # the paper's sentences are about its own list of γ₀
    adagrad, ours = drawn["adagrad"], drawn["gradagrad"]
    return [_falls(adagrad), _adapts(ours), _constant(drawn[FLAT], adagrad), *_precision(ours)]


def tables(drawn: Results) -> list[Table]:
    """The number of steps of each run."""
    rows = [
        {
            "γ₀": style.power(old.initial),
            "AdaGrad: steps": str(old.reached_at or "–"),
            "GradaGrad: steps": str(new.reached_at or "–"),
            "AdaGrad: |x| at 200": f"{abs(old.x[200]):.2g}",
            "GradaGrad: |x| at 200": f"{abs(new.x[200]):.2g}",
            "GradaGrad: highest rate": f"{new.rate.max():.2g}",
            "GradaGrad: still steps": str(new.standing),
        }
        for old, new in zip(drawn["adagrad"], drawn["gradagrad"], strict=True)
    ]
    note = f"A dash: not within {STEPS} steps. Still steps: those at the start after which x is unchanged in every bit."
    return [Table.of(f"Steps until |x| < {NEAR}", rows, note)]


def _verdict(whole: object, part: object = False) -> Verdict:
    return "holds" if whole else "holds in part" if part else "does not hold"


def _falls(paths: list[Trajectory]) -> Claim:
    falls = all(np.all(np.diff(path.rate) <= 0) for path in paths)
    stuck = sum(path.reached_at is None for path in paths)
    return Claim(
        "AdaGrad's learning rate can only fall, so it converges slowly from a small initial learning rate.",
        f"Its learning rate {'never rose' if falls else 'rose'}. Within {STEPS} steps it came closer than {NEAR} to "
        f"the minimum from {len(paths) - stuck} of {len(paths)} values of γ₀.",
        _verdict(falls and stuck),
        criterion=f"It never rises, and from some γ₀ |x| < {NEAR} is not reached in {STEPS} steps",
        number=f"stuck from {stuck} of {len(paths)} γ₀",
    )


def _adapts(paths: list[Trajectory]) -> Claim:
    both_ways = sum(bool(np.any(np.diff(path.rate) > 0) and np.any(np.diff(path.rate) < 0)) for path in paths)
    arrived = sum(path.reached_at is not None for path in paths)
    return Claim(
        "GradaGrad adapts to a poor initial learning rate in a non-monotone manner and so converges faster.",
        f"It came closer than {NEAR} to the minimum from {arrived} of {len(paths)} values of γ₀; its learning rate "
        f"both rose and fell in {both_ways} of {len(paths)} runs.",
        _verdict(arrived == len(paths) == both_ways, arrived),
        criterion="From every γ₀ it arrives, and its learning rate both rises and falls",
        number=f"arrives from {arrived} of {len(paths)} γ₀",
    )


def as_printed(initial: float, steps: int = STEPS) -> Trajectory:
    """Algorithm 2 on |x| literally, in float32, without momentum: m is formed by subtracting iterates."""
    number = np.float32
    x, alpha, gamma, m, rho = number(PROBLEM.start_at), number(0), number(initial), number(0), number(2)
    places, rates = [x], []
    for step in range(steps):
        g = np.sign(x)
        v = g * g if step == 0 else g * g - rho * g * m
        if v < 0:
            ratio = rho * g * m / (g * g)
            v = max(v, -(ratio * ratio - number(1)) * alpha)  # Lemma 4's clip
            gamma = gamma * np.sqrt(number(1) - v / alpha)
        else:
            alpha = alpha + v
        scale = np.sqrt(alpha) / gamma
        before, x = x, x - g / scale
        m = scale * (before - x)
        places.append(x)
        rates.append(1 / scale)
    return Trajectory(initial, np.array(places, dtype=float), np.array(rates, dtype=float))


def _precision(paths: list[Trajectory]) -> list[Claim]:
    """The paper's warning, which is about its Algorithm 2 as printed; and that the warning is not needed here."""
    tiny = [path for path in paths if path.initial < 1e-6]
    printed = [as_printed(path.initial) for path in tiny]
    stuck = sum(path.reached_at is None and bool(path.rate.max() <= path.initial) for path in printed)
    works = sum(path.reached_at is not None for path in tiny)
    rows = [
        {
            "γ₀": style.power(own.initial),
            "as printed ends at x": f"{literal.x[-1]:g}",
            "here x keeps every bit for": f"{own.standing} steps",
            f"|x| < {NEAR} after": f"{own.reached_at} steps" if own.reached_at else "–",
        }
        for own, literal in zip(tiny, printed, strict=True)
    ]
    return [
        Claim(
            "γ₀ below roughly 1e-6 will likely lose precision and all adaptivity in single precision.",
            "Algorithm 2 as printed, in float32, forms m by subtracting iterates, which gives 0 while x does not move.",
            _verdict(stuck == len(tiny), stuck),
            criterion="As printed, no γ₀ below 1e-6 arrives or ever gains in learning rate",
            number=f"stuck from {stuck} of {len(tiny)} γ₀",
        ),
        Claim(
            "This implementation removes that limit: m follows a recursion that is the same in exact arithmetic.",
            "Both, in float32:",
            _verdict(works == len(tiny), works),
            whose="ours",
            criterion=f"From every γ₀ below 1e-6, |x| < {NEAR} within {STEPS} steps in float32",
            number=f"arrives from {works} of {len(tiny)} γ₀",
            table=Table.of("", rows),
        ),
    ]


def _constant(flat: list[Trajectory], adagrad: list[Trajectory]) -> Claim:
    """With ρ = 1 and equal gradients v is 0, so nothing changes until the sign does."""
    known = {path.initial: path.reached_at or STEPS + 1 for path in adagrad}
    constant = [bool(np.all(path.rate[: path.crossing] == path.rate[0])) for path in flat]
    falls = [bool(np.all(np.diff(path.rate) <= 0)) for path in flat]
    faster = [(path.reached_at or STEPS + 1) < known[path.initial] for path in flat]
    rows = [
        {
            "γ₀": style.power(path.initial),
            "steps": str(path.reached_at or f"over {STEPS}"),
            "AdaGrad": str(known[path.initial]) if known[path.initial] <= STEPS else f"over {STEPS}",
        }
        for path in flat
    ]
    return Claim(
        "With ρ = 1 the learning rate on |x| stays constant until the minimum is overshot and falls from there, so "
        "progress is much faster than AdaGrad's.",
        f"Constant until the first change of sign in {sum(constant)} of {len(flat)} runs, never rising in "
        f"{sum(falls)}. Steps until |x| < {NEAR}:",
        _verdict(all((*constant, *falls, *faster)), any(faster)),
        criterion="All of it in both runs",
        number=f"faster than AdaGrad in {sum(faster)} of {len(flat)} runs",
        table=Table.of("", rows),
    )


STUDY = Study(
    name="figure2",
    title="Figure 2: |x| from good and bad initial learning rates",
    plan=plan,
    read=read,
    draw=draw,
    tables=tables,
    claims=claims,
    about=about,
)


def main() -> None:
    """Draws the picture of docs/method.md."""
    parser = argparse.ArgumentParser(description="Draw the picture of AdaGrad and GradaGrad on |x|.")
    parser.add_argument("--readme", type=Path, required=True, metavar="FILE.png", help="where to write the picture")
    target: Path = parser.parse_args().readme
    drawn = {name: [path_of(record) for record in train(groups()[name])] for name in TITLES}
    write_atomically(target, style.render(draw_readme(drawn), "png", dpi=200))


if __name__ == "__main__":
    main()
