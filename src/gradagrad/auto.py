"""AutoGradaGrad, our extension: its arguments. The arithmetic is `gradagrad.rules.auto`'s."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gradagrad.averaging import Averaged
from gradagrad.checks.arguments import AUTOGRADAGRAD
from gradagrad.rules.auto import RULE, Settings
from gradagrad.rules.rule import settings_of


class AutoGradaGrad(Averaged):
    r"""AdaGrad that finds its own learning rate. Our extension of GradaGrad, not the paper's.

    Every element keeps AdaGrad's denominator, and all of them share one numerator :math:`\gamma`, whose logarithm is
    one more parameter, trained by the same AdaGrad. Its gradient is the agreement of the new gradient :math:`g` with
    the displacement :math:`y` so far:

    .. math::
       \begin{aligned}
         P   &= \sqrt{\gamma_k} \sum g_k\, y_{k-1} \\
         B_k &= B_{k-1} + k\, g_k^2, \qquad h_k = \beta\, h_{k-1} + (1-\beta)\, g_k, \qquad
                d_k = h_k \big/ \sqrt{2 B_k/(k+1)} \\
         x_k &= x_{k-1} - \mathrm{lr} \cdot \gamma_k\, d_k, \qquad
                y_k = \big(y_{k-1} + \sqrt{\gamma_k}\, d_k\big) \big(1 - \tfrac{1}{2(k+1)}\big) \\
         v_k &= v_{k-1} + \tfrac{2}{k+1} (P^2 - v_{k-1}), \qquad
                \gamma_{k+1} = \gamma_k \big(1 + P \big/ 2\sqrt{k\, v_k}\big)
       \end{aligned}

    :math:`\gamma` grows while the last iterate is better than those before it. It falls once noise or oscillation
    makes it worse, so a :math:`\gamma_0` that is too large comes down too. If the loss is flat and the noise
    symmetric, the chance that it ever grows M-fold is at most 1/M.

    Args:
        params: parameters, named parameters or param groups.
        lr: multiplies the step, for schedulers and for groups that should move slower or faster. Not a learning rate to
            tune: only its ratios matter, between groups and over time, because :math:`\gamma` starts at gamma0 divided
            by the largest lr. A schedule does not disturb :math:`\gamma`.
        gamma0: :math:`\gamma_0`. Anything below a good learning rate works.
        momentum: :math:`\beta`; 0 moves along the gradient itself.
        gamma_max: a cap on :math:`\gamma`.
        guard: lets no gradient weigh more than all before it together, so that one outlier cannot freeze the learning
            rate; costs one more look at the gradients.
        weight_decay: shrinks x by lr · γ/√k · weight_decay, γ/√k being what Adam would call the learning rate, or:
        decoupled_weight_decay: False adds weight_decay · x to the gradient instead.
        averaging: ``"polynomial"`` keeps an average of the iterates in one more tensor; see `averaged`.
        scope: the parameters that share a γ: ``"all"``, or each param ``"group"``.
        eps: added to the root. 0 keeps the method independent of the loss's scale.
        maximize, foreach, differentiable, capturable, fused, state_dtype, stochastic_rounding: as in
            `gradagrad.GradaGrad`.

    With ``scope="all"``, groups agree on gamma0, gamma_max and guard.

    Example:
        >>> import torch
        >>> from gradagrad import AutoGradaGrad
        >>> model = torch.nn.Linear(4, 1)
        >>> optimizer = AutoGradaGrad(model.parameters(), averaging="polynomial")
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     model(torch.ones(8, 4)).square().mean().backward()
        ...     optimizer.step()
        >>> with optimizer.averaged():
        ...     loss = model(torch.ones(8, 4)).square().mean()

    An element whose gradient is exactly zero is idle, so sparse and dense gradients give the same numbers. A NaN or an
    infinity in a gradient spoils its element, as in torch's own optimizers, and :math:`\gamma` leaves it out.
    """

    rule = RULE
    arguments = AUTOGRADAGRAD

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        *,
        gamma0: float = 1e-4,
        momentum: float = 0.7,
        gamma_max: float = math.inf,
        guard: bool = True,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = True,
        averaging: Literal["polynomial"] | None = None,
        scope: Literal["all", "group"] = "all",
        eps: float = 0.0,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        capturable: bool = False,
        fused: bool | None = None,
        state_dtype: torch.dtype = torch.float32,
        stochastic_rounding: bool = False,
    ) -> None:
        defaults: dict[str, Any] = {
            "lr": lr, "gamma0": gamma0, "momentum": momentum, "gamma_max": gamma_max, "guard": guard,
            "weight_decay": weight_decay, "decoupled_weight_decay": decoupled_weight_decay, "averaging": averaging,
            "scope": scope, "eps": eps, "maximize": maximize, "foreach": foreach, "differentiable": differentiable,
            "capturable": capturable, "fused": fused, "state_dtype": state_dtype,
            "stochastic_rounding": stochastic_rounding,
        }  # fmt: skip
        super().__init__(params, defaults)

    _largest_lr = 0.0
    """Of the groups, as they were added. Only ratios of lr matter: between groups and over time."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As in the base class; a copy takes the lr that its groups have."""
        super().__setstate__(state)
        if not self._largest_lr:
            self._largest_lr = max((_initial_lr(group) for group in self.param_groups), default=0.0)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As in the base class; γ starts relative to the largest lr."""
        super().add_param_group(param_group)
        self._largest_lr = max(self._largest_lr, _initial_lr(self.param_groups[-1]))
        self._empty = []  # Settings of the other groups were worked out without this one.

    def _settings(self, group: Mapping[str, Any]) -> Settings:
        largest = self._largest_lr or 1.0
        return settings_of(
            Settings,
            group,
            gamma0=group["gamma0"] / largest,
            gamma_max=group["gamma_max"] / largest,
            steady_lr=group.get("initial_lr", group["lr"]),  # Torch's schedulers leave this behind.
            beta=group["momentum"],
            weight_decay=group["weight_decay"] if group["decoupled_weight_decay"] else 0.0,
            averaging=group["averaging"] is not None,
        )


def _initial_lr(group: Mapping[str, Any]) -> float:
    return float(group.get("initial_lr", group["lr"]))
