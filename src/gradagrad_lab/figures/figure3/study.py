"""Figure 3: logistic regression on six LIBSVM sets, three tuned baselines against GradaGrad untuned."""

from __future__ import annotations

import numpy as np

from gradagrad_lab.data import CATALOGUE
from gradagrad_lab.figures.figure3 import claims as figure3_claims
from gradagrad_lab.figures.figure3 import draw as figure3_draw
from gradagrad_lab.figures.figure3 import tables as figure3_tables
from gradagrad_lab.figures.figure3.plan import FULL_EPOCHS, FULL_SEEDS, HEADLINES, Trial, plan
from gradagrad_lab.report.content import About, Claim, Picture, Source, Table
from gradagrad_lab.runs.study import Frame, Study

STUDY = Study(
    name="figure3",
    shows="logistic regression on six sets against tuned baselines",
    title="Figure 3: convex problems, tuned baselines against GradaGrad untuned",
    plan=plan,
)


def draw(frame: Frame) -> list[Picture]:
    """Accuracy, loss, sensitivity and learning rates."""
    return figure3_draw.pictures(frame, reduction(frame))


def tables(frame: Frame) -> list[Table]:
    """In the order of the page."""
    details, trials = frame.details, frame.details.trials
    found = [
        figure3_tables.main(
            frame, trials, "GradaGrad untuned against the best and the lowest of three tuned methods: accuracy in %"
        ),
        figure3_tables.reasons(frame, trials),
    ]
    if details.softmax:
        title = "The same under the second reading, soft-max, 100 epochs: accuracy in %"
        found += [figure3_tables.main(frame, details.softmax, title), figure3_tables.schedules(frame)]
    return [
        *found,
        figure3_tables.initial_rates(frame, trials),
        figure3_tables.variants(frame, trials),
        figure3_tables.tuning(frame, trials),
        figure3_tables.loss(frame, trials),
        *([figure3_tables.peers(frame, trials)] if frame.context.peers else []),
    ]


def claims(frame: Frame) -> list[Claim]:
    """The paper's sentences, then ours."""
    return figure3_claims.all_claims(frame)


def about(frame: Frame) -> About:
    """Words around the figure."""
    trials: list[Trial] = frame.details.trials
    found = {beta: figure3_tables.contests(frame, trials, method) for beta, method in HEADLINES.items()}
    told = " and ".join(
        f"{figure3_tables.signed(float(np.mean([one.difference(one.best) for one in group])))} points at {beta} (a "
        f"match on {sum(bool(one.matches) for one in group)} of {len(group)} sets)"
        for beta, group in found.items()
    )
    loss = "Soft-max" if frame.context.softmax else "One-vs-rest"
    return About(
        intro=f"{loss} logistic regression, batch 16, no preprocessing. Adam, SGD and AdaGrad are each tuned on a "
        "power-of-two grid from 2^-12 to 2^6 for the highest training accuracy over the last epochs; GradaGrad runs "
        "once, at γ₀ = 1 and ρ = 2. The paper states neither batch, epochs nor momentum β, and says “binary logistic "
        "regression” of sets with up to 26 classes: β = 0 and 0.9 are shown throughout, a second reading (soft-max) in "
        "tables of its own; `--softmax` shows everything under that one." + reduction(frame),
        summary=f"Untuned GradaGrad (γ₀ = 1, ρ = 2) against the best of tuned Adam, SGD and AdaGrad, mean over "
        f"{len(trials)} sets: {told}.",
        settings={
            "size": frame.context.size,
            "seeds": str(len(trials[0].seeds)),
            "epochs": ", ".join(f"{trial.label} {trial.epochs}" for trial in trials),
            "batch": str(trials[0].problem.batch),
            "loss": trials[0].problem.loss,
            "peers": "yes" if frame.context.peers else "no",
        },
        answers=[
            f"GradaGrad itself, as a drop-in for AdaGrad that is not tuned (γ₀ = 1, ρ = 2), on {len(trials)} convex "
            f"problems against the best of three tuned methods, in points of training accuracy: {told}."
            + reduction(frame)
        ],
        sources=[Source(trial.label, trial.problem.data.source, trial.problem.data.describe()) for trial in trials],
    )


def reduction(frame: Frame) -> str:
    """What was left out of the paper's protocol, in a sentence; empty where nothing was."""
    trials: list[Trial] = frame.details.trials
    said: list[str] = []
    seeds = len(trials[0].seeds)
    short = [trial for trial in trials if trial.epochs != FULL_EPOCHS]
    if seeds != FULL_SEEDS:
        said.append(f"{seeds} seeds instead of {FULL_SEEDS}")
    if short:
        said.append(f"fewer epochs than {FULL_EPOCHS} ({', '.join(f'{one.label} {one.epochs}' for one in short)})")
    missing = [name for name in CATALOGUE if name not in {trial.name for trial in trials}]
    if len(missing) == len(CATALOGUE):
        said.append("scikit-learn's bundled sets as stand-ins, because none of the paper's six sets was found")
    elif missing:
        said.append(f"without {' and '.join(missing)}, not found here")
    size = "Quick size" if frame.context.quick else "Differences to the paper's protocol"
    return f" {size}: {'; '.join(said)}." if said else ""
