"""GradaGrad for Keras 3, on whatever backend Keras runs. The arithmetic is `gradagrad.rules.gradagrad`'s.

>>> import keras
>>> from gradagrad.keras import GradaGrad
>>> model = keras.Sequential([keras.layers.Dense(1)])
>>> model.compile(optimizer=GradaGrad(learning_rate=0.01), loss="mse")
"""

from __future__ import annotations

import math
from typing import Any, Literal

import keras
from keras import ops

from gradagrad.checks.arguments import GRADAGRAD, check_one_of, checked
from gradagrad.rules.gradagrad import RULE, Settings, limit_of_growth
from gradagrad.rules.rule import settings_of
from gradagrad.rules.scope import block_shape

Tensor = Any
GRANULARITIES = ("element", "row", "tensor")
"""Those whose step sizes belong to one variable: Keras updates variables one at a time."""


@keras.saving.register_keras_serializable(package="gradagrad")
class GradaGrad(keras.optimizers.Optimizer):
    """AdaGrad whose learning rate can also rise: `gradagrad.GradaGrad`, which describes the method, for Keras.

    Args:
        learning_rate: γ₀, a float or a Keras schedule. 1.0 suits convex problems, 0.01 neural nets.
        rho: adaptivity ρ. 0 is AdaGrad, 2 the paper's default.
        momentum: β in [0, 1).
        granularity: who shares a step size: ``"element"``, ``"row"`` (first-dimension slices) or ``"tensor"``.
        initial_accumulator_value: what the sum under the root starts from.
        eps: added to the root.
        grad_bound: G∞; None uses the first gradient.
        gamma_max: D∞, a cap on γ.
        growth_limit: largest factor by which γ may grow in one step; None means 2 for ``"tensor"``, else no limit.
        lazy: an element (or row) whose gradient is exactly zero is left wholly alone.
        kwargs: Keras's own: weight_decay (decoupled), clipnorm, use_ema, gradient_accumulation_steps, name, …
    """

    def __init__(
        self,
        learning_rate: Any = 1.0,
        rho: float = 2.0,
        momentum: float = 0.0,
        granularity: Literal["element", "row", "tensor"] = "element",
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        grad_bound: float | None = None,
        gamma_max: float = math.inf,
        growth_limit: float | None = None,
        lazy: bool = False,
        name: str = "gradagrad",
        **kwargs: Any,
    ) -> None:
        given: dict[str, Any] = {
            "rho": rho, "momentum": momentum, "initial_accumulator_value": initial_accumulator_value, "eps": eps,
            "grad_bound": grad_bound, "gamma_max": gamma_max, "growth_limit": growth_limit, "lazy": lazy,
            "granularity": granularity,
        }  # fmt: skip
        check_one_of("granularity", granularity, GRANULARITIES)
        rate = {"lr": learning_rate} if isinstance(learning_rate, int | float) else {}  # or a schedule
        arguments = checked(GRADAGRAD, {**given, **rate}, lr_name="learning_rate")
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self._given = {key: arguments[key] for key in given}

    def build(self, variables: list[Any]) -> None:
        """Makes the state: momentum for each entry, growth and accumulator for each step size."""
        if self.built:
            return
        super().build(variables)
        scope = self._given["granularity"]
        self._fields: dict[str, list[Any]] = {field.key: [] for field in RULE.fields(self._settings(1.0))}
        for field in RULE.fields(self._settings(1.0)):
            start = self._given[field.start] if isinstance(field.start, str) else field.start
            for variable in variables:
                shape = variable.shape if field.at == "element" else block_shape(variable.shape, scope)
                self._fields[field.key].append(
                    self.add_variable(
                        shape,
                        initializer=keras.initializers.Constant(start),  # pyright: ignore[reportArgumentType]
                        name=field.key,
                        dtype=_computing_dtype(variable.dtype),
                    )
                )

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        """One step of one variable."""
        index = self._get_variable_index(variable)
        state = {key: found[index] for key, found in self._fields.items()}
        dtype = _computing_dtype(variable.dtype)
        scope = self._given["granularity"]
        settings = self._settings(ops.cast(learning_rate, dtype))
        arithmetic = _Ops(dtype)
        blocks = _Blocks(arithmetic, scope)
        values = {key: ops.convert_to_tensor(value) for key, value in state.items()}
        values |= {"x": ops.cast(variable, dtype), "g": ops.cast(gradient, dtype)}
        touched = None
        if settings.lazy:
            touched = ops.not_equal(values["g"], 0)
            if scope != "element" and len(variable.shape) > 1:
                touched = ops.any(touched, axis=tuple(range(1, len(variable.shape))), keepdims=True)
        after, factors = RULE.decide(RULE.measure(values, settings, blocks, arithmetic), values, settings, arithmetic)
        new, _ = RULE.move(values, factors, settings, blocks, arithmetic, touched)
        self.assign(variable, ops.cast(new.pop("x"), variable.dtype))
        for key, value in {**new, **after}.items():
            self.assign(state[key], value)

    def _settings(self, learning_rate: Any) -> Settings:
        given = self._given
        limit = limit_of_growth(given["growth_limit"], given["granularity"])
        return settings_of(Settings, given, lr=learning_rate, beta=given["momentum"], growth_limit=limit)

    def get_config(self) -> dict[str, Any]:
        """All arguments; infinite limits are left out, since JSON has none."""
        return super().get_config() | {key: value for key, value in self._given.items() if value != math.inf}


