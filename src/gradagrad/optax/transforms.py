"""GradaGrad as Optax gradient transformations. The arithmetic is `gradagrad.rules.gradagrad`'s."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax

from gradagrad.checks.arguments import GRADAGRAD
from gradagrad.optax.arguments import Numeric, checked, takes_learning_rate
from gradagrad.optax.step import Method
from gradagrad.rules.gradagrad import RULE, Settings, limit_of_growth
from gradagrad.rules.rule import settings_of
from gradagrad.rules.scope import Scope


class GradaGradState(NamedTuple):
    """The torch optimizer's fields. If all arrays share a step size, growth and accumulator are numbers, not trees."""

    count: Any
    momentum: Any
    growth: Any
    accumulator: Any


@takes_learning_rate
def gradagrad(
    learning_rate: optax.ScalarOrSchedule = 1.0,
    rho: Numeric = 2.0,
    momentum: Numeric = 0.0,
    granularity: Scope = "element",
    *,
    weight_decay: Numeric = 0.0,
    decoupled_weight_decay: bool = False,
    mask: Any = None,
    lr_decay: Numeric = 0.0,
    initial_accumulator_value: Numeric = 0.0,
    eps: Numeric = 1e-10,
    grad_bound: Numeric | None = None,
    gamma_max: Numeric = math.inf,
    growth_limit: Numeric | None = None,
    projection: Callable[[Any, Any], Any] | None = None,
    lazy: bool = False,
    maximize: bool = False,
    state_dtype: Any = jnp.float32,
    stochastic_rounding: bool = False,
    axis_name: Any = None,
) -> optax.GradientTransformationExtraArgs:
    r"""AdaGrad whose learning rate can also rise (Defazio, Zhou, Xiao, arXiv 2206.06900, Algorithm 2).

    AdaGrad divides by the root of a sum of :math:`g^2`, so its learning rate only falls. GradaGrad sums
    :math:`v = g^2 - \rho\, g\, m` instead, where :math:`m` is the previous (momentum) gradient. When consecutive
    gradients agree, :math:`v` is negative and the numerator :math:`\gamma` grows. When they disagree, the sum grows:

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
        learning_rate: :math:`\gamma_0`, the initial numerator, or a schedule. 1.0 suits convex problems; a neural net
            needs about 0.01 with ``granularity="element"``, because the first step moves every weight by it.
        rho: adaptivity :math:`\rho`. 0 is AdaGrad; 2 is the paper's default; shared step sizes need 10 to 100.
        momentum: :math:`\beta` in [0, 1).
        granularity: what shares a step size: ``"element"`` (the paper's Algorithm 2), ``"row"`` (first-dimension
            slices: embedding rows), ``"tensor"`` (one array), or ``"group"`` (all arrays of this transformation:
            Algorithm 1 with Lemma 4's clip, which the analysis needs). ``"all"`` means the same as ``"group"``.
        weight_decay: added to the gradient as weight_decay · x, or see the next argument.
        decoupled_weight_decay: instead shrink x by learning_rate · weight_decay, as `optax.adamw` does.
        mask: a tree of booleans that says where weights decay, or a function of the parameters that returns one.
        lr_decay: the learning rate is divided by 1 + (step − 1) · lr_decay.
        initial_accumulator_value: what :math:`\alpha` starts from.
        eps: added to :math:`\sqrt\alpha`.
        grad_bound: :math:`G_\infty`; None uses the first gradient.
        gamma_max: :math:`D_\infty`, a cap on :math:`\gamma`.
        growth_limit: largest factor by which :math:`\gamma` may grow in one step, Algorithm 1's :math:`\sqrt{1+r}`.
            None means 2 (r = 3) for ``"tensor"``, ``"group"`` and ``"all"``, and no limit for the other two.
        projection: ``(point, metric) -> point`` keeps each array in a convex set, in the norm of the diagonal metric.
        lazy: leaves an element (or row, for other granularities) alone if its gradient is exactly zero.
        maximize: ascend.
        state_dtype: ``jnp.bfloat16`` stores momentum, growth and accumulator in 2 bytes each, rounded stochastically.
        stochastic_rounding: rounds bf16 parameters at random, so that small steps are not lost. Their updates are then
            float32.
        axis_name: inside `jax.shard_map`, the mapped axes over which arrays are split: one value for all arrays, or a
            tree with None for replicated arrays. Not needed elsewhere, nor for ``granularity="element"``.

    Returns:
        A transformation whose updates are added to the parameters (`optax.apply_updates`).

    Example:
        >>> import jax, jax.numpy as jnp, optax
        >>> from gradagrad.optax import gradagrad
        >>> optimizer = gradagrad(0.5)
        >>> params = {"w": jnp.array([3.0, -4.0])}
        >>> state = optimizer.init(params)
        >>> for _ in range(50):
        ...     grads = jax.grad(lambda p: jnp.sum(p["w"] ** 2))(params)
        ...     updates, state = optimizer.update(grads, state, params)
        ...     params = optax.apply_updates(params, updates)
        >>> bool(jnp.abs(params["w"]).max() < 1e-3)
        True
    """
    given: dict[str, Any] = {
        "lr": learning_rate, "rho": rho, "momentum": momentum, "granularity": granularity,
        "weight_decay": weight_decay, "decoupled_weight_decay": decoupled_weight_decay, "lr_decay": lr_decay,
        "initial_accumulator_value": initial_accumulator_value, "eps": eps, "grad_bound": grad_bound,
        "gamma_max": gamma_max, "growth_limit": growth_limit, "projection": projection, "lazy": lazy,
        "maximize": maximize, "state_dtype": state_dtype, "stochastic_rounding": stochastic_rounding,
        "axis_name": axis_name,
    }  # fmt: skip
    arguments = checked(GRADAGRAD, given)
    return replace(
        _method(arguments),
        learning_rate=arguments["lr"],
        lr_decay=arguments["lr_decay"],
        weight_decay=arguments["weight_decay"],
        decay="beside" if decoupled_weight_decay else "coupled",
        mask=mask,
        needs_params=projection is not None,
        maximize=maximize,
        stochastic_rounding=stochastic_rounding,
    ).transformation()


