"""GradaGrad and AutoGradaGrad for Keras 3, on the JAX and torch backends. `gradagrad.rules` has the arithmetic.

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

from gradagrad.checks.arguments import AUTOGRADAGRAD, GRADAGRAD, Table, check_one_of, checked, error_text
from gradagrad.rules import auto, gradagrad, single
from gradagrad.rules.rule import Field, Rule, settings_of
from gradagrad.rules.scope import block_shape

Tensor = Any
GRANULARITIES = ("element", "row", "tensor")
"""Scopes within one variable, because Keras updates variables one at a time."""


class _Optimizer(keras.optimizers.Optimizer):
    """What both optimizers share: checked arguments, and state made from the rule's fields."""

    _rule: Rule

    def __init__(
        self, table: Table, given: dict[str, Any], learning_rate: Any, name: str, kwargs: dict[str, Any]
    ) -> None:
        if "lr" in kwargs or "eps" in kwargs:
            found, instead = ("lr", "learning_rate") if "lr" in kwargs else ("eps", "epsilon")
            raise TypeError(f"{found} is called {instead} in Keras: pass {instead}={kwargs[found]!r}.")
        rate = {"lr": learning_rate} if isinstance(learning_rate, int | float) else {}  # or a schedule
        rest = {key: value for key, value in given.items() if key != "epsilon"}
        try:
            arguments = checked(table, {**rest, "eps": given["epsilon"], **rate}, lr_name="learning_rate")
        except (TypeError, ValueError) as error:
            raise type(error)(str(error).replace("eps must", "epsilon must")) from None
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self._given = {key: arguments[key] for key in rest} | {"epsilon": arguments["eps"]}

    def _settings(self, learning_rate: Any, **more: Any) -> Any:
        raise NotImplementedError

    def build(self, variables: list[Any]) -> None:
        """Makes the state: arrays for each variable, shared numbers, and arrays with an entry for each variable."""
        if self.built:
            return
        super().build(variables)
        dtypes = [_computing_dtype(v.dtype) for v in variables]
        self._wide = "float64" if "float64" in dtypes else "float32"
        self._fields: dict[str, list[Any]] = {}
        self._numbers: dict[str, Any] = {}
        scope: Any = self._given.get("granularity")
        for field in self._rule.fields(self._settings(1.0)):
            if field.at == "element" or scope:
                shapes = [v.shape if field.at == "element" else block_shape(v.shape, scope) for v in variables]
                self._fields[field.key] = [self._add(field, *kind) for kind in zip(shapes, dtypes, strict=True)]
            else:
                shape = (len(variables),) if field.at == "block" else ()
                self._numbers[field.key] = self._add(field, shape, self._wide)

    def _add(self, field: Field, shape: Any, dtype: str) -> Any:
        start = getattr(self._settings(1.0), str(field.start), field.start)
        initializer = keras.initializers.Constant(float(start))
        return self.add_variable(shape, initializer=initializer, name=field.key, dtype=dtype)  # pyright: ignore[reportArgumentType]

    def get_config(self) -> dict[str, Any]:
        """All arguments except infinite limits, which JSON cannot hold."""
        return super().get_config() | {key: value for key, value in self._given.items() if value != math.inf}


@keras.saving.register_keras_serializable(package="gradagrad")
class GradaGrad(_Optimizer):
    """AdaGrad whose learning rate can also rise, for Keras. `gradagrad.GradaGrad` describes the method.

    Args:
        learning_rate: γ₀, a float or a Keras schedule. 1.0 suits convex problems, 0.01 neural nets.
        rho: adaptivity ρ. 0 is AdaGrad, 2 the paper's default.
        momentum: β in [0, 1).
        granularity: what has its own step size: ``"element"``, ``"row"`` (first-dimension slices), ``"tensor"``.
        initial_accumulator_value: the initial value of the sum under the root.
        epsilon: added to the root.
        grad_bound: G∞; None uses the first gradient.
        gamma_max: D∞, a cap on γ.
        growth_limit: largest factor by which γ may grow in one step; None means 2 for ``"tensor"``, else no limit.
        lazy: leaves an element (or row) alone if its gradient is exactly zero.
        kwargs: Keras's own: weight_decay (decoupled), clipnorm, use_ema, gradient_accumulation_steps, name, …
    """

    _rule = gradagrad.RULE

    def __init__(
        self,
        learning_rate: Any = 1.0,
        rho: float = 2.0,
        momentum: float = 0.0,
        granularity: Literal["element", "row", "tensor"] = "element",
        initial_accumulator_value: float = 0.0,
        epsilon: float = 1e-10,
        grad_bound: float | None = None,
        gamma_max: float = math.inf,
        growth_limit: float | None = None,
        lazy: bool = False,
        name: str = "gradagrad",
        **kwargs: Any,
    ) -> None:
        given: dict[str, Any] = {
            "rho": rho, "momentum": momentum, "initial_accumulator_value": initial_accumulator_value,
            "epsilon": epsilon, "grad_bound": grad_bound, "gamma_max": gamma_max, "growth_limit": growth_limit,
            "lazy": lazy, "granularity": granularity,
        }  # fmt: skip
        check_one_of("granularity", granularity, GRANULARITIES)
        super().__init__(GRADAGRAD, given, learning_rate, name, kwargs)

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
        sums = self._rule.measure(values, settings, blocks, arithmetic)
        after, factors = self._rule.decide(sums, values, settings, arithmetic)
        new, _ = self._rule.move(values, factors, settings, blocks, arithmetic, touched)
        self.assign(variable, ops.cast(new.pop("x"), variable.dtype))
        for key, value in {**new, **after}.items():
            self.assign(state[key], value)

    def _settings(self, learning_rate: Any, **more: Any) -> Any:
        given = self._given
        limit = gradagrad.limit_of_growth(given["growth_limit"], given["granularity"])
        more = {"beta": given["momentum"], "eps": given["epsilon"], "growth_limit": limit, **more}
        return settings_of(gradagrad.Settings, given, lr=learning_rate, **more)


