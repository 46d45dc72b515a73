"""The rules as JavaScript, for the page to play with: ``python -m gradagrad_lab.report.javascript`` rewrites it.

JavaScript has one kind of number, double, so nothing is narrowed. Each traced function takes an object with
its inputs by name and returns one with its results.
"""

import math
import sys
from pathlib import Path
from typing import Any

from gradagrad.codegen import trace
from gradagrad.codegen.trace import Function, Kind, Language, Symbol, Tape
from gradagrad.rules import auto, gradagrad
from gradagrad.rules.rule import Rule


def _constant(number: float, kind: Kind) -> str:
    return repr(number) if math.isfinite(number) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(number, "NaN")


JAVASCRIPT = Language(
    {
        "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}",
        "sqrt": "Math.sqrt({0})", "exp": "Math.exp({0})", "log": "Math.log({0})",
        "max": "Math.max({0}, {1})", "min": "Math.min({0}, {1})", "narrow": "{0}",
        "where": "{0} ? {1} : {2}", "less": "{0} < {1}", "unequal": "{0} !== {1}",
    },
    _constant,
    lambda target, text: f"const {target.name} = {text};",
)  # fmt: skip


def _rates(rule: Rule, s: Any, variable: tuple[str, ...]) -> Function:
    """γ, its growth, and what a gradient is multiplied by, as `diagnostics` has them."""
    tape = Tape()
    symbols = {name: Symbol(tape, name, "value") for name in [*(f.key for f in rule.fields(s)), *variable]}
    results = rule.rates(symbols, symbols, s._replace(**{name: symbols[name] for name in variable}), tape)
    return Function("rates", symbols, dict(zip(("gamma", "growth", "rate"), results, strict=True)), tape.operations)


def _average(s: Any) -> Function:
    """x̄ of one element of AutoGradaGrad."""
    tape = Tape()
    symbols = {name: Symbol(tape, name, "value") for name in ("x", "offset", "beta")}
    average = auto.RULE.average(symbols, s._replace(beta=symbols["beta"]))
    return Function("average", symbols, {"average": average}, tape.operations)


def _start(rule: Rule, s: Any) -> str:
    """The state before the first step; numbers that come from settings are those of the defaults."""
    starts = {f.key: getattr(s, f.start) if isinstance(f.start, str) else f.start for f in rule.fields(s)}
    return "{ " + ", ".join(f"{key}: {start!r}" for key, start in starts.items()) + " }"


def _function(name: str, function: Function) -> str:
    results = ", ".join(f"{key}: {JAVASCRIPT.text(result)}" for key, result in function.results.items())
    return (
        f"function {name}({{ {', '.join(function.used())} }}) {{\n{JAVASCRIPT.body(function)}\n"
        f"  return {{ {results} }};\n}}\n"
    )


def functions() -> dict[str, Function]:
    """The functions of the page: GradaGrad's element step with and without momentum, AutoGradaGrad's phases, rates."""
    plain, momentum = gradagrad.Settings(), gradagrad.Settings(beta=0.5)
    own = auto.Settings()
    decide = trace.decide(auto.RULE, own, ("lr",), 0)
    move = trace.move(auto.RULE, own, ("beta",), _count(decide, "factor"))
    statistics = _count(move, "statistic")
    report = trace.report(auto.RULE, own, (), statistics)
    return {
        "gradagradStep": trace.element_step(gradagrad.RULE, plain, ("lr", "rho")),
        "gradagradMomentumStep": trace.element_step(gradagrad.RULE, momentum, ("lr", "rho", "beta")),
        "gradagradRates": _rates(gradagrad.RULE, plain, ("lr",)),
        "autoDecide": decide,
        "autoMove": move,
        "autoReport": report,
        "autoLearn": trace.learn(auto.RULE, own, (), statistics, len(report.results)),
        "autoAverage": _average(own),
        "autoRates": _rates(auto.RULE, own, ("lr", "gamma0")),
    }


def _count(function: Function, kind: str) -> int:
    return sum(name.startswith(kind) for name in function.results)


def script() -> str:
    """The text of rules.js."""
    texts = [_function(name, function) for name, function in functions().items()]
    return (
        "// Generated from gradagrad/rules by `python -m gradagrad_lab.report.javascript`; edit the rules instead.\n"
        '"use strict";\nconst TINY = 2.2250738585072014e-308;\nconst LARGEST = Number.MAX_VALUE;\n\n'
        + "\n".join(texts)
        + f"\nconst gradagradRules = {{\n  {', '.join(functions())},\n"
        + f"  gradagradStart: {_start(gradagrad.RULE, gradagrad.Settings())},\n"
        + f"  autoStart: {_start(auto.RULE, auto.Settings())},\n  beta: {auto.Settings().beta!r},\n}};\n"
        + 'if (typeof module !== "undefined") module.exports = gradagradRules;\n'
    )


PATH = Path(__file__).resolve().parent / "templates" / "play" / "rules.js"

if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        PATH.write_text(script(), encoding="utf-8")
    elif PATH.read_text(encoding="utf-8") != script():
        sys.exit(f"{PATH.name} is not what the rules say; run: python -m gradagrad_lab.report.javascript")
