"""Figure 4: DLRM on a click stream with scalar GradaGrad, γ₀ from 1 to 1e-6, for ρ from 2 to 500.

The paper shows one run of each. Here every setting is trained from at least six initialisations, all shown, because
which picture comes out depends on the initialisation. Tuned SGD, AdaGrad, AdaGrad-norm, row-wise AdaGrad and Adam, the
element and row-wise variants and AutoGradaGrad are shown beside it. The rows are Criteo's where the data folder has
them (``criteo/train.txt`` or ``.gz``), else the synthetic stream of `gradagrad_lab.data.clicks.stream`.

There are three sizes. Quick and full have small networks and hashed tables; "paper" has the paper's own and takes days.
"""

import time
from dataclasses import replace
from pathlib import Path

from gradagrad_lab.context import Context
from gradagrad_lab.data.criteo import cache as criteo_cache
from gradagrad_lab.data.criteo.cache import DAYS
from gradagrad_lab.data.criteo.text import fingerprint
from gradagrad_lab.errors import DATA, UserError
from gradagrad_lab.figures.figure4.claims import all_claims, how_judged, in_a_sentence
from gradagrad_lab.figures.figure4.draw import pictures
from gradagrad_lab.figures.figure4.results import DIAGONAL_RHO, INITIAL, RHO, Figure4Plan, Results
from gradagrad_lab.figures.figure4.tables import all_tables
from gradagrad_lab.problems.clicks.dlrm import KAGGLE
from gradagrad_lab.problems.clicks.rows import Setup
from gradagrad_lab.problems.clicks.runs import ClickProblem, ClickReader
from gradagrad_lab.report.content import About, Source
from gradagrad_lab.report.page import duration
from gradagrad_lab.study import Plan, Run, Study, count

SEEDS, FIRST_SEED = 6, 100
"""Initialisations of which nothing was known when the criteria in `gradagrad_lab.figures.figure4.claims` were fixed."""
KAGGLE_ROWS = 45_840_617
SIZES = {
    "quick": Setup(rows=10_240, held_out=6_144, cap=10_000),
    "full": Setup(rows=192_000, held_out=51_200),
    "paper": Setup(
        rows=KAGGLE_ROWS * (DAYS - 1) // DAYS,
        held_out=KAGGLE_ROWS // DAYS // 2,
        bottom=KAGGLE.bottom,
        top=KAGGLE.top,
        paper=True,
    ),
}
REHEARSED = 30  # steps that are timed before a run at the paper's size


def plan(context: Context) -> Plan:
    """What the size asks for, on the rows that are there."""
    chosen = plan_of(context)
    runs = [*chosen.scalar_runs(), *chosen.other_runs()]
    if chosen.setup.paper:
        announce(context, chosen, [run for run in runs if context.records.find(run) is None])
    return Plan(runs, chosen.tunings, chosen)


def plan_of(context: Context) -> Figure4Plan:
    """Seeds and rows; a Criteo file is read first, since it may be shorter than planned."""
    planned = SIZES[context.size]
    rows = context.rows or planned.rows
    setup = on_rows(planned, rows, min(planned.held_out, rows))  # few rows to train on want no days of evaluation
    found = real_file(context)
    if found is not None:
        setup = on_file(context, setup, found)
    seeds = context.seed_range(1 if setup.paper else SEEDS, FIRST_SEED)
    few = seeds[: 0 if setup.paper else 1 if context.quick else 2]
    return Figure4Plan(setup, seeds, few, planned.rows, tuple(sorted(context.rho)) or RHO)


def on_rows(setup: Setup, rows: int, held_out: int, **changes: str) -> Setup:
    """The setup with as many rows as there are."""
    return replace(setup, rows=min(setup.rows, rows), held_out=min(setup.held_out, held_out), **changes)


def real_file(context: Context) -> Path | None:
    """Criteo's file in the data folder."""
    if context.data_dir is None:
        return None
    places = [context.data_dir / "criteo" / name for name in ("train.txt", "train.txt.gz")]
    return next((path for path in places if path.is_file()), None)


def on_file(context: Context, setup: Setup, path: Path) -> Setup:
    """The setup on a Criteo file, its cache built or completed: rows to train on from its first six days, held-out
    rows from the seventh."""
    with context.progress(path.stat().st_size, "Criteo: building the cache") as bar:
        cache = criteo_cache.build(path, setup.settings(), progress=lambda done: bar.set(done, None))
    (first, last), (begin, end) = cache.span("train"), cache.span("validation")
    if last - first < 2 * setup.batch or end == begin:
        raise UserError(
            f"{path} holds {len(cache):,} rows; Figure 4 needs at least {3 * setup.batch}, two batches to "
            "train on and a seventh of the file to evaluate on.",
            DATA,
        )
    version = fingerprint(path)["edges"]
    return on_rows(setup, last - first, end - begin, criteo=str(path), version=version)