def scale_by_gradagrad(
    rho: Numeric = 2.0,
    momentum: Numeric = 0.0,
    granularity: Scope = "element",
    *,
    initial_accumulator_value: Numeric = 0.0,
    eps: Numeric = 1e-10,
    grad_bound: Numeric | None = None,
    gamma_max: Numeric = math.inf,
    growth_limit: Numeric | None = None,
    lazy: bool = False,
    state_dtype: Any = jnp.float32,
    axis_name: Any = None,
) -> optax.GradientTransformationExtraArgs:
    """GradaGrad's direction for a learning rate of 1, to be followed by `optax.scale_by_learning_rate`.

    The arguments are those of `gradagrad`, except that gamma_max caps only the growth.
    """
    given: dict[str, Any] = {
        "rho": rho, "momentum": momentum, "granularity": granularity,
        "initial_accumulator_value": initial_accumulator_value, "eps": eps, "grad_bound": grad_bound,
        "gamma_max": gamma_max, "growth_limit": growth_limit, "lazy": lazy, "state_dtype": state_dtype,
        "axis_name": axis_name,
    }  # fmt: skip
    arguments = checked(GRADAGRAD, given)
    return replace(_method(arguments), descends=False).transformation()


def _method(arguments: Mapping[str, Any]) -> Method:
    """What both transformations share."""
    return Method(
        rule=RULE,
        settings=settings_of(
            Settings,
            {key: a for key, a in arguments.items() if key not in ("lr", "weight_decay")},  # `Method` has them
            beta=arguments["momentum"],
            growth_limit=limit_of_growth(arguments["growth_limit"], arguments["granularity"]),
            project=arguments.get("projection"),
        ),
        scope=arguments["granularity"],
        state=GradaGradState,
        state_dtype=arguments["state_dtype"],
        axis_name=arguments["axis_name"],
    )
