"""AutoGradaGrad as an Optax gradient transformation. The arithmetic is `gradagrad.rules.auto`'s."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gradagrad.checks.arguments import AUTOGRADAGRAD, error_text
from gradagrad.optax.arguments import checked, takes_learning_rate
from gradagrad.optax.arrays import like
from gradagrad.optax.step import Method
from gradagrad.rules.auto import RULE, Settings
from gradagrad.rules.rule import settings_of

Numeric = float | Any
"""A float, or an array: `optax.inject_hyperparams` passes traced ones."""


class AutoGradaGradState(NamedTuple):
    """Trees of momentum, accumulator, displacement and average, and the numbers that all parameters share."""

    count: Any
    momentum: Any
    accumulator: Any
    displacement: Any
    clock: Any
    gamma: Any
    agreement_square: Any
    displacement_scale: Any
    average: Any = None
    square_total: Any = None


@takes_learning_rate
def auto_gradagrad(
    learning_rate: optax.ScalarOrSchedule = 1.0,
    *,
    gamma0: Numeric = 1e-4,
    momentum: Numeric = 0.7,
    weight_decay: Numeric = 0.0,
    decoupled_weight_decay: bool = True,
    mask: Any = None,
    eps: Numeric = 0.0,
    gamma_max: Numeric = math.inf,
    guard: bool = True,
    averaging: Literal["polynomial"] | None = None,
    maximize: bool = False,
    state_dtype: Any = jnp.float32,
    stochastic_rounding: bool = False,
    axis_name: Any = None,
) -> optax.GradientTransformationExtraArgs:
    r"""AdaGrad that finds its own learning rate. Our extension of GradaGrad, not the paper's.

    Every element keeps AdaGrad's denominator, all of them share one numerator :math:`\gamma`, and :math:`\log\gamma` is
    trained by the same AdaGrad, its gradient being the agreement of each new gradient with the displacement so far:

    .. math::
       \begin{aligned}
         P_k &= \sqrt{\gamma_k}\, c_k \sum g_k Y_{k-1}, \qquad B_k = B_{k-1} + k\, g_k^2, \qquad
                h_k = \beta h_{k-1} + (1-\beta) g_k \\
         d_k &= h_k / \sqrt{2 B_k/(k+1)}, \qquad x_k = x_{k-1} - \mathrm{lr}\, \gamma_k d_k, \qquad
                Y_k = Y_{k-1} + (\sqrt{\gamma_k}/c_k)\, d_k \\
         v_k &= v_{k-1} + \tfrac{2}{k+1}(P_k^2 - v_{k-1}), \qquad
                \gamma_{k+1} = \gamma_k \big(1 + P_k / (2\sqrt{k\, v_k})\big), \qquad
                c_{k+1} = c_k \big(1 - \tfrac{1}{2(k+1)}\big)
       \end{aligned}

    With ``averaging="polynomial"`` the average of the points is kept as well: `auto_gradagrad_eval_params`.

    Args:
        learning_rate: multiplies the step. Not a rate to tune: a number only changes units. A schedule counts in the
            steps, and not in the displacement that they are judged by, which would undo it.
        gamma0: :math:`\gamma` to start from.
        momentum: :math:`\beta` in [0, 1).
        weight_decay: shrinks x by learning_rate · γ/√k · weight_decay, or:
        decoupled_weight_decay: False adds weight_decay · x to the gradient instead.
        mask: a tree of booleans, or a function of the parameters that makes one: where weights decay.
        eps: added to the root of the squares. 0 keeps the method independent of the loss's scale.
        gamma_max: a cap on :math:`\gamma`.
        guard: lets no gradient weigh more than all before it together; costs one more look at the gradients.
        averaging: ``"polynomial"`` keeps an average of the points beside the parameters; a third more state.
        maximize: ascend.
        state_dtype: ``jnp.bfloat16`` stores what is kept for each element in 2 bytes, rounded stochastically.
        stochastic_rounding: bf16 parameters are rounded at random; their updates are then float32.
        axis_name: inside `jax.shard_map`: the mapped axes that arrays are spread over, one for all of them or a tree
            with None where they are replicated.

    Returns:
        A transformation whose updates are added to the parameters (`optax.apply_updates`). All that it is given share
        one :math:`\gamma`; inside `optax.partition` each part has its own.

    Example:
        >>> import jax, jax.numpy as jnp, optax
        >>> from gradagrad.optax import auto_gradagrad, auto_gradagrad_eval_params
        >>> optimizer = auto_gradagrad(averaging="polynomial")
        >>> params = {"w": jnp.array([3.0, -4.0])}
        >>> state = optimizer.init(params)
        >>> for _ in range(200):
        ...     grads = jax.grad(lambda p: jnp.sum(p["w"] ** 2))(params)
        ...     updates, state = optimizer.update(grads, state, params)
        ...     params = optax.apply_updates(params, updates)
        >>> bool(jnp.abs(auto_gradagrad_eval_params(state, params)["w"]).max() < 0.1)
        True
    """
    given: dict[str, Any] = {
        "lr": learning_rate, "gamma0": gamma0, "momentum": momentum, "weight_decay": weight_decay,
        "decoupled_weight_decay": decoupled_weight_decay, "eps": eps, "gamma_max": gamma_max, "guard": guard,
        "averaging": averaging, "maximize": maximize, "state_dtype": state_dtype,
        "stochastic_rounding": stochastic_rounding, "axis_name": axis_name,
    }  # fmt: skip
    arguments = checked(AUTOGRADAGRAD, given)
    lr = arguments["lr"]
    steady = lr if isinstance(lr, float) else 1.0
    start = steady or 1.0  # Only ratios of lr matter, so γ starts relative to it.
    return Method(
        rule=RULE,
        settings=settings_of(
            Settings,
            {key: a for key, a in arguments.items() if key not in ("lr", "weight_decay")},  # `Method` has them
            steady_lr=steady,
            gamma0=arguments["gamma0"] / start,
            gamma_max=arguments["gamma_max"] / start,
            beta=arguments["momentum"],
            averaging=averaging is not None,
        ),
        scope="all",
        state=AutoGradaGradState,
        learning_rate=lr,
        weight_decay=arguments["weight_decay"],
        decay="rule" if decoupled_weight_decay else "coupled",
        mask=mask,
        needs_params=averaging is not None,
        maximize=maximize,
        state_dtype=arguments["state_dtype"],
        stochastic_rounding=stochastic_rounding,
        axis_name=axis_name,
    ).transformation()


def auto_gradagrad_eval_params(state: Any, params: Any) -> Any:
    """The averaged parameters, wherever in ``state`` `auto_gradagrad` keeps them; all other parameters as they are.

    ``state`` may be that of a chain, or of `optax.masked`, `optax.partition`, `optax.MultiSteps` and the like.
    """
    states = [a for a in jax.tree.leaves(state, is_leaf=_is_auto) if _is_auto(a) and a.average is not None]
    if not states:
        remedy = 'It is made by auto_gradagrad(averaging="polynomial").init(params).'
        raise ValueError(error_text("state", "one that holds an average", type(state), remedy))
    for found in states:
        params = jax.tree.map(_averaged, found.average, params, is_leaf=_is_masked)
    return params


def _averaged(mean: Any, own: Any) -> Any:
    return own if _is_masked(mean) else like(mean, own)


def _is_masked(a: Any) -> bool:
    """Whether this stands for what another transformation steps, a whole subtree maybe."""
    return isinstance(a, optax.MaskedNode)


def _is_auto(a: Any) -> bool:
    return isinstance(a, AutoGradaGradState)
