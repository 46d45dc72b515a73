"""Figure 2: |x| from good and bad γ₀. AdaGrad's learning rate only falls; GradaGrad's repairs itself.

Everything in float32, down to γ₀ = 1e-12: the paper expects no adaptivity below about 1e-6 in that precision.

    python -m gradagrad_lab.figures.figure2 --readme docs/pictures/abs.png
"""

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gradagrad_lab import style
from gradagrad_lab.context import Context
from gradagrad_lab.problems.toy import AbsoluteValue
from gradagrad_lab.records import Record, write_atomically
from gradagrad_lab.results import Claim, Picture, Section, Table
from gradagrad_lab.run import LEARNING_RATE, Job, train
from gradagrad_lab.workers import load, missing

INITIAL = (1.0, 1e-1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-12)
STEPS = 400
SHOWN = 120
NEAR = 0.1
TITLES = {"adagrad": "AdaGrad", "gradagrad": "GradaGrad"}
FLAT = "gradagrad with rho 1"


class Run(NamedTuple):
    """One run: the iterates x₀, x₁, … and the learning rate of each step."""

    initial: float
    x: np.ndarray
    rate: np.ndarray

    @property
    def arrival(self) -> int | None:
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
        """Steps at the start that leave the float32 number x as it is, bit for bit."""
        moved = np.flatnonzero(self.x != self.x[0])
        return int(moved[0]) - 1 if moved.size else self.x.size - 1


def jobs() -> dict[str, Job]:
    """AdaGrad and GradaGrad from every γ₀, and GradaGrad with ρ = 1 from two."""
    lanes = tuple({"lr": initial} for initial in INITIAL)
    plain = {name: Job(AbsoluteValue(), name, lanes, (0,), STEPS) for name in TITLES}
    flat = tuple({"lr": initial, "rho": 1.0} for initial in (0.1, 0.01))
    return plain | {FLAT: Job(AbsoluteValue(), "gradagrad", flat, (0,), STEPS)}


def trained(context: Context) -> dict[str, list[Record]]:
    """The records of all runs; only missing ones are trained. They are short: no processes, no progress bar."""
    for job in missing(jobs().values(), context.records):
        for record in train(job):
            context.records.save(record)
    return {name: load(job, context.records) for name, job in jobs().items()}


def paths(records: list[Record]) -> list[Run]:
    """The trajectories that records hold."""
    return [
        Run(
            record.config["options"]["lr"],
            np.array([record.config["problem"]["start"], *record.curves["x"][0]]),
            np.array(record.curves[LEARNING_RATE][0]),
        )
        for record in records
    ]


def run(context: Context) -> Section:
    """Train what is missing, draw and describe."""
    started = time.perf_counter()
    records = trained(context)
    before = sum(record.seconds for group in records.values() for record in group)
    drawn = {name: paths(records[name]) for name in TITLES}
    style.save(draw(drawn, style.WIDE, 6.0), context, "figure2", narrow=draw(drawn, style.NARROW, 9.4, narrow=True))
    return describe(drawn, paths(records[FLAT]), max(before, time.perf_counter() - started))


def draw(drawn: dict[str, list[Run]], width: float, height: float, *, narrow: bool = False) -> Any:
    """Trajectories and learning rates, AdaGrad above GradaGrad; on a phone one below the other."""
    with style.use():
        figure, grid = style.subplots(
            4 if narrow else 2, 1 if narrow else 2, width=width, height=height, sharex=not narrow
        )
        panels = grid.reshape(2, 2)
        for (name, group), (left, right) in zip(drawn.items(), panels, strict=True):
            left.set_title(f"{TITLES[name]}: x")
            right.set_title(f"{TITLES[name]}: learning rate")
            for path, shade in zip(group, style.ramp(len(group)), strict=True):
                left.plot(np.arange(SHOWN + 1), path.x[: SHOWN + 1], color=shade)
                right.plot(np.arange(1, SHOWN + 1), path.rate[:SHOWN], color=shade, label=style.power(path.initial))
            left.set(ylim=(-1.7, 3.4), yticks=[-1, 0, 1, 2, 3])
            left.axhline(0, color=style.MUTED, linewidth=0.8, zorder=1)
            right.set(yscale="log", ylim=(2e-14, 2e1))
            right.set_yticks([1e-12, 1e-9, 1e-6, 1e-3, 1], ["1e−12", "1e−9", "1e−6", "1e−3", "1"])
            for axes in (left, right):
                axes.set_xlim(0, SHOWN)
        for axes in panels[-1] if not narrow else [panels[-1, -1]]:
            axes.set_xlabel("step")
        handles, labels = panels[0, 1].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            title="initial γ₀",
            loc="outside upper left",
            ncols=4 if narrow else len(labels),
            handlelength=1.4,
            columnspacing=1.3,
            alignment="left",
        )
    return figure


