"""AutoGradaGrad: arguments, state and checkpoints. The arithmetic is `gradagrad.auto.rule`'s."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, overload

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT, StateDict, _use_grad_for_differentiable

from gradagrad.auto import arguments, rule
from gradagrad.auto import checkpoint as own_checkpoint
from gradagrad.auto.averaged import Averaged
from gradagrad.auto.batch import Batch
from gradagrad.auto.diagnostics import AutoDiagnostics, describe
from gradagrad.auto.state import fresh, made
from gradagrad.auto.take import Turn, refuse, take
from gradagrad.steps.fused import unscale
from gradagrad.steps.kept import Memory


class AutoGradaGrad(Averaged):
    r"""AdaGrad that finds its own learning rate. Our extension of GradaGrad, not the paper's; it has no proof.

    Every element keeps AdaGrad's denominator, and all of them share one numerator :math:`\gamma`. It starts tiny and
    grows while the gradient :math:`g` agrees with those before, their mean :math:`h`, in the norm of the step, by more
    than noise explains; it never shrinks:

    .. math::
       \begin{aligned}
         S &= \sum w\, g^2, \quad P = \sum w\, g h, \quad Q = \sum (w g^2)^2, \quad N = \sum (w g h)^2,
              \qquad w = 1/\sqrt{\alpha_{k-1}} \\
         q &= c\, P/\sqrt{Q} \quad \text{(at the start: or } c\, {\textstyle\sum} P / \sqrt{{\textstyle\sum} N}
              \text{ since the sum was last negative)} \\
         \gamma_k &= \gamma_{k-1} \sqrt{1 + r}, \quad r = \min\big((q-1)\, S/\hat R,\ q^2-1,\ r_{\max}\big)
              \text{ if } q > 1, \text{ else } 0 \\
         \alpha_k &= \tfrac{2}{k+1} \sum_{i \le k} i\, g_i^2, \qquad h_k = \beta\, h_{k-1} + (1-\beta)\, g_k \\
         x_k &= x_{k-1} - \mathrm{lr} \cdot \gamma_k\, h_k / \sqrt{\alpha_k}, \qquad
              \text{elements with } g_k = 0 \text{ rest: } x_k = x_{k-1},\ h_k = h_{k-1} \\
         \bar x_k &= \bar x_{k-1} + \tfrac{9}{k+8} (x_k - \bar x_{k-1})
       \end{aligned}

    Parameters always hold :math:`x`, where gradients are taken. Evaluate at the average :math:`\bar x`, which is
    smoother: ``with optimizer.averaged(): evaluate(model)``. Forgetting it costs accuracy, never correctness.

    Args:
        params: parameters, named parameters or param groups.
        lr: multiplies the step, for schedulers and for groups that shall move slower or faster. Not a learning rate to
            tune: leave it at 1, and do not raise it on neural nets.
        gamma0: :math:`\gamma_0`. Anything far below a good learning rate will do; do not raise it on neural nets,
            since :math:`\gamma` never shrinks.
        strictness: c of the significance test; larger grows sooner.
        overshoot: the start-up ends at a disagreement of this many standard deviations.
        certainty: standard deviations of a sign test over steps that certify a signal. Until then, beyond
            :math:`\gamma = 0.01` (or :math:`1000\gamma_0`, at most 1) and after 32 steps, the noise of coordinates is
            not taken for independent, so that :math:`\gamma` does not run away on a flat loss; beyond 1,
            evidence over steps must be three standard deviations. 0 asks for neither.
        momentum: :math:`\beta`; 0 moves along the gradient itself.
        growth_limit: largest factor of :math:`\gamma` in one step, :math:`\sqrt{1 + r_{\max}}`.
        weighting: ``"linear"`` counts the squared gradient of step k as k, ``"uniform"`` is plain AdaGrad's sum.
        weight_decay: shrinks x by lr · γ/√k · weight_decay, γ/√k being what Adam would call the learning rate, or:
        decoupled_weight_decay: False adds weight_decay · x to the gradient instead.
        averaging: ``"polynomial"`` keeps the average, None does without and saves a third of the state.
        eps: added to :math:`\sqrt\alpha`. 0 keeps the method independent of the loss's scale.
        maximize, foreach, differentiable, capturable, fused, state_dtype: as in `gradagrad.GradaGrad`.

    All groups share gamma0, strictness, overshoot, certainty, growth_limit and weighting.

    Example:
        >>> import torch
        >>> from gradagrad import AutoGradaGrad
        >>> model = torch.nn.Linear(4, 1)
        >>> optimizer = AutoGradaGrad(model.parameters())
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     model(torch.ones(8, 4)).square().mean().backward()
        ...     optimizer.step()
        >>> with optimizer.averaged():
        ...     loss = model(torch.ones(8, 4)).square().mean()

    With a NaN or an infinity in a gradient, the elements it is in are spoilt, as in torch's own optimizers, and
    :math:`\gamma` stays where it is.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        *,
        gamma0: float = 1e-5,
        strictness: float = 3.0,
        overshoot: float = 8.0,
        certainty: float = 4.0,
        momentum: float = 0.7,
        growth_limit: float = math.sqrt(2.0),
        weighting: Literal["linear", "uniform"] = "linear",
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = True,
        averaging: Literal["polynomial"] | None = "polynomial",
        eps: float = 0.0,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        capturable: bool = False,
        fused: bool | None = None,
        state_dtype: torch.dtype = torch.float32,
    ) -> None:
        defaults: dict[str, Any] = {
            "lr": lr,
            "gamma0": gamma0,
            "strictness": strictness,
            "overshoot": overshoot,
            "certainty": certainty,
            "momentum": momentum,
            "growth_limit": growth_limit,
            "weighting": weighting,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "averaging": averaging,
            "eps": eps,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "capturable": capturable,
            "fused": fused,
            "state_dtype": state_dtype,
        }
        self._memory = Memory()
        super().__init__(params, arguments.checked(defaults))

    def _checked(self, group: dict[str, Any]) -> dict[str, Any]:
        return arguments.checked(group, self.param_groups[:1])

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores a pickle or a state dict; arguments that its version did not have take this optimizer's defaults."""
        super().__setstate__(state)
        self._join_shared()

    @torch._disable_dynamo
    def state_dict(self) -> StateDict:
        """The state as tensors and plain values, loadable with ``weights_only=True``."""
        # Distributed checkpoints fill in what the loading optimizer has already, and a fresh one has no row clocks.
        self._averages()
        return super().state_dict()

    @torch._disable_dynamo
    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restores a state dict bit for bit, or raises and changes nothing."""
        self._refuse_inside_averaged("load_state_dict")
        own_checkpoint.load(self, state_dict, super().load_state_dict)
        self._join_shared()

    def _init_group(
        self,
        group: dict[str, Any],
        params: list[Tensor],
        grads: list[Tensor],
        momenta: list[Tensor],
        accumulators: list[Tensor],
        averages: list[Tensor],
        steps: list[Tensor],
    ) -> None:
        """Fills the lists with the parameters that have a gradient, making their state where there is none yet."""
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            if not self.state[parameter]:
                self._init_state(group, parameter)
            state = self.state[parameter]
            params.append(parameter)
            grads.append(parameter.grad)
            momenta.append(state["momentum"])
            accumulators.append(state["accumulator"])
            if group["averaging"] is not None:
                if "average" not in state:  # switched on in the middle of a training
                    state["average"] = made(group, parameter, at_its_point=True)
                averages.append(state["average"])
            steps.append(state["step"])

    def _init_state(self, group: dict[str, Any], parameter: Tensor) -> None:
        self.state[parameter].update(fresh(group, parameter, self._shared()))

    def _shared(self) -> Tensor | None:
        """The shared numbers, the same tensor under every parameter; None before the first step."""
        return next((state["shared"] for state in map(self.state.get, self._parameters()) if state), None)

    def _join_shared(self) -> None:
        """After loading, lets all parameters have one tensor again, that of whoever has seen the most steps."""
        states = [state for state in map(self.state.get, self._parameters()) if state]
        if states:
            shared = max((state["shared"] for state in states), key=lambda numbers: float(numbers[0]))
            for state in states:
                state["shared"] = shared

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Performs one step; ``closure`` may re-evaluate the model and return the loss."""
        self._accelerator_graph_capture_health_check()
        self._refuse_inside_averaged("step")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()

        found_inf: Tensor | None = getattr(self, "found_inf", None)  # GradScaler's, as is grad_scale
        if found_inf is not None and bool(found_inf):
            return loss
        is_first = not torch.compiler.is_compiling() and not any(self.state.values())
        turns: list[Turn] = []
        for group in self.param_groups:
            batch = Batch.of(group)
            self._init_group(
                group, batch.params, batch.grads, batch.momenta, batch.accumulators, batch.averages, batch.steps
            )
            turns.append(Turn(group, batch, self.state))
        if not any(turn.batch.params for turn in turns):
            return loss
        try:
            refuse(turns)
        except Exception:
            if is_first:
                self.state.clear()  # nothing has been done yet
            raise
        numbers = self._stream_numbers()
        for turn in turns:
            turn.number(numbers)
        scale: Tensor | None = getattr(self, "grad_scale", None)
        if scale is not None:
            for turn in turns:
                unscale(turn.batch.grads, scale)
        # The compiler does not find sharded parameters in the state; those of this step are in the turns.
        shared = next(self.state[p]["shared"] for turn in turns for p in turn.batch.params)
        take(turns, shared, self._settings(), self._memory)
        return loss

    def _settings(self) -> rule.Settings:
        group = self.param_groups[0]
        return rule.Settings(
            strictness=group["strictness"],
            overshoot=group["overshoot"],
            certainty=group["certainty"],
            free_gamma=rule.free_gamma(group["gamma0"]),
            r_max=group["growth_limit"] ** 2 - 1.0,
            linear=group["weighting"] == "linear",
        )

    def diagnostics(self) -> AutoDiagnostics:
        """What the learning rate is doing, for all param groups together."""
        return describe(self._shared(), self.param_groups[0])
