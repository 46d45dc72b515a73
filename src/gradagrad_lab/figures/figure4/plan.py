"""The runs of Figure 4 at each size, on Criteo's rows if the data folder has them, else on the synthetic stream."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from gradagrad_lab.context import Context
from gradagrad_lab.data import criteo
from gradagrad_lab.errors import DATA, UserError
from gradagrad_lab.problems.clicks.dlrm import KAGGLE
from gradagrad_lab.problems.clicks.runs import AUTO, NORM, SCALAR, ClickProblem, Setup
from gradagrad_lab.study import Method, Plan, Run
from gradagrad_lab.tune import Tuning

SEEDS, QUICK_SEEDS, FIRST_SEED = 6, 3, 100
"""Initialisations of which nothing was known when the criteria of the claims were fixed."""
KAGGLE_ROWS = 45_840_617
SIZES = {
    "quick": Setup(rows=10_240, held_out=6_144, cap=10_000),
    "full": Setup(rows=192_000, held_out=51_200),
    "paper": Setup(
        rows=KAGGLE_ROWS * (criteo.DAYS - 1) // criteo.DAYS,
        held_out=KAGGLE_ROWS // criteo.DAYS // 2,
        bottom=KAGGLE.bottom,
        top=KAGGLE.top,
        paper=True,
    ),
}
INITIAL = (1.0, 1e-2, 1e-4, 1e-6)
RHO = (2.0, 10.0, 50.0, 100.0, 200.0, 500.0)
# The diagonal variants, for which the paper recommends ρ = 2.
DIAGONAL = ("gradagrad element", "gradagrad row")
DIAGONAL_RHO = (2.0, 10.0, 50.0)
# Where each baseline's search begins, in powers of two; it goes on while the best lies at an end.
GRIDS: dict[str, tuple[int, ...]] = {
    "sgd": (-3, -2, -1, 0),
    "adagrad": (-7, -6, -5, -4),
    NORM: (-2, -1, 0, 1),
    "row-wise adagrad": (-7, -6, -5, -4),
    "adam": (-11, -10, -9, -8),
}
_NAMES = ("SGD", "AdaGrad", "AdaGrad-norm", "row-wise AdaGrad", "Adam")
TITLES = {key: f"{name}, tuned" for key, name in zip(GRIDS, _NAMES, strict=True)}


def of_rule(name: str, lr: float | None = None, rho: float | None = None) -> Method:
    """One optimizer setting. Settings of our optimizers name their rule."""
    follows = "gradagrad" if name not in ("sgd", "adagrad", "adam", AUTO) else ""
    given = {"lr": lr, "rho": rho}
    return Method.of(name, follows=follows, **{key: value for key, value in given.items() if value is not None})


@dataclass(frozen=True)
class Figure4Plan:
    """Data, model and seeds; at the paper's size only the scalar grid is trained."""

    setup: Setup
    seeds: tuple[int, ...]
    few_seeds: tuple[int, ...]
    """For what is trained on a large grid: the diagonal variants, and the first pass of tuning."""
    planned_rows: int
    rhos: tuple[float, ...] = RHO

    def run(self, method: Method, seed: int) -> Run:
        return Run(ClickProblem(self.setup), method, seed, self.setup.steps)

    def grid(self, name: str, rhos: tuple[float, ...], seeds: tuple[int, ...]) -> list[Run]:
        methods = [of_rule(name, initial, rho) for rho in rhos for initial in INITIAL]
        return [self.run(method, seed) for seed in seeds for method in methods]

    def runs(self) -> list[Run]:
        """The scalar grid; beside it AutoGradaGrad and both diagonal variants."""
        found = self.grid(SCALAR, self.rhos, self.seeds)
        if not self.setup.paper:
            found += [self.run(of_rule(AUTO), seed) for seed in self.seeds]
            found += [run for name in DIAGONAL for run in self.grid(name, DIAGONAL_RHO, self.few_seeds)]
        return found

    @cached_property
    def tunings(self) -> tuple[Tuning, ...]:
        """Each baseline at the learning rate of lowest held-out loss: in its favour, as the paper tunes on what it
        reports. None at the paper's size."""
        return () if self.setup.paper else tuple(self._tuning(name, places) for name, places in GRIDS.items())

    def _tuning(self, name: str, places: tuple[int, ...]) -> Tuning:
        goals = {"held-out loss": lambda record: float(record.curves["loss"][0])}
        few, steps = len(self.few_seeds), self.setup.steps
        return Tuning(ClickProblem(self.setup), of_rule(name), self.seeds, steps, goals, places, scouts=few)


def plan(context: Context) -> Plan:
    """The experiment of a size, on the rows that exist."""
    chosen = plan_of(context)
    if chosen.setup.paper:
        gibibytes = 4 * 16 * sum(chosen.setup.table_sizes) / 2**30
        words = f"The paper's size: {len(chosen.runs())} runs of {chosen.setup.steps:,} steps, each with tables of "
        words += f"{gibibytes:.1f} GiB and twice that in all; --workers says how many run at once. Ctrl-C keeps "
        context.console.print(words + "finished runs, and the same command trains the others.", highlight=False)
    return Plan(chosen.runs(), chosen.tunings, chosen)


def plan_of(context: Context) -> Figure4Plan:
    """Seeds and rows; a Criteo file is read first, since it may be shorter than planned."""
    planned = SIZES[context.size]
    rows = context.rows or planned.rows
    setup = replace(planned, rows=rows, held_out=min(planned.held_out, rows))  # few rows want no days of evaluation
    places = [context.data_dir / "criteo" / name for name in ("train.txt", "train.txt.gz")] if context.data_dir else []
    if found := next((path for path in places if path.is_file()), None):
        setup = _on_file(context, setup, found)
    seeds = context.seed_range(1 if setup.paper else QUICK_SEEDS if context.quick else SEEDS, FIRST_SEED)
    few = seeds[: 0 if setup.paper else 1 if context.quick else 2]
    return Figure4Plan(setup, seeds, few, planned.rows, tuple(sorted(context.rho)) or RHO)


def _on_file(context: Context, setup: Setup, path: Path) -> Setup:
    """The setup on a Criteo file, its memory map made or completed: rows to train on from its first six days, held-out
    rows from the seventh."""
    with context.progress(path.stat().st_size, "Criteo: making the memory map") as bar:
        rows = criteo.build(path, setup.settings, progress=lambda done: bar.set(done, None))
    (first, last), (begin, end) = rows.span("train"), rows.span("validation")
    if last - first < 2 * setup.batch or end == begin:
        raise UserError(
            f"{path} holds {len(rows):,} rows; Figure 4 needs at least {3 * setup.batch}, two batches to "
            "train on and a seventh of the file to evaluate on.",
            DATA,
        )
    held_out, version = min(setup.held_out, end - begin), criteo.fingerprint(path)["edges"]
    return replace(setup, rows=min(setup.rows, last - first), held_out=held_out, criteo=str(path), version=version)
