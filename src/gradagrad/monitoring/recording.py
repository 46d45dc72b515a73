"""Learning rates over time: one call records them at every step and sends them to a logger."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradagrad.engine.optimizer import EngineOptimizer
from gradagrad.integrations.wrappers import unwrapped
from gradagrad.monitoring.diagnostics import GroupDiagnostics, show_all

Send = Callable[[dict[str, float], int], object]

# The quantiles worth a curve in a logger; a history keeps them all.
_LOGGED = {0.05: "p5", 0.5: "median", 0.95: "p95"}


@dataclass(frozen=True)
class Record:
    """The diagnostics of every param group after some step."""

    step: int
    groups: tuple[GroupDiagnostics, ...] = ()


class History(list[Record]):
    """What `log_learning_rates` has recorded so far, a list of records."""

    _stop: Callable[[], None] | None = None

    def stop(self) -> None:
        """Stops recording."""
        if self._stop is not None:
            self._stop()
        self._stop = None

    def to_dict(self) -> dict[str, list[float]]:
        """Columns by name: ``step``, then those of `gradagrad.learning_rates`, with NaN for unknown numbers."""
        rows = [_flat(record, "") for record in self]
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name.strip("/"): [row.get(name, math.nan) for row in rows] for name in names}
        return {"step": [record.step for record in self], **columns}


def learning_rates(optimizer: Any, prefix: str = "gradagrad") -> dict[str, float]:
    """The diagnostics as one flat dictionary for loggers, without numbers that are not known yet.

    Each group has quantiles (``gradagrad/group0/gamma_median``, ``step_size_p95``), ``effective_lr``,
    ``total_growth``, and ``non_finite`` if it is not 0; see `gradagrad.GroupDiagnostics`. ``optimizer`` may also be a
    wrapper, such as those of Lightning, accelerate, Opacus, SAM, Lookahead and ZeroRedundancyOptimizer. On a GPU this
    also updates ``param_groups[…]["d"]``, which a step does by itself on a CPU.

    Example:
        >>> import torch, gradagrad
        >>> weight = torch.nn.Parameter(torch.ones(3))
        >>> optimizer = gradagrad.GradaGrad([weight], lr=0.1)
        >>> weight.square().sum().backward()
        >>> optimizer.step()
        >>> round(gradagrad.learning_rates(optimizer)["gradagrad/group0/gamma_median"], 6)
        0.1
    """
    inner = unwrapped(optimizer)
    show_all(inner, waits=True)
    return _flat(_record(inner), prefix)


def log_learning_rates(optimizer: Any, logger: Any = None, *, every: int = 1, prefix: str = "gradagrad") -> History:
    """Records the learning rates after every ``every``-th step from now on, and sends them to ``logger``.

    ``logger`` is anything with ``add_scalar(name, value, step)`` (TensorBoard), ``add_scalars(prefix, values, step)``
    or ``log_metrics(values, step)`` (Lightning's loggers), or a function of ``(values, step)`` such as ``wandb.log``.
    Steps in between cost nothing.

    Example:
        >>> import torch, gradagrad
        >>> weight = torch.nn.Parameter(torch.ones(3))
        >>> optimizer = gradagrad.GradaGrad([weight], lr=0.1)
        >>> history = gradagrad.log_learning_rates(optimizer)
        >>> weight.square().sum().backward()
        >>> optimizer.step()
        >>> len(history)
        1
    """
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"every must be a whole number >= 1, got {every!r}. It counts optimizer steps.")
    send = _sender(logger, prefix)
    inner = unwrapped(optimizer)
    history = History()
    steps = 0

    def after(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps % every == 0:
            record = _record(inner)
            history.append(record)
            send(_flat(record, prefix), record.step)

    history._stop = inner.register_step_post_hook(after).remove
    return history


def _record(optimizer: EngineOptimizer) -> Record:
    groups = tuple(optimizer.diagnostics())
    return Record(max((group.step for group in groups), default=0), groups)


def _flat(record: Record, prefix: str) -> dict[str, float]:
    result: dict[str, float] = {}
    for index, group in enumerate(record.groups):
        names = {"effective_lr": group.effective_lr, "total_growth": group.total_growth}
        if group.non_finite:
            names["non_finite"] = float(group.non_finite)
        for quantile, word in _LOGGED.items():
            names |= {f"gamma_{word}": group.gamma[quantile], f"step_size_{word}": group.step_size[quantile]}
        result |= {f"{prefix}/group{index}/{name}": value for name, value in names.items()}
    return {name: value for name, value in result.items() if not math.isnan(value)}


def _sender(logger: Any, prefix: str) -> Send:
    if logger is None:
        return lambda values, step: None
    if hasattr(logger, "add_scalar"):
        return lambda values, step: [logger.add_scalar(name, value, step) for name, value in values.items()]
    if hasattr(logger, "add_scalars"):
        return lambda values, step: logger.add_scalars(prefix, values, step)
    if hasattr(logger, "log_metrics"):
        return lambda values, step: logger.log_metrics(values, step)
    if callable(logger):
        return logger
    raise TypeError(
        "logger must have add_scalar, add_scalars or log_metrics, or be a function of (values, step), got "
        f"{type(logger).__name__}. Wrap yours: lambda values, step: ..."
    )
