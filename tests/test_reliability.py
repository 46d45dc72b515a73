"""Cases that broke under attack. They must work, or raise an error that says why and leave nothing half done."""

import contextlib
import copy
import functools
import math
from types import SimpleNamespace

import pytest
import torch
from cases import DRIVERS, KINDS, make

import gradagrad
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.integrations.wrappers import unwrapped
from gradagrad.projections import Box

OPTIMIZERS = {"GradaGrad": lambda p, **o: GradaGrad(p, lr=0.1, **o), "AutoGradaGrad": AutoGradaGrad}
every_optimizer = pytest.mark.parametrize("construct", OPTIMIZERS.values(), ids=OPTIMIZERS)


def trained(construct, steps=3, n=2, **options):
    params = [torch.nn.Parameter(torch.linspace(0.5, 1.5, 6).reshape(3, 2)) for _ in range(n)]
    optimizer = construct(params, **options)
    for _ in range(steps):
        for p in params:
            p.grad = p.detach() - 3.0
        optimizer.step()
    return params, optimizer


META = torch.empty((), device="meta")


@every_optimizer
def test_what_else_a_checkpoint_holds_is_no_obstacle(construct):
    """The base class cannot copy a tensor without data, nor one with a graph."""
    params, optimizer = trained(construct)
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"] |= {1: {**saved["state"][1], "foreign": META}, "foreign": torch.ones(2)}
    saved["state"][0]["accumulator"] = saved["state"][0]["accumulator"].requires_grad_() * 1.0
    saved["param_groups"][0]["foreign"] = torch.ones((), requires_grad=True) * 2.0
    optimizer.load_state_dict(saved)
    assert "foreign" not in optimizer.state[params[1]]
    assert not optimizer.param_groups[0]["foreign"].requires_grad
    assert not optimizer.state[params[0]]["accumulator"].requires_grad
    optimizer.step()
    _, fresh = trained(construct, steps=0)
    fresh.state["foreign"] = torch.ones(2)  # as a hook may
    fresh.step()


def test_clocks_of_rows_that_a_rule_does_not_need_are_left_out():
    params, optimizer = trained(OPTIMIZERS["GradaGrad"], lazy=True)
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][1]["row_clocks"] = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    optimizer.load_state_dict(saved)
    optimizer.step()
    assert "row_clocks" not in optimizer.state[params[1]]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_step_far_beyond_the_edge_of_a_box_keeps_its_digits(driver):
    """m leads from x to the edge p: (1 − β)·(x − p)·√α/lr. As the gradient less what the edge takes it would cancel."""
    p = torch.nn.Parameter(torch.full((1,), 2.0, dtype=torch.float64))
    options = {"momentum": 0.5, "grad_bound": 1.0, "projection": Box(-2.0, 2.0), **DRIVERS[driver]}
    optimizer = GradaGrad([p], lr=0.01, **options)
    p.grad = torch.full_like(p, 1e60)
    optimizer.step()
    assert float(optimizer.state[p]["momentum"]) == pytest.approx(0.5 * 4.0 / 0.01)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("granularity", ["element", "row", "tensor", "group"])
