"""GradaGrad, the paper's optimizer: its arguments. The arithmetic is `gradagrad.rules.gradagrad`'s."""

import math
from collections.abc import Mapping
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gradagrad.checks.arguments import GRADAGRAD, explains_unknown
from gradagrad.engine.optimizer import EngineOptimizer
from gradagrad.projections import Checked, Projection
from gradagrad.rules.gradagrad import RULE, Settings, settings_from
from gradagrad.rules.scope import Scope


def _no_average(name: str) -> property:
    """Raises an error: there is no average. `hasattr` returns False, because trainers call what exists."""

    def missing(_: object) -> NoReturn:
        raise AttributeError(
            f"GradaGrad has no {name}, because it keeps no average of its iterates. "
            "torch.optim.swa_utils.AveragedModel(model) keeps one beside it, and AutoGradaGrad has its own."
        )

    return property(missing)


class GradaGrad(EngineOptimizer):
    r"""AdaGrad whose learning rate can also rise.

    AdaGrad divides by the root of a sum of :math:`g^2`, so its learning rate only falls. GradaGrad sums
    :math:`v = g^2 - \rho\, g\, m` instead, where :math:`m` is the previous (momentum) gradient. When consecutive
    gradients agree, :math:`v` is negative and the numerator :math:`\gamma` grows. When they disagree, the denominator
    grows, as in AdaGrad:

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
        lr: :math:`\gamma_0`, the initial numerator. With ``granularity="element"`` the first step moves every weight by
            lr: 1.0 suits convex problems, 0.01 suits nets, and 3e-4 suits fine-tuning. A tensor is allowed.
        rho: adaptivity :math:`\rho`. 0 is AdaGrad; 2 is the paper's default; shared step sizes need 10 to 100.
        momentum: :math:`\beta` in [0, 1).
        granularity: the elements that share a step size: ``"element"`` (the paper's Algorithm 2), ``"row"``
            (first-dimension slices: embedding rows), ``"tensor"``, ``"group"`` (Algorithm 1 over a whole param group,
            with Lemma 4's clip, because the printed clip alone breaks the inequality that the analysis needs), or
            ``"all"`` param groups together.
        weight_decay: adds weight_decay · x to the gradient, unless the next argument is True.
        decoupled_weight_decay: instead shrink x by lr · weight_decay, as AdamW does.
        lr_decay: lr is divided by 1 + (step − 1) · lr_decay, as in torch.optim.Adagrad.
        initial_accumulator_value: what :math:`\alpha` starts from.
        eps: added to :math:`\sqrt\alpha`.
        grad_bound: :math:`G_\infty`; None uses the first gradient.
        gamma_max: :math:`D_\infty`, a cap on :math:`\gamma`. ``"travelled"`` caps it at :math:`\gamma_0 +
            \tfrac{\rho}{2} \|x - x_0\|`, the norm over what shares a step size; it costs one more number per element.
        growth_limit: largest factor by which :math:`\gamma` may grow in one step, Algorithm 1's :math:`\sqrt{1+r}`.
            None means 2 (r = 3) for ``"tensor"``, ``"group"`` and ``"all"``, and no limit for the other two;
            ``math.inf`` is no limit anywhere.
        projection: keeps each parameter in a convex set, see `gradagrad.projections`.
        lazy: leave a coordinate (``"element"``) or row (otherwise) alone while its gradient is exactly zero, so that it
            keeps its own clock. Use it for embedding tables.
        maximize: maximise the objective instead of minimising it.
        foreach: use ``torch._foreach_*``; None follows torch's convention (CUDA yes, CPU no).
        differentiable: let autograd pass through the step.
        capturable: keep the step counter on the parameter's device, for CUDA graphs.
        fused: use the compiled kernel (C++ on a CPU, Triton on a GPU). None uses it wherever it can. True raises if
            it cannot, and lets torch.amp.GradScaler leave unscaling to it.
        state_dtype: ``torch.bfloat16`` or ``"bfloat16"`` stores momentum, growth and accumulator in 2 bytes each,
            rounded stochastically; see `gradagrad.precision`.
        stochastic_rounding: round bf16 *parameters* stochastically too, so that steps too small for bf16 add up.

    Example:
        >>> import torch
        >>> from gradagrad import GradaGrad
        >>> model = torch.nn.Linear(4, 1)
        >>> optimizer = GradaGrad(model.parameters(), lr=0.01)
        >>> loss = model(torch.ones(8, 4)).square().mean()
        >>> loss.backward()
        >>> optimizer.step()

    State is float32 (float64 for float64 parameters), and state dicts restore it bit for bit. A NaN or infinity in a
    gradient ruins only its own block, as in torch's optimizers.
    """

    rule = RULE
    arguments = GRADAGRAD
    averaged, eval, train = map(_no_average, ("averaged", "eval", "train"))

    @explains_unknown(GRADAGRAD.elsewhere)
    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        *,
        rho: float = 2.0,
        momentum: float = 0.0,
        granularity: Scope = "element",
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        lr_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        grad_bound: float | None = None,
        gamma_max: float | Literal["travelled"] = math.inf,
        growth_limit: float | None = None,
        projection: Projection | None = None,
        lazy: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        capturable: bool = False,
        fused: bool | None = None,
        state_dtype: torch.dtype | str = torch.float32,
        stochastic_rounding: bool = False,
    ) -> None:
        # Every argument but the parameters is a default of param groups.
        defaults = {name: a for name, a in dict(locals()).items() if name not in ("self", "params", "__class__")}
        super().__init__(params, defaults)

    def _settings(self, group: Mapping[str, Any]) -> Settings:
        return settings_from(
            group,
            group["granularity"],
            weight_decay=group["weight_decay"] if group["decoupled_weight_decay"] else 0.0,
            project=None if group["projection"] is None else Checked(group["projection"]),
        )
