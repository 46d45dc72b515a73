"""Draws a history of learning rates. matplotlib is imported only when something is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gradagrad.monitoring.diagnostics import GroupDiagnostics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gradagrad.monitoring.recording import Record

_BANDS = ((0.0, 1.0, 0.12), (0.05, 0.95, 0.2), (0.25, 0.75, 0.3))


def plot_learning_rates(history: Sequence[Record], *, labels: Sequence[str] | None = None) -> Figure:
    """Draws γ, the step sizes and the effective learning rate over the steps, with one colour per param group.

    Lines are medians over blocks. Bands, from dark to light, contain half, 90 % and all of them. ``labels`` are names
    of the groups. AutoGradaGrad's γ is its effective learning rate, so its plot has only two panels.

    Example:
        >>> history = gradagrad.log_learning_rates(optimizer)  # doctest: +SKIP
        >>> ...  # train  # doctest: +SKIP
        >>> gradagrad.plot_learning_rates(history).savefig("learning_rates.png")  # doctest: +SKIP
    """
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError("plot_learning_rates needs matplotlib; install it with: pip install matplotlib") from error
    if not len(history):
        raise ValueError("history must hold at least one record, got none. Train some steps after log_learning_rates.")
    groups = len(history[-1].groups)
    names = [f"group {i}" for i in range(groups)] if labels is None else list(labels)
    if len(names) != groups:
        raise ValueError(f"labels must name the {groups} param groups, got {names!r}.")
    is_effective = all(group.effective_lr == group.gamma[0.5] for group in history[-1].groups)
    titles = ["effective learning rate γ", "step size γ/√a"]
    if not is_effective:
        titles = ["γ = lr · growth", "step size γ/√α", "effective learning rate γ/√step"]
    figure, panels = plt.subplots(1, len(titles), figsize=(4.0 * len(titles), 3.6), layout="constrained")
    for index, name in enumerate(names):
        _quantiles(panels[0], history, index, name, lambda group: group.gamma)
        _quantiles(panels[1], history, index, name, lambda group: group.step_size)
        if not is_effective:
            panels[2].plot(*_series(history, index, lambda group: group.effective_lr), label=name)
    for axes, title in zip(panels, titles, strict=True):
        axes.set(title=title, xlabel="step", yscale="log")
    if groups > 1 or labels is not None:
        panels[0].legend()
    return figure


def _series(
    history: Sequence[Record], index: int, value: Callable[[GroupDiagnostics], float]
) -> tuple[list[int], list[float]]:
    """One group's values; a group added later starts later."""
    records = [record for record in history if index < len(record.groups)]
    return [record.step for record in records], [value(record.groups[index]) for record in records]


def _quantiles(
    axes: Axes, history: Sequence[Record], index: int, name: str, of: Callable[[GroupDiagnostics], dict[float, float]]
) -> None:
    steps, median = _series(history, index, lambda group: of(group)[0.5])
    (line,) = axes.plot(steps, median, label=name)
    colour: Any = line.get_color()
    for low, high, opacity in _BANDS:
        lower = _series(history, index, lambda group, q=low: of(group)[q])[1]
        upper = _series(history, index, lambda group, q=high: of(group)[q])[1]
        axes.fill_between(steps, lower, upper, color=colour, alpha=opacity, linewidth=0)
