"""One step of any rule over a tree of arrays: measure, decide, move, learn. The only place that orders things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from gradagrad.checks.arguments import error_text
from gradagrad.optax.arrays import (
    Array,
    ArrayOps,
    as_real,
    block_dtype,
    computing_dtype,
    filled,
    in_precision,
    wide_dtype,
)
from gradagrad.optax.leaf import Leaf, evaluate
from gradagrad.optax.rounding import Rounder
from gradagrad.optax.sharing import axes_of_leaves, over_devices, over_leaves
from gradagrad.rules.gradagrad import is_off
from gradagrad.rules.rule import PARAMETER, Field, Rule
from gradagrad.rules.scope import SHARED

Tree = Any


@dataclass(frozen=True)
class Method:
    """A rule with its settings, who shares its decisions, and what is the same for every rule."""

    rule: Rule
    settings: Any
    """The rule's own, but for lr and weight decay, which are set in every step."""
    scope: str
    state: type[Any]
    """A NamedTuple with ``count`` and a name for each of the rule's fields."""
    learning_rate: Any = 1.0
    lr_decay: Any = 0.0
    weight_decay: Any = 0.0
    decay: str = "coupled"
    """How weights decay: "coupled", as part of the gradient; "rule", as the rule has it; "beside" the rule."""
    mask: Any = None
    needs_params: bool = False
    maximize: bool = False
    descends: bool = True
    """Whether updates lead downhill; False for a direction that a chain scales and turns round."""
    state_dtype: Any = jnp.float32
    stochastic_rounding: bool = False
    axis_name: Any = None

    def transformation(self) -> optax.GradientTransformationExtraArgs:
        """The method as Optax takes it."""
        return optax.GradientTransformationExtraArgs(self._init, self._update)  # pyright: ignore[reportArgumentType]

    def _init(self, params: Tree) -> Any:
        fields = self.rule.fields(self.settings)
        return self.state(count=jnp.zeros((), jnp.int32), **{field.key: self._start(field, params) for field in fields})

    def _start(self, field: Field, params: Tree) -> Any:
        """A field before the first step: one array that all share, or one for each parameter."""
        value = field.start if field.start == PARAMETER else getattr(self.settings, str(field.start), field.start)
        if field.at == "block" and self.scope in SHARED:
            return jnp.asarray(value, wide_dtype())
        scope = "element" if field.at == "element" else self.scope

        def start(parameter: Array) -> Array:
            rounds = scope == "element" and self.state_dtype == jnp.bfloat16
            dtype = jnp.bfloat16 if rounds else block_dtype(computing_dtype(jnp.asarray(parameter).dtype), scope)
            if field.start == PARAMETER:
                return jnp.array(as_real(parameter, dtype), copy=True)  # a buffer of its own: parameters may be donated
            return filled(parameter, value, dtype, scope)

        return jax.tree.map(start, params)

    def _update(self, updates: Tree, state: Any, params: Tree = None, **extra: Any) -> tuple[Tree, Any]:
        del extra
        gradients, tree = jax.tree.flatten(updates)
        count = optax.safe_increment(state.count)
        if not gradients:
            return updates, state._replace(count=count)
        fields = self.rule.fields(self.settings)
        shared = {f.key: getattr(state, f.key) for f in fields if f.at == "block" and self.scope in SHARED}
        own = {f.key: tree.flatten_up_to(getattr(state, f.key)) for f in fields if f.key not in shared}
        settings = self.settings._replace(lr=self._lr(state.count), weight_decay=self._decay("rule"))
        leaves = self._leaves(tree, gradients, params, own, settings, count)

        after: list[dict[str, Array]] = []
        moves: list[Sequence[Array]] = [()] * len(leaves)  # the factors of each leaf
        if self.scope != "element":
            sums = self._summed(leaves, [leaf.measure() for leaf in leaves])
            if shared:
                decided = [self.rule.decide(sums[0], shared, *_wide(settings))]
            else:
                decided = [leaf.decide(part) for leaf, part in zip(leaves, sums, strict=True)]
            after = [block for block, _ in decided]
            moves = [factors for _, factors in decided] * (len(leaves) if shared else 1)
        results = [self._results(leaf, factors, fields) for leaf, factors in zip(leaves, moves, strict=True)]
        if shared and self.rule.learns(settings):
            statistics = self._summed(leaves, [result["statistics"] for result in results])
            after = [self.rule.learn(statistics[0], after[0], *_wide(settings))]

        new: dict[str, Any] = {}
        for f in fields:
            if f.key in shared:
                new[f.key] = jnp.asarray(after[0][f.key], shared[f.key].dtype)
            elif f.key in results[0]:
                new[f.key] = tree.unflatten(result[f.key] for result in results)
            else:
                new[f.key] = tree.unflatten(
                    leaf.stored(f, block[f.key]) for leaf, block in zip(leaves, after, strict=True)
                )
        return tree.unflatten(result["update"] for result in results), state._replace(count=count, **new)

    def _results(self, leaf: Leaf, factors: Sequence[Array], fields: Sequence[Field]) -> dict[str, Any]:
        """A leaf's update, what it leaves for the others, and its fields after the step."""

        def outcome(leaf: Leaf) -> dict[str, Any]:
            step, new, statistics = leaf.outcome(factors)
            new = {f.key: leaf.stored(f, new[f.key]) for f in fields if f.key in new}
            if self.stochastic_rounding:
                return {"update": leaf.rounded_update(step), "statistics": statistics, **new}
            return {"update": leaf.update(step if self.descends else -step), "statistics": statistics, **new}

        # What depends on most comes first: see `evaluate`.
        blocks = [f.key for f in fields if f.at == "block" and self.scope == "element"]
        elements = [f.key for f in fields if f.at == "element"]
        return evaluate(leaf, outcome, ["update", "statistics", *blocks, *reversed(elements)])

    def _lr(self, count: Array) -> Any:
        lr = self.learning_rate(count) if callable(self.learning_rate) else self.learning_rate
        return lr if is_off(self.lr_decay) else lr / (1.0 + count * self.lr_decay)

    def _decay(self, kind: str) -> Any:
        return self.weight_decay if self.decay == kind else 0.0

    def _leaves(
        self, tree: Any, gradients: list[Array], params: Tree, own: dict[str, list[Array]], settings: Any, count: Array
    ) -> list[Leaf]:
        """What each array brings to the step."""
        needs_params = self.needs_params or self.stochastic_rounding or not is_off(self.weight_decay)
        if params is None and needs_params:
            remedy = "Call update(grads, state, params): this step depends on where it starts."
            raise ValueError(error_text("params", "the parameters that the gradients were taken at", None, remedy))
        points = [None] * len(gradients) if params is None else tree.flatten_up_to(params)
        decays = [True] * len(gradients)
        if self.mask is not None:
            mask = self.mask(params) if callable(self.mask) else self.mask
            decays = tree.flatten_up_to(jax.tree.broadcast(mask, tree.unflatten(gradients)))
        axes = axes_of_leaves(self.axis_name, tree.unflatten(gradients))
        leaves: list[Leaf] = []
        for i, (gradient, point) in enumerate(zip(gradients, points, strict=True)):
            leaves.append(
                Leaf(
                    rule=self.rule,
                    settings=settings if decays[i] else settings._replace(weight_decay=0.0),
                    scope=self.scope,
                    dtype=computing_dtype(jnp.asarray(gradient if point is None else point).dtype),
                    gradient=gradient,
                    parameter=point,
                    state={key: values[i] for key, values in own.items()},
                    axes=axes[i],
                    rounder=Rounder(gradient, count, i, axes[i]),
                    maximize=self.maximize,
                    coupled_decay=self._decay("coupled") if decays[i] else 0.0,
                    decay_beside=self._decay("beside") * settings.lr if decays[i] else 0.0,
                )
            )
        return leaves

    def _summed(self, leaves: Sequence[Leaf], parts: Sequence[tuple[Array, ...]]) -> Sequence[tuple[Array, ...]]:
        """Sums of whole blocks from those of the leaves, whose parts may be on several devices."""
        if not parts[0]:
            return parts
        if self.scope in SHARED:
            total = over_leaves([jnp.stack(part) for part in parts], [leaf.axes for leaf in leaves])
            return [tuple(total)] * len(leaves)
        return [tuple(over_devices(a, leaf.axes) for a in part) for leaf, part in zip(leaves, parts, strict=True)]


def _wide(settings: Any) -> tuple[Any, ArrayOps]:
    """What the rule is given where all leaves share a block."""
    dtype = wide_dtype()
    return in_precision(settings, dtype), ArrayOps(dtype)