@pytest.mark.parametrize("projection", [None, Box(-5.0, 5.0)], ids=["free", "box"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rho", [0.0, 2.0])
def test_finite_gradients_beyond_the_root_of_the_largest_number(granularity, driver, projection, momentum, dtype, rho):
    """A gradient whose square overflows moves nothing far, now or later, as with torch's Adagrad."""
    params = [torch.nn.Parameter(torch.ones(shape, dtype=dtype)) for shape in ((2, 2), (3,))]
    settings = {"granularity": granularity, "momentum": momentum, "projection": projection, **DRIVERS[driver]}
    optimizer = GradaGrad(params, lr=1e-3, rho=rho, **settings)
    power = 1.0 if dtype == torch.float32 else 8.0
    for size in (1e38, 1e38, 1e38, 1.0, 2e19, 2e19, -3e38, 1.0):
        for p in params:
            p.grad = torch.full_like(p, math.copysign(abs(size) ** power, size))
        optimizer.step()
        for p in params:
            assert (p - 1.0).abs().max() < 0.02, size
            assert all(torch.isfinite(a).all() for a in optimizer.state[p].values())


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("granularity", ["element", "row", "tensor", "group"])
def test_a_cap_on_gamma_and_a_schedule_that_begins_at_zero(granularity, driver):
    """γ₀·growth ≤ gamma_max allows any growth at lr = 0, more than float32 has."""
    p = torch.nn.Parameter(torch.ones(2, 2))
    optimizer = GradaGrad([p], lr=1.0, gamma_max=1e3, granularity=granularity, **DRIVERS[driver])
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.1 * step)
    for _ in range(3):
        p.grad = torch.ones_like(p)
        optimizer.step()
        schedule.step()
    assert torch.isfinite(p).all()
    assert (p < 1.0).all()


@pytest.mark.parametrize("driver", [name for name in DRIVERS if name != "loop"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize(
    "sizes", [(1.0, -2.0, math.inf, 1.0), (1.0, 0.9, 1e33, -1e30, 1.0)], ids=["infinity", "products"]
)
def test_large_numbers_count_alike_in_every_way_of_stepping(kind, driver, maximize, sizes):
    """An infinity ruins its block. What 1e33 adds to a shared sum is 1e66, which double has: γ and α must see it."""
    found, ruins = [], math.inf in sizes
    for way in ("loop", driver):
        params = [torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(3))]
        optimizer = make(kind, params, maximize=maximize, **DRIVERS[way])
        for size in sizes:
            for p in params:
                p.grad = torch.full_like(p, 1.0 if ruins else size)
                p.grad.view(-1)[0] = 0.5
            params[0].grad[0, 1] = size
            optimizer.step()
        found.append([*params, *(a for p in params for a in optimizer.state[p].values())])
    torch.testing.assert_close(*found, rtol=1e-4, atol=0.0, equal_nan=ruins)


@every_optimizer
def test_a_parameter_that_changed_its_shape_is_refused_before_anything_moves(construct):
    params, optimizer = trained(construct)
    params[1].data = torch.ones(4)
    params[1].grad = torch.ones(4)
    params[0].grad = torch.ones(3, 2)
    before = params[0].detach().clone()
    with pytest.raises(RuntimeError, match="shape"):
        optimizer.step()
    assert torch.equal(params[0], before)
    assert optimizer.state[params[0]]["step"] == 3


def test_a_subclass_of_a_box_keeps_its_own_projection():
    class Shifted(Box):
        def __call__(self, point, metric):
            return super().__call__(point, metric) + 5.0

    class Positive(Box):
        def __call__(self, point, metric):
            return torch.full_like(point, 7.0)

    for projection, expected in ((Shifted(-1.0, 0.0), 5.0), (Positive(), 7.0)):
        p = torch.nn.Parameter(torch.zeros(2))
        optimizer = GradaGrad([p], lr=0.1, projection=projection)
        p.grad = -torch.ones(2)
        optimizer.step()
        assert torch.equal(p, torch.full((2,), expected))


@every_optimizer
def test_where_torch_operations_work_none_is_never_refused(construct):
    """Gradients that the kernel's schema does not take: conjugate and negation views, zero tensors."""
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = construct([p])
    for gradient in (torch.ones(3, dtype=torch.complex64).conj().imag, torch._efficientzerotensor(3)):
        p.grad = gradient
        optimizer.step()
    q = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
    optimizer = construct([q])
    q.grad = torch.ones(3, dtype=torch.complex64).conj()
    optimizer.step()
    assert torch.isfinite(torch.view_as_real(q)).all()


@every_optimizer
def test_counters_go_on_past_what_float32_can_count(construct):
    params, optimizer = trained(construct)
    for p in params:
        optimizer.state[p]["step"].fill_(2**24)
        p.grad = torch.ones_like(p)
    optimizer.step()
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert all(optimizer.state[p]["step"] == 2**24 + 1 for p in params)


@pytest.mark.parametrize("fused", [False, None])
def test_double_parameters_with_bf16_state_stay_finite(fused):
    p = torch.nn.Parameter(torch.ones(4, dtype=torch.float64))
    optimizer = GradaGrad([p], lr=0.1, state_dtype=torch.bfloat16, fused=fused)
    for size in (1e30, 1e30, -1e30):
        p.grad = torch.full((4,), size, dtype=torch.float64)
        optimizer.step()
    assert all(torch.isfinite(a).all() for a in (p, *optimizer.state[p].values()))


@every_optimizer
def test_tensors_can_be_swapped_after_steps_of_many(construct):
    params, _optimizer = trained(construct, n=20)
    other = torch.nn.Parameter(torch.zeros(3, 2))
    for p in params:
        p.grad = None
    torch.utils.swap_tensors(params[3], other)
    assert torch.equal(params[3], torch.zeros(3, 2))


@every_optimizer
def test_integer_parameters_are_refused(construct):
    with pytest.raises(TypeError, match=r"params must be tensors of floating point.*int64"):
        construct([torch.ones(3, dtype=torch.int64)])


def test_a_wrapper_that_wraps_itself_does_not_hang():
    _, optimizer = trained(OPTIMIZERS["GradaGrad"])

    class Wrapper:
        param_groups = optimizer.param_groups

    wrapper = Wrapper()
    wrapper.optimizer = wrapper
    with pytest.raises(TypeError, match="wrapper of one, got Wrapper"):
        gradagrad.learning_rates(wrapper)
    with pytest.raises(TypeError, match="wrapper of one, got Adam"):
        gradagrad.learning_rates(torch.optim.Adam([torch.ones(1)]))
    wrapper.optimizer = SimpleNamespace(optimizer=optimizer)
    assert gradagrad.learning_rates(wrapper)
    wrapper.optimizer = None
    # As Opacus, SAM and Lookahead, timm's Lookahead, and ZeRO keep it.
    for name in ("original_optimizer", "base_optimizer", "_base_optimizer", "optim"):
        setattr(wrapper, name, optimizer)
        assert gradagrad.learning_rates(wrapper)["gradagrad/group0/gamma_median"] > 0.0
        delattr(wrapper, name)
    Wrapper.optimizer = property(lambda self: Wrapper())  # a new one whenever it is asked
    with pytest.raises(TypeError, match="wrapper of one, got Wrapper"):
        gradagrad.learning_rates(Wrapper())


def test_settings_that_others_overwrite_are_noticed():
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = GradaGrad([p], lr=0.1)
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
    p.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="cycle_momentum=False"):
        optimizer.step()
    automatic = AutoGradaGrad([p])
    torch.optim.lr_scheduler.CyclicLR(automatic, 0.1, 1.0)
    with pytest.raises(RuntimeError, match=r"momentum was changed from 0\.\d to .*cycle_momentum=False\."):
        automatic.step()
    optimizer = GradaGrad([p], lr=0.1)
    optimizer.param_groups[0]["momentum"] = 0.95  # as fastai does
    with pytest.raises(RuntimeError, match=r"momentum was changed from 0\.0 to 0\.95"):
        optimizer.step()
    for other in ("row", "group", "tensor"):
        optimizer = GradaGrad([p], lr=0.1, granularity="tensor" if other == "row" else "element")
        optimizer.param_groups[0]["granularity"] = "element"  # before the first step
        optimizer.step()
        optimizer.param_groups[0]["granularity"] = other
        with pytest.raises(RuntimeError, match=f'granularity was changed from "element" to "{other}"'):
            optimizer.step()
    optimizer = GradaGrad([p], lr=0.1)
    optimizer.param_groups[0]["granularity"] = "rows"
    with pytest.raises(ValueError, match=r"granularity must be .*'rows'"):
        optimizer.step()
    p = torch.nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    optimizer = GradaGrad([{"params": [p], "rho": 0.05, "adaptive": False}], lr=0.1)  # as SAM hands its groups on
    optimizer.state[p].clear()  # what a wrapper kept in the state is gone, its empty place is not
    with pytest.raises(RuntimeError, match="SAM has overwritten GradaGrad's rho"):
        optimizer.step()
    assert torch.equal(p, torch.ones(2))
    p._fsdp_flattened = True
    with pytest.raises(ValueError, match="FSDP2"):
        AutoGradaGrad([p])
    GradaGrad([p])  # every element by itself


@pytest.mark.parametrize("options", [{}, {"granularity": "group"}, {"granularity": "element"}], ids=str)
def test_an_optimizer_for_each_parameter_is_warned_of_where_it_changes_the_method(options):
    make = functools.partial(GradaGrad, lr=0.1, **options) if options else AutoGradaGrad
    model = torch.nn.Linear(2, 2)
    optimizers = {p: make([p]) for p in model.parameters()}
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
    loss = model(torch.ones(1, 2)).sum()
    expected = (
        contextlib.nullcontext() if options == {"granularity": "element"} else pytest.warns(match="each parameter")
    )
    with expected:
        loss.backward()


def test_negative_indices_are_refused():
    table = torch.nn.Parameter(torch.ones(4, 2))
    rows = torch.tensor([[-1]])
    table.grad = torch.sparse_coo_tensor(rows, torch.ones(1, 2), (4, 2), check_invariants=False)
    for options in ({}, {"fused": False}, {"foreach": True}):
        with pytest.raises(RuntimeError, match="negative index, -1"):
            GradaGrad([table], lazy=True, **options).step()
    assert torch.equal(table, torch.ones(4, 2))


@pytest.mark.parametrize("granularity", ["row", "tensor"])
def test_tensors_without_rows_are_stepped_together(granularity):
    params = [torch.nn.Parameter(torch.ones(0, n)) for n in (2, 3)]
    for p in params:
        p.grad = torch.ones_like(p)
    GradaGrad(params, granularity=granularity, lazy=True, foreach=True).step()


def test_optimizers_of_torchrec_are_seen_through():
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = GradaGrad([p], lr=0.5)

    class Wrapper:
        def __init__(self, **inside):
            vars(self).update(inside)

    assert unwrapped(Wrapper(_optimizer=Wrapper(_optimizer=optimizer))) is optimizer
    pairs = [("dense", torch.optim.SGD([p])), ("tables", Wrapper(_optimizer=optimizer))]
    assert unwrapped(Wrapper(_optims=pairs)) is optimizer
    with pytest.raises(TypeError, match="several"):
        unwrapped(Wrapper(_optims=[*pairs, ("more", GradaGrad([p]))]))
    with pytest.raises(TypeError, match="wrapper of one"):
        unwrapped(Wrapper(_optims=pairs[:1]))


def test_small_habits():
    """The behaviour that trainers and command lines expect."""
    p = torch.nn.Parameter(torch.ones(2))
    assert dir(gradagrad) == sorted(gradagrad.__all__)
    optimizer = GradaGrad([p], lr=0.5, state_dtype="bfloat16")
    assert optimizer.param_groups[0]["state_dtype"] is torch.bfloat16
    automatic = AutoGradaGrad([p], gamma0=1e-3)
    p.grad, group = torch.ones(2), automatic.param_groups[0]
    for _ in range(4):
        used = automatic.diagnostics()[0].effective_lr if automatic.state else 1e-3
        automatic.step()
        assert group["d"] * group["lr"] == pytest.approx(used)  # Trainers log d · lr, the γ of the step.
    meta = torch.nn.Parameter(torch.ones(2, device="meta"))
    meta.grad = torch.ones_like(meta)
    with pytest.raises(RuntimeError, match="`fused=True` requires all the params to be floating point"):
        GradaGrad([meta], fused=True).step()
