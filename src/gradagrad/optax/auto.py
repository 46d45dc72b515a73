"""AutoGradaGrad as an Optax gradient transformation. The arithmetic is `gradagrad.rules.auto`'s."""

from __future__ import annotations

import math
from collections import namedtuple
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from gradagrad.checks.arguments import AUTOGRADAGRAD, error_text
from gradagrad.optax.arguments import Numeric, checked
from gradagrad.optax.arrays import as_real, computing_dtype, like
from gradagrad.optax.step import method
from gradagrad.rules.auto import Settings
from gradagrad.rules.rule import settings_of
from gradagrad.rules.single import RULE

_KEYS = ["count", *(field.key for field in RULE.fields(Settings())), "beta"]
AutoGradaGradState = namedtuple("AutoGradaGradState", _KEYS)  # pyright: ignore[reportUntypedNamedTuple]
"""Trees of arrays, trees with a number for each array, and shared numbers, as in `gradagrad.rules.auto`."""


def auto_gradagrad(
    learning_rate: optax.ScalarOrSchedule = 1.0,
    *,
    gamma0: Numeric = 1e-4,
    momentum: Numeric = 0.6,
    weight_decay: Numeric = 0.0,
    decoupled_weight_decay: bool = True,
    mask: Any = None,
    eps: Numeric = 0.0,
    gamma_max: Numeric = math.inf,
    guard: bool = True,
    maximize: bool = False,
) -> optax.GradientTransformationExtraArgs:
    """Trains without a learning rate to choose. This is our extension of GradaGrad, not part of the paper.

    `gradagrad.AutoGradaGrad` states the method and describes its arguments. Evaluate at the parameters as they are, or
    at the average: `auto_gradagrad_eval_params`. These are different here:

    Args:
        learning_rate: multiplies the step. You need not tune it: it counts relative to the largest one so far, whether
            it is a number, a schedule or injected. A schedule that falls works, and a warm-up does nothing.
        gamma0: see `gradagrad.AutoGradaGrad`, as for momentum, eps, gamma_max, guard and maximize.
        weight_decay: shrinks the parameters by learning_rate · γ · weight_decay, as `optax.adamw` does.
        decoupled_weight_decay: False adds weight_decay · y to the gradient instead.
        mask: a tree of booleans that says where weights decay, or a function of the parameters that returns one.

    Returns:
        A transformation whose updates are added to the parameters (`optax.apply_updates`). Inside `optax.partition`
        each part has its own common vote.

    Example:
        >>> import jax, jax.numpy as jnp, optax
        >>> from gradagrad.optax import auto_gradagrad, auto_gradagrad_eval_params
        >>> optimizer = auto_gradagrad()
        >>> params = {"w": jnp.array([3.0, -4.0])}
        >>> state = optimizer.init(params)
        >>> for _ in range(300):
        ...     grads = jax.grad(lambda p: jnp.sum(p["w"] ** 2))(params)
        ...     updates, state = optimizer.update(grads, state, params)
        ...     params = optax.apply_updates(params, updates)
        >>> bool(jnp.abs(auto_gradagrad_eval_params(state, params)["w"]).max() < 0.1)
        True
    """
    arguments = checked(AUTOGRADAGRAD, locals())
    settings = settings_of(Settings, arguments, beta=arguments["momentum"])
    return method(
        arguments,
        rule=RULE,
        settings=settings,
        scope="tensor",
        state=AutoGradaGradState,
        kept=("beta",),
        needs_params=True,
        decay="rule" if decoupled_weight_decay else "coupled",
    ).transformation()


def auto_gradagrad_eval_params(state: Any, params: Any) -> Any:
    """The averaged parameters. Parameters that `auto_gradagrad` does not step are returned unchanged.

    ``state`` may also be that of a chain, of `optax.masked`, `optax.partition`, `optax.MultiSteps` and the like.
    """
    states = [a for a in jax.tree.leaves(state, is_leaf=_is_auto) if _is_auto(a)]
    if not states:
        remedy = "It is made by auto_gradagrad().init(params)."
        raise ValueError(error_text("state", "one of auto_gradagrad, or one that holds it", type(state), remedy))
    for found in states:
        params = jax.tree.map(partial(_averaged, found.beta), found.offset, params, is_leaf=_is_masked)
    return params


def _averaged(beta: Any, offset: Any, own: Any) -> Any:
    if _is_masked(offset):
        return own
    dtype = computing_dtype(jnp.asarray(own).dtype)
    values = {"x": as_real(own, dtype), "offset": offset.astype(dtype)}
    return like(RULE.average(values, Settings(beta=beta.astype(dtype))), own)


def _is_masked(a: Any) -> bool:
    """Whether this marks parameters, or a whole subtree, that another transformation steps."""
    return isinstance(a, optax.MaskedNode)


def _is_auto(a: Any) -> bool:
    return isinstance(a, AutoGradaGradState)
