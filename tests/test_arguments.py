"""Every bad argument: an error that names it, its rule, the value and the remedy, and leaves nothing behind."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from cases import DRIVERS

from gradagrad import GradaGrad
from gradagrad.projections import Box

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")

BAD_VALUES = [
    ({"lr": -0.1}, r"lr must be a finite number >= 0 .*, got -0\.1\. 1\.0 suits convex"),
    ({"lr": math.nan}, "lr must be .* got nan"),
    ({"lr": math.inf}, "lr must be .* got inf"),
    ({"lr": torch.tensor([0.1, 0.2])}, "Tensor lr must be 1-element"),
    ({"lr": torch.tensor(-1.0)}, r"lr must be .* got -1\.0"),
    ({"rho": -1.0}, r"rho must be a finite number >= 0, got -1\.0\. 0 is AdaGrad"),
    ({"rho": math.inf}, "rho must be"),
    ({"momentum": 1.5}, r"momentum must be in \[0, 1\), got 1\.5\."),
    ({"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1\.0"),
    ({"momentum": -0.1}, "momentum must be in"),
    ({"weight_decay": -1e-3}, r"weight_decay must be a finite number >= 0, got -0\.001"),
    ({"lr_decay": -1}, r"lr_decay must be a finite number >= 0, got -1\.0"),
    ({"initial_accumulator_value": -1}, "initial_accumulator_value must be"),
    ({"eps": -1e-8}, "eps must be a finite number >= 0"),
    ({"grad_bound": 0.0}, r"grad_bound must be None or a finite number > 0, got 0\.0\. It is the largest"),
    ({"grad_bound": 1e-6, "initial_accumulator_value": 1.0}, "grad_bound must be large enough to matter beside"),
    ({"gamma_max": 0.0}, r"gamma_max must be a number > 0, got 0\.0\. math\.inf means no cap"),
    ({"gamma_max": 0.5}, r"gamma_max must be at least lr = 1\.0, got 0\.5\. γ starts at lr"),
    ({"growth_limit": 0.9}, r"growth_limit must be a number >= 1, got 0\.9\. It is the largest factor"),
    ({"granularity": "column"}, "granularity must be one of 'element', 'row', 'tensor', 'group', got 'column'"),
    (
        {"lazy": True, "weight_decay": 0.1},
        "weight_decay must be 0 or decoupled with lazy=True.*decoupled_weight_decay=True",
    ),
    ({"foreach": True, "differentiable": True}, "foreach=True cannot be combined with differentiable=True"),
    (
        {"projection": Box(-1.0, 1.0), "weight_decay": 0.1, "decoupled_weight_decay": True},
        "cannot be combined with a proj",
    ),
]
BAD_TYPES = [
    ({"lr": "0.1"}, "lr must be .* got '0.1'"),
    ({"rho": None}, "rho must be"),
    ({"momentum": True}, "momentum must be .* got True"),
    ({"eps": [1]}, "eps must be"),
    ({"lazy": 1}, "lazy must be True or False, got 1"),
    ({"maximize": "yes"}, "maximize must be True or False"),
    ({"foreach": "yes"}, "foreach must be None, True or False"),
    ({"projection": 3}, r"projection must be None or a callable .* got 3\. gradagrad\.projections has Box"),
]


@pytest.mark.parametrize(("options", "message"), BAD_VALUES, ids=[str(list(o)) for o, _ in BAD_VALUES])
def test_values_out_of_range(options, message):
    p = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match=message):
        GradaGrad([p], **options)
    with pytest.raises(ValueError, match=message):  # per group too
        GradaGrad([{"params": [p], **options}])


@pytest.mark.parametrize(("options", "message"), BAD_TYPES, ids=[str(list(o)) for o, _ in BAD_TYPES])
def test_wrong_types(options, message):
    with pytest.raises(TypeError, match=message):
        GradaGrad([torch.nn.Parameter(torch.ones(2))], **options)


def test_a_bad_group_is_not_added():
    p, q = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = GradaGrad([p])
    with pytest.raises(ValueError, match="momentum must be"):
        optimizer.add_param_group({"params": [q], "momentum": 2.0})
    assert len(optimizer.param_groups) == 1


def test_numbers_become_plain_floats():
    """numpy's would not load with weights_only=True."""
    numbers: dict[str, Any] = {"lr": np.float32(0.5), "rho": np.int64(2)}
    optimizer = GradaGrad([torch.nn.Parameter(torch.ones(2))], **numbers)
    group = optimizer.param_groups[0]
    assert type(group["lr"]) is float
    assert type(group["rho"]) is float


WRONG = {
    "shape": (lambda z, a: z[:1], ValueError, r"shape and dtype it is given, \(2,\) and torch\.float32, got \(1,\)"),
    "dtype": (lambda z, a: z.double(), ValueError, "got .* and torch.float64"),
    "nan": (lambda z, a: z * float("nan"), ValueError, "must return finite values, got NaN or inf"),
    "type": (lambda z, a: z.tolist(), TypeError, "must return a tensor, got list"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_wrong_projection_is_named_at_the_first_step_which_does_nothing(name, driver):
    projection, error, message = WRONG[name]
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = GradaGrad([p], lr=0.1, projection=projection, **DRIVERS[driver])
    p.grad = torch.ones(2)
    with pytest.raises(error, match=message):
        optimizer.step()
    assert torch.equal(p, torch.ones(2))
    assert not optimizer.state