@keras.saving.register_keras_serializable(package="gradagrad")
class AutoGradaGrad(_Optimizer):
    """Trains without a learning rate to choose, for Keras. `gradagrad.AutoGradaGrad` describes the method.

    With ``use_ema=True`` the method's average replaces Keras's exponential one. `keras.callbacks.SwapEMAWeights`
    evaluates at it, and the weights hold it after ``fit``.

    Args:
        learning_rate: multiplies the step, a float or a Keras schedule. Not a rate to tune: leave it at 1.
        gamma0: the initial γ.
        momentum: β in (0, 1), the share of the average in the variables.
        weight_decay: decoupled; shrinks variables by learning_rate · γ · weight_decay.
        epsilon: added to the root. 0 keeps the method independent of the loss's scale.
        gamma_max: a cap on γ.
        guard: limits each gradient of an element to the weight of all earlier ones together.
        kwargs: Keras's own: clipnorm, use_ema, gradient_accumulation_steps, name, …
    """

    _rule = single.RULE

    def __init__(
        self,
        learning_rate: Any = 1.0,
        gamma0: float = 1e-4,
        momentum: float = 0.6,
        weight_decay: float | None = None,
        epsilon: float = 0.0,
        gamma_max: float = math.inf,
        guard: bool = True,
        name: str = "auto_gradagrad",
        **kwargs: Any,
    ) -> None:
        given: dict[str, Any] = {
            "gamma0": gamma0, "momentum": momentum, "epsilon": epsilon, "gamma_max": gamma_max, "guard": guard,
        }  # fmt: skip
        if weight_decay is not None and not 0.0 <= weight_decay < math.inf:
            raise ValueError(error_text("weight_decay", "None or a finite number >= 0", weight_decay))
        if (every := kwargs.get("ema_overwrite_frequency")) is not None:
            remedy = "The average goes on by itself; fit puts it into the weights at its end."
            raise ValueError(error_text("ema_overwrite_frequency", "None", every, remedy))
        super().__init__(AUTOGRADAGRAD, given, learning_rate, name, {**kwargs, "weight_decay": weight_decay})
        self._largest_lr = (float(learning_rate) if isinstance(learning_rate, int | float) else 1.0) or 1.0

    def _apply_weight_decay(self, variables: list[Any]) -> None:
        """Does nothing, because the rule decays weights itself."""

    def _backend_update_step(self, grads: list[Tensor], trainable_variables: list[Any], learning_rate: Tensor) -> None:
        """One step of all variables, which vote together. Arrays hold one number for each variable."""
        wide = _Ops(self._wide)
        found = [ops.any(ops.not_equal(gradient, 0)) for gradient in grads]
        moved = ops.cast(ops.any(ops.stack(found)), self._wide)  # 0: a step without a gradient changes nothing.
        settings = self._settings(ops.cast(learning_rate, self._wide), moved=moved)
        indices = [self._get_variable_index(variable) for variable in trainable_variables]
        block = {key: ops.take(v, indices) if v.shape else ops.convert_to_tensor(v) for key, v in self._numbers.items()}
        block, factors = self._rule.decide((), block, settings, wide)
        rows: list[list[Tensor]] = []
        for place, (index, variable, gradient) in enumerate(zip(indices, trainable_variables, grads, strict=True)):
            dtype = _computing_dtype(variable.dtype)
            narrow = _Ops(dtype)
            values = {key: ops.convert_to_tensor(found[index]) for key, found in self._fields.items()}
            values |= {"x": ops.cast(variable, dtype), "g": ops.cast(gradient, dtype)}
            own = self._settings(settings.lr, decays=self._use_weight_decay(variable))
            numbers = [a[place] if len(a.shape) else a for a in factors]
            new, statistics = self._rule.move(values, numbers, own, _Blocks(narrow, "tensor"), narrow)
            rows.append([ops.cast(a, self._wide) for a in (*statistics, math.prod(variable.shape))])
            self.assign(variable, ops.cast(new.pop("x"), variable.dtype))
            for key, after in new.items():
                self.assign(self._fields[key][index], after)
        *statistics, sizes = [ops.stack(column) for column in zip(*rows, strict=True)]
        totals = [ops.sum(a) for a in self._rule.report(statistics, block, sizes, settings, wide)]
        for key, after in self._rule.learn(statistics, totals, block, settings, wide).items():
            number = self._numbers[key]
            places = [[index] for index in indices]  # A variable without a gradient keeps its numbers.
            self.assign(number, ops.scatter_update(number, places, after) if number.shape else after)

    def _update_model_variables_moving_average(self, trainable_variables: list[Any]) -> None:
        """Keeps the method's average in place of Keras's exponential one."""
        averages: Any = self._model_variables_moving_average
        for variable, average, offset in zip(trainable_variables, averages, self._fields["offset"], strict=True):
            values = {"x": ops.cast(variable, offset.dtype), "offset": ops.convert_to_tensor(offset)}
            if average is not None:  # Keras keeps no average of variables that it overwrites with gradients.
                average.assign(ops.cast(self._rule.average(values, self._settings(1.0)), average.dtype))

    def _overwrite_model_variables_with_average_value(self, trainable_variables: list[Any]) -> None:
        """Writes the average into the variables, as Keras does at the end of ``fit``. Training resumes from it."""
        super()._overwrite_model_variables_with_average_value(trainable_variables)
        for variable, offset in zip(trainable_variables, self._fields["offset"], strict=True):
            variable.assign(ops.copy(variable))  # Keras 3.15 on JAX donates the buffer that it shares with the average.
            offset.assign(ops.zeros(offset.shape, offset.dtype))

    def _settings(self, learning_rate: Any, *, decays: bool = False, **more: Any) -> Any:
        given, decay = self._given, float(self.weight_decay or 0.0) if decays else 0.0
        largest = self._largest_lr  # Only ratios of lr matter.
        return settings_of(
            auto.Settings, given, lr=learning_rate, weight_decay=decay, beta=given["momentum"], eps=given["epsilon"],
            gamma0=given["gamma0"] / largest, gamma_max=given["gamma_max"] / largest, **more
        )  # fmt: skip


