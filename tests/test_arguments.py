"""Every bad argument raises an error with its name, its rule, the value and the remedy, and changes nothing."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from cases import DRIVERS

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.checks import torch as torch_arguments
from gradagrad.checks.arguments import AUTOGRADAGRAD
from gradagrad.projections import Box
from gradagrad.sklearn import GradaGradClassifier, GradaGradRegressor

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")

BAD_VALUES = [
    ({"lr": -0.1}, r"lr must be a finite number >= 0 .*, got -0\.1\. 1\.0 suits convex"),
    ({"lr": math.nan}, "lr must be .* got nan"),
    ({"lr": math.inf}, "lr must be .* got inf"),
    ({"lr": torch.tensor([0.1, 0.2])}, "lr must be .*one element.*, got tensor.*Tensor lr must be 1-element"),
    ({"lr": torch.tensor(-1.0)}, r"lr must be .* got -1\.0"),
    ({"lr": torch.tensor(1e200, dtype=torch.float64)}, r"lr must be .* at most 3.*float32, got 1e\+200"),
    ({"lr": 10**400}, "lr must be .* got 10000.* … .*000"),
    ({"lr": 10**5000}, "lr must be .* got a value of type int"),
    ({"rho": -1.0}, r"rho must be a finite number >= 0, got -1\.0\. 0 is AdaGrad"),
    ({"rho": math.inf}, "rho must be"),
    ({"momentum": 1.5}, r"momentum must be in \[0, 1\), got 1\.5\."),
    ({"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1\.0"),
    ({"momentum": -0.1}, "momentum must be in"),
    ({"weight_decay": -1e-3}, r"weight_decay must be a finite number >= 0, got -0\.001"),
    ({"lr_decay": -1}, r"lr_decay must be a finite number >= 0, got -1\.0"),
    ({"initial_accumulator_value": -1}, "initial_accumulator_value must be"),
    ({"eps": -1e-8}, "eps must be a finite number >= 0"),
    ({"grad_bound": 0.0}, r"grad_bound must be None or a number > 0 whose square is finite, got 0\.0\. It is"),
    ({"grad_bound": 1e200}, r"grad_bound must be .* whose square is finite, got 1e\+200"),
    ({"grad_bound": 1e-6, "initial_accumulator_value": 1.0}, "grad_bound must be large enough to matter beside"),
    ({"gamma_max": 0.0}, r"gamma_max must be a number > 0 or \"travelled\", got 0\.0\. math\.inf means no cap"),
    ({"gamma_max": 0.5}, r"gamma_max must be at least lr = 1\.0, got 0\.5\. γ starts at lr"),
    ({"growth_limit": 0.9}, r"growth_limit must be None or a number >= 1, got 0\.9\. It limits the factor"),
    ({"granularity": "column"}, "granularity must be one of 'element', 'row', 'tensor', 'group', 'all', got 'column'"),
    ({"granularity": np.array(["row", "row"])}, "granularity must be one of .* got array"),
    ({"granularity": "rows"}, "granularity must be one of .* got 'rows'. Did you mean 'row'"),
    ({"granularity": None}, "granularity must be one of .* got None"),
    ({"state_dtype": np.array([1, 2])}, "state_dtype must be torch.float32 or torch.bfloat16, got array"),
    ({"differentiable": True, "state_dtype": torch.bfloat16}, "differentiable must be False if .* no derivative"),
    (
        {"lazy": True, "weight_decay": 0.1},
        "weight_decay must be 0 or decoupled with lazy=True.*decoupled_weight_decay=True",
    ),
    ({"foreach": True, "differentiable": True}, "foreach must be None or False with differentiable=True"),
    (
        {"projection": Box(-1.0, 1.0), "weight_decay": 0.1, "decoupled_weight_decay": True},
        "decoupled_weight_decay must be False with a projection, got True",
    ),
]
BAD_TYPES = [
    ({"lr": "0.1"}, "lr must be .* got '0.1'"),
    ({"lr": 0.1j}, "lr must be .* got 0.1j"),
    ({"lr": torch.tensor(1j)}, "lr must be .* got tensor.*Pass a real tensor"),
    ({"lr": torch.tensor(True)}, "lr must be .* got tensor"),
    ({"rho": None}, "rho must be"),
    ({"gamma_max": "traveled"}, r"gamma_max must be a number > 0 or \"travelled\", got 'traveled'\."),
    ({"rho": np.bool_(True)}, "rho must be"),
    ({"momentum": True}, "momentum must be .* got True"),
    ({"eps": [1]}, "eps must be"),
    ({"lazy": 1}, "lazy must be True or False, got 1"),
    ({"maximize": "yes"}, "maximize must be True or False"),
    ({"foreach": "yes"}, "foreach must be None, True or False"),
    ({"projection": 3}, r"projection must be None or a callable .* got 3\. gradagrad\.projections has Box"),
]

UNKNOWN = [
    (AutoGradaGrad, "betas", "momentum plays the role of the first"),
    (AutoGradaGrad, "d0", "γ starts at a share"),
    (AutoGradaGrad, "d_coef", "Leave it out"),
    (AutoGradaGrad, "decouple", "decoupled_weight_decay plays this role"),
    (AutoGradaGrad, "use_bias_correction", "Leave it out"),
    (AutoGradaGrad, "safeguard_warmup", "Leave it out"),
    (AutoGradaGrad, "growth_rate", "gamma_max caps it"),
    (AutoGradaGrad, "rho", "only GradaGrad has it"),
    (AutoGradaGrad, "momentun", "Did you mean 'momentum'"),
    (GradaGrad, "gamma0", "γ starts at lr"),
    (GradaGrad, "betas", "momentum plays the role of the first"),
    (GradaGradClassifier, "learning_rate", "there is no learning rate to choose"),
    (GradaGradRegressor, "eta0", "there is no learning rate to choose"),
]


@pytest.mark.parametrize(("make", "name", "remedy"), UNKNOWN)
def test_arguments_of_other_optimizers_are_explained(make: Any, name: str, remedy: str) -> None:
    with pytest.raises(TypeError, match=f"{make.__name__} has no argument {name}\\. .*{remedy}"):
        make([torch.ones(2)], **{name: 1.0})
    with pytest.raises(TypeError, match="unexpected keyword argument 'zz'"):
        make([torch.ones(2)], zz=1.0)


AUTO: dict[str, Any] = {
    "lr": 1.0, "gamma0": 1e-4, "momentum": 0.6, "weight_decay": 0.0, "decoupled_weight_decay": True, "eps": 0.0,
    "gamma_max": math.inf, "guard": False, "maximize": False,
    "foreach": None, "differentiable": False, "capturable": False, "fused": None, "state_dtype": torch.float32,
    "stochastic_rounding": False,
}  # fmt: skip
BAD_AUTO = [
    ({"gamma0": 0.0}, ValueError, r"gamma0 must be a finite number > 0, got 0\.0\. It is γ in"),
    ({"gamma0": math.inf}, ValueError, "gamma0 must be"),
    ({"gamma0": math.nan}, ValueError, "gamma0 must be .*nan"),
    ({"gamma0": True}, TypeError, "gamma0 must be .* got True"),
    ({"momentum": 1}, ValueError, r"momentum must be in \(0, 1\), got 1\.0\. It is the part of the average"),
    ({"gamma_max": 1e-5}, ValueError, r"gamma_max must be at least gamma0 = 0\.0001, got 1e-05"),
    ({"gamma_max": 0.0}, ValueError, r"gamma_max must be .*> 0.*0\.0"),
    ({"momentum": -0.5}, ValueError, r"momentum must be .*-0\.5"),
    ({"eps": -1.0}, ValueError, r"eps must be .*-1\.0"),
    ({"weight_decay": -0.5}, ValueError, r"weight_decay must be .*-0\.5"),
    ({"weight_decay": math.nan}, ValueError, "weight_decay must be .* got nan"),
    ({"guard": 1}, TypeError, "guard must be True or False, got 1"),
    ({"stochastic_rounding": None}, TypeError, "stochastic_rounding must be True or False, got None"),
    ({"maximize": 1}, TypeError, "maximize must be True or False.*1"),
    ({"decoupled_weight_decay": None}, TypeError, "decoupled_weight_decay must be True or False.*None"),
    ({"foreach": True, "differentiable": True}, ValueError, "foreach must be None or False with differentiable=True"),
    ({"differentiable": True, "stochastic_rounding": True}, ValueError, "differentiable must be False if"),
    ({"differentiable": True, "state_dtype": torch.bfloat16}, ValueError, "differentiable must be False .*state_dtype"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD_AUTO, ids=[str(list(o)) for o, *_ in BAD_AUTO])
def test_the_automatic_optimizer_has_its_own_table(options, error, message):
    assert torch_arguments.checked(AUTOGRADAGRAD, AUTO) == AUTO
    with pytest.raises(error, match=message):
        AutoGradaGrad([torch.nn.Parameter(torch.ones(2))], **options)


def test_where_all_groups_share_a_decision_they_agree_about_it():
    with pytest.raises(ValueError, match=r"gamma0 must be 0\.0001 as in the other param groups, got 0\.1\. .*an lr"):
        torch_arguments.checked(AUTOGRADAGRAD, {**AUTO, "gamma0": 0.1}, [AUTO])
    torch_arguments.checked(AUTOGRADAGRAD, {**AUTO, "lr": 0.1, "momentum": 0.3, "gamma_max": 1.0}, [AUTO])


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
    """Numbers of numpy would not load with weights_only=True."""
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
    way = DRIVERS[driver] | ({"fused": None} if driver == "fused" else {})  # fused=True refuses it for being no box
    optimizer = GradaGrad([p], lr=0.1, projection=projection, **way)
    p.grad = torch.ones(2)
    with pytest.raises(error, match=message):
        optimizer.step()
    assert torch.equal(p, torch.ones(2))
    assert not optimizer.state[p]["step"]
