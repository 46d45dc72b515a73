"""Before its first use a kernel is compared with torch, and a wrong one is never used. The check that users run."""

import copy
import warnings
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from gpu.interpreted.batches import SIZES, batch_of, trained
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.engine import step as backends
from gradagrad.triton import backend, check, launch
from gradagrad.triton.backend import TritonBackend, sample_of
from gradagrad.triton.source import source_of

# Each change makes a kernel wrong: its move, a decision, how partial sums are added, the statistics.
MAKERS: dict[str, tuple[Any, tuple[str, str]]] = {
    "element": (lambda p, **how: GradaGrad(p, 0.1, **how), ("x - ", "x + ")),
    "tensor": (lambda p, **how: GradaGrad(p, 0.1, granularity="tensor", **how), ("tl.sqrt(", "(")),
    "group": (lambda p, **how: GradaGrad(p, 0.1, granularity="group", **how), ("first + j", "j + 1")),
    "auto": (AutoGradaGrad, ("tl.sum(total_statistic0)", "0.5 * tl.sum(total_statistic0)")),
}


class Wrong:
    """A launcher of kernels whose text was changed."""

    def __init__(self, right: str, wrong: str) -> None:
        self.change, self.modules, self.launches = (right, wrong), {}, 0

    def __call__(self, spec, name, programs, arguments):
        self.launches += 1
        if spec not in self.modules:
            text = source_of(spec).text()
            assert self.change[0] in text
            self.modules[spec] = launch.load(text.replace(*self.change), "wrong")
        kernel = self.modules[spec][f"{name}_kernel"]
        kernel[(programs,)](**{key: arguments[key] for key in kernel.arg_names})


def _trained(make: Any, **how: Any) -> Any:
    return trained(partial(make, **how), ((6, 5),), torch.float64)


@pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")
@pytest.mark.parametrize("name", MAKERS)
def test_a_wrong_kernel_is_reported_and_not_used(name, monkeypatch):
    make, change = MAKERS[name]
    wrong = Wrong(*change)
    monkeypatch.setattr(backends, "TRITON", TritonBackend(wrong, SIZES))
    before = torch.get_rng_state()
    with pytest.warns(RuntimeWarning, match="steps without Triton from now on") as caught:
        got = _trained(make)
    ours = [str(w.message) for w in caught if w.category is RuntimeWarning]
    assert len(ours) == 1
    for part in (r" by the kernel and ", " by torch", "on cpu", "gradagrad ", "torch 2", "triton 3", "Please report"):
        assert part in ours[0]
    assert torch.equal(torch.get_rng_state(), before)
    launches = wrong.launches
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(got, _trained(make), rtol=0.0, atol=0.0)
        torch.testing.assert_close(got, _trained(make, fused=False))
        with pytest.raises(RuntimeError, match=r"fused=True is impossible here: its kernel disagrees with torch"):
            _trained(make, fused=True)
    assert wrong.launches == launches > 0


def test_a_kernel_that_cannot_run_is_not_used():
    """A machine without a C compiler has Triton and cannot use it; steps must not break there."""

    def fails(*_: Any) -> None:
        raise RuntimeError("Failed to find C compiler.\nPlease specify it.")

    batch = batch_of("element")
    steps = TritonBackend(fails)
    with pytest.warns(RuntimeWarning, match="unless it names something that your machine lacks"):
        reason = steps.prepare(batch)
    assert reason == steps.prepare(batch) == "triton cannot run on cpu (RuntimeError: Failed to find C compiler.)."


@pytest.mark.parametrize("scope", ["element", "tensor", "group", "auto"])
def test_the_sample_has_the_kernel_of_the_batch(scope):
    options = {"lazy": True} if scope == "element" else {}
    batch = batch_of(scope, shapes=((8, 4), (5,)), dtype=torch.bfloat16, beta=0.9, lr=0.0, **options)
    specs = launch.specs_of(batch, launch.common_spec(batch))
    for i, spec in enumerate(specs):
        sample = sample_of(batch, i)
        sample.grads = [*map(torch.zeros_like, sample.params)]
        assert {*launch.specs_of(sample, launch.common_spec(sample))} == {spec}


@pytest.mark.parametrize("options", [{}, {"state_dtype": torch.bfloat16}, {"capturable": True}], ids=str)
@pytest.mark.parametrize("steps", [0, 2])
def test_a_step_in_which_every_gradient_is_zero_changes_nothing(options, steps, launches, monkeypatch):
    """As on a GPU, where only the device knows."""
    monkeypatch.setattr(backends, "look", backends.look_on_device)
    params = [nn.Parameter(torch.linspace(-1.0, 2.0, 7)), nn.Parameter(torch.ones(3, 2))]
    optimizer = AutoGradaGrad([{"params": [p]} for p in params], fused=True, gamma0=1e-2, **options)
    before: list[torch.Tensor] = []
    for k in range(steps + 1):
        before = copy.deepcopy([*params, *(a for p in params for a in optimizer.state[p].values())])
        for p in params:
            p.grad = torch.sin(p.detach() + k) if k < steps else torch.zeros_like(p)
        optimizer.step()
    after = [*params, *(a for p in params for a in optimizer.state[p].values())]
    assert launches
    # Before the first step there is no state to compare with.
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=steps > 0))


@pytest.mark.parametrize("name", check.KINDS)
def test_the_self_check_for_users_agrees(name):
    """This runs on the CPU what ``python -m gradagrad gpu`` runs on a GPU."""
    assert check.refusal(name, torch.device("cpu"), TritonBackend(sizes=SIZES)) == ""


def test_the_self_check_names_a_kernel_that_differs(monkeypatch):
    monkeypatch.setattr(backend, "tolerance", lambda _: -1.0)
    with pytest.warns(RuntimeWarning, match="steps without Triton from now on"):
        reason = check.refusal("AutoGradaGrad", torch.device("cpu"), TritonBackend(sizes=SIZES))
    assert reason.startswith("its kernel disagrees with torch on cpu")
