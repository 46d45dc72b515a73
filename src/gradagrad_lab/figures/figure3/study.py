"""Figure 3: logistic regression on six LIBSVM data sets, three tuned baselines against GradaGrad untuned."""

import numpy as np

from gradagrad_lab.figures.figure3.claims import all_claims
from gradagrad_lab.figures.figure3.draw import pictures
from gradagrad_lab.figures.figure3.plan import plan
from gradagrad_lab.figures.figure3.results import Results
from gradagrad_lab.figures.figure3.tables import all_tables, signed
from gradagrad_lab.report.content import About, Source
from gradagrad_lab.runs.study import Study


def about(results: Results) -> About:
    """Words around the figure."""
    trials, context = results.trials, results.context
    sentences = " and ".join(
        f"{signed(float(np.mean([one.difference(one.best) for one in group])))} points at {beta} (a "
        f"match on {sum(bool(one.matches) for one in group)} of {len(group)} data sets)"
        for beta, group in results.contests.items()
    )
    loss = "Soft-max" if context.softmax else "One-vs-rest"
    return About(
        intro=f"{loss} logistic regression, batch 16, no preprocessing. Adam, SGD and AdaGrad are each tuned on a "
        "power-of-two grid from 2^-12 to 2^6 for the highest training accuracy over the last epochs; GradaGrad runs "
        "once, at γ₀ = 1 and ρ = 2. The paper states neither batch, epochs nor momentum β, and says “binary logistic "
        "regression” of data sets with up to 26 classes: β = 0 and 0.9 are shown throughout, a second reading "
        "(soft-max) in tables of its own; `--softmax` shows everything under that one." + results.reduction,
        summary=f"Untuned GradaGrad (γ₀ = 1, ρ = 2) against the best of tuned Adam, SGD and AdaGrad, mean over "
        f"{len(trials)} data sets: {sentences}.",
        settings={
            "size": context.size,
            "seeds": str(len(trials[0].seeds)),
            "epochs": ", ".join(f"{trial.label} {trial.epochs}" for trial in trials),
            "batch": str(trials[0].problem.batch),
            "loss": trials[0].problem.loss,
            "peers": "yes" if context.peers else "no",
        },
        answers=[
            f"GradaGrad itself, as a drop-in for AdaGrad that is not tuned (γ₀ = 1, ρ = 2), on {len(trials)} convex "
            f"problems against the best of three tuned methods, in points of training accuracy: {sentences}."
            + results.reduction
        ],
        sources=[Source(trial.label, trial.problem.data.source, trial.problem.data.describe()) for trial in trials],
    )


STUDY = Study(
    name="figure3",
    shows="logistic regression on six data sets against tuned baselines",
    title="Figure 3: convex problems, tuned baselines against GradaGrad untuned",
    plan=plan,
    read=Results,
    draw=pictures,
    tables=all_tables,
    claims=all_claims,
    about=about,
)
