"""Figure 3: logistic regression on six LIBSVM sets, three tuned baselines against GradaGrad untuned."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from gradagrad_lab.context import Context
from gradagrad_lab.data import CATALOGUE
from gradagrad_lab.figures import figure3_draw as draw
from gradagrad_lab.figures import figure3_tables as tables
from gradagrad_lab.figures.figure3_plan import FULL_EPOCHS, FULL_SEEDS, Panel, panels, train_all
from gradagrad_lab.optimizers import GRID, power_of_two
from gradagrad_lab.results import Picture, Section, Source
from gradagrad_lab.speed import speed_table


def run(context: Context) -> Section:
    """Train what is missing, then draw and tabulate from the records."""
    started = time.perf_counter()
    chosen = panels(context)
    train_all(context, chosen)
    speed = speed_table(context, chosen[0].problem)
    section = present(context, chosen)
    section.tables.append(speed)
    context.console.print(f"Figure 3: {speed.note}", highlight=False)
    return replace(section, seconds=time.perf_counter() - started)


def present(context: Context, chosen: Sequence[Panel]) -> Section:
    """Draw everything and state what it shows; reads records only."""
    draw.accuracy(context, chosen)
    draw.loss(context, chosen)
    draw.sensitivity(context, chosen)
    draw.learning_rates(context, chosen)
    found = tables.contests(context, chosen)
    peers = tables.peers_table(context, chosen) if context.peers else None
    reduced = reduction(context, chosen)
    first = tables.claims(context, chosen, found)
    return Section(
        key="figure3",
        title="Figure 3: convex problems, tuned baselines against GradaGrad untuned",
        intro="One-vs-rest logistic regression, batch 16, no preprocessing. Adam, SGD and AdaGrad are each tuned on a "
        f"power-of-two grid from {power_of_two(GRID[0])} to {power_of_two(GRID[-1])} for the highest training accuracy "
        "over the last epochs; GradaGrad runs once, at γ₀ = 1 and ρ = 2." + reduced,
        claims=first,
        tables=[
            tables.main_table(found),
            tables.tuning_table(context, chosen),
            tables.initial_rate_table(context, chosen),
            tables.variant_table(context, chosen),
            tables.loss_table(context, chosen),
            *([peers] if peers else []),
        ],
        pictures=_pictures(context, chosen, reduced),
        settings={
            "size": context.size,
            "seeds": str(len(chosen[0].seeds)),
            "epochs": ", ".join(f"{panel.label} {panel.epochs}" for panel in chosen),
            "batch": str(chosen[0].problem.batch),
            "peers": "yes" if context.peers else "no",
        },
        summary=first[0].evidence,
        sources=[Source(panel.label, panel.problem.data.source, panel.problem.data.describe()) for panel in chosen],
    )


def reduction(context: Context, chosen: Sequence[Panel]) -> str:
    """What was left out of the paper's protocol, in a sentence; empty where nothing was."""
    said: list[str] = []
    seeds = len(chosen[0].seeds)
    short = [panel for panel in chosen if panel.epochs != FULL_EPOCHS]
    if seeds != FULL_SEEDS:
        said.append(f"{seeds} seeds instead of {FULL_SEEDS}")
    if short:
        said.append(f"fewer epochs than {FULL_EPOCHS} ({', '.join(f'{one.label} {one.epochs}' for one in short)})")
    missing = [name for name in CATALOGUE if name not in {panel.name for panel in chosen}]
    if len(missing) == len(CATALOGUE):
        said.append("scikit-learn's bundled sets as stand-ins, because none of the paper's six sets was found")
    elif missing:
        said.append(f"without {', '.join(missing)}, which was not found")
    size = "Quick size" if context.quick else "Differences to the paper's protocol"
    return f" {size}: {'; '.join(said)}." if said else ""


def _pictures(context: Context, chosen: Sequence[Panel], reduced: str) -> list[Picture]:
    sets = ", ".join(panel.label for panel in chosen)
    seeds = len(chosen[0].seeds)
    mean = f"Mean of {seeds} seeds with a band of two standard errors."
    return [
        Picture(
            "Training accuracy",
            "figure3",
            f"{mean} Baselines at the learning rate with the highest accuracy over the last epochs, GradaGrad at its "
            f"defaults.{reduced}",
            f"Training accuracy by epoch of tuned Adam, SGD and AdaGrad and untuned GradaGrad on {sets}.",
        ),
        Picture(
            "Training loss",
            "figure3-loss",
            f"{mean} Here the baselines are tuned for the lowest loss.{reduced}",
            f"Training loss by epoch of tuned Adam, SGD and AdaGrad and untuned GradaGrad on {sets}.",
        ),
        Picture(
            "Who needs tuning",
            "figure3-sensitivity",
            "Training accuracy over the last epochs against the learning rate; for GradaGrad against γ₀, 1e-6 to 1."
            f"{reduced}",
            f"Final accuracy against learning rate for Adam, SGD, AdaGrad and GradaGrad on {sets}.",
        ),
        Picture(
            "GradaGrad's learning rates from different γ₀",
            "figure3-learning-rates",
            "Median over coordinates of γ/√α at the end of each epoch (geometric mean over seeds), with tuned "
            f"AdaGrad's for comparison.{reduced}",
            f"Median learning rate by epoch of GradaGrad from seven initial values and of tuned AdaGrad on {sets}.",
        ),
    ]
