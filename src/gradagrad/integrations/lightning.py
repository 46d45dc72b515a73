"""A callback for Lightning, which logs the learning rate, and evaluates and saves at the average."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch import callbacks
from torch import Tensor

from gradagrad.averaging import forward
from gradagrad.integrations.wrappers import averaging, shown, to_average


class GradaGradCallback(pl.Callback):
    """Logs γ and the learning rate whenever Lightning logs, and evaluates and saves at the average if there is one.

    Lightning calls neither ``optimizer.eval()`` nor ``optimizer.train()``, so the callback does. With
    ``AutoGradaGrad``, validation runs at the average, checkpoints hold the average and an optimizer in eval mode, and
    the model is the average after `fit`. Resuming with ``ckpt_path`` continues the run within rounding. The callback
    does not touch the parameters of other optimizers.

    Args:
        log: False logs nothing.
        average: False always uses the parameters.
        batches: training batches that measure BatchNorm's statistics at the average, for example a `DataLoader`. If a
            batch is a tuple, its first entry is the input. If the module has no ``forward``, its ``training_step`` runs
            without gradients and without logging. None keeps the statistics of training. They are measured at every
            validation and checkpoint, so pass only a few batches.
    """

    def __init__(self, *, log: bool = True, average: bool = True, batches: Iterable[Any] | None = None) -> None:
        self._log, self._average, self._batches = log, average, batches
        self._logged = 0

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Refuses a callback that puts another average into the model."""
        others = [c for c in trainer.callbacks if isinstance(c, callbacks.WeightAveraging)]  # pyright: ignore[reportAttributeAccessIssue]
        if self._average and others:
            raise ValueError(
                f"{type(others[0]).__name__} and GradaGradCallback would both put an average into the model, and a "
                "resumed run would start from a mixture. Remove one, or pass GradaGradCallback(average=False)."
            )

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Trains from the iterates."""
        for optimizer in averaging(trainer.optimizers):
            optimizer.train()

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
            self.on_train_end(trainer, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The result is the average."""
        if self._average:
            to_average(trainer.optimizers, pl_module, self._batches, _forward)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Saves the average, and optimizers that know it."""
        if self._average and any(optimizer._iterates is None for optimizer in averaging(trainer.optimizers)):
            self.on_train_end(trainer, pl_module)
            state = trainer.strategy.lightning_module_state_dict()  # Its tensors change with the model.
            saved = {name: a.detach().clone() if isinstance(a, Tensor) else a for name, a in state.items()}
            states = [trainer.strategy.optimizer_state(optimizer) for optimizer in trainer.optimizers]
            checkpoint.update(state_dict=saved, optimizer_states=states)
            self.on_train_batch_start(trainer, pl_module, None, 0)


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
