"""AutoGradaGrad, our extension: its arguments. The arithmetic is `gradagrad.rules.auto`'s."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from gradagrad.averaging import Averaged
from gradagrad.checks.arguments import AUTOGRADAGRAD, explains_unknown
from gradagrad.rules.auto import RULE, Settings
from gradagrad.rules.rule import settings_of


class AutoGradaGrad(Averaged):
    r"""Trains without a learning rate to choose. It is our extension of GradaGrad, not part of the paper.

    Gradients are taken at the parameters :math:`y`, which lie between a fast iterate :math:`z` and the average
    :math:`\bar x` of all its positions, as in Schedule-Free training. Each tensor has its own :math:`\gamma`, whose
    logarithm is one more parameter, trained by the same AdaGrad. Its gradient is the agreement between the new gradient
    :math:`g` and the displacement :math:`D` so far of a point :math:`q` between :math:`y` and the average. A limit
    :math:`L` keeps a step from moving a tensor by more than a share of its own size.

    .. math::
       \begin{aligned}
         P_k &= \sqrt{\gamma_k}\, h_k \sum g_k\, D_{k-1}, \qquad
         a_k = \tfrac{2}{k(k+1)} \sum_{i \le k} i\, g_i^2, \qquad
         z_k = z_{k-1} - \mathrm{lr} \cdot \gamma_k\, g_k / \sqrt{a_k} \\
         \bar x_k &= \bar x_{k-1} + \frac{w_k}{\sum_{i \le k} w_i} (z_k - \bar x_{k-1}), \qquad
         y_k = (1-\beta)\, z_k + \beta\, \bar x_k \\
         q_k &= y_k + 0.3\, (\bar x_k - y_k), \qquad
         D_k = \big(D_{k-1} + (q_{k-1} - q_k)/(\sqrt{\gamma_k}\, h_k)\big) \big(1 - \tfrac{1/2}{k+1}\big) \\
         v_k &= v_{k-1} + \tfrac{2}{k+1} (P_k^2 - v_{k-1}), \qquad
         \gamma_{k+1} = \gamma_k \big(1 + \tfrac12 (u_k + U_k)\big) \\
         u_k &= \operatorname{clip}\big(0.85\, P_k / \sqrt{k\, v_k},\ \pm \max(0.1, 1/\sqrt k)\big), \qquad
         L = 0.06\, \max(0.03,\, \operatorname{rms} y) / \operatorname{rms}(g/\sqrt a)
       \end{aligned}

    :math:`h \le 1` says how far the mean :math:`\gamma` has fallen below its past. :math:`U` is the same vote of all
    tensors together, and each :math:`\log \gamma` is pulled a little towards the mean. :math:`\gamma` grows while the
    newest parameters are better than those before them, and falls once noise or oscillation makes them worse. A
    :math:`\gamma` above its limit loses a fifth of its excess, in logarithms, in each step, because nothing votes it
    down once units or a loss saturate. :math:`\gamma` starts at three hundredths of the limit.

    Evaluate at the parameters as they are, or at the average: between ``optimizer.eval()`` and ``optimizer.train()``.

    Args:
        params: parameters, named parameters or param groups.
        lr: multiplies the step, for schedulers and for groups that should move slower or faster. Not a learning rate to
            tune: it counts relative to the largest lr of any group so far. A schedule that falls works, a warm-up does
            nothing, and a learning rate copied from elsewhere is harmless.
        gamma0: :math:`\gamma_0`, the :math:`\gamma` of a tensor's first step, which measures its limit. Anything small
            works, and a smaller value does not slow training down.
        momentum: :math:`\beta`, the share of the average in the parameters.
        gamma_max: a cap on :math:`\gamma`.
        guard: limits each gradient of an element to the size of all earlier ones together, so that one outlier cannot
            freeze its learning rate.
        weight_decay: shrinks the parameters by lr · γ · weight_decay, as AdamW does.
        decoupled_weight_decay: False adds weight_decay · y to the gradient instead.
        eps: added to the root. 0 keeps the method independent of the loss's scale.
        maximize, foreach, differentiable, capturable, fused, state_dtype, stochastic_rounding: as in
            `gradagrad.GradaGrad`.

    All param groups share gamma0.

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

    With sparse gradients, rows without a gradient catch up when they are next touched, and when you call
    ``state_dict`` or ``averaged``. Until then a forward pass reads their old values, so a sparse run ends near the
    dense one and not at the same numbers. A step in which every gradient is zero changes nothing.

    A NaN in a gradient makes its element NaN, as in torch's own optimizers, and :math:`\gamma` leaves it out. The same
    holds for an infinity that is the element's first gradient. The guard limits later infinities; without
    it they ruin the element too.
    """

    rule = RULE
    arguments = AUTOGRADAGRAD
    common_settings = ("lr",)

    @explains_unknown(AUTOGRADAGRAD.elsewhere)
    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        *,
        gamma0: float = 1e-4,
        momentum: float = 0.6,
        gamma_max: float = math.inf,
        guard: bool = True,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = True,
        eps: float = 0.0,
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

    def _first_step_may_be_large(self) -> bool:
        # The default may move a tensor of tiny weights by more than its norm, and no smaller value would be better.
        return any(group["gamma0"] > Settings().gamma0 for group in self.param_groups)

    def _settings(self, group: Mapping[str, Any]) -> Settings:
        lrs = [other["lr"] for other in self.param_groups]
        tensors = [lr.reshape(()) for lr in lrs if isinstance(lr, Tensor)]
        if tensors:  # A single one is not copied, because its value may change in place.
            numbers = [torch.full_like(tensors[0], lr) for lr in lrs if not isinstance(lr, Tensor)]
            lrs = tensors if len(lrs) == 1 else [torch.stack([*tensors, *numbers]).max()]
        return settings_of(
            Settings,
            group,
            top_lr=max(lrs),
            beta=group["momentum"],
            weight_decay=group["weight_decay"] if group["decoupled_weight_decay"] else 0.0,
        )


AutoGradaGradScheduleFree = AutoGradaGrad
"""The same class, for trainers that call ``eval()`` and ``train()`` only if a name ends in "ScheduleFree"."""
