"""Figure 4: DLRM on a click stream with scalar GradaGrad, γ₀ from 1 to 1e-6, for ρ from 2 to 500.

The paper shows one run of each. Here every setting is trained from at least six initialisations, all shown, because
which picture comes out depends on the initialisation; and beside it stand tuned SGD, AdaGrad, row-wise AdaGrad and
Adam, and the element and row-wise variants. On real Criteo where the data folder has it (``criteo/train.txt`` or
``.gz``), else on the synthetic stream of `gradagrad_lab.data.clicks`.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from gradagrad_lab.context import Context, usable_cores
from gradagrad_lab.data import criteo_cache
from gradagrad_lab.figures import figure4_claims as claims
from gradagrad_lab.figures import figure4_draw as draw
from gradagrad_lab.figures import figure4_tables as tables
from gradagrad_lab.figures.figure4_read import Floats, Results
from gradagrad_lab.figures.figure4_runs import CLICK_RATE, DRAWN, INITIAL, RHO, Setup
from gradagrad_lab.figures.figure4_train import DIAGONAL_RHO, Plan, ensure
from gradagrad_lab.optimizers import power_of_two
from gradagrad_lab.results import Picture, Section, Source

SEEDS, FIRST_SEED = 6, 100
"""Initialisations of which nothing was known when the criteria in `figure4_claims` were fixed."""


def plan_of(context: Context) -> Plan:
    """The figure's size: quick, or the full one."""
    seeds = context.seed_range(SEEDS, FIRST_SEED)
    found = real_file(context)
    criteo, edition = (str(found), criteo_cache.fingerprint(found)["edges"]) if found else ("", "")
    if context.quick:
        setup = Setup(rows=10_240, held_out=6_144, cap=10_000, criteo=criteo, edition=edition)
        return Plan(setup, seeds, tuning_seeds=seeds[:1], diagonal_seeds=seeds[:1])
    setup = Setup(rows=192_000, held_out=51_200, criteo=criteo, edition=edition)
    return Plan(setup, seeds, tuning_seeds=seeds[:2], diagonal_seeds=seeds[:2])


def real_file(context: Context) -> Path | None:
    """Criteo's file in the data folder."""
    if context.data_dir is None:
        return None
    places = [context.data_dir / "criteo" / name for name in ("train.txt", "train.txt.gz")]
    return next((path for path in places if path.is_file()), None)


def run(context: Context) -> Section:
    """Train what is missing, then draw, tabulate and judge from the records."""
    started = time.perf_counter()
    plan = plan_of(context)
    if plan.setup.criteo:
        source = Path(plan.setup.criteo)
        workers = context.workers or usable_cores()
        with context.progress(source.stat().st_size, "Criteo: building the cache") as bar:
            done = 0

            def progress(bytes_done: int) -> None:
                nonlocal done
                bar.advance(bytes_done - done)
                done = bytes_done

            criteo_cache.build(source, criteo_cache.Settings(cap=plan.setup.cap), workers=workers, progress=progress)
    best = ensure(context, plan)
    return present(Results(context, plan, best), time.perf_counter() - started)


def present(results: Results, seconds: float) -> Section:
    """Draw everything and state what it shows; reads records only."""
    draw.grid(results, DRAWN, "figure4")
    draw.grid(results, CLICK_RATE, "figure4-click-rate")
    draw.mechanism(results, "figure4-mechanism")
    draw.growth(results, "figure4-gamma")
    draw.contest(results, contestants(results), "figure4-contest")
    setup, seeds = results.plan.setup, len(results.plan.seeds)
    judged = claims.all_claims(results)
    return Section(
        key="figure4",
        title="Figure 4: DLRM and the meaning of ρ",
        intro="DLRM on a click stream: 26 embedding tables of dimension 16 with sparse gradients, batch 128, one pass, "
        "no "
        "regularisation; one step size shared by all parameters (the paper's scalar variant). Each "
        "setting is trained from "
        f"{seeds} initialisations on the same rows in the same order."
        + reduction(results)
        + " "
        + claims.how_judged(results),
        claims=judged,
        tables=tables.all_tables(results),
        pictures=pictures(results),
        settings={
            "rows": f"{setup.steps * setup.batch:,} to train on, {setup.held_out:,} held out",
            "batch": str(setup.batch),
            "tables": f"at most {setup.cap:,} rows a field, dimension 16",
            "networks": f"13-{setup.bottom}-16 and 367-{setup.top}-1",
            "γ₀": ", ".join(f"{initial:g}" for initial in INITIAL),
            "ρ": ", ".join(f"{rho:g}" for rho in RHO)
            + f"; diagonal variants {', '.join(f'{r:g}' for r in DIAGONAL_RHO)}",
            "initialisations": f"{seeds}: {results.plan.seeds[0]} to {results.plan.seeds[-1]}",
            "tuned learning rates": ", ".join(f"{name} {power_of_two(rate)}" for name, rate in results.best.items()),
            "training time": f"{results.seconds():.0f} s of one core for the scalar grid",
        },
        seconds=seconds,
        summary=next(claim.evidence for claim in judged if claim.text.startswith("For large ρ")),
        sources=[source_of(results)],
    )


