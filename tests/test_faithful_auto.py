"""Every backend against the literal form of the rule, and what the rule promises."""

from typing import Any

import pytest
import torch
from cases import AUTO_OPTIONS, DRIVERS, Oracle, gammas, noisy_gradients, parameters, shared, train
from torch.nn import Parameter

from gradagrad import AutoGradaGrad

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")

every_driver = pytest.mark.parametrize("driver", DRIVERS)


def run(oracle: Oracle, params: list[Parameter], steps: int, noise: float = 0.3) -> None:
    for k in range(steps):
        noisy_gradients(params, k, noise)
        oracle.step()


@every_driver
@pytest.mark.parametrize(
    ("name", "noise"),
    [*((name, 0.3) for name in AUTO_OPTIONS), ("default", 0.03), ("from above", 3.0), ("no guard", 30.0)],
)
def test_the_oracle_in_double_precision(driver: str, name: str, noise: float) -> None:
    params = parameters()
    oracle = Oracle(AutoGradaGrad(params, **DRIVERS[driver], **AUTO_OPTIONS[name]))
    for _ in range(3):
        run(oracle, params, 30, noise)
        oracle.compare({"from far below": 1e-6, "from above": 1e-9}.get(name, 1e-10))  # The oracle subtracts iterates.


@every_driver
def test_several_groups_with_their_own_lr(driver: str) -> None:
    params = parameters()
    groups: list[dict[str, Any]] = [
        {"params": params[:1], "lr": 0.5},
        {"params": params[1:3], "lr": torch.tensor(2.0, dtype=torch.float64)},
        {"params": params[3:]},
    ]
    oracle = Oracle(AutoGradaGrad(groups, **DRIVERS[driver]))
    for _ in range(3):
        run(oracle, params, 30)
        oracle.compare()


@every_driver
def test_gradients_that_are_zero_or_missing(driver: str) -> None:
    """A zero first gradient, a while of zeros, single zero entries, parameters without a gradient for some steps."""
    params = parameters()
    oracle = Oracle(AutoGradaGrad(params, **DRIVERS[driver]))
    for k in range(70):
        for i, (p, g) in enumerate(zip(params, noisy_gradients(params, k), strict=True)):
            if k == 0 or 50 <= k < 60:
                g.zero_()
            elif i == 0:
                g[k % 4] = 0.0
            p.grad = None if (i == 1 and k % 3 == 0) or (i == 2 and (k < 20 or k % 7 < 2)) else g
        oracle.step()
        if k % 10 == 0:
            oracle.compare()
    oracle.compare()


@every_driver
def test_gradients_that_change_in_size(driver: str) -> None:
    """The guard limits gradients that count more than all before them."""
    params = parameters()
    oracle = Oracle(AutoGradaGrad(params, **DRIVERS[driver]))
    for k in range(60):
        for p, g in zip(params, noisy_gradients(params, k, 0.05), strict=True):
            p.grad = g * 2.0 ** (k % 20)
        oracle.step()
        if k % 20 == 19:
            oracle.compare()


@every_driver
def test_single_precision_is_close(driver: str) -> None:
    params = parameters(torch.float32)
    twins = [Parameter(p.detach().double()) for p in params]
    optimizer = AutoGradaGrad(params, **DRIVERS[driver])
    oracle = Oracle(AutoGradaGrad(twins, fused=False))
    for k in range(20):
        for p, q, g in zip(params, twins, noisy_gradients(twins, k), strict=True):
            p.grad, q.grad = g.float(), g.float().double()
        optimizer.step()
        oracle.step()
    assert gammas(optimizer) == pytest.approx([tensor.gamma for tensor in oracle.own.tensors], rel=1e-3)
    torch.testing.assert_close(params, [q.float() for q in twins], rtol=1e-4, atol=1e-5)


@every_driver
@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_scale_of_the_loss_changes_nothing(driver: str, scale: float, dtype: torch.dtype) -> None:
    ordinary, scaled = parameters(dtype), parameters(dtype)
    a, b = (AutoGradaGrad(params, **DRIVERS[driver]) for params in (ordinary, scaled))
    for k in range(30):
        for p, q, g in zip(ordinary, scaled, noisy_gradients(ordinary, k), strict=True):
            p.grad, q.grad = g, g * scale
        a.step()
        b.step()
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    assert max(gammas(a)) > 1e-3
    assert gammas(a) == pytest.approx(gammas(b), rel=tolerance)
    torch.testing.assert_close(ordinary, scaled, rtol=tolerance, atol=tolerance)


