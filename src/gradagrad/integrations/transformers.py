"""For the Hugging Face Trainer: the learning rate in its logs; evaluation, export and the result at the average."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import DefaultFlowCallback, PreTrainedModel, Trainer, TrainerCallback

from gradagrad.integrations._at_average import AtAverage, shown
from gradagrad.integrations.wrappers import ours

FOLDER = "average"
"""The folder in each checkpoint with a model to export, the average. Training resumes from the checkpoint itself."""
FIRST = "gradagrad/group0/effective_lr"
TO_ZERO = ("linear", "cosine", "cosine_with_restarts", "polynomial")
"""Schedules that end at zero, or near it."""
_WEIGHTS = "pytorch_model.bin"


class GradaGradCallback(TrainerCallback):
    """Adds γ and the learning rate to the Trainer's logs, and evaluates and exports at the average if there is one.

    The logged ``learning_rate`` becomes the effective learning rate of the first param group. Without the callback it
    is ``lr``, which is only a factor in AutoGradaGrad.

    With ``AutoGradaGrad``, evaluations during training run at the average, and each checkpoint has a folder ``average``
    for ``from_pretrained``. After ``train()`` the model is the average, with ``load_best_model_at_end`` that of the
    best checkpoint. Resuming starts from the iterates.

    ``Trainer(..., callbacks=[GradaGradCallback()])`` writes the numbers to ``log_history`` and to the screen. `attach`
    puts the callback before those that report to TensorBoard, Weights & Biases and others, so that they get them too.

    Args:
        log: False logs nothing.
        average: False always uses the parameters.
        batches: training batches that measure BatchNorm's statistics at the average: dictionaries of the model's
            arguments, or tuples whose first entry is the input. None keeps the statistics of training. They are
            measured at every evaluation and checkpoint, so pass only a few batches.

    Example:
        >>> trainer = GradaGradCallback().attach(Trainer(model, arguments, ...))  # doctest: +SKIP
    """

    def __init__(self, *, log: bool = True, average: bool = True, batches: Iterable[Any] | None = None) -> None:
        self._log, self._average = log, average
        self._at = AtAverage(batches)
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
        """Switches to the average if an evaluation is due."""
        if control.should_evaluate:
            self._enter(kwargs)

    on_epoch_end = on_step_end

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Back to the iterates."""
        if not self._at.leave() and control.should_evaluate and self._enter(kwargs):
            self._at.leave()
            warnings.warn(
                "this evaluation did not use the average, because a callback that runs after GradaGradCallback asked "
                "for it. List GradaGradCallback after that one.",
                stacklevel=2,
            )

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Makes sure that training is at the iterates, also after an evaluation that failed."""
        self._at.leave()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Writes the average into the checkpoint's folder."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if args.should_save and folder.is_dir() and self._enter(kwargs):
            _save(kwargs["model"], folder / FOLDER)
            self._at.leave()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The result is the average."""
        best = Path(state.best_model_checkpoint or "") / FOLDER
        if self._average and args.load_best_model_at_end and state.best_model_checkpoint and best.is_dir():
            _load(kwargs["model"], best)
        elif self._enter(kwargs):
            self._at.stay()

    def _enter(self, kwargs: dict[str, Any]) -> bool:
        return self._average and self._at.enter(kwargs["model"], [kwargs["optimizer"]])


def _save(model: nn.Module, folder: Path) -> None:
    if isinstance(model, PreTrainedModel):
        model.save_pretrained(folder)
    else:
        folder.mkdir(exist_ok=True)
        torch.save(model.state_dict(), folder / _WEIGHTS)


def _load(model: nn.Module, folder: Path) -> None:
    if isinstance(model, PreTrainedModel):
        model.load_state_dict(type(model).from_pretrained(folder).state_dict())
    else:
        model.load_state_dict(torch.load(folder / _WEIGHTS, weights_only=True))
