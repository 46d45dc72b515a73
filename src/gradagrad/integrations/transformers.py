"""A callback for the Hugging Face Trainer, which logs the learning rate and saves at the average."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from transformers import DefaultFlowCallback, Trainer, TrainerCallback

from gradagrad.integrations.wrappers import ours, shown, to_average

FIRST = "gradagrad/group0/effective_lr"
TO_ZERO = ("linear", "cosine", "cosine_with_restarts", "polynomial")
"""Schedules that end at zero, or near it."""


class GradaGradCallback(TrainerCallback):
    """Adds γ and the learning rate to the Trainer's logs, and saves at the average if there is one.

    The logged ``learning_rate`` becomes the effective learning rate of the first param group. Without the callback it
    is ``lr``, which is only a factor in AutoGradaGrad.

    The Trainer itself calls ``optimizer.eval()`` before evaluations and ``optimizer.train()`` before steps. So with
    ``AutoGradaGrad``, evaluations, and checkpoints that follow one, are at the average without this callback. With it,
    every checkpoint and the result of ``train()`` are at the average. Resuming continues the run within rounding.

    ``Trainer(..., callbacks=[GradaGradCallback()])`` writes the numbers to ``log_history`` and to the screen. `attach`
    puts the callback before those that report to TensorBoard, Weights & Biases and others, so that they get them too.

    Args:
        log: False logs nothing.
        average: False leaves the average to the Trainer.
        batches: training batches that measure BatchNorm's statistics at the average: dictionaries of the model's
            arguments, or tuples whose first entry is the input. None keeps the statistics of training. They are
            measured at every evaluation and checkpoint, so pass only a few batches.

    Example:
        >>> trainer = GradaGradCallback().attach(Trainer(model, arguments, ...))  # doctest: +SKIP
    """

    def __init__(self, *, log: bool = True, average: bool = True, batches: Iterable[Any] | None = None) -> None:
        self._log, self._average, self._batches = log, average, batches
        self._warned = False

    def attach(self, trainer: Trainer) -> Trainer:
        """Adds the callback to a trainer, right after the one that decides what happens at the end of a step."""
        callbacks: list[Any] = trainer.callback_handler.callbacks
        flow = next((i for i, callback in enumerate(callbacks) if isinstance(callback, DefaultFlowCallback)), -1)
        callbacks.insert(flow + 1, self)
        return trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Warns once about a schedule that ends at zero, which is the Trainer's default."""
        kind = str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type))
        if not self._warned and kind in TO_ZERO and ours([kwargs["optimizer"]]):
            self._warned = True
            warnings.warn(
                f'lr_scheduler_type="{kind}" lowers the learning rate to zero, whatever γ is. To let γ decide, pass '
                'lr_scheduler_type="constant". The logged "gamma" leaves out the schedule, "effective_lr" includes it.',
                stacklevel=2,
            )

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Adds the numbers to those beside the loss."""
        if self._log and "loss" in kwargs["logs"]:
            readings = shown([kwargs["optimizer"]])
            if FIRST in readings:
                readings["learning_rate"] = readings[FIRST]
            kwargs["logs"].update(readings)
            state.log_history[-1].update(readings)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Switches to the average before an evaluation or a checkpoint. The Trainer switches back."""
        if self._average and (control.should_evaluate or control.should_save):
            to_average([kwargs["optimizer"]], kwargs["model"], self._batches)

    on_epoch_end = on_step_end

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The result is the average: the last one, or that of the best checkpoint, which the Trainer has loaded."""
        if self._average and not args.load_best_model_at_end:
            to_average([kwargs["optimizer"]], kwargs["model"], self._batches)