@every_driver
def test_moving_tensors_to_other_groups_changes_nothing(driver: str) -> None:
    one, several = parameters(), parameters()
    groups = [{"params": several[2:]}, {"params": several[:2], "eps": 0.0}]
    optimizers = [AutoGradaGrad(one, **DRIVERS[driver]), AutoGradaGrad(groups, **DRIVERS[driver])]
    for k in range(60):
        for p, q, g in zip(one, several, noisy_gradients(one, k), strict=True):
            p.grad, q.grad = g, g.clone()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(one, several, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(shared(optimizers[1]), shared(optimizers[0]), rtol=1e-9, atol=1e-12)


@every_driver
@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["descent", "ascent"])
def test_coupled_decay_and_ascent(driver: str, sign: float) -> None:
    """Coupled decay is a part of the gradient."""
    params, plain = parameters(), parameters()
    options: Any = {"weight_decay": 0.1, "decoupled_weight_decay": False, "maximize": sign < 0.0}
    optimizer = AutoGradaGrad(params, lr=0.5, **options, **DRIVERS[driver])
    reference = AutoGradaGrad(plain, lr=0.5, fused=False)
    for k in range(40):
        for p, q, g in zip(params, plain, noisy_gradients(params, k), strict=True):
            p.grad, q.grad = sign * g, g + 0.1 * q.detach()
        optimizer.step()
        reference.step()
        torch.testing.assert_close(params, plain, rtol=1e-9, atol=1e-11)


@every_driver
def test_eps_is_added_to_the_root(driver: str) -> None:
    p = Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = AutoGradaGrad([p], gamma0=0.5, eps=1.0, momentum=0.5, **DRIVERS[driver])
    p.grad = torch.tensor([2.0, -1.0, 0.0], dtype=torch.float64)
    optimizer.step()  # a = g², and the average of one iterate is that iterate
    expected = torch.tensor([1.0 - 0.5 * 2 / 3, 1.0 + 0.25, 1.0], dtype=torch.float64)
    torch.testing.assert_close(p.detach(), expected)


@every_driver
@pytest.mark.parametrize("schedule", ["cosine", "warm-up"])
def test_a_schedule_multiplies_the_steps(driver: str, schedule: str) -> None:
    params = parameters()
    optimizer = AutoGradaGrad(params, lr=0.5, **DRIVERS[driver])
    oracle = Oracle(optimizer)
    scheduler: torch.optim.lr_scheduler.LRScheduler
    if schedule == "cosine":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    else:
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: min((k + 1) / 10, 1.0))
    for k in range(40):
        noisy_gradients(params, k)
        oracle.step(float(scheduler.get_last_lr()[0]) / 0.5)
        scheduler.step()
    oracle.compare()


def test_gamma_comes_down_from_above() -> None:
    """The paper states this limitation of GradaGrad, whose numerator only grows."""
    for gamma0, noise in ((1.0, 0.3), (10.0, 0.3), (100.0, 0.0), (100.0, 0.3)):
        params = parameters()
        optimizer = AutoGradaGrad(params, gamma0=gamma0)
        train(optimizer, 1000, noise=noise)
        assert max(gammas(optimizer)) < gamma0 / 3.0
        with optimizer.averaged():
            assert all((p - 1.0).abs().max() < 1.0 for p in params if p.numel())


def test_gamma_changes_by_a_tenth_at_most() -> None:
    """By 1/√k early on. The pull to the mean, which is weak, comes on top, and the start at a share of the limit."""
    params = parameters()
    optimizer = AutoGradaGrad(params, gamma0=1e-3, guard=False)
    before = [1e-3] * len(params)
    for k in range(200):
        for p, g in zip(params, noisy_gradients(params, k, 3.0), strict=True):
            p.grad = g * (1e3 if k % 50 == 49 else 1.0)
        common = optimizer.state[params[0]]["common_gamma"].item() if k else 1e-3
        optimizer.step()
        now = gammas(optimizer)
        limits = [optimizer.state[p]["limit"].item() for p in params]  # What is above one is drawn back.
        for old, new, limit in zip(before, now, limits, strict=True):
            pull = (max(old, common, *before) / min(old, common, *before)) ** (0.5 / (k + 2))
            vote = max(0.1, (k + 1) ** -0.5)
            assert k == 0 or new / old <= (1.0 + vote) * pull + 1e-9
            assert k == 0 or new >= limit or new / old >= (1.0 - vote) / pull - 1e-9
        before = now