def reduction(results: Results) -> str:
    """What differs from the paper's experiment, in a sentence."""
    said = (
        ["one pass over fewer rows and smaller networks than the paper's"]
        if not results.context.quick
        else [f"quick size: {results.plan.setup.steps} steps, small tables; the full size is the one to judge by"]
    )
    if results.has_teacher:
        said.append("a synthetic stream in place of Criteo's rows")
    return f" Differences to the paper: {'; '.join(said)}."


def source_of(results: Results) -> Source:
    """Where the rows come from."""
    if results.plan.setup.criteo:
        return Source("Criteo", results.plan.setup.criteo, "the first rows of its first six days; held out: day seven")
    return Source(
        "synthetic click stream",
        "gradagrad_lab.data.clicks",
        "made to the shape of Criteo's first 1,999 rows, with a teacher whose loss is known; not Criteo itself",
    )


def contestants(results: Results) -> list[tuple[str, str, Floats]]:
    """Who stands in the picture of held-out losses: (title, colour family, loss per seed)."""
    entries: list[tuple[str, str, Floats]] = []
    for name, title in draw.TITLES.items():
        entries.append((title, name.removeprefix("row-wise "), results.baseline(name, "held-out loss")))
    scalar = results.scalar("held-out loss")
    for rho in (2.0, 100.0):
        for column, initial in enumerate(INITIAL):
            title = f"scalar, ρ = {rho:g}, γ₀ = {draw.initial_text(initial)}"
            entries.append((title, "gradagrad", scalar[RHO.index(rho), column]))
    for name, words in (("gradagrad element", "element"), ("gradagrad row", "row-wise")):
        losses = results.diagonal(name, "held-out loss")
        for column, initial in enumerate(INITIAL):
            title = f"{words}, ρ = 2, γ₀ = {draw.initial_text(initial)}"
            entries.append((title, "autogradagrad", losses[0, column]))
    return entries


def pictures(results: Results) -> list[Picture]:
    """The pictures with captions and words for who cannot see them."""
    seeds = len(results.plan.seeds)
    what = "Training loss minus the teacher's on the same rows" if results.has_teacher else "Training loss"
    fate = recovered_in_words(results)
    return [
        Picture(
            "Training loss for each ρ and γ₀",
            "figure4",
            f"{what}; thin: each of {seeds} initialisations, thick: their mean. Curves that leave the "
            "picture are held at its "
            f"upper edge.{reduction(results)}",
            "Six panels, one for each ρ from 2 to 500, each with the training loss from four γ₀ and "
            "of tuned AdaGrad against "
            f"the rows seen. {fate}",
        ),
        Picture(
            "The same with the last bias at the click rate's logit",
            "figure4-click-rate",
            "DLRM draws its last bias from N(0, 1); here it is the logit of the click rate, so that "
            "the first predictions "
            "are right on average. What this changes is in the table of initialisations.",
            "The same six panels, the model's last bias set to the logit of the click rate.",
        ),
        Picture(
            "The first products of consecutive gradients, and how the run ends",
            "figure4-mechanism",
            "From γ₀ = 1e−6 at ρ = 500, one mark or line per initialisation. First panel: the first product alone. "
            "Second: steps in which γ could grow before the first negative product, which puts ρ·|⟨g, g_prev⟩| into α. "
            "Third: γ/γ₀ in the first steps.",
            "Three panels. Final loss against the first inner product of consecutive gradients; final loss against the "
            "number of steps before the first negative product; growth of γ over the first steps.",
        ),
        Picture(
            "γ, the numerator",
            "figure4-gamma",
            "γ = γ₀ · growth by the rows seen, last bias as drawn; thin: each initialisation, thick: geometric mean.",
            "Six panels, one for each ρ: γ on a logarithmic axis from four γ₀. It only rises.",
        ),
        Picture(
            "Held-out loss beside tuned optimizers",
            "figure4-contest",
            "A dot per initialisation, a bar for the mean; learning rates of the first four are "
            "tuned on this very number. "
            "▸: runs that ended to the right of the picture or not finite.",
            "Held-out log-loss of tuned SGD, AdaGrad, row-wise AdaGrad and Adam and of GradaGrad's "
            "variants from four γ₀.",
        ),
    ]


def recovered_in_words(results: Results) -> str:
    """On how many initialisations the smallest γ₀ caught up, for each ρ."""
    losses = results.scalar("held-out loss")
    recovered = (claims.lag(losses) <= results.alike).sum(axis=1)
    told = ", ".join(f"{int(count)} at ρ = {rho:g}" for rho, count in zip(RHO, np.asarray(recovered), strict=True))
    return f"Initialisations (of {losses.shape[2]}) on which γ₀ = 1e-6 caught up with the best γ₀: {told}."
