"""Figure 4: DLRM on a click stream with scalar GradaGrad, γ₀ from 1 to 1e-6, for ρ from 2 to 500.

The paper shows one run of each. Here every setting is trained from at least six initialisations, all shown, because
which picture comes out depends on the initialisation. Tuned SGD, AdaGrad, AdaGrad-norm, row-wise AdaGrad and Adam, the
element and row-wise variants and AutoGradaGrad are shown beside it.

There are three sizes. Quick and full have small networks and hashed tables; "paper" has the paper's own and takes days.
"""

from gradagrad_lab.figures.figure4.claims import all_claims, how_judged, in_a_sentence
from gradagrad_lab.figures.figure4.draw import pictures
from gradagrad_lab.figures.figure4.plan import DIAGONAL_RHO, INITIAL, plan
from gradagrad_lab.figures.figure4.results import Results, all_tables
from gradagrad_lab.report.content import About, Source
from gradagrad_lab.study import Study, count


def about(results: Results) -> About:
    """Words around the figure."""
    plan, setup, claims = results.plan, results.setup, all_claims(results)
    empty = "" if len(results.steps) > 1 else " There are too few steps for a curve, so none is drawn."
    widths = ["-".join(str(width) for width in layers) for layers in (setup.bottom, setup.top)]
    rhos = ", ".join(f"{rho:g}" for rho in results.rhos)
    return About(
        intro="DLRM on a click stream: 26 embedding tables of dimension 16 with sparse gradients, batch "
        f"{setup.batch}, one pass, no regularisation; one step size shared by all parameters (the paper's scalar "
        f"variant). Each setting is trained from {count(len(plan.seeds), 'initialisation')} on the "
        f"same rows in the same order.{results.reduction}{empty} {how_judged(results)}",
        paper="For large ρ every initial rate from 1 to 1e-6 trains alike; for small ρ the small rates stay behind.",
        summary=in_a_sentence(results) if results.enough else _undecided(results),
        number=claims[1].number if claims else "–",
        missing=""
        if setup.criteo
        else "A synthetic stream replaces Criteo's rows. To use them, put the Kaggle file into the data folder as "
        "criteo/train.txt and run `gradagrad reproduce figure4 --data-dir FOLDER`. ",
        settings={
            "rows": f"{setup.steps * setup.batch:,} trained on, {setup.held_out:,} held out",
            "batch": str(setup.batch),
            "tables": "every id has its row" if setup.paper else f"at most {setup.cap:,} rows a field, dimension 16",
            "networks": f"13-{widths[0]}-16 and 367-{widths[1]}-1",
            "γ₀": ", ".join(f"{initial:g}" for initial in INITIAL),
            "ρ": rhos if setup.paper else f"{rhos}; diagonal variants {', '.join(f'{rho:g}' for rho in DIAGONAL_RHO)}",
            "initialisations": f"{len(plan.seeds)}: {plan.seeds[0]} to {plan.seeds[-1]}",
            "tuned learning rates": ", ".join(f"{name} {results.rate(name)}" for name in results.best) or "none",
        },
        sources=[_source(results)],
    )


def _undecided(results: Results) -> str:
    """The summary after a few steps. It says nothing about ρ, because γ has had no time to grow."""
    text = f"γ cannot grow from 1e-6 in {count(results.setup.steps, 'step')}, so nothing is judged."
    if results.best:
        own, tuned = results.ends()
        text += f" Untuned AutoGradaGrad (averaged) ends at {own:.4f}; tuned AdaGrad ends at {tuned:.4f}."
    return text


def _source(results: Results) -> Source:
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
