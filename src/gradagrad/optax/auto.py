"""AutoGradaGrad as an Optax gradient transformation. The arithmetic is `gradagrad.rules.auto`'s."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gradagrad.checks.arguments import AUTOGRADAGRAD, error_text
from gradagrad.optax.arguments import Numeric, checked, takes_learning_rate
from gradagrad.optax.arrays import as_real, computing_dtype, like
from gradagrad.optax.step import Method
from gradagrad.rules.auto import Settings
from gradagrad.rules.rule import settings_of
from gradagrad.rules.single import RULE


class AutoGradaGradState(NamedTuple):
    """Trees of arrays, trees with a number for each array, and shared numbers, as in `gradagrad.rules.auto`."""

    count: Any
    accumulator: Any
    offset: Any
    displacement: Any
    gamma: Any
    agreement_square: Any
    clock: Any
    displacement_scale: Any
    weight_total: Any
    common_gamma: Any
    common_square: Any
    beta: Any


@takes_learning_rate
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
    state_dtype: Any = jnp.float32,
    stochastic_rounding: bool = False,
    axis_name: Any = None,
) -> optax.GradientTransformationExtraArgs:
    r"""Trains without a learning rate to choose. This is our extension of GradaGrad, not part of the paper.

    Gradients are taken at the parameters :math:`y`, which lie between a fast iterate :math:`z` and the average
    :math:`\bar x` of all its positions, as in Schedule-Free training. Each array has its own :math:`\gamma`, whose
    logarithm is one more parameter, trained by the same AdaGrad. Its gradient is the agreement between the new gradient
    :math:`g` and the displacement :math:`D` of :math:`y` so far.

    .. math::
       \begin{aligned}
         P_k &= \sqrt{\gamma_k}\, h_k \sum g_k\, D_{k-1}, \qquad
         a_k = \tfrac{2}{k(k+1)} \sum_{i \le k} i\, g_i^2, \qquad
         z_k = z_{k-1} - \mathrm{lr} \cdot \gamma_k\, g_k / \sqrt{a_k} \\
         \bar x_k &= \bar x_{k-1} + \frac{w_k}{\sum_{i \le k} w_i} (z_k - \bar x_{k-1}), \qquad
         y_k = (1-\beta)\, z_k + \beta\, \bar x_k \\
         D_k &= \big(D_{k-1} + (y_{k-1} - y_k)/(\sqrt{\gamma_k}\, h_k)\big) \big(1 - \tfrac{1/2}{k+1}\big) \\
         v_k &= v_{k-1} + \tfrac{2}{k+1} (P_k^2 - v_{k-1}), \qquad
         \gamma_{k+1} = \gamma_k \big(1 + \tfrac12 (u_k + U_k)\big) \\
         u_k &= \operatorname{clip}\big(0.85\, P_k / \sqrt{k\, v_k},\ \pm 0.1\big)
       \end{aligned}

    :math:`h \le 1` says how far the mean :math:`\gamma` has fallen below its past. :math:`U` is the same vote of all
    arrays together, and each :math:`\log \gamma` is pulled a little towards the mean.
    Evaluate at the parameters as they are, or at the average: `auto_gradagrad_eval_params`.

    Args:
        learning_rate: multiplies the step. Not a rate to tune: only its ratios over time matter, because
            :math:`\gamma` starts at gamma0 divided by it. A schedule, or an injected number, counts relative to 1.
        gamma0: :math:`\gamma_0`. Anything below a good learning rate works.
        momentum: :math:`\beta`, the share of the average in the parameters.
        weight_decay: shrinks the parameters by learning_rate · γ · weight_decay, as `optax.adamw` does.
        decoupled_weight_decay: False adds weight_decay · y to the gradient instead.
        mask: a tree of booleans that says where weights decay, or a function of the parameters that returns one.
        eps: added to the root. 0 keeps the method independent of the loss's scale.
        gamma_max: a cap on :math:`\gamma`.
        guard: limits each gradient of an element to the weight of all earlier ones together, so that one outlier cannot
            freeze its learning rate.
        maximize: ascend.
        state_dtype: ``jnp.bfloat16`` stores the state of each element in 2 bytes per number, rounded stochastically.
        stochastic_rounding: rounds bf16 parameters at random. Their updates are then float32.
        axis_name: inside `jax.shard_map`, the mapped axes over which arrays are split: one value for all arrays, or a
            tree with None for replicated arrays.

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
    given: dict[str, Any] = {
        "lr": learning_rate, "gamma0": gamma0, "momentum": momentum, "weight_decay": weight_decay,
        "decoupled_weight_decay": decoupled_weight_decay, "eps": eps, "gamma_max": gamma_max, "guard": guard,
        "maximize": maximize, "state_dtype": state_dtype, "stochastic_rounding": stochastic_rounding,
        "axis_name": axis_name,
    }  # fmt: skip
    arguments = checked(AUTOGRADAGRAD, given)
    lr = arguments["lr"]
    largest = lr if isinstance(lr, float) and lr else 1.0
    return Method(
        rule=RULE,
        settings=settings_of(
            Settings,
            {key: a for key, a in arguments.items() if key not in ("lr", "weight_decay")},  # `Method` has them
            gamma0=arguments["gamma0"] / largest,
            gamma_max=arguments["gamma_max"] / largest,
            beta=arguments["momentum"],
        ),
        scope="tensor",
        state=AutoGradaGradState,
        kept=("beta",),
        learning_rate=lr,
        weight_decay=arguments["weight_decay"],
        decay="rule" if decoupled_weight_decay else "coupled",
        mask=mask,
        maximize=maximize,
        state_dtype=arguments["state_dtype"],
        stochastic_rounding=stochastic_rounding,
        axis_name=axis_name,
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