class _Ops:
    """The rule's `Ops` over keras.ops. Plain numbers are converted first, because Keras would make them float32."""

    sqrt = staticmethod(ops.sqrt)
    exp = staticmethod(ops.exp)
    log = staticmethod(ops.log)

    def __init__(self, dtype: str) -> None:
        is_double = dtype == "float64"
        self._dtype = dtype
        self.tiny = 2.2250738585072014e-308 if is_double else 1.1754943508222875e-38
        self.largest = 1.7976931348623157e308 if is_double else 3.4028234663852886e38

    def _tensor(self, a: Tensor | float) -> Tensor:
        return ops.convert_to_tensor(a, dtype=self._dtype) if isinstance(a, int | float) else a

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
        return a if isinstance(a, int | float) else ops.cast(a, self._dtype)


class _Blocks:
    """The rule's `Reduction` over keras.ops."""

    def __init__(self, arithmetic: _Ops, scope: str) -> None:
        self.ops = arithmetic
        self._scope = scope

    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        largest = self.ops.largest
        return self._sum(a * b if a is b else self.ops.maximum(self.ops.minimum(a * b, largest), -largest))

    def total(self, a: Tensor) -> Tensor:
        return self._sum(self.ops.where(ops.isfinite(a), a, 0.0))

    def _sum(self, a: Tensor) -> Tensor:
        if self._scope == "element" or (self._scope == "row" and len(a.shape) < 2):
            return a
        return ops.sum(a) if self._scope == "tensor" else ops.sum(a, axis=tuple(range(1, len(a.shape))), keepdims=True)


def _computing_dtype(dtype: str) -> str:
    """float32, or float64 for float64 variables where Keras computes in it: on torch its functions round to float32."""
    return keras.backend.result_type(dtype, "float32")
