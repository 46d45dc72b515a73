"""One step of any rule over a tree of arrays, in order: measure, decide, move, learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import optax

from gradagrad.checks.arguments import error_text
from gradagrad.optax.arrays import (
    Array,
    ArrayOps,
    block_dtype,
    computing_dtype,
    filled,
    in_precision,
    mapped_axes,
    wide_dtype,
)
from gradagrad.optax.leaf import Leaf
from gradagrad.rules.gradagrad import is_off
from gradagrad.rules.rule import Block, Field, Rule
from gradagrad.rules.scope import SHARED

Tree = Any
Results = dict[str, Any]
"""The results of a step for one leaf: "update", "statistics", and its fields by key."""


@dataclass(frozen=True)
class Method:
    """A rule with its settings and its scope, and the options that every rule has."""

    rule: Rule
    settings: Any
    """The rule's own settings. Each step sets lr and weight decay."""
    scope: str
    state: type[Any]
    """A NamedTuple with ``count`` and a name for each of the rule's fields."""
    kept: Sequence[str] = ()
    """Settings that the state also holds, for functions that get only the state."""
    learning_rate: Any = 1.0
    lr_decay: Any = 0.0
    weight_decay: Any = 0.0
    decay: str = "coupled"
    """How weights decay: "coupled" (part of the gradient), "rule" (by the rule), or "beside" (outside the rule)."""
    mask: Any = None
    needs_params: bool = False
    maximize: bool = False
    descends: bool = True
    """Whether updates point downhill. False for a direction that a chain scales and negates."""

    def transformation(self) -> optax.GradientTransformationExtraArgs:
        """The method as an Optax transformation."""
        return optax.GradientTransformationExtraArgs(self._init, self._update)  # pyright: ignore[reportArgumentType]

    @cached_property
    def _fields(self) -> tuple[Field, ...]:
        return self.rule.fields(self.settings)

    def _init(self, params: Tree) -> Any:
        start = {field.key: self._start(field, params) for field in self._fields}
        return self.state(count=jnp.zeros((), jnp.int32), **start, **self._kept())

    def _kept(self) -> dict[str, Array]:
        return {name: jnp.asarray(getattr(self.settings, name), wide_dtype()) for name in self.kept}

    def _is_shared(self, field: Field) -> bool:
        """Whether all parameters share one number."""
        return field.at == "shared" or (field.at == "block" and self.scope in SHARED)

    def _start(self, field: Field, params: Tree) -> Any:
        """A field before the first step: one shared array, or one for each parameter."""
        value = getattr(self.settings, str(field.start), field.start)
        if self._is_shared(field):
            return jnp.asarray(value, wide_dtype())
        scope = "element" if field.at == "element" else self.scope

        def start(parameter: Array) -> Array:
            return filled(parameter, value, block_dtype(computing_dtype(jnp.asarray(parameter).dtype), scope), scope)

        return jax.tree.map(start, params)

    def _update(self, updates: Tree, state: Any, params: Tree = None, **extra: Any) -> tuple[Tree, Any]:
        del extra
        gradients, tree = jax.tree.flatten(updates)
        count = optax.safe_increment(state.count)
        if not gradients:
            return updates, state._replace(count=count)
        if self.scope != "element" and (axes := set().union(*map(mapped_axes, gradients))):
            raise ValueError(
                f"gradients must be whole where arrays share a step size, got parts over the mapped axes {axes} of "
                'jax.shard_map. Let jax.jit shard the arrays, or use gradagrad with granularity="element".'
            )
        shared = {f.key: getattr(state, f.key) for f in self._fields if self._is_shared(f)}
        own = {f.key: tree.flatten_up_to(getattr(state, f.key)) for f in self._fields if f.key not in shared}
        settings = self.settings._replace(lr=self._lr(state.count), weight_decay=self._decay("rule"))
        if self.rule.learns:  # A step in which every gradient is zero changes nothing.
            found = [jnp.any(jnp.asarray(g) != 0).astype(wide_dtype()) for g in gradients]
            settings = settings._replace(moved=jnp.stack(found).max())
            count = jnp.where(settings.moved > 0, count, state.count)
        leaves = self._leaves(tree, gradients, params, own, settings)
        step = self._learning_step if self.rule.learns else self._step
        results, after = step(leaves, shared, settings)
        new = self._kept()
        for f in self._fields:
            if f.key in shared:
                new[f.key] = jnp.asarray(after[0][f.key], shared[f.key].dtype)
            elif f.key in results[0]:
                new[f.key] = tree.unflatten(result[f.key] for result in results)
            else:
                blocks = zip(leaves, after, strict=True)
                new[f.key] = tree.unflatten(leaf.stored(f, block[f.key]) for leaf, block in blocks)
        return tree.unflatten(result["update"] for result in results), state._replace(count=count, **new)

    def _step(self, leaves: Sequence[Leaf], shared: Block, settings: Any) -> tuple[list[Results], list[Block]]:
        """The results of each leaf, and the numbers of its block after the step."""
        parts = [leaf.measure() for leaf in leaves]
        if shared:
            sums = jnp.stack([jnp.stack(part) for part in parts]).sum(0)
            decided = [self.rule.decide(tuple(sums), shared, *_wide(settings))] * len(leaves)
        else:
            decided = [leaf.decide(part) for leaf, part in zip(leaves, parts, strict=True)]
        results = [self._results(leaf, factors) for leaf, (_, factors) in zip(leaves, decided, strict=True)]
        return results, [block for block, _ in decided]

    def _learning_step(self, leaves: Sequence[Leaf], shared: Block, settings: Any) -> tuple[list[Results], list[Block]]:
        """The same for a rule that learns. One array holds the numbers of all leaves, so that they compile once."""
        rule, (wide, ops) = self.rule, _wide(settings)
        own = {key: jnp.stack([leaf.block[key] for leaf in leaves]) for key in leaves[0].block}
        block, factors = rule.decide((), {**shared, **own}, wide, ops)
        results = [self._results(leaf, [a[i] if a.ndim else a for a in factors]) for i, leaf in enumerate(leaves)]
        sizes = jnp.asarray([leaf.values["g"].size for leaf in leaves], ops.dtype)
        statistics = [*jnp.stack([jnp.stack(a["statistics"]) for a in results]).T]
        totals = [a.sum() for a in rule.report(statistics, block, sizes, wide, ops)]
        block = rule.learn(statistics, totals, block, wide, ops)
        return results, [{**block, **{key: block[key][i] for key in own}} for i in range(len(leaves))]

    def _results(self, leaf: Leaf, factors: Sequence[Array]) -> Results:
        """A leaf's update, its part of the statistics, and its new element fields."""
        step, new, statistics = leaf.move(factors)
        update = leaf.update(step if self.descends else -step)
        stored = {f.key: leaf.stored(f, new[f.key]) for f in self._fields if f.key in new}
        return {"update": update, "statistics": statistics, **stored}

    def _lr(self, count: Array) -> Any:
        lr = self.learning_rate(count) if callable(self.learning_rate) else self.learning_rate
        return lr if is_off(self.lr_decay) else lr / (1.0 + count * self.lr_decay)

    def _decay(self, kind: str) -> Any:
        return self.weight_decay if self.decay == kind else 0.0

    def _leaves(
        self, tree: Any, gradients: list[Array], params: Tree, own: dict[str, list[Array]], settings: Any
    ) -> list[Leaf]:
        """A `Leaf` for each array."""
        needs_params = self.needs_params or not is_off(self.weight_decay)
        if params is None and needs_params:
            remedy = "Call update(grads, state, params): this step depends on where it starts."
            raise ValueError(error_text("params", "the parameters that the gradients were taken at", None, remedy))
        points = [None] * len(gradients) if params is None else tree.flatten_up_to(params)
        decays = [True] * len(gradients)
        if self.mask is not None:
            mask = self.mask(params) if callable(self.mask) else self.mask
            decays = tree.flatten_up_to(jax.tree.broadcast(mask, tree.unflatten(gradients)))
        return [
            Leaf(
                self.rule,
                settings if decays[i] else settings._replace(weight_decay=0.0),
                self.scope,
                gradients[i],
                points[i],
                {key: values[i] for key, values in own.items()},
                maximize=self.maximize,
                coupled_decay=self._decay("coupled") if decays[i] else 0.0,
                decay_beside=self._decay("beside") * settings.lr if decays[i] else 0.0,
            )
            for i in range(len(gradients))
        ]


def method(arguments: Mapping[str, Any], **own: Any) -> Method:
    """A method with those of the user's arguments that every rule has."""
    names = ("lr_decay", "weight_decay", "mask", "maximize")
    options = {name: arguments[name] for name in names if name in arguments}
    return Method(**options, learning_rate=arguments.get("lr", 1.0), **own)


def _wide(settings: Any) -> tuple[Any, ArrayOps]:
    """The rule's operations on numbers of all leaves."""
    dtype = wide_dtype()
    return in_precision(settings, dtype), ArrayOps(dtype)
