"""The average for users: ``with optimizer.averaged()`` and the averaged weights."""

import signal
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from gradagrad import sharding
from gradagrad.engine.batch import Batch
from gradagrad.engine.optimizer import EngineOptimizer
from gradagrad.engine.state import has_stepped
from gradagrad.torch_ops.ops import computing_dtype, real_view

_INSIDE = (
    "step, state_dict and load_state_dict must be called outside of `with optimizer.averaged()`: the parameters hold "
    "averages there, and training goes on from the iterates."
)


class Averaged(EngineOptimizer):
    """An optimizer whose rule tells the average of its iterates from the parameters and the state."""

    _averaged_depth = 0
    """How many `averaged` blocks are open."""

    _iterates: Mapping[Tensor, Tensor] = MappingProxyType({})
    """What a block has yet to put back."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As in the base class; a copied or loaded optimizer is outside every block."""
        super().__setstate__(state)
        self._averaged_depth, self._cannot_step, self._iterates = 0, "", {}

    @contextmanager
    def averaged(self, model: torch.nn.Module | None = None, batches: Iterable[Any] | None = None) -> Generator[None]:
        """Puts the averages into the parameters inside the block, and restores the iterates bit for bit afterwards.

        Needs memory for one copy of the parameters. Blocks may be nested; the outermost one restores. BatchNorm's
        running statistics belong to the iterates. With ``model`` and ``batches`` they are measured at the average, and
        put back afterwards. Without both they are left alone, and what ``torch.optim.swa_utils.update_bn`` measures
        inside stays after the block.

        Example:
            >>> with optimizer.averaged():  # doctest: +SKIP
            ...     accuracy = evaluate(model)
        """
        self._averaged_depth += 1
        self._cannot_step = _INSIDE
        outermost = self._averaged_depth == 1
        try:
            norms = [] if model is None or batches is None else norms_of(model)
            if outermost and self._iterates:
                self._put_back()
            averages = self._averages() if outermost else {}
            kept = copies([*averages, *chain.from_iterable(norm.buffers() for norm in norms)])
            self._iterates = {**kept, **self._iterates}
            with uninterrupted():
                put(averages)
            if norms:
                measure(model, norms, batches, forward)
            yield
        finally:
            self._averaged_depth -= 1
            self._cannot_step = _INSIDE if self._averaged_depth else ""
            if outermost:
                self._put_back()

    def _put_back(self) -> None:
        """Ends a block. An exception that comes before this has begun leaves it to the next step, block or saving."""
        with uninterrupted():
            try:
                put(self._iterates)
            except RuntimeError:  # All that can be put back has been.
                self._iterates = {}
                raise
            self._iterates = {}

    def _catch_up(self) -> None:
        if self._iterates and not self._averaged_depth:
            self._put_back()
        super()._catch_up()

    def _batches(self, parts: Sequence[tuple[int, Mapping[str, Any]]] = ()) -> list[Batch]:
        if not torch.compiler.is_compiling() and self._iterates:
            self._put_back()
        return super()._batches(parts)

    @torch.no_grad()
    def _averages(self) -> dict[Tensor, Tensor]:
        """What each parameter's average is on this rank."""
        self._catch_up()
        result: dict[Tensor, Tensor] = {}
        for group in self.param_groups:
            settings = self._settings(group)
            keys = [field.key for field in self.rule.fields(settings) if field.at == "element"]
            for parameter in (p for p in group["params"] if has_stepped(self, p)):
                dtype, state = computing_dtype(parameter.dtype), self.state[parameter]
                values = {key: sharding.local(state[key]).to(dtype) for key in keys}
                values["x"] = real_view(sharding.local(parameter.detach())).to(dtype)
                result[parameter] = self.rule.average(values, settings)
        return result

    @torch.no_grad()
    def _stay(self) -> None:
        """Training goes on from the averages, which the parameters hold now."""
        for state in filter(None, map(self.state.get, self._parameters())):
            for key in self.rule.distances:
                sharding.local(state[key]).zero_()

    def averaged_state_dict(self, model: torch.nn.Module) -> dict[str, Any]:
        """A copy of the model's state dict with averaged weights, for export."""
        with self.averaged():
            result = model.state_dict()
            for name, value in result.items():
                if isinstance(value, Tensor):
                    result[name] = value.detach().clone()
            return result


def copies(tensors: Iterable[Tensor]) -> dict[Tensor, Tensor]:
    """What parameters and buffers hold on this rank."""
    return {tensor: sharding.local(tensor.detach()).clone() for tensor in tensors}


@torch.no_grad()
def put(values: Mapping[Tensor, Tensor]) -> None:
    """Writes copies, or averages, into parameters and buffers: all of them that still have their shape."""
    resized: list[Tensor] = []
    for target, value in values.items():
        place = sharding.local(target.detach())
        place = place if value.dtype.is_complex else real_view(place)
        if place.shape == value.shape:
            place.copy_(value)
        else:
            resized.append(target)
    if resized:
        raise RuntimeError(
            f"{len(resized)} parameters were resized inside `with optimizer.averaged()`, the first to "
            f"{tuple(resized[0].shape)}; they keep their new values, and all others were restored."
        )


def norms_of(model: torch.nn.Module) -> list[_BatchNorm]:
    """The layers of a model that have running statistics."""
    return [m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]


@torch.no_grad()
def measure(
    model: Any, norms: Sequence[_BatchNorm], batches: Iterable[Any] | None, run: Callable[[Any, Any], None]
) -> None:
    """Measures BatchNorm's statistics over batches, which all count alike.

    As torch's `update_bn`, but only these layers are in training mode: no dropout, and no random number is drawn.
    """
    was_training = {module: module.training for module in model.modules()}
    momenta = [norm.momentum for norm in norms]
    device = next(model.parameters()).device
    model.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean
        norm.train()
    try:
        for batch in batches or ():
            run(model, _on(device, batch))
        if not norms[0].num_batches_tracked:
            raise ValueError("batches must yield at least one batch each time. A generator works only once.")
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for module, training in was_training.items():
            module.training = training


def forward(model: torch.nn.Module, batch: Any) -> None:
    """Calls the model. A dictionary's entries are arguments by name; of a pair the first is the input."""
    if isinstance(batch, Mapping):
        model(**batch)
    else:
        model(batch[0] if isinstance(batch, list | tuple) else batch)


def _on(device: torch.device, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return {key: _on(device, value) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        return [_on(device, value) for value in batch]
    return batch.to(device) if isinstance(batch, Tensor) else batch


# The signals that user code usually catches; others end the process, or are rare.
_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGVTALRM", "SIGPROF")
    if hasattr(signal, name)
]


@contextmanager
def uninterrupted() -> Generator[None]:
    """Postpones signal handlers that are written in Python to the end of the block.

    Python runs handlers in the main thread only, so there is nothing to do in others.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[tuple[Any, Any]] = []
    handlers = {number: handler for number in _SIGNALS if callable(handler := signal.getsignal(number))}
    with ExitStack() as ending:  # It calls everything, whatever they raise, the last one first.
        ending.callback(_deliver, arrived, handlers)
        for number, handler in handlers.items():
            ending.callback(signal.signal, number, handler)
            signal.signal(number, lambda number, frame: arrived.append((number, frame)))
        yield


def _deliver(arrived: Sequence[tuple[Any, Any]], handlers: Mapping[Any, Any]) -> None:
    """Calls the handlers of all signals, in order, whatever they raise."""
    with ExitStack() as calls:
        for number, frame in reversed(arrived):
            calls.callback(handlers[number], number, frame)
