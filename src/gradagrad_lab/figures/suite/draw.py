"""The suite's pictures: performance profiles, and ratios problem by problem."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from gradagrad_lab.figures.suite.catalogue import Entry
from gradagrad_lab.figures.suite.plan import BY_KEY, OURS, OURS_AVERAGED, Contestant
from gradagrad_lab.figures.suite.results import Standings, factor, profile
from gradagrad_lab.figures.suite.tables import TREATMENT
from gradagrad_lab.report import style
from gradagrad_lab.report.content import Panel, Picture

# The two comparisons drawn side by side; DoG with the average its authors recommend.
_TUNED = ("sgd", "adagrad", "adam", "sgd-averaged", "adagrad-averaged", "adam-averaged")
_PEERS = ("prodigy", "dadapt_adam", "mechanic", "dog-averaged", "cocob", "schedulefree", "element")
_LARGEST_FACTOR, _EDGE = 20.0, 8.0
_THIN: dict[str, Any] = {"linestyle": "-", "linewidth": 1.2}


def _short(one: Contestant) -> str:
    title = one.title.replace(", momentum 0.9", "").replace("D-Adaptation", "D-Adapt")
    return title.replace(" element, as documented", "")


def pictures(standings: Standings) -> list[Picture]:
    """Everything drawn."""
    entries, own = standings.entries(), standings.standing(OURS)
    words = ", ".join(
        f"{entry.problem.title} {factor(ratio)}" for entry, ratio in zip(entries, own.ratios, strict=True)
    )
    near = int((standings.standing(OURS, True).ratios <= 1.1).sum())
    share = (
        "Share of problems on which a method's mean final training loss is within a factor of the best of all methods "
        f"of the suite, averaged ones included; higher is better. Seeds: {len(standings.size.seeds)}. Thin solid "
        f"lines: the same methods averaged.{standings.reduction}"
    )
    judged = [True] if len(entries) == len(standings.entries(True)) else [True, False]  # not the same problems twice
    profiles = [
        Picture(
            f"Performance profile: {beside}",
            stem,
            share,
            f"Rising step curves: AutoGradaGrad, untuned, {beside}. It is within 10 % of the best tuned baseline on "
            f"{near} of {len(standings.entries(True))} problems {standings.judged}.",
            [
                Panel(
                    lambda axes, judged_only=judged_only, keys=keys: _profile(axes, standings, judged_only, keys),
                    f"{len(standings.entries(judged_only))} problems, {standings.judged if judged_only else 'all'}",
                )
                for judged_only in judged
            ],
            columns=2,
            size=(4.2, 3.1),
        )
        for beside, stem, keys in (
            ("beside methods without tuning", "suite-profile", _PEERS),
            ("beside tuned baselines", "suite-profile-tuned", _TUNED),
        )
    ]
    return [
        *profiles,
        Picture(
            "Problem by problem",
            "suite-ratios",
            "Final training loss relative to the best tuned baseline at its last iterate (1, solid line); dashed: 1.5. "
            f"Marks at the right edge lie beyond it. {TREATMENT}{standings.reduction}",
            f"A line per problem with AutoGradaGrad's ratio and interval, and those of its peers. Its ratios: {words}.",
            [Panel(lambda axes: _ratios(axes, standings))],
            size=(4.9, 0.9 + 0.21 * len(_grouped(entries))),
        ),
    ]


def _factor_axis(axes: Axes, ticks: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _profile(axes: Axes, standings: Standings, held_out: bool, keys: Sequence[str]) -> None:
    factors = np.geomspace(1.0, _LARGEST_FACTOR, 120)
    shown = {method.key: method for method in standings.size.contestants}
    entries = standings.entries(held_out)
    # The best is the best of all methods of the suite, drawn here or not.
    losses = {
        key: np.array([max(float(standings.losses(e, method).mean()), standings.floor(e)) for e in entries])
        for key, method in shown.items()
    }
    curves = profile(losses, factors)
    for key in keys:
        if key in curves:
            look = style.line(BY_KEY[key].optimizer)
            if key.endswith("-averaged") and key in _TUNED:
                look |= _THIN
            axes.step(factors, curves[key], where="post", label=_short(BY_KEY[key]), **look)
    own: dict[str, Any] = {"color": style.colour("autogradagrad"), "linewidth": 2.8}
    axes.step(factors, curves[OURS.key], where="post", label="AutoGradaGrad", **own)
    axes.step(factors, curves[OURS_AVERAGED.key], where="post", label="AutoGradaGrad, averaged", **own | _THIN)
    _factor_axis(axes, (1, 1.5, 2, 5, 10, 20))
    axes.set_xlim(1.0, _LARGEST_FACTOR)
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("within this factor of the best")


def _ratios(axes: Axes, standings: Standings) -> None:
    """A line per problem: ours with its interval, tuned Adam averaged, and the peers; grouped by role."""
    rows = _grouped(standings.entries())
    peers = [one for one in standings.size.contestants if one.key in _PEERS and one.side == "peer"]
    everyone = [*peers, BY_KEY["adam-averaged"], OURS]
    axes.axvline(1.0, color=style.INK, linewidth=1.0)
    axes.axvline(1.5, color=style.MUTED, linewidth=1.0, linestyle=(0, (4, 2)))
    _name_signs(axes, peers)
    for place, entry in enumerate(rows):
        if isinstance(entry, Entry):
            _dots(axes, standings, entry, place, peers)
    _factor_axis(axes, (0.1, 0.2, 0.5, 1, 1.5, 2, 4, 8))
    found = [standings.pairing(entry, method).ratio() for entry in standings.entries() for method in everyone]
    axes.set_xlim(max(0.9 * min(found), 0.02), _EDGE * 1.08)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    texts = [entry.problem.title if isinstance(entry, Entry) else f"{entry}:" for entry in rows]
    axes.set_yticks(range(len(rows)), texts)
    for label, entry in zip(axes.get_yticklabels(), rows, strict=True):
        if isinstance(entry, str):
            label.set_fontweight("bold")
            label.set_color(style.INK)
    axes.set_xlabel("final training loss ÷ best tuned")


def _grouped(entries: Sequence[Entry]) -> list[Entry | str]:
    """Held-out problems first, each group under its name."""
    rows: list[Entry | str] = []
    for role in ("held out", "looked at", "development"):
        group = [entry for entry in entries if entry.role == role]
        rows += [role, *group] if group else []
    return rows


def _looks(peers: Sequence[Contestant]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Label and marker of each method in the picture."""
    bar = {"marker": "|", "markersize": 9, "markeredgewidth": 2, "color": style.colour("adam"), "zorder": 4}
    ball = {"marker": "o", "markersize": 6.5, "color": style.colour("autogradagrad"), "zorder": 3}
    looks: dict[str, tuple[str, dict[str, Any]]] = {
        OURS.key: ("AutoGradaGrad, 95 % interval", ball),
        "adam-averaged": ("Adam, tuned and averaged", bar),
    }
    for sign, peer in zip("ovsDP^", peers, strict=False):
        look = {"marker": sign, "markersize": 4.2, "markerfacecolor": "none", "color": style.colour(peer.optimizer)}
        looks[peer.key] = (_short(peer), look)
    return looks


def _name_signs(axes: Axes, peers: Sequence[Contestant]) -> None:
    """The legend's entries, made from empty lines, because a point beyond the edge is drawn with another sign."""
    for words, look in _looks(peers).values():
        axes.plot([], [], linestyle="none", label=words, **look)


def _dots(axes: Axes, standings: Standings, entry: Entry, row: int, peers: Sequence[Contestant]) -> None:
    own = standings.standing(OURS).intervals[standings.entries().index(entry)]
    ends = [min(own.low, _EDGE), min(own.high, _EDGE)]
    axes.plot(ends, [row, row], color=style.colour("autogradagrad"), linewidth=2.2, zorder=3)
    for key, (_, look) in _looks(peers).items():
        value = standings.pairing(entry, BY_KEY[key]).ratio()
        sign: dict[str, Any] = {"marker": ">"} if value > _EDGE else {}
        axes.plot(min(value, _EDGE), row, linestyle="none", **{**look, **sign})