def announce(context: Context, chosen: Figure4Plan, missing: list[Run]) -> None:
    """Before days of training: memory, time per step and the time for all, measured on a few steps here."""
    if not missing:
        return
    say = context.console.print
    setup = chosen.setup
    rehearsal = on_rows(setup, REHEARSED * setup.batch, 256)
    started = time.perf_counter()
    reader = ClickReader(ClickProblem(rehearsal), [Run(ClickProblem(rehearsal), missing[0].method, 0, rehearsal.steps)])
    made = time.perf_counter() - started
    half = rehearsal.steps // 2
    for number in range(rehearsal.steps):
        if number == half:
            started = time.perf_counter()
        reader.step(number)
    step = (time.perf_counter() - started) / (rehearsal.steps - half)
    numbers = reader.model.networks.numel() + reader.model.tables.numel()
    memory = 2 * 4 * numbers / 2**30  # weights and the last gradient, both in single precision
    del reader
    fits = max(1.0, available_gib() // (1.1 * memory + 1))
    workers = int(min(context.cores, fits, len(missing)))
    context.workers = workers
    total = (made + setup.steps * step + setup.held_out * step / (4 * setup.batch)) * -(-len(missing) // workers)
    say(
        f"The paper's size: {numbers:,} parameters, {memory:.1f} GiB for weights and the last gradient; a step takes "
        f"{1000 * step:.1f} ms here (one thread; {rehearsal.steps - half} steps after {half}), building a model "
        f"{made:.0f} s.",
        highlight=False,
    )
    say(
        f"{len(missing)} runs of {setup.steps:,} steps, {workers} at a time: about {duration(total)}. Ctrl-C keeps "
        "finished runs, and the same command trains the others.",
        highlight=False,
    )


def available_gib() -> float:
    """Free memory in GiB; infinite if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) / 2**20 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return float("inf")


def about(results: Results) -> About:
    """Words around the figure."""
    plan, setup = results.plan, results.setup
    seconds = sum(results.frame.record(run).seconds for run in plan.scalar_runs())
    empty = "" if len(results.steps) > 1 else " There are too few steps for a curve, so none is drawn."
    widths = ["-".join(str(width) for width in layers) for layers in (setup.bottom, setup.top)]
    shown = ("every id has its row" if setup.paper else f"at most {setup.cap:,} rows a field") + ", dimension 16"
    return About(
        intro="DLRM on a click stream: 26 embedding tables of dimension 16 with sparse gradients, batch "
        f"{setup.batch}, one pass, no regularisation; one step size shared by all parameters (the paper's scalar "
        f"variant). Each setting is trained from {count(len(plan.seeds), 'initialisation')} on the "
        f"same rows in the same order.{results.reduction}{empty} {how_judged(results)}",
        paper="For large ρ every initial rate from 1 to 1e-6 trains alike; for small ρ the small rates stay behind.",
        summary=in_a_sentence(results) if results.enough else "There was too little to train on for a verdict.",
        number=all_claims(results)[1].number if results.enough and not results.frame.context.rho else "–",
        missing=""
        if setup.criteo
        else "Criteo's rows: get the Kaggle file, put it into the data folder as "
        "criteo/train.txt and run `gradagrad reproduce figure4 --data-dir FOLDER`; a synthetic stream replaces them. ",
        settings={
            "rows": f"{setup.steps * setup.batch:,} trained on, {setup.held_out:,} held out",
            "batch": str(setup.batch),
            "tables": shown,
            "networks": f"13-{widths[0]}-16 and 367-{widths[1]}-1",
            "γ₀": ", ".join(f"{initial:g}" for initial in INITIAL),
            "ρ": ", ".join(f"{rho:g}" for rho in results.rhos)
            + ("" if setup.paper else f"; diagonal variants {', '.join(f'{rho:g}' for rho in DIAGONAL_RHO)}"),
            "initialisations": f"{len(plan.seeds)}: {plan.seeds[0]} to {plan.seeds[-1]}",
            "tuned learning rates": ", ".join(f"{name} {results.rate(name)}" for name in results.best) or "none",
            "training time of the scalar grid": f"{seconds:.0f} s",
        },
        sources=[source_of(results)],
    )


def source_of(results: Results) -> Source:
    """Where the rows come from."""
    if results.setup.criteo:
        return Source("Criteo", results.setup.criteo, "the first rows of its first six days; held out: day seven")
    return Source(
        "synthetic click stream",
        "gradagrad_lab.data.clicks.stream",
        "made to the shape of Criteo's first 1,999 rows, with a teacher whose loss is known; not Criteo itself",
    )


STUDY = Study(
    name="figure4",
    title="Figure 4: DLRM and the meaning of ρ",
    plan=plan,
    read=Results,
    draw=pictures,
    tables=all_tables,
    claims=all_claims,
    about=about,
)
