"""Figure 3: logistic regression on six LIBSVM data sets, three tuned baselines against GradaGrad untuned."""

from gradagrad_lab.figures.figure3.claims import all_claims, matches
from gradagrad_lab.figures.figure3.draw import pictures
from gradagrad_lab.figures.figure3.plan import labels, plan
from gradagrad_lab.figures.figure3.results import Results, all_tables, mean_difference, signed
from gradagrad_lab.report.content import About, Source
from gradagrad_lab.study import Study, count


def about(results: Results) -> About:
    """Words around the figure."""
    trials, context = results.trials, results.context
    agree = [f"{sum(bool(one.matches) for one in group)} ({beta})" for beta, group in results.contests.items()]
    auto = [signed(mean_difference(group)) for group in results.ours]
    loss = "Soft-max" if context.softmax else "One-vs-rest"
    return About(
        title=f"Your data: {labels(trials)}, tuned baselines against GradaGrad untuned" if context.files else "",
        intro=f"{loss} logistic regression, batch 16, no preprocessing. Adam, SGD and AdaGrad are each tuned on a "
        "power-of-two grid from 2^-12 to 2^6 for the highest training accuracy over the last epochs. GradaGrad runs "
        "once, at γ₀ = 1 and ρ = 2. The paper does not state the batch, the epochs or the momentum β, so β = 0 and "
        "0.9 are both shown. It calls the loss “binary logistic regression”, but the data sets have up to 26 classes: "
        "`--softmax` shows everything under the second reading." + results.reduction,
        paper="Nothing: these data are yours."
        if context.files
        else "GradaGrad without tuning reaches the training accuracy of tuned Adam, SGD and AdaGrad.",
        summary=f"GradaGrad matches the tuned methods on {' and '.join(agree)} of {count(len(trials), 'data set')}. "
        f"AutoGradaGrad, ours, differs from the best of them by {auto[1]} points at its average, and by {auto[2]} "
        "points if they are averaged too.",
        number=matches(results.contests).number,
        missing="".join(f"For LIBSVM's {name}, run `gradagrad data fetch {name}`. " for name, _ in results.lacks),
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
    title="Figure 3: convex problems, tuned baselines against GradaGrad untuned",
    plan=plan,
    read=Results,
    draw=pictures,
    tables=all_tables,
    claims=all_claims,
    about=about,
)
