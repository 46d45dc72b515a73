"""The optimizer class: arguments, state and checkpoints. The arithmetic is `gradagrad.rule`'s."""

import math
from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT, StateDict, _use_grad_for_differentiable

from gradagrad import arguments, checkpoint, distributed, first_step, rounding
from gradagrad.base import Base
from gradagrad.diagnostics import GroupDiagnostics, Watch, describe
from gradagrad.granularity import Granularity, slot_shape
from gradagrad.projections import Projection
from gradagrad.steps.bundle import Batch
from gradagrad.steps.fused import Memory, unscale
from gradagrad.steps.ops import computing_dtype, real_view
from gradagrad.steps.take import Turn, take


class GradaGrad(Base):
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
        self._memory = Memory()
        super().__init__(params, arguments.checked(defaults))

    def _checked(self, group: dict[str, Any]) -> dict[str, Any]:
        return arguments.checked(group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores a pickle or a state dict; arguments that its version did not have take this optimizer's defaults."""
        super().__setstate__(state)
        self._watch = self.__dict__.get("_watch")
        for slot in map(self.state.get, self._parameters()):
            if slot and not isinstance(slot["step"], Tensor):
                slot["step"] = torch.tensor(float(slot["step"]), dtype=torch.float32)

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
        turns: list[Turn] = []
        for index, group in enumerate(self.param_groups):
            batch = Batch.of(group)
            self._init_group(
                group, batch.params, batch.grads, batch.momenta, batch.growths, batch.accumulators, batch.steps
            )
            if batch.params:
                copies = None
                if group["granularity"] == "group":
                    # The compiler does not find sharded parameters in the state; those of this step are in the batch.
                    copies = self._group_copies(group) or list(zip(batch.growths, batch.accumulators, strict=True))
                turns.append(Turn(index, group, batch, self.state, copies))
        numbers = self._stream_numbers()
        for turn in turns if numbers else ():
            turn.batch.streams = [numbers[parameter] for parameter in turn.batch.params]
        scale: Tensor | None = getattr(self, "grad_scale", None)
        if scale is not None and (is_first or self._watch is not None):
            for turn in turns:  # what looks at gradients before the kernel wants them as they are
                unscale(turn.batch.grads, scale)
            scale = None
        try:
            for turn in turns:
                turn.refuse_unfit_gradients()
                turn.batch = turn.batch.local()
            if is_first and turns and not _is_capturing():
                first_step.check([(turn.proposals(), turn.copies) for turn in turns])
        except Exception:
            if is_first:
                self.state.clear()  # nothing has been done yet
            raise

        watch = None if compiling else self._watch
        if watch is not None:
            watch.before([(turn.index, turn.batch) for turn in turns])
        take(turns, scale, self._memory)
        if watch is not None:
            watch.after()
        return loss

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


def _is_capturing() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