@pytest.mark.parametrize("clock", [2.0**21 - 30.0, 6.5e7, 1e9])
@every_driver
def test_long_runs_in_single_precision(clock: float, driver: str) -> None:
    """Started as if at this step after gradients of ±1: float32 follows float64 while gradients double, and an element
    that is idle keeps what it has."""
    twins = [Parameter(torch.ones(4, dtype=dtype)) for dtype in (torch.float32, torch.float64)]
    optimizers = [AutoGradaGrad([p], gamma0=0.1, **DRIVERS[driver]) for p in twins]
    weight = min(clock, 2.0**21 - 1.0)
    total = weight * (weight + 1.0) / 2.0
    starts = {"clock": clock, "displacement_scale": clock**-0.5, "accumulator": total}
    for k in range(200):
        signs = torch.rand(4, generator=torch.Generator().manual_seed(k)) < 0.5
        for p, optimizer in zip(twins, optimizers, strict=True):
            p.grad = torch.where(signs, 2.0, -2.0).to(p.dtype)
            p.grad[3] = 0.0
            if k == 0:
                optimizer.step()
                for key, start in starts.items():
                    optimizer.state[p][key].fill_(start)
            optimizer.step()
    means = [o.state[p]["accumulator"].double() / total for o, p in zip(optimizers, twins, strict=True)]
    steps = min(clock + 200.0, 2.0**21 - 1.0) - weight  # which still count as steps of the sum
    assert means[1][0].item() == pytest.approx(1.0 + 3.0 * 200.0 * 2.0**-20 + steps * 2.0**-20, rel=1e-6)
    assert means[1][3].item() == 1.0
    torch.testing.assert_close(means[0], means[1], rtol=1e-5, atol=0)
    torch.testing.assert_close(twins[0].double(), twins[1], rtol=1e-5, atol=1e-6)
    assert gammas(optimizers[0]) == pytest.approx(gammas(optimizers[1]), rel=1e-3)


@every_driver
@pytest.mark.parametrize("rows", ["dense", "sparse"])
@pytest.mark.parametrize("clock", [2**21 - 20, 2**26])
def test_the_oracle_beyond_two_million_steps(clock: int, rows: str, driver: str) -> None:
    """Squares are forgotten at a fixed rate where their element moves, and kept where it is idle."""
    table, beside = Parameter(torch.ones(6, 2, dtype=torch.float64)), parameters()[0]
    optimizer = AutoGradaGrad([table, beside], gamma0=1e-2, **DRIVERS[driver])
    oracle = Oracle(optimizer)
    for k in range(50):
        table.grad, beside.grad = noisy_gradients([table, beside], k)
        for row in range(6):
            table.grad[row] *= k < 10 or (k + row) % 3 == 0
        if k == 30:
            beside.grad *= 1e6  # which the guard holds back
        if rows == "sparse" and k >= 10:
            table.grad = table.grad.to_sparse(1)
        if k == 10:
            oracle.age(clock)
        oracle.step()
    oracle.compare()


def test_only_ratios_of_lr_matter() -> None:
    """Frameworks set an lr by themselves, such as 0.01; it neither slows the start nor moves the cap."""
    ends = []
    for lr in (1.0, 2.0**-10):
        params = parameters()[:2]
        groups = [{"params": [params[0]], "lr": lr}, {"params": [params[1]], "lr": lr / 4}]
        optimizer = AutoGradaGrad(groups, gamma_max=0.01)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 1.0 / (k + 1))
        for k in range(30):
            for p in params:
                p.grad = (p.detach() - 1.0) + 0.3 * (-1) ** k
            optimizer.step()
            scheduler.step()
        ends.append(torch.cat([p.detach().flatten() for p in params]))
    torch.testing.assert_close(*ends, rtol=1e-12, atol=1e-12)
