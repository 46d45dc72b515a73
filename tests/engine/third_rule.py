"""A third rule, as proof that a rule is a plug-in: AdaGrad-norm with a heavy ball. The engine does not know it."""

from typing import NamedTuple

from gradagrad.checks.arguments import Number, Table
from gradagrad.engine.optimizer import EngineOptimizer
from gradagrad.rules.gradagrad import is_off
from gradagrad.rules.rule import Field, Rule


class Settings(NamedTuple):
    lr: object = 1.0
    beta: object = 0.0
    lazy: bool = False


class HeavyBallRule(Rule):
    name, numerator, denominator, decay_remedy = "heavy ball", "accumulator", "accumulator", "leave it out."
    measures = True

    def fields(self, s):
        return Field("velocity", "element"), Field("accumulator", "block", least=0.0, lane=1)

    def measure(self, values, s, sums, ops):
        return (sums.dot(values["g"], values["g"]),)

    def decide(self, sums, block, s, ops):
        total = ops.minimum(block["accumulator"] + sums[0], ops.largest)
        return {"accumulator": total}, (1.0 / ops.sqrt(ops.maximum(total, ops.tiny)),)

    def move(self, values, factors, s, sums, ops, touched=None):
        step = values["g"] * (ops.narrow(factors[0]) * s.lr)
        velocity = step if is_off(s.beta) else values["velocity"] * s.beta + step
        new = {"x": values["x"] - velocity, "velocity": velocity}
        if touched is not None:
            new = {key: ops.where(touched, a, values[key]) for key, a in new.items()}
        return new, ()

    def unfit_for_rows(self, s):
        return None if s.lazy else "pass lazy=True."

    def rates(self, values, block, s, ops):
        return (s.lr / ops.sqrt(ops.maximum(block["accumulator"], ops.tiny)),) * 3


class HeavyBall(EngineOptimizer):
    rule = HeavyBallRule()  # pyright: ignore[reportAbstractUsage]  # it has no `idle`
    arguments = Table({"lr": Number("a number", lambda v: v >= 0)}, ("lazy",), {}, "granularity", ("lr",), {})

    def __init__(self, params, **options):
        defaults = {"lr": 0.1, "momentum": 0.0, "granularity": "group", "lazy": False, "weight_decay": 0.0}
        flags = dict.fromkeys(("maximize", "differentiable", "capturable", "stochastic_rounding"), False)
        ways = {"decoupled_weight_decay": True, "foreach": None, "fused": None, "state_dtype": options.pop("dtype")}
        super().__init__(params, defaults | flags | ways | options)

    def _settings(self, group):
        return Settings(group["lr"], group["momentum"], group["lazy"])