def draw_readme(drawn: dict[str, list[Run]]) -> Any:
    """The README's picture: only x, the two methods side by side, large letters."""
    chosen = (1.0, 1e-2, 1e-6, 1e-12)
    shades = dict(zip(INITIAL, style.ramp(len(INITIAL)), strict=True))
    with style.use():
        figure, grid = style.subplots(1, 2, width=7.0, height=3.0, sharey=True)
        for (name, group), axes in zip(drawn.items(), grid[0], strict=True):
            axes.set_title(TITLES[name])
            for path in group:
                if path.initial in chosen:
                    axes.plot(
                        path.x[:101],
                        color=shades[path.initial],
                        linewidth=2.4,
                        label=f"γ₀ = {style.power(path.initial)}",
                    )
            axes.axhline(0, color=style.MUTED, linewidth=0.8, zorder=1)
            axes.set(xlim=(0, 100), ylim=(-1.7, 3.4), xlabel="step", yticks=[-1, 0, 1, 2, 3], xticks=[0, 25, 50, 75])
            axes.xaxis.label.set_size(11)
            axes.tick_params(labelsize=11)
            axes.title.set_size(13)
        grid[0, 0].set_ylabel("x", fontsize=11)
        style.note(grid[0, 0], "hardly moves from γ₀ ≤ 0.01", (26, 2.3), fontsize=11, shade=style.MUTED)
        style.note(grid[0, 1], "arrives from every γ₀", (26, -1.4), fontsize=11, shade=style.MUTED)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=11, handlelength=1.5)
    return figure


def describe(drawn: dict[str, list[Run]], flat: list[Run], seconds: float) -> Section:
    """What the runs say about the paper's sentences; ``flat`` are those with ρ = 1."""
    adagrad, ours = drawn["adagrad"], drawn["gradagrad"]
    arrived = [path.arrival for path in ours if path.arrival is not None]
    others = sum(path.arrival is not None for path in adagrad)
    span = f"in {min(arrived)} to {max(arrived)} steps" if arrived else "never"
    start = f"x₀ = {ours[0].x[0]:g}"
    return Section(
        key="figure2",
        title="Figure 2: |x| from good and bad initial learning rates",
        intro=f"f(x) = |x| from {start}, without noise, in float32. The gradient is ±1, so that the learning rate "
        "alone decides.",
        claims=[_falls(adagrad), _adapts(ours), _precision(ours), _constant(flat, adagrad)],
        pictures=[
            Picture(
                "Trajectories and learning rates on |x|",
                "figure2",
                f"The first {SHOWN} of {STEPS} steps. AdaGrad moves only where γ₀ was large enough to begin with; "
                "GradaGrad multiplies its learning rate by √2 per step until it overshoots, whatever it started from.",
                "Four panels. AdaGrad: x stays near 3 for every initial rate of 0.01 or less, and all learning rates "
                "fall. GradaGrad: every x drops to 0, the later the smaller the initial rate, and every learning rate "
                "climbs in a straight line on a logarithmic axis to about 1, then falls slowly.",
            )
        ],
        tables=[_table(adagrad, ours)],
        settings={
            "start": start,
            "steps": str(STEPS),
            "AdaGrad": "torch.optim.Adagrad(lr=γ₀), otherwise defaults",
            "GradaGrad": "gradagrad.GradaGrad(lr=γ₀), otherwise defaults (ρ = 2, no momentum)",
            "precision": "float32",
        },
        seconds=seconds,
        summary=f"GradaGrad arrives from {len(arrived)} of {len(ours)} values of γ₀ between 1 and 1e-12, {span}; "
        f"AdaGrad from {others}. All in float32.",
    )


def _falls(paths: list[Run]) -> Claim:
    falls = all(np.all(np.diff(path.rate) <= 0) for path in paths)
    stuck = [path for path in paths if path.arrival is None]
    left = "; ".join(f"from γ₀ = {style.power(path.initial)} it ended at x = {path.x[-1]:.3f}" for path in stuck[:2])
    return Claim(
        "AdaGrad's learning rate can only fall, so it converges slowly from a small initial learning rate.",
        f"Its learning rate {'never rose' if falls else 'rose'}. Within {STEPS} steps it came closer than {NEAR} to "
        f"the minimum from {len(paths) - len(stuck)} of {len(paths)} values of γ₀; {left or 'none was too small'}.",
        "holds" if falls and stuck else "does not hold",
    )


