"""GradaGrad as an Optax gradient transformation. The arithmetic is `gradagrad.rules.gradagrad`'s."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import optax

from gradagrad.checks.arguments import GRADAGRAD
from gradagrad.optax.arguments import Numeric, checked
from gradagrad.optax.step import method
from gradagrad.rules.gradagrad import RULE, settings_from
from gradagrad.rules.scope import Scope


class GradaGradState(NamedTuple):
    """The torch optimizer's fields. If all arrays share a step size, growth and accumulator are numbers, not trees."""

    count: Any
    momentum: Any
    growth: Any
    accumulator: Any
    travelled: Any = None


def gradagrad(
    learning_rate: optax.ScalarOrSchedule = 1.0,
    rho: Numeric = 2.0,
    momentum: Numeric = 0.0,
    granularity: Scope = "element",
    *,
    weight_decay: Numeric = 0.0,
    decoupled_weight_decay: bool = False,
    mask: Any = None,
    initial_accumulator_value: Numeric = 0.0,
    eps: Numeric = 1e-10,
    grad_bound: Numeric | None = None,
    gamma_max: Numeric | Literal["travelled"] = math.inf,
    growth_limit: Numeric | None = None,
    projection: Callable[[Any, Any], Any] | None = None,
    lazy: bool = False,
    maximize: bool = False,
) -> optax.GradientTransformationExtraArgs:
    """AdaGrad whose learning rate can also rise (Defazio, Zhou, Xiao, arXiv 2206.06900, Algorithm 2).

    `gradagrad.GradaGrad` states the method and describes its arguments. These are different here:

    Args:
        learning_rate: γ₀, a number or a schedule. With ``granularity="element"`` it is the first step of every weight:
            1.0 suits convex problems, 0.01 suits nets, and 3e-4 suits fine-tuning.
        rho: see `gradagrad.GradaGrad`, as for momentum, initial_accumulator_value, eps, grad_bound, gamma_max,
            growth_limit, lazy and maximize.
        granularity: what shares a step size: ``"element"``, ``"row"``, ``"tensor"`` (one array), or ``"group"`` (all
            arrays of this transformation). ``"all"`` means the same as ``"group"``.
        weight_decay: adds weight_decay · x to the gradient, unless the next argument is True.
        decoupled_weight_decay: instead shrink x by learning_rate · weight_decay, as `optax.adamw` does.
        mask: a tree of booleans that says where weights decay, or a function of the parameters that returns one.
        projection: ``(point, metric) -> point`` keeps each array in a convex set, in the norm of the diagonal metric.

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
    arguments = checked(GRADAGRAD, locals())
    settings = settings_from(arguments, granularity, project=projection)
    decoupled = "rule" if settings.travelled else "beside"  # The rule sees all that x travels.
    return method(
        arguments,
        rule=RULE,
        settings=settings,
        scope=granularity,
        state=GradaGradState,
        decay=decoupled if decoupled_weight_decay else "coupled",
        needs_params=projection is not None,
    ).transformation()
