"""The suite: AutoGradaGrad untuned beside tuned optimizers and parameter-free peers on many small problems."""

from __future__ import annotations

import time
from dataclasses import replace

from gradagrad_lab import data
from gradagrad_lab.context import Context
from gradagrad_lab.data import CATALOGUE, libsvm
from gradagrad_lab.figures import suite_claims, suite_draw, suite_tables
from gradagrad_lab.results import Picture, Section, Source
from gradagrad_lab.style import power
from gradagrad_lab.suite.catalogue import problems_at_hand
from gradagrad_lab.suite.methods import DEFAULT_GAMMA0, OURS
from gradagrad_lab.suite.standings import Standings, size_of, train_suite


def run(context: Context) -> Section:
    """Train what is missing, then draw, tabulate and judge from the records."""
    started = time.perf_counter()
    standings = train_suite(context, size_of(context))
    return replace(present(context, standings), seconds=time.perf_counter() - started)


def present(context: Context, standings: Standings) -> Section:
    """Draw everything and state what it shows; reads records only."""
    suite_draw.all_pictures(context, standings)
    size = standings.size
    reduced = reduction(context, standings)
    there, here = standings.standing(OURS, True), standings.standing(OURS)
    return Section(
        key="suite",
        title="The suite: AutoGradaGrad, no learning rate to choose",
        intro=f"{len(size.entries)} small problems, each trained for a fixed number of steps from {len(size.seeds)} "
        f"seeds. AutoGradaGrad runs at its defaults (γ₀ = {power(DEFAULT_GAMMA0)}) judged at its averaged iterate; "
        "torch's SGD with momentum, AdaGrad and Adam are tuned on a half-decade grid for the final training loss, "
        "problem by problem; Prodigy, D-Adaptation Adam, DoG, COCOB and Schedule-Free AdamW run at their defaults. "
        "All see the same starts and mini-batches.\n\nThe measure is the final training loss relative to the best "
        "tuned baseline. Rules and defaults of AutoGradaGrad were chosen on some of the problems, which are marked; "
        "conclusions are drawn on the held-out ones." + reduced,
        claims=suite_claims.all_claims(standings),
        tables=suite_tables.all_tables(standings),
        pictures=_pictures(standings, reduced),
        settings={
            "size": context.size,
            "seeds": str(len(size.seeds)),
            "problems": f"{len(size.entries)}, of them {len(standings.entries(True))} held out",
            "tuning": f"half-decade grid on {size.tuning_seeds} seed(s), best and neighbours on all",
            "γ₀ in the sweep": ", ".join(power(gamma0) for gamma0 in size.sweep) + f"; {len(size.sweep_seeds)} seeds",
        },
        summary=f"Untuned, relative to the best tuned baseline: geometric mean {there.mean.text()} and worst "
        f"{suite_tables.factor(there.worst.value)} on held-out problems, {here.mean.text()} and "
        f"{suite_tables.factor(here.worst.value)} on all.",
        sources=_sources(context, standings),
    )


def reduction(context: Context, standings: Standings) -> str:
    """What this size leaves out, in a sentence; empty where nothing."""
    said: list[str] = []
    if context.quick:
        left_out = len(problems_at_hand(context.data_dir)) - len(standings.size.entries)
        said.append(
            f"quick size: {left_out} problems left out, {len(standings.size.seeds)} seeds, three γ₀ in the sweep"
        )
    if standings.size.missing:
        said.append(
            f"not installed, hence absent: {', '.join(standings.size.missing)} (`pip install gradagrad[peers]`)"
        )
    places = data.folders(context.data_dir)
    absent = [name for name in CATALOGUE if libsvm.find(name, places) is None]
    if len(absent) == len(CATALOGUE):
        said.append("scikit-learn's iris and digits stand in for the LIBSVM sets, none of which was found")
    elif absent:
        said.append(f"without {', '.join(absent)}, which was not found")
    if not said:
        return ""
    text = "; ".join(said)
    return f" {text[0].upper()}{text[1:]}."


def _pictures(standings: Standings, reduced: str) -> list[Picture]:
    seeds = len(standings.size.seeds)
    own = standings.standing(OURS)
    entries = standings.entries()
    words = ", ".join(
        f"{entry.problem.title} {suite_tables.factor(ratio)}" for entry, ratio in zip(entries, own.ratios, strict=True)
    )
    return [
        Picture(
            "Performance profile",
            "suite-profile",
            "Share of problems on which a method's mean final training loss is within a factor of the best of all "
            f"methods of the suite, averaged ones included; higher is better. Thin solid lines on the left: the tuned "
            f"baselines with the same averaging as AutoGradaGrad. {seeds} seeds.{reduced}",
            "Four panels of rising step curves: held-out and all problems, beside tuned baselines and beside "
            "parameter-free peers. " + _profile_words(standings),
        ),
        Picture(
            "Problem by problem",
            "suite-ratios",
            "Final training loss relative to the best tuned baseline at its last iterate (1, solid line); dashed: 1.3. "
            f"Marks at the right edge lie beyond it. {suite_tables.TREATMENT}{reduced}",
            f"A line per problem with AutoGradaGrad's ratio and interval, and those of its peers. Its ratios: {words}.",
        ),
        Picture(
            "From other γ₀",
            "suite-sweep",
            "AutoGradaGrad's final training loss (averaged iterate) from each γ₀, relative to the best tuned baseline. "
            "Shaded: γ₀ = 1e-8 … 1e-2, where it should be flat, and ± 10 % around the default's loss. Values "
            f"beyond 0.2 and 20 are drawn at the edge. {len(standings.size.sweep_seeds)} seeds.{reduced}",
            "A small panel per problem: the ratio against γ₀ on logarithmic axes. The sweep's table has the numbers.",
        ),
    ]


def _profile_words(standings: Standings) -> str:
    own = standings.standing(OURS, True)
    near = int((own.ratios <= 1.1).sum())
    return f"AutoGradaGrad is within 10 % of the best tuned baseline on {near} of {len(own.ratios)} held-out problems."


def _sources(context: Context, standings: Standings) -> list[Source]:
    needed = dict.fromkeys(entry.needs for entry in standings.entries() if entry.needs)
    found = [libsvm.find(name, data.folders(context.data_dir)) for name in needed]
    sets = [Source(one.label, one.path.name, "a fixed fifth of its rows held out") for one in found if one is not None]
    return [
        *sets,
        Source("digits, wine, breast cancer, diabetes", "scikit-learn", "bundled; a fixed fifth of the rows held out"),
        Source(
            "names of Unicode's characters",
            "Python's unicodedata.ucd_3_2_0",
            "frozen: the same text in every version of Python",
        ),
        Source("synthetic click stream", "gradagrad_lab.data.clicks", "made to the shape of Criteo's rows"),
    ]
