"""The suite's pictures: performance profiles, ratios problem by problem, and the sweep of γ₀."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from gradagrad_lab import style
from gradagrad_lab.context import Context
from gradagrad_lab.suite.catalogue import STATUS_WORDS, Entry
from gradagrad_lab.suite.methods import BY_KEY, DEFAULT_GAMMA0, FLAT_FROM, FLAT_TO, OURS, Method
from gradagrad_lab.suite.standings import Standings
from gradagrad_lab.suite.statistics import profile

# The two comparisons drawn side by side; DoG with the average its authors recommend.
_TUNED = ("sgd", "adagrad", "adam", "sgd-averaged", "adagrad-averaged", "adam-averaged")
_PEERS = ("prodigy", "dadapt_adam", "dog-averaged", "cocob", "schedulefree", "element")
_LARGEST_FACTOR, _EDGE = 20.0, 8.0
_SHORT = {
    "sgd": "SGD, tuned",
    "adagrad": "AdaGrad, tuned",
    "adam": "Adam, tuned",
    "sgd-averaged": "SGD, tuned, averaged",
    "adagrad-averaged": "AdaGrad, tuned, averaged",
    "adam-averaged": "Adam, tuned, averaged",
    "dadapt_adam": "D-Adapt Adam",
    "element": "GradaGrad",
}


def all_pictures(context: Context, standings: Standings) -> None:
    """Draw everything."""
    style.save(
        profiles(standings, 2, style.WIDE), context, "suite-profile", narrow=profiles(standings, 1, style.NARROW * 1.15)
    )
    style.save(ratios(standings, style.WIDE), context, "suite-ratios", narrow=ratios(standings, style.NARROW * 1.25))
    style.save(
        sweeps(standings, 5, style.WIDE), context, "suite-sweep", narrow=sweeps(standings, 3, style.NARROW * 1.25)
    )


def _factor_axis(axes: Axes, ticks: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def profiles(standings: Standings, columns: int, width: float) -> Figure:
    """Rows: held-out problems, all problems. Columns: beside tuned baselines, beside parameter-free peers."""
    panels = [(held_out, keys) for held_out in (True, False) for keys in (_TUNED, _PEERS)]
    rows = len(panels) // columns
    figure, grid = style.subplots(rows, columns, width=width, height=0.4 + 2.95 * rows)
    factors = np.geomspace(1.0, _LARGEST_FACTOR, 400)
    with style.use():
        for axes, (held_out, keys) in zip(grid.flat, panels, strict=True):
            _profile(axes, standings, held_out, keys, factors)
    return figure


def _profile(axes: Axes, standings: Standings, held_out: bool, keys: Sequence[str], factors: np.ndarray) -> None:
    shown = {method.key: method for method in standings.size.methods}
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
                look |= {"linestyle": "-", "linewidth": 1.2}
            axes.step(factors, curves[key], where="post", label=_SHORT.get(key, BY_KEY[key].title), **look)
    own: dict[str, Any] = {"color": style.colour("autogradagrad"), "linewidth": 2.8}
    axes.step(factors, curves[OURS.key], where="post", label="AutoGradaGrad", **own)
    _factor_axis(axes, (1, 1.3, 2, 5, 10, 20))
    axes.set_xlim(1.0, _LARGEST_FACTOR)
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylabel("share of problems")
    axes.set_xlabel("within this factor of the best")
    what = f"{len(entries)} held-out problems" if held_out else f"all {len(entries)} problems"
    axes.set_title(what + (", tuned baselines" if keys is _TUNED else ", no tuning"), fontsize=9.5)
    axes.legend(loc="lower right", fontsize=7.5, handlelength=2.6)


def ratios(standings: Standings, width: float) -> Figure:
    """A line per problem: ours with its interval, tuned Adam averaged, and the peers; grouped by use."""
    rows = _grouped(standings.entries())
    peers = [method for method in standings.size.methods if method.key in _PEERS and method.role == "peer"]
    everyone = [*peers, BY_KEY["adam-averaged"], OURS]
    figure, grid = style.subplots(1, 1, width=width, height=1.3 + 0.25 * len(rows))
    axes: Axes = grid[0, 0]
    with style.use():
        axes.axvline(1.0, color=style.INK, linewidth=1.0)
        axes.axvline(1.3, color=style.MUTED, linewidth=1.0, linestyle=(0, (4, 2)))
        _name_signs(axes, peers)
        for place, entry in enumerate(rows):
            if isinstance(entry, Entry):
                _dots(axes, standings, entry, place, peers)
        _factor_axis(axes, (0.1, 0.2, 0.5, 1, 1.3, 2, 4, 8))
        found = [standings.pairing(entry, method).ratio() for entry in standings.entries() for method in everyone]
        axes.set_xlim(max(0.9 * min(found), 0.02), _EDGE * 1.08)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        texts = [entry.problem.title if isinstance(entry, Entry) else f"{entry}:" for entry in rows]
        axes.set_yticks(range(len(rows)), texts)
        for label, entry in zip(axes.get_yticklabels(), rows, strict=True):
            if isinstance(entry, str):
                label.set_fontweight("bold")
                label.set_color(style.INK)
        axes.set_xlabel("final training loss ÷ best tuned baseline's")
        figure.legend(loc="outside upper left", ncols=3 if width > 6 else 2, fontsize=8)
    return figure


def _grouped(entries: Sequence[Entry]) -> list[Entry | str]:
    """Held-out problems first, each group under its name."""
    rows: list[Entry | str] = []
    for status in ("held out", "seen", "development"):
        group = [entry for entry in entries if entry.status == status]
        rows += [STATUS_WORDS[status], *group] if group else []
    return rows


def _looks(peers: Sequence[Method]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Words and marker of everyone in the picture, by method."""
    bar = {"marker": "|", "markersize": 9, "markeredgewidth": 2, "color": style.colour("adam"), "zorder": 4}
    ball = {"marker": "o", "markersize": 6.5, "color": style.colour("autogradagrad"), "zorder": 3}
    looks: dict[str, tuple[str, dict[str, Any]]] = {
        OURS.key: ("AutoGradaGrad, 95 % interval", ball),
        "adam-averaged": ("Adam, tuned and averaged", bar),
    }
    for sign, peer in zip("ovsDP", peers, strict=False):
        look = {"marker": sign, "markersize": 4.2, "markerfacecolor": "none", "color": style.colour(peer.optimizer)}
        looks[peer.key] = (_SHORT.get(peer.key, peer.title), look)
    return looks


