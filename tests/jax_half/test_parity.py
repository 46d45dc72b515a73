"""In double precision both halves take the same steps, which test_faithful.py compares with the paper's listing."""

from functools import partial

import numpy as np
import pytest

from gradagrad import GradaGrad
from gradagrad.optax import gradagrad

from .cases import OPTIONS, for_jax, run_jax, run_torch

pytestmark = [pytest.mark.usefixtures("double"), pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")]
STEPS = 500


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("granularity", ["element", "row", "tensor", "group"])
def test_torch_and_jax_take_the_same_steps(granularity, momentum):
    common = {"granularity": granularity, "momentum": momentum}
    signs = {name: -1.0 if name == "uphill" else 1.0 for name in OPTIONS}
    optimizers = {name: gradagrad(0.3, **common, **for_jax(options)) for name, options in OPTIONS.items()}
    (_, states), found = run_jax(optimizers, STEPS, signs)
    assert all(int(state.count) == STEPS for state in states.values())
    for name, options in OPTIONS.items():
        given = {"lr": 0.3, **common, **options}
        for key, expected in run_torch(partial(GradaGrad, **given), STEPS, signs[name]).items():
            assert expected.size == 0 or np.abs(expected[-1] - expected[0]).max() > 1e-3, name
            np.testing.assert_allclose(found[name][key], expected, rtol=1e-12, atol=1e-12, err_msg=f"{name}, {key}")


def test_all_means_group_here():
    optimizers = {scope: gradagrad(0.3, rho=10.0, granularity=scope) for scope in ("group", "all")}
    _, found = run_jax(optimizers, 5, dict.fromkeys(optimizers, 1.0))
    for key, expected in found["group"].items():
        np.testing.assert_array_equal(found["all"][key], expected)
