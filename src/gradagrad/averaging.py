"""The average for users: the modes `eval` and `train`, ``with optimizer.averaged()`` and the averaged weights."""

import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.optimizer import StateDict

from gradagrad import sharding
from gradagrad.engine.optimizer import EngineOptimizer
from gradagrad.engine.state import has_stepped
from gradagrad.torch_ops.ops import computing_dtype, real_view

_IN_EVAL = (
    "the optimizer is in eval mode: the parameters hold averages, and steps need the iterates. Call optimizer.train() "
    "first, or leave the block `with optimizer.averaged()`. A state dict saved in eval mode loads in eval mode."
)


class Averaged(EngineOptimizer):
    """An optimizer whose rule tells the average of its iterates from the parameters and the state.

    It is in one of two modes. The parameters are the iterates in train mode, and the averages in eval mode.
    """

    _iterates: dict[Tensor, Tensor] | None = None
    """In eval mode, the values that `train` puts back into parameters and BatchNorm's buffers. None in train mode."""
    _has_warned = False

    def eval(self, model: torch.nn.Module | None = None, batches: Iterable[Any] | None = None) -> None:
        """Puts the averages into the parameters until `train` is called. In eval mode, it changes nothing.

        It needs memory for one copy of the parameters. `step` raises an error in eval mode. `state_dict` returns the
        state of the iterates and says that the model holds averages. To continue a run, load both and call `train`.

        BatchNorm's running statistics belong to the iterates. With ``model`` and ``batches`` they are measured at the
        average, and `train` puts the old ones back.
        """
        self._to_average(model, batches, forward)

    def train(self) -> None:
        """Puts the iterates back, bit for bit. In train mode, in which a new optimizer is, it changes nothing.

        After loading a state dict that was saved in eval mode, it computes the iterates from the averages, within
        rounding.
        """
        if self._iterates is not None:
            resized = self._switch(self._values(-1.0, besides=self._iterates) | self._iterates, None)
            if resized:
                raise RuntimeError(
                    f"{len(resized)} parameters were resized in eval mode, the first to {tuple(resized[0].shape)}; "
                    "they keep their new values, and all others were restored."
                )

    @contextmanager
    def averaged(self, model: torch.nn.Module | None = None, batches: Iterable[Any] | None = None) -> Generator[None]:
        """Switches to eval mode for a block, and back to the earlier mode after it; see `eval` and `train`.

        Example:
            >>> with optimizer.averaged():  # doctest: +SKIP
            ...     accuracy = evaluate(model)
        """
        was_training = self._iterates is None
        try:
            self.eval(model, batches)
            yield
        finally:
            (self.train if was_training else self.eval)()

    def averaged_state_dict(self, model: torch.nn.Module, batches: Iterable[Any] | None = None) -> dict[str, Any]:
        """A copy of the model's state dict with averaged weights, for export. ``batches`` are as in `eval`."""
        with self.averaged(model, batches):
            state = model.state_dict()
            return {name: a.detach().clone() if isinstance(a, Tensor) else a for name, a in state.items()}

    @torch._disable_dynamo
    def state_dict(self) -> StateDict:
        """Returns the state of the iterates in both modes, and names the mode."""
        result = super().state_dict()
        for group in result["param_groups"]:
            group["mode"] = "train" if self._iterates is None else "eval"
        return result

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and pickled: with the iterates, so that copies of an optimizer in eval mode can train."""
        return super().__getstate__() | {"_iterates": self._iterates}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores the state and its mode. The caller loads the parameters."""
        super().__setstate__(state)
        modes = [group.pop("mode", "train") for group in self.param_groups]
        self._switch({}, {} if "eval" in modes else state.get("_iterates"))

    def _to_average(
        self, model: torch.nn.Module | None, batches: Iterable[Any] | None, run: Callable[[Any, Any], None]
    ) -> None:
        """`eval`, with a function that runs the model on a batch."""
        norms = [] if model is None else self._norms(model, batches)
        if batches is not None and model is None:
            raise TypeError("batches needs the model whose BatchNorm layers it measures: averaged(model, batches=...).")
        was_training = self._iterates is None
        if was_training:
            averages = self._values(1.0)
            self._switch(averages, copies(averages))
        if norms and batches is not None:
            before = copies(buffer for norm in norms for buffer in norm.buffers())
            self._iterates = before | (self._iterates or {})
            try:
                measure(model, norms, batches, run)
            except BaseException:
                put(before)
                if was_training:
                    self.train()
                raise

    def _norms(self, model: torch.nn.Module, batches: Iterable[Any] | None) -> list[_BatchNorm]:
        """The layers of a model that have running statistics. Warns once if there are no batches to measure them."""
        if not isinstance(model, torch.nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = type(model).__name__
            raise TypeError(f"model must be a torch.nn.Module, got {kind}. For batches, call averaged(model, batches).")
        norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]
        if norms and batches is None and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                "the model has BatchNorm layers, whose running statistics belong to the iterates and not to the "
                "average. Pass some training batches, which measure them: averaged(model, batches).",
                stacklevel=4,
            )
        return norms

    @torch._disable_dynamo
    @torch.no_grad()
    def _values(self, sign: float, besides: Mapping[Tensor, Tensor] | None = None) -> dict[Tensor, Tensor]:
        """This rank's averages of parameters that hold iterates; with sign −1, the other way round."""
        self._catch_up()
        result: dict[Tensor, Tensor] = {}
        for group in self.param_groups:
            settings = self._settings(group)
            keys = [field.key for field in self.rule.fields(settings) if field.at == "element"]
            for parameter in (p for p in group["params"] if has_stepped(self, p) and p not in (besides or ())):
                dtype, state = computing_dtype(parameter.dtype), self.state[parameter]
                values = {key: sharding.local(state[key]).to(dtype) for key in keys}
                way = self.rule.average({"x": 0.0, **values}, settings)
                result[parameter] = real_view(sharding.local(parameter.detach())).to(dtype) + way * sign
        return result

    @torch._disable_dynamo
    def _switch(self, values: Mapping[Tensor, Tensor], iterates: dict[Tensor, Tensor] | None) -> list[Tensor]:
        """Writes values and sets the mode. Returns parameters that do not have the shape of their values."""
        try:
            return self._write(values, iterates)
        except BaseException:  # A signal's handler raised. A model of averages and iterates may not stay.
            self._write(values, iterates)
            raise

    def _write(self, values: Mapping[Tensor, Tensor], iterates: dict[Tensor, Tensor] | None) -> list[Tensor]:
        self._iterates, self._cannot_step = iterates, "" if iterates is None else _IN_EVAL
        return put(values)


def copies(tensors: Iterable[Tensor]) -> dict[Tensor, Tensor]:
    """What parameters and buffers hold on this rank."""
    return {tensor: sharding.local(tensor.detach()).clone() for tensor in tensors}


@torch.no_grad()
def put(values: Mapping[Tensor, Tensor]) -> list[Tensor]:
    """Writes copies, or averages, into parameters and buffers. Returns those that have another shape now."""
    resized: list[Tensor] = []
    for target, value in values.items():
        place = sharding.local(target.detach())
        place = place if value.dtype.is_complex else real_view(place)
        if place.shape == value.shape:
            place.copy_(value)
        else:
            resized.append(target)
    torch.clear_autocast_cache()  # It has copies in lower precision.
    if any(map(sharding.is_sharded, values)):
        sharding.reshard()
    return resized


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