def _adapts(paths: list[Run]) -> Claim:
    both_ways = sum(bool(np.any(np.diff(path.rate) > 0) and np.any(np.diff(path.rate) < 0)) for path in paths)
    steps = [path.arrival for path in paths if path.arrival is not None]
    complete = len(steps) == len(paths) == both_ways
    return Claim(
        "GradaGrad adapts to a poor initial learning rate in a non-monotone manner and so converges faster.",
        f"It came closer than {NEAR} to the minimum from {len(steps)} of {len(paths)} values of γ₀, after "
        f"{min(steps, default=0)} to {max(steps, default=0)} steps; its learning rate both rose and fell in "
        f"{both_ways} of {len(paths)} runs.",
        "holds" if complete else "holds in part" if steps else "does not hold",
    )


def _precision(paths: list[Run]) -> Claim:
    tiny = [path for path in paths if path.initial < 1e-6]
    told = "; ".join(
        f"from γ₀ = {style.power(path.initial)}, x keeps every bit for {path.standing} steps, yet the learning rate "
        f"reaches {path.rate.max():.2g} and |x| < {NEAR} "
        + (f"comes after {path.arrival} steps" if path.arrival is not None else "never comes")
        for path in tiny
    )
    works = sum(path.arrival is not None for path in tiny)
    return Claim(
        "γ₀ below roughly 1e-6 loses precision and all adaptivity in single precision.",
        f"{told[0].upper()}{told[1:]}. The paper forms m by subtracting iterates, which gives 0 while x stands still "
        "and ends all growth; this implementation carries m by a recursion that is the same in exact arithmetic.",
        "does not hold" if works == len(tiny) else "holds in part" if works else "holds",
    )


def _constant(flat: list[Run], adagrad: list[Run]) -> Claim:
    """With ρ = 1 and equal gradients v is 0, so nothing changes until the sign does."""
    known = {path.initial: path for path in adagrad}
    constant = [bool(np.all(path.rate[: path.crossing] == path.rate[0])) for path in flat]
    falls = [bool(np.all(np.diff(path.rate) <= 0)) for path in flat]
    faster = [path.arrival is not None and path.arrival < (known[path.initial].arrival or STEPS + 1) for path in flat]
    told = "; ".join(
        f"from γ₀ = {style.power(path.initial)} it arrives after {path.arrival or f'more than {STEPS}'} steps, AdaGrad "
        f"after {known[path.initial].arrival or f'more than {STEPS}'}"
        for path in flat
    )
    return Claim(
        "With ρ = 1 the learning rate on |x| stays constant until the minimum is overshot and falls from there, so "
        "progress is much faster than AdaGrad's.",
        f"Constant until the first change of sign in {sum(constant)} of {len(flat)} runs, never rising in "
        f"{sum(falls)}; {told}.",
        "holds" if all((*constant, *falls, *faster)) else "holds in part" if any(faster) else "does not hold",
    )


def _table(adagrad: list[Run], ours: list[Run]) -> Table:
    columns = [
        "γ₀",
        "AdaGrad: steps",
        "GradaGrad: steps",
        "AdaGrad: |x| at 200",
        "GradaGrad: |x| at 200",
        "GradaGrad: highest rate",
        "GradaGrad: still steps",
    ]
    rows = [
        [
            style.power(old.initial),
            "–" if old.arrival is None else str(old.arrival),
            "–" if new.arrival is None else str(new.arrival),
            f"{abs(old.x[200]):.2g}",
            f"{abs(new.x[200]):.2g}",
            f"{new.rate.max():.2g}",
            str(new.standing),
        ]
        for old, new in zip(adagrad, ours, strict=True)
    ]
    note = f"A dash: not within {STEPS} steps. Still steps: those at the start after which x is unchanged in every bit."
    return Table(f"Steps until |x| < {NEAR}", columns, rows, note)


def main() -> None:
    """The README's picture."""
    parser = argparse.ArgumentParser(description="Draw the README's picture of AdaGrad and GradaGrad on |x|.")
    parser.add_argument("--readme", type=Path, required=True, metavar="FILE.png", help="where to write the picture")
    target: Path = parser.parse_args().readme
    drawn = {name: paths(train(jobs()[name])) for name in TITLES}
    write_atomically(target, style.render(draw_readme(drawn), "png", dpi=200))


if __name__ == "__main__":
    main()