def _name_signs(axes: Axes, peers: Sequence[Method]) -> None:
    """The legend's entries, from points that are not there: a point beyond the edge is drawn with another sign."""
    for words, look in _looks(peers).values():
        axes.plot([], [], linestyle="none", label=words, **look)


def _dots(axes: Axes, standings: Standings, entry: Entry, row: int, peers: Sequence[Method]) -> None:
    own = standings.standing(OURS).intervals[standings.entries().index(entry)]
    ends = [min(own.low, _EDGE), min(own.high, _EDGE)]
    axes.plot(ends, [row, row], color=style.colour("autogradagrad"), linewidth=2.2, zorder=3)
    for key, (_, look) in _looks(peers).items():
        value = standings.pairing(entry, BY_KEY[key]).ratio()
        sign: dict[str, Any] = {"marker": ">"} if value > _EDGE else {}
        axes.plot(min(value, _EDGE), row, linestyle="none", **{**look, **sign})


def sweeps(standings: Standings, columns: int, width: float) -> Figure:
    """One small panel per problem: the final loss from every γ₀, relative to the best tuned baseline."""
    entries = [entry for entry in _grouped(standings.entries()) if isinstance(entry, Entry)]
    rows = -(-len(entries) // columns)
    figure, grid = style.subplots(rows, columns, width=width, height=0.3 + 1.42 * rows, sharex=True, sharey=True)
    initial = np.array(standings.size.sweep)
    with style.use():
        for place, (axes, entry) in enumerate(zip(grid.flat, entries, strict=False)):
            among = len(standings.size.sweep_seeds)  # the sweep takes the first of the suite's seeds
            reference = float(standings.losses(entry, standings.best_tuned(entry))[:among].mean())
            losses = standings.sweep(entry) / max(reference, standings.floor(entry))
            at_default = losses[standings.size.sweep.index(DEFAULT_GAMMA0)]
            axes.axvspan(FLAT_FROM, FLAT_TO, color=style.GRID, alpha=0.6, linewidth=0)
            axes.fill_between([FLAT_FROM, FLAT_TO], 0.9 * at_default, 1.1 * at_default, color=style.MUTED, alpha=0.3)
            axes.axhline(1.0, color=style.INK, linewidth=0.8)
            clipped = np.clip(losses, 0.2, 20)
            axes.plot(initial, clipped, color=style.colour("autogradagrad"), marker="o", markersize=2.6, linewidth=1.4)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_ylim(0.2, 20)
            axes.xaxis.set_major_locator(FixedLocator([1e-10, 1e-5, 1.0] if len(initial) > 3 else list(initial)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_locator(FixedLocator([0.2, 1, 10]))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.tick_params(labelsize=7.5)
            axes.set_title(entry.problem.title, fontsize=7.5, fontweight="normal", pad=3)
            if place + columns >= len(entries):
                axes.set_xlabel("γ₀", fontsize=8)
                axes.tick_params(labelbottom=True)
        for axes in list(grid.flat)[len(entries) :]:
            axes.set_visible(False)
        figure.supylabel("loss ÷ best tuned", fontsize=9, color=style.MUTED)
    return figure
