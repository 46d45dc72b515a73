"""For Lightning: the learning rate in its loggers; validation, checkpoints and the result at the average."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch import callbacks
from torch import Tensor

from gradagrad.averaging import forward
from gradagrad.integrations._at_average import AtAverage, shown
from gradagrad.monitoring.diagnostics import Reading

POINTS = "gradagrad_points"
"""Under this key a checkpoint holds the iterates that training goes on from, ``state_dict`` holding the average."""


class GradaGradCallback(pl.Callback):
    """Logs γ and the learning rate as often as Lightning logs, and works with the average where an optimizer keeps one.

    With ``AutoGradaGrad``: validation is at the average, a checkpoint's ``state_dict`` is the
    average (``load_from_checkpoint`` gives that), and after `fit` the model is. Resuming with ``ckpt_path`` goes on
    from the iterates. Other optimizers' parameters are left alone.

    Args:
        log: False logs nothing.
        average: False leaves the average to you.
        batches: training batches by which BatchNorm's statistics are measured at the average, a `DataLoader` for
            example; of a tuple the first entry is the input. A module without ``forward`` is run by its
            ``training_step``, without gradients and without logging. None leaves the statistics as training made them.
            Measured at every validation and checkpoint, so give as few as will do.
    """

    def __init__(self, *, log: bool = True, average: bool = True, batches: Iterable[Any] | None = None) -> None:
        self._log, self._average = log, average
        self._at = AtAverage(batches, _forward)
        self._logged = 0

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Training goes on from the iterates."""
        if stage == "fit":
            self._at.leave()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Logs when Lightning does."""
        step = trainer.global_step
        if not self._log or step == self._logged or step % trainer.log_every_n_steps:  # pyright: ignore[reportAttributeAccessIssue]
            return
        self._logged = step
        pl_module.log_dict(shown(trainer.optimizers))

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Validates at the average; outside of `fit` the weights are what they are."""
        if trainer.state.fn == "fit":
            self._enter(trainer, pl_module)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Back to the iterates."""
        if trainer.state.fn == "fit":
            self._at.leave()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The result is the average. The iterates are kept for a checkpoint or for more training."""
        self._enter(trainer, pl_module)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Whatever fails, the model is where training left it."""
        self._at.leave()

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """The average in the place of the iterates, and the iterates beside it."""
        was_inside = self._at.leave()
        if self._enter(trainer, pl_module):
            average = _copied(trainer)
            self._at.leave()
            checkpoint[POINTS], checkpoint["state_dict"] = _copied(trainer), average
        if was_inside:
            self._enter(trainer, pl_module)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Lightning has loaded the average by now; training needs the iterates."""
        if trainer.state.fn == "fit" and POINTS in checkpoint:
            trainer.strategy.load_model_state_dict({"state_dict": checkpoint[POINTS]}, strict=pl_module.strict_loading)

    def _enter(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> bool:
        return self._average and self._at.enter(pl_module, trainer.optimizers)


class LearningRateMonitor(callbacks.LearningRateMonitor):
    """Lightning's, but of our optimizers it shows the learning rate that γ makes instead of ``lr``, which for
    AutoGradaGrad is a factor, 1 as a rule."""

    def _extract_lr(self, param_group: dict[str, Any], name: str) -> dict[str, Any]:
        reading = param_group.get("effective_lr")
        if not isinstance(reading, Reading):
            return super()._extract_lr(param_group, name)
        rate = float(reading)
        return {} if math.isnan(rate) else super()._extract_lr({**param_group, "lr": rate}, name)  # no step yet


def _no_log(*_: Any, **__: Any) -> None: ...


def _forward(module: pl.LightningModule, batch: Any) -> None:
    """Runs the module on a batch, by its training_step where it has no forward."""
    if type(module).forward is not pl.LightningModule.forward:
        forward(module, batch)
        return
    if not module.automatic_optimization:
        raise TypeError(
            "batches needs a forward: this LightningModule has none, and it uses manual optimization. "
            "Define forward, or leave batches out."
        )
    parameters = inspect.signature(module.training_step).parameters
    module.__dict__.update({"log": _no_log, "log_dict": _no_log})
    try:
        module.training_step(batch, *([0] if len(parameters) > 1 else []))
    finally:
        for name in ("log", "log_dict"):
            del module.__dict__[name]


def _copied(trainer: pl.Trainer) -> dict[str, Any]:
    """The model's state dict, whose tensors would change with the model."""
    state = trainer.strategy.lightning_module_state_dict()
    return {name: value.detach().clone() if isinstance(value, Tensor) else value for name, value in state.items()}
