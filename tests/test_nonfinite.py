"""A NaN or infinity in a gradient spoils only its own block, as in torch's optimizers."""

import pytest
import torch
from cases import DRIVERS

from gradagrad import AutoGradaGrad, GradaGrad

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("granularity", ["element", "row", "tensor"])
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("beta", [0.0, 0.9])
@pytest.mark.parametrize("when", [0, 2])
def test_other_blocks_are_untouched(bad, granularity, driver, beta, when):
    runs = []
    for spoil in (False, True):
        params = [torch.nn.Parameter(torch.ones(3, 2)), torch.nn.Parameter(torch.ones(4))]
        optimizer = GradaGrad(params, lr=0.1, granularity=granularity, **DRIVERS[driver], momentum=beta, gamma_max=5.0)
        for k in range(5):
            for p in params:
                p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(k))
            if spoil and k == when:
                gradient = params[0].grad
                assert gradient is not None
                gradient[1, 1] = bad
            optimizer.step()
        runs.append((params, [optimizer.state[p] for p in params]))
    (clean, clean_states), (spoilt, spoilt_states) = runs
    assert torch.equal(clean[1], spoilt[1])
    for key in ("momentum", "growth", "accumulator"):
        assert torch.equal(clean_states[1][key], spoilt_states[1][key])
    if granularity != "tensor":
        healthy = torch.ones(3, 2, dtype=torch.bool)
        healthy[1, 1 if granularity == "element" else slice(None)] = False
        assert torch.equal(clean[0][healthy], spoilt[0][healthy])
        for key in ("momentum", "growth", "accumulator"):
            same = clean_states[0][key] == spoilt_states[0][key]
            assert same.expand(3, 2)[healthy].all()
    assert not torch.isfinite(spoilt[0][1, 1])  # the spoilt block itself shows it, as with torch's optimizers


@pytest.mark.parametrize("make", [GradaGrad, AutoGradaGrad])
def test_nan_is_warned_of_once_with_its_place(make):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    optimizer = make([{"params": model[0].named_parameters()}, {"params": model[1].named_parameters()}], lr=1e-3)

    def train():
        for k in range(300):
            for p in model.parameters():
                p.grad = torch.full_like(p, 1.0)
            if k == 5:
                model[1].weight.grad[0, 1] = torch.nan
            optimizer.step()

    with pytest.warns(UserWarning, match=r"parameter 2 \(weight\) is not finite after step 10") as found:
        train()
    assert [warning.filename for warning in found if "is not finite" in str(warning.message)] == [__file__]
