"""The CPU kernel's loops are generated from the rules, and its variants cover all settings."""

import itertools
import math
import subprocess
import sys

import pytest
import torch

from gradagrad import GradaGrad
from gradagrad.codegen import cpp, trace, variants
from gradagrad.projections import NonNegative
from gradagrad.rules import auto, gradagrad
from gradagrad.rules.scope import SCOPES


def test_the_header_is_what_the_rules_generate():
    """setup.py writes the header at every build; an old one means that the kernel runs an old rule."""
    assert cpp.PATH.read_text(encoding="utf-8") == cpp.header(), "build the kernel again: setup.py build_ext --inplace"


def test_rules_are_generated_without_torch():
    """setup.py generates them, and it must work where torch is not installed yet."""
    code = "import sys; from gradagrad.codegen import cpp; cpp.header(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_setting_has_a_variant_that_has_its_options():
    options = {"gamma_max": 1.0, "growth_limit": 1.1, "grad_bound": 1.0, "project": NonNegative()}
    options |= {"lazy": True, "travelled": True}
    for chosen, beta in itertools.product(itertools.product((False, True), repeat=len(options)), (0.0, 0.9)):
        given = {name: value for (name, value), use in zip(options.items(), chosen, strict=True) if use}
        place = variants.variant_of(gradagrad.Settings(beta=beta, **given))
        assert place is not None
        variant = variants.VARIANTS[place]
        assert all(getattr(variant.static, name) == given.get(name, False) for name in ("lazy", "travelled"))
        assert ("beta" in variant.variable) == bool(beta)
        assert set(given) - {"lazy", "project", "travelled"} <= set(variant.variable)
        assert ("projects" in variant.variable) or "project" not in given
    for guard in (False, True):
        place = variants.variant_of(auto.Settings(guard=guard))
        assert place is not None
        assert variants.VARIANTS[place].static.guard == guard
    assert variants.variant_of(("another", "rule")) is None


def test_defaults_take_the_short_form():
    """An infinite limit is off, so that its operations do not slow the loop down."""
    for scope in SCOPES:
        optimizer = GradaGrad([torch.nn.Parameter(torch.ones(2))], granularity=scope)
        place = variants.variant_of(optimizer._settings(optimizer.param_groups[0]), scope)
        assert place is not None
        assert variants.VARIANTS[place].name == "gradagrad_plain"


def test_settings_are_passed_in_the_order_of_the_header():
    s = gradagrad.Settings(lr=0.5, rho=3.0, beta=0.9, growth_limit=1.5)
    given = dict(zip(variants.GRADAGRAD_ORDER, variants.kernel_settings(s, (-1.0, 2.0)), strict=True))
    assert (given["lr"], given["rho"], given["growth_limit"]) == (0.5, 3.0, 1.5)
    assert (given["lower"], given["upper"], given["projects"]) == (-1.0, 2.0, 1.0)
    assert given["gamma_max"] == math.inf
    assert math.isnan(given["grad_bound"])


@pytest.mark.parametrize("phase", ["step", "measure", "decide", "move", "report", "learn"])
def test_no_loop_branches(phase: str):
    """A rule is straight-line code; `select` chooses between values of an element."""
    for place in range(len(variants.VARIANTS)):
        function = variants.phases_of(place).functions[phase]
        for operation in function.needed() if function else ():
            assert operation.op in cpp.CPP.templates


def test_a_rule_that_branches_on_data_is_refused():
    class Branching(gradagrad.GradaGradRule):
        def measure(self, values, s, sums, ops):
            return (values["g"], values["g"]) if ops.less(values["g"], 0.0) else (values["momentum"], values["g"])

    with pytest.raises(TypeError, match="the rule branches on t0, which is data"):
        trace.measure(Branching(), gradagrad.Settings(), ("lr",))
