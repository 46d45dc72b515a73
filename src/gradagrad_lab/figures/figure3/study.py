"""Figure 3: logistic regression on six LIBSVM data sets, three tuned baselines against GradaGrad untuned."""

from gradagrad_lab.figures.figure3.claims import all_claims
from gradagrad_lab.figures.figure3.draw import pictures
from gradagrad_lab.figures.figure3.plan import plan
from gradagrad_lab.figures.figure3.results import Results, mean_difference
from gradagrad_lab.figures.figure3.tables import all_tables, signed
from gradagrad_lab.report.content import About, Source
from gradagrad_lab.runs.study import Study


def about(results: Results) -> About:
    """Words around the figure."""
    trials, context = results.trials, results.context
    sentences = " and ".join(
        f"{signed(mean_difference(group))} points at {beta} (a match on "
        f"{sum(bool(one.matches) for one in group)} of {len(group)} data sets)"
        for beta, group in results.contests.items()
    )
    auto = [signed(mean_difference(group)) for group in results.ours]
    loss = "Soft-max" if context.softmax else "One-vs-rest"
    return About(
        intro=f"{loss} logistic regression, batch 16, no preprocessing. Adam, SGD and AdaGrad are each tuned on a "
        "power-of-two grid from 2^-12 to 2^6 for the highest training accuracy over the last epochs; GradaGrad runs "
        "once, at γ₀ = 1 and ρ = 2. The paper states neither batch, epochs nor momentum β, and says “binary logistic "
        "regression” of data sets with up to 26 classes: β = 0 and 0.9 are shown throughout, and `--softmax` shows "
        "everything under the second reading." + results.reduction,
        paper="GradaGrad without tuning reaches the training accuracy of tuned Adam, SGD and AdaGrad.",
        summary=f"Against the best of the tuned three, mean over the data sets, GradaGrad ends at {sentences}; our "
        f"untuned AutoGradaGrad at {auto[0]}, at its average {auto[1]} ({auto[2]} where the three are averaged, too).",
        number=f"{signed(mean_difference(results.contests['β = 0.9']))} points",
        missing="".join(
            f"{name}: put LIBSVM's file into the data folder, or run `gradagrad data fetch {name}`. "
            for name in results.missing
        ),
        settings={
            "size": context.size,
            "seeds": str(len(trials[0].seeds)),
            "epochs": ", ".join(f"{trial.label} {trial.epochs}" for trial in trials),
            "batch": str(trials[0].problem.batch),
            "loss": trials[0].problem.loss,
        },
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