class _Ops:
    """The rule's `Ops` over keras.ops. Plain numbers get the precision first: Keras would make them float32."""

    def __init__(self, dtype: str) -> None:
        is_double = dtype == "float64"
        self._dtype = dtype
        self.tiny = 2.2250738585072014e-308 if is_double else 1.1754943508222875e-38
        self.largest = 1.7976931348623157e308 if is_double else 3.4028234663852886e38

    def _tensor(self, a: Tensor | float) -> Tensor:
        return ops.convert_to_tensor(a, dtype=self._dtype) if isinstance(a, int | float) else a

    def sqrt(self, a: Tensor) -> Tensor:
        return ops.sqrt(self._tensor(a))

    def maximum(self, a: Tensor, b: Tensor) -> Tensor:
        return ops.maximum(self._tensor(a), self._tensor(b))

    def minimum(self, a: Tensor, b: Tensor) -> Tensor:
        return ops.minimum(self._tensor(a), self._tensor(b))

    def where(self, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return ops.where(condition, self._tensor(a), self._tensor(b))

    def less(self, a: Tensor, b: Tensor) -> Tensor:
        return ops.less(self._tensor(a), self._tensor(b))

    def indicator(self, a: Tensor) -> Tensor:
        return ops.cast(ops.not_equal(a, 0), self._dtype)

    def narrow(self, a: Tensor) -> Tensor:
        return a


class _Blocks:
    """The rule's `Reduction` over keras.ops."""

    def __init__(self, arithmetic: _Ops, scope: str) -> None:
        self._ops = arithmetic
        self._scope = scope

    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        largest = self._ops.largest
        return self._sum(self._ops.maximum(self._ops.minimum(a * b, largest), -largest))

    def total(self, a: Tensor) -> Tensor:
        return self._sum(self._ops.where(ops.isfinite(a), a, 0.0))

    def _sum(self, a: Tensor) -> Tensor:
        if self._scope == "element" or (self._scope == "row" and len(a.shape) < 2):
            return a
        return ops.sum(a) if self._scope == "tensor" else ops.sum(a, axis=tuple(range(1, len(a.shape))), keepdims=True)


def _computing_dtype(dtype: str) -> str:
    """float32, or float64 for float64 variables where Keras computes in it: on torch its functions round to float32."""
    return keras.backend.result_type(dtype, "float32")
