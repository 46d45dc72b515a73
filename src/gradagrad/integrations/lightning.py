"""For Lightning: the learning rate in its loggers; validation, checkpoints and the result at the average."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch import callbacks
from torch import Tensor

from gradagrad.averaging import forward
from gradagrad.integrations._at_average import AtAverage, shown
from gradagrad.integrations.wrappers import ours
from gradagrad.monitoring.diagnostics import readings

POINTS = "gradagrad_points"
"""The key of the iterates in a checkpoint. Training resumes from them, and ``state_dict`` holds the average."""


class GradaGradCallback(pl.Callback):
    """Logs γ and the learning rate whenever Lightning logs, and evaluates and saves at the average if there is one.

    With ``AutoGradaGrad``, validation runs at the average, the ``state_dict`` of a checkpoint is the average
    (``load_from_checkpoint`` reads it), and the model is the average after `fit`. Resuming with ``ckpt_path`` starts
    from the iterates. The callback does not touch the parameters of other optimizers.

    Args:
        log: False logs nothing.
        average: False always uses the parameters.
        batches: training batches that measure BatchNorm's statistics at the average, for example a `DataLoader`. If a
            batch is a tuple, its first entry is the input. If the module has no ``forward``, its ``training_step`` runs
            without gradients and without logging. None keeps the statistics of training. They are measured at every
            validation and checkpoint, so pass only a few batches.
    """

    def __init__(self, *, log: bool = True, average: bool = True, batches: Iterable[Any] | None = None) -> None:
        self._log, self._average = log, average
        self._at = AtAverage(batches, _forward)
        self._logged = 0

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Makes training continue from the iterates."""
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
        """Validates at the average. Outside `fit` the weights stay as they are."""
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
        """After any failure the model holds the iterates."""
        self._at.leave()

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Saves the average in place of the iterates, and the iterates beside it."""
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
    """Lightning's monitor, which shows the effective learning rate of our optimizers instead of ``lr``.

    In AutoGradaGrad, ``lr`` is only a factor, usually 1.
    """

    def on_train_start(self, trainer: pl.Trainer, *args: Any, **kwargs: Any) -> None:
        """Finds our optimizers."""
        self._ours = ours(trainer.optimizers)
        super().on_train_start(trainer, *args, **kwargs)

    def _extract_lr(self, param_group: dict[str, Any], name: str) -> dict[str, Any]:
        for optimizer in self._ours:
            if any(group is param_group for group in optimizer.param_groups):
                rate = readings(optimizer, param_group)["effective_lr"]
                return super()._extract_lr({**param_group, "lr": rate}, name)
        return super()._extract_lr(param_group, name)


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
