"""The optimizer class: arguments, state and checkpoints. The arithmetic is `gradagrad.rule`'s."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim.optimizer import (
    Optimizer,
    ParamsT,
    StateDict,
    _default_to_fused_or_foreach,
    _use_grad_for_differentiable,
)

from gradagrad import arguments, checkpoint, distributed, first_step, rounding
from gradagrad.diagnostics import GroupDiagnostics, Watch, describe
from gradagrad.granularity import Granularity, slot_shape
from gradagrad.projecting import Checked
from gradagrad.projections import Projection
from gradagrad.rule import Settings
from gradagrad.steps import foreach as foreach_step
from gradagrad.steps import fused as fused_step
from gradagrad.steps import loop, sparse
from gradagrad.steps.bundle import Batch, Bundle, Parts, take_group_step, take_steps
from gradagrad.steps.ops import computing_dtype, real_view
from gradagrad.steps.spread import Spread, take_spread_steps


class GradaGrad(Optimizer):
    r"""AdaGrad whose learning rate can also rise.

    AdaGrad divides by the root of a sum of :math:`g^2`, so its learning rate only falls. GradaGrad sums
    :math:`v = g^2 - \rho\, g\, m` instead, where :math:`m` is the previous (momentum) gradient. While consecutive
    gradients agree, :math:`v` is negative, and then the numerator :math:`\gamma` grows rather than the sum shrinking:

    .. math::
       \begin{aligned}
         v_k          &= g_k^2 - \rho\, g_k m_{k-1} \qquad (v_0 = G_\infty^2 \text{ if given};\
                          v_k = g_k^2 \text{ once } \gamma_k = D_\infty) \\
         \gamma_{k+1} &= \min\!\Big(\gamma_k \min\!\big(\sqrt{1 + \max(-v_k, 0)/\alpha_k},\
                          \max(\rho\, g_k m_{k-1} / g_k^2, 1)\big),\ D_\infty\Big) \\
         \alpha_{k+1} &= \alpha_k + \max(v_k, 0), \qquad A_{k+1} = \sqrt{\alpha_{k+1}} / \gamma_{k+1} \\
         m_k          &= \beta\, A_{k+1} A_k^{-1} m_{k-1} + (1-\beta)\, g_k \\
         x_{k+1}      &= x_k - A_{k+1}^{-1} m_k
       \end{aligned}

    Args:
        params: parameters, named parameters or param groups; every argument below can be set per group.
        lr: :math:`\gamma_0`, the initial numerator. 1.0 suits convex problems; a neural net wants about 0.01 with
            ``granularity="element"``, because the first step moves every weight by lr. A tensor is allowed.
        rho: adaptivity :math:`\rho`. 0 is AdaGrad; 2 is the paper's default; shared step sizes want 10 to 100.
        momentum: :math:`\beta` in [0, 1).
        granularity: who shares a step size: ``"element"`` (the paper's Algorithm 2), ``"row"`` (first-dimension
            slices: embedding rows), ``"tensor"``, or ``"group"`` (Algorithm 1 over a whole param group).
        weight_decay: added to the gradient as weight_decay · x, or see the next argument.
        decoupled_weight_decay: instead shrink x by lr · weight_decay, as AdamW does.
        lr_decay: lr is divided by 1 + (step − 1) · lr_decay, as in torch.optim.Adagrad.
        initial_accumulator_value: what :math:`\alpha` starts from.
        eps: added to :math:`\sqrt\alpha`.
        grad_bound: :math:`G_\infty`; None uses the first gradient.
        gamma_max: :math:`D_\infty`, a cap on :math:`\gamma`.
        growth_limit: largest factor by which :math:`\gamma` may grow in one step, Algorithm 1's :math:`\sqrt{1+r}`.
        projection: keeps each parameter in a convex set, see `gradagrad.projections`.
        lazy: a coordinate (``"element"``) or row (otherwise) whose gradient is exactly zero is left wholly alone and
            keeps its own clock. Embedding tables want this.
        maximize: ascend.
        foreach: use ``torch._foreach_*``; None follows torch's convention (CUDA yes, CPU no).
        differentiable: let autograd pass through the step.
        capturable: keep the step counter on the parameter's device, for CUDA graphs.
        fused: use the compiled kernel (CPU only). None uses it wherever it can; True raises where it cannot, and lets
            torch.amp.GradScaler leave unscaling to it.
        state_dtype: ``torch.bfloat16`` stores momentum, growth and accumulator in 2 bytes each, rounded stochastically;
            see `gradagrad.rounding`.

    Example:
        >>> import torch
        >>> from gradagrad import GradaGrad
        >>> model = torch.nn.Linear(4, 1)
        >>> optimizer = GradaGrad(model.parameters(), lr=0.01)
        >>> loss = model(torch.ones(8, 4)).square().mean()
        >>> loss.backward()
        >>> optimizer.step()

    State is in float32 (float64 for float64 parameters) whatever the parameters' precision, and survives save and load
    bit for bit. A NaN or infinity in a gradient spoils the slot it is in and no other, as in torch's own optimizers.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        *,
        rho: float = 2.0,
        momentum: float = 0.0,
        granularity: Granularity = "element",
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        lr_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        grad_bound: float | None = None,
        gamma_max: float = math.inf,
        growth_limit: float = math.inf,
        projection: Projection | None = None,
        lazy: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        capturable: bool = False,
        fused: bool | None = None,
        state_dtype: torch.dtype = torch.float32,
    ) -> None:
        defaults: dict[str, Any] = {
            "lr": lr,
            "rho": rho,
            "momentum": momentum,
            "granularity": granularity,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "lr_decay": lr_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "grad_bound": grad_bound,
            "gamma_max": gamma_max,
            "growth_limit": growth_limit,
            "projection": projection,
            "lazy": lazy,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "capturable": capturable,
            "fused": fused,
            "state_dtype": state_dtype,
        }
        self._watch: Watch | None = None
        super().__init__(params, arguments.checked(defaults))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group; what it leaves out is taken from the constructor's arguments."""
        if isinstance(param_group, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            checked = arguments.checked({**self.defaults, **param_group})
            param_group = {key: checked[key] for key in param_group}
        super().add_param_group(param_group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores a pickle or a state dict; arguments that its version did not have take this optimizer's defaults."""
        super().__setstate__(state)
        self._watch = self.__dict__.get("_watch")
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
            for parameter in group["params"]:
                slot = self.state.get(parameter)
                if slot and not isinstance(slot["step"], Tensor):
                    slot["step"] = torch.tensor(float(slot["step"]), dtype=torch.float32)

    @torch._disable_dynamo
    def state_dict(self) -> StateDict:
        """The state as tensors and plain values, loadable with ``weights_only=True``; projections stay outside."""
        result = super().state_dict()
        for group in result["param_groups"]:
            if "projection" in group:
                group["projection"] = None
            if "state_dtype" in group:
                group["state_dtype"] = checkpoint.dtype_name(group["state_dtype"])
        return result

    @torch._disable_dynamo
    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restores a state dict bit for bit, or raises and changes nothing. Projections stay this optimizer's."""
        checkpoint.load(self, state_dict, super().load_state_dict)

    def _init_group(
        self,
        group: dict[str, Any],
        params: list[Tensor],
        grads: list[Tensor],
        momenta: list[Tensor],
        growths: list[Tensor],
        accumulators: list[Tensor],
        steps: list[Tensor],
    ) -> None:
        """Fills the lists with the parameters that have a gradient, making their state where there is none yet."""
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None:
                continue
            state = self.state[parameter]
            if not state:
                self._init_state(group, parameter)
            elif "last_rows" in state and gradient.layout == torch.strided:
                del state["last_rows"]  # belongs to sparse gradients, and goes stale with a dense one
            params.append(parameter)
            grads.append(gradient)
            momenta.append(state["momentum"])
            growths.append(state["growth"])
            accumulators.append(state["accumulator"])
            steps.append(state["step"])

    def _init_state(self, group: dict[str, Any], parameter: Tensor) -> None:
        values = real_view(distributed.local(parameter.detach()))
        dtype = computing_dtype(parameter.dtype)
        shape = slot_shape(values.shape, group["granularity"])
        start = group["initial_accumulator_value"]
        momentum_dtype = rounding.stored_dtype(dtype, group["state_dtype"], "element")
        dtype = rounding.stored_dtype(dtype, group["state_dtype"], group["granularity"])
        growth: Tensor | None = None
        if group["granularity"] == "element":
            growth = torch.ones_like(values, dtype=dtype, memory_format=torch.preserve_format)
            accumulator = torch.full_like(growth, start, memory_format=torch.preserve_format)
        elif group["granularity"] == "group" and (peer := self._group_slot(group)) is not None:
            growth = peer[0].to(dtype=dtype, device=values.device, copy=True)
            accumulator = peer[1].to(dtype=dtype, device=values.device, copy=True)
        else:
            growth = torch.ones(shape, dtype=dtype, device=values.device)
            accumulator = torch.full(shape, start, dtype=dtype, device=values.device)
        momentum = torch.zeros_like(values, dtype=momentum_dtype, memory_format=torch.preserve_format)
        step_device = values.device if group["capturable"] else torch.device("cpu")
        self.state[parameter].update(
            step=torch.zeros((), dtype=torch.float32, device=step_device),
            momentum=distributed.as_shard(momentum, parameter, "element"),
            growth=distributed.as_shard(growth, parameter, group["granularity"]),
            accumulator=distributed.as_shard(accumulator, parameter, group["granularity"]),
        )

    def _group_slot(self, group: dict[str, Any]) -> tuple[Tensor, Tensor] | None:
        """The group's shared numbers as some parameter of it holds them; None before its first step."""
        return next(iter(self._group_copies(group)), None)

    def _group_copies(self, group: dict[str, Any]) -> list[tuple[Tensor, Tensor]]:
        states = (self.state.get(p) for p in group["params"])
        return [(state["growth"], state["accumulator"]) for state in states if state]

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Performs one step; ``closure`` may re-evaluate the model and return the loss."""
        self._accelerator_graph_capture_health_check()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()

        found_inf: Tensor | None = getattr(self, "found_inf", None)  # GradScaler's, as is grad_scale
        if found_inf is not None and bool(found_inf):
            return loss
        compiling = torch.compiler.is_compiling()
        is_first = not compiling and not any(self.state.values())
        batches: list[tuple[int, Batch]] = []
        for index, group in enumerate(self.param_groups):
            batch = _batch(group)
            self._init_group(
                group, batch.params, batch.grads, batch.momenta, batch.growths, batch.accumulators, batch.steps
            )
            if batch.params:
                batches.append((index, batch))
        self._number_streams(batches)
        scale: Tensor | None = getattr(self, "grad_scale", None)
        if scale is not None and (is_first or self._watch is not None):
            for _, batch in batches:  # what looks at gradients before the kernel wants them as they are
                fused_step.unscale(batch.grads, scale)
            scale = None
        try:
            for _, batch in batches:
                _refuse_unfit_gradients(batch)
            batches = [(index, batch.local()) for index, batch in batches]
            if is_first and batches and not _is_capturing():
                first_step.check([self._first_proposals(index, batch) for index, batch in batches])
        except Exception:
            if is_first:
                self.state.clear()  # nothing has been done yet
            raise

        watch = None if compiling else self._watch
        if watch is not None:
            watch.before(batches)
        self._advance([(self.param_groups[index], batch) for index, batch in batches], scale)
        if watch is not None:
            watch.after()
        return loss

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether GradScaler may leave scaled gradients and its findings to `step`."""
        return all(group["fused"] is True for group in self.param_groups)

    def _number_streams(self, batches: list[tuple[int, Batch]]) -> None:
        """Gives each parameter whose state is rounded a sequence of random bits of its own."""
        if not any(rounding.is_rounded(self.param_groups[index]["state_dtype"]) for index, _ in batches):
            return
        every = (parameter for group in self.param_groups for parameter in group["params"])
        numbers = {parameter: number for number, parameter in enumerate(every)}
        for _, batch in batches:
            batch.streams = [numbers[parameter] for parameter in batch.params]

    def _fused(self, group: dict[str, Any], batch: Batch, scale: Tensor | None) -> Batch | None:
        """Steps what the compiled kernel can and returns the rest, if any."""
        if not _use_kernel(group):
            return batch
        copies = self._group_copies(group) if batch.granularity == "group" else None
        return fused_step.advance(batch, copies, self.state, scale, required=group["fused"] is True)

    def _advance(self, batches: list[tuple[dict[str, Any], Batch]], scale: Tensor | None) -> None:
        """Steps the groups' parameters; those whose sums other ranks hold a part of come last."""
        spread: list[Spread] = []
        whole: list[tuple[dict[str, Any], Batch]] = []
        for group, batch in batches:
            parts = batch.parts()
            copies = self._group_copies(group) if batch.granularity == "group" else None
            shared = any(axes for axes, _ in parts)
            if group["fused"] and (shared or len(batches) > 1):  # all or none
                fused_step.require(batch, copies)
            if not shared:
                whole.append((group, batch))
                continue
            if scale is not None:
                fused_step.unscale(batch.grads, scale)
            make = partial(self._bundles, foreach=_use_foreach(group, batch))
            spread.append(Spread(batch, parts, copies, make, kernel=_use_kernel(group)))
        take_spread_steps(spread, lambda: self._advance_whole(whole, scale))

    def _advance_whole(self, batches: list[tuple[dict[str, Any], Batch]], scale: Tensor | None) -> None:
        """Steps groups that this rank has all the numbers of."""
        for group, complete in batches:
            batch = self._fused(group, complete, scale)
            if batch is None:
                continue
            torch._foreach_add_(batch.steps, 1)
            bundles = self._bundles(batch.parts(), foreach=_use_foreach(group, batch))
            if batch.granularity == "group":
                together = list(bundles)
                take_group_step(together, [bundle.measure() for bundle in together], self._group_copies(group))
            else:
                take_steps(bundles)

    def _bundles(self, parts: Parts, *, foreach: bool) -> Iterator[Bundle]:
        """Dense parameters one by one or together, sparse ones by their touched rows."""
        for axes, part in parts:
            if part.grads[0].layout != torch.strided:
                bundles = sparse.bundles(part, [self.state[p] for p in part.owners])
            else:
                bundles = foreach_step.bundles(part) if foreach else loop.bundles(part)
            for bundle in bundles:
                bundle.axes = axes
                yield bundle

    def _first_proposals(self, index: int, batch: Batch) -> first_step.Proposals:
        """The first step's bundles, with the values of projections checked and lr not yet decayed."""
        settings = batch.settings
        projection = self.param_groups[index]["projection"]
        if projection is not None:
            settings = settings._replace(project=Checked(projection, values=True))
        parts = replace(batch, settings=settings, lr_decay=0.0).parts()
        bundles = self._bundles(parts, foreach=False)
        order = [owner for _, part in parts for owner in part.owners]
        copies = self._group_copies(self.param_groups[index]) if batch.granularity == "group" else None
        return list(zip(bundles, order, strict=True)), copies

    def diagnostics(self) -> list[GroupDiagnostics]:
        """For each param group, what its learning rates have become.

        Costs nothing until called. ``growing`` is counted from the first call on: it is NaN until the step after.
        """
        if self._watch is None:
            self._watch = Watch()
        result: list[GroupDiagnostics] = []
        for index, group in enumerate(self.param_groups):
            states = [state for p in group["params"] if (state := self.state.get(p))]
            result.append(describe(group, states, self._watch.shares.get(index, math.nan)))
        return result

    def share_memory(self) -> None:
        """Moves the state to shared memory, for training in several processes (Hogwild), as Adagrad's does."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if not self.state[parameter]:
                    self._init_state(group, parameter)
                for value in self.state[parameter].values():
                    value.share_memory_()


def _batch(group: dict[str, Any]) -> Batch:
    """An empty batch with the group's settings."""
    decoupled = group["decoupled_weight_decay"]
    projection = group["projection"]
    settings = Settings(
        lr=group["lr"],
        rho=group["rho"],
        beta=group["momentum"],
        eps=group["eps"],
        weight_decay=group["weight_decay"] if decoupled else 0.0,
        gamma_max=None if group["gamma_max"] == math.inf else group["gamma_max"],
        growth_limit=None if group["growth_limit"] == math.inf else group["growth_limit"],
        grad_bound=group["grad_bound"],
        alpha_0=group["initial_accumulator_value"],
        lazy=group["lazy"],
        project=None if projection is None else Checked(projection),
    )
    return Batch(
        granularity=group["granularity"],
        settings=settings,
        coupled_decay=0.0 if decoupled else group["weight_decay"],
        lr_decay=group["lr_decay"],
        maximize=group["maximize"],
        differentiable=group["differentiable"],
    )


def _use_kernel(group: dict[str, Any]) -> bool:
    return group["fused"] is not False and not group["foreach"] and not torch.compiler.is_compiling()


def _use_foreach(group: dict[str, Any], batch: Batch) -> bool:
    if group["foreach"] is None:
        return _default_to_fused_or_foreach(batch.params, group["differentiable"], use_fused=False)[1]
    return bool(group["foreach"])


def _refuse_unfit_gradients(batch: Batch) -> None:
    for parameter, gradient in zip(batch.params, batch.grads, strict=True):
        reason = None if type(parameter) is torch.nn.Parameter else distributed.refusal(batch, parameter, gradient)
        if gradient.layout != torch.strided:
            reason = reason or sparse.refusal(batch, gradient)
        if reason:
            raise RuntimeError(reason)


def _is_capturing() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
