"""Every path of the optimizer against the paper's algorithms, transcribed literally in oracle.py, in float64."""

import math
import random
from typing import Any

import oracle
import pytest
import torch
from cases import DRIVERS, OPTIONS, Ball

from gradagrad import GradaGrad
from gradagrad.projections import Box

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")

STEPS = 120
TOLERANCE: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-13}


def noisy(seed: int, d: int, scale: float = 1.0):
    """Gradients of a badly scaled quadratic around 1 with noise: agreement, disagreement and sign changes."""
    rng = random.Random(seed)
    curvature = [10.0 ** rng.uniform(-1, 0.5) for _ in range(d)]
    noise = [[rng.gauss(0, 0.5) for _ in range(d)] for _ in range(STEPS)]
    return lambda k, x: [scale * (curvature[i] * (x[i] - 1.0) + noise[k][i]) for i in range(d)]


def run(gradient, shapes, x_0, *, lr, driver="loop", **options):
    """The optimizer's trace: x, γ and α after each step, flattened over the tensors."""
    params, i = [], 0
    for shape in shapes:
        n = math.prod(shape)
        params.append(torch.nn.Parameter(torch.tensor(x_0[i : i + n], dtype=torch.float64).reshape(shape)))
        i += n
    optimizer = GradaGrad(params, lr=lr, **DRIVERS[driver], **options)
    trace = []
    for k in range(STEPS):
        g = gradient(k, [v for p in params for v in p.detach().reshape(-1).tolist()])
        i = 0
        for p in params:
            p.grad = torch.tensor(g[i : i + p.numel()], dtype=torch.float64).reshape(p.shape)
            i += p.numel()
        optimizer.step()
        values = {key: [optimizer.state[p][key] for p in params] for key in ("growth", "accumulator", "momentum")}
        values["growth"] = [growth * lr for growth in values["growth"]]
        rows = [[p.detach() for p in params], *values.values()]
        trace.append([torch.cat([a.reshape(-1) for a in row]).tolist() for row in rows])
    return trace


def of_paper(options):
    """Our argument names as the oracle's."""
    names = {"rho": "rho", "momentum": "beta", "grad_bound": "G", "gamma_max": "D", "eps": "eps"}
    names["initial_accumulator_value"] = "alpha_0"
    translated = {names[k]: v for k, v in options.items() if k in names}
    translated.setdefault("eps", 1e-10)
    if translated.get("D") == "travelled":
        translated |= {"D": math.inf, "travelled": True}
    if "growth_limit" in options:
        translated["r"] = options["growth_limit"] ** 2 - 1
    if isinstance(options.get("projection"), Box):
        low, high = options["projection"].lower, options["projection"].upper
        translated["proj"] = lambda z, _: [min(max(v, float(low)), float(high)) for v in z]
    return translated


def assert_close(ours, paper, first):
    for k, (x, gamma, alpha, m) in enumerate(ours):
        torch.testing.assert_close(x, paper.x[k + 1], **TOLERANCE, msg=lambda t, k=k: f"x after step {k}: {t}")
        torch.testing.assert_close(gamma[first], paper.gamma[k + 1], **TOLERANCE, msg=lambda t, k=k: f"γ at {k}: {t}")
        torch.testing.assert_close(alpha[first], paper.alpha[k + 1], **TOLERANCE, msg=lambda t, k=k: f"α at {k}: {t}")
        torch.testing.assert_close(m, paper.m[k], rtol=1e-9, atol=1e-11, msg=lambda t, k=k: f"m at {k}: {t}")


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("lr", [0.3, 1e-3])
def test_element_is_algorithm_2(name, lr, driver):
    options = OPTIONS[name]
    shapes = [(3, 2), (4,), ()]
    x_0 = [0.1 * i - 0.3 for i in range(11)]
    gradient = noisy(7, 11)
    ours = run(gradient, shapes, x_0, lr=lr, driver=driver, **options)
    paper = oracle.algorithm_2(gradient, x_0, STEPS, gamma_0=lr, **of_paper(options))
    assert_close(ours, paper, slice(None))


SCALAR_OPTIONS = {
    k: v
    for k, v in OPTIONS.items()
    if not v.keys() & {"grad_bound", "projection", "momentum"} and v.get("gamma_max", "travelled") == "travelled"
}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", SCALAR_OPTIONS)
@pytest.mark.parametrize("granularity", ["group", "tensor", "row"])
def test_shared_blocks_are_algorithm_1(name, granularity, driver):
    """With one block over everything, each shared granularity is the scalar variant, with Lemma 4's r and at most 3."""
    options = SCALAR_OPTIONS[name]
    shapes = {"group": [(3, 2), (4,), ()], "tensor": [(11,)], "row": [(1, 11)]}[granularity]
    x_0 = [0.1 * i - 0.3 for i in range(11)]
    rho, limit = options.get("rho", 2.0), options.get("growth_limit", math.inf if granularity == "row" else 2.0)
    lemma = oracle.lemma_r(rho)
    settings = {key: value for key, value in of_paper(options).items() if key != "D"}
    settings["r"] = lambda g, previous: min(lemma(g, previous), limit**2 - 1)
    gradient = noisy(3, 11)
    paper = oracle.algorithm_1(gradient, x_0, STEPS, gamma_0=0.01, **settings)
    ours = run(gradient, shapes, x_0, lr=0.01, granularity=granularity, driver=driver, **options)
    assert_close(ours, paper, slice(0, 1))


@pytest.mark.parametrize("granularity", ["tensor", "group", "all"])
def test_a_warm_up_by_stairs_does_not_blow_up_shared_step_sizes(granularity):
    """While lr is tiny all gradients agree; without a limit, the next stair multiplied what γ had grown to."""
    losses = []
    for limit in (None, math.inf):
        torch.manual_seed(0)
        inputs = torch.randn(256, 8)
        targets = torch.sin(inputs @ torch.randn(8, 1))
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        optimizer = GradaGrad(model.parameters(), lr=0.01, rho=100.0, granularity=granularity, growth_limit=limit)
        for k in range(60):
            optimizer.param_groups[0]["lr"] = 0.01 * (1e-3 if k < 8 else 0.5)
            rows = torch.randint(0, 256, (32,))
            optimizer.zero_grad()
            (model(inputs[rows]) - targets[rows]).square().mean().backward()
            optimizer.step()
        losses.append((model(inputs) - targets).square().mean().item())
    assert losses[0] < 0.6 < 10.0 < losses[1]


def test_fixed_clip_is_algorithm_1_as_printed():
    """Constant gradients: Lemma 4's clip allows a factor of 2, so the printed r = 0.21 decides every step."""
    paper = oracle.algorithm_1(lambda k, x: [1.0, -2.0], [0.0, 0.0], 40, gamma_0=1e-3, r=0.21, eps=1e-10)
    p = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    optimizer = GradaGrad([p], lr=1e-3, granularity="group", growth_limit=1.1)
    for k in range(40):
        p.grad = torch.tensor([1.0, -2.0], dtype=torch.float64)
        optimizer.step()
        torch.testing.assert_close(p.tolist(), paper.x[k + 1], rtol=1e-12, atol=0)
    assert paper.gamma[-1][0] > 1e-3 * 1.1**30


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("granularity", ["row", "tensor", "group"])
def test_one_coordinate_is_the_same_in_every_granularity(name, granularity):
    gradient = noisy(11, 1)
    element = run(gradient, [(1,)], [0.4], lr=0.1, **OPTIONS[name])
    options = {"growth_limit": math.inf} | OPTIONS[name]
    shared = run(gradient, [(1,)], [0.4], lr=0.1, granularity=granularity, **options)
    for a, b in zip(element, shared, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", OPTIONS)
def test_splitting_a_tensor_changes_nothing_under_group(name):
    gradient = noisy(5, 12)
    x_0 = [0.05 * i for i in range(12)]
    whole = run(gradient, [(12,)], x_0, lr=0.05, granularity="group", **OPTIONS[name])
    parts = run(gradient, [(3, 2), (6,)], x_0, lr=0.05, granularity="group", **OPTIONS[name])
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a[0], b[0], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(a[1][0], b[1][0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", OPTIONS)
def test_row_is_tensor_by_tensor(name):
    """Row granularity on a matrix is tensor granularity on its rows."""
    gradient = noisy(6, 12)
    x_0 = [0.05 * i for i in range(12)]
    rows = run(gradient, [(4, 3)], x_0, lr=0.05, granularity="row", **OPTIONS[name])
    options = {"growth_limit": math.inf} | OPTIONS[name]
    tensors = run(gradient, [(3,)] * 4, x_0, lr=0.05, granularity="tensor", **options)
    for a, b in zip(rows, tensors, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("granularity", ["tensor", "group"])
def test_ball_under_a_shared_step_size_is_the_euclidean_projection(granularity):
    """The literal algorithm needs only a scalar metric here, where the projection is radial."""

    def radial(z, _):
        norm = math.sqrt(oracle.dot(z, z))
        return [v / max(norm, 1.0) for v in z]

    gradient = noisy(2, 4)
    p_options: dict[str, Any] = {"projection": Ball(1.0), "momentum": 0.5, "rho": 0.0}
    ours = run(gradient, [(4,)], [0.1, 0.2, 0.3, 0.4], lr=0.5, granularity=granularity, **p_options)
    # ρ = 0 makes the scalar block Σg², which the oracle's element algorithm gets from four equal shares.
    x, z, alpha = [0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4], 0.0
    for k in range(STEPS):
        g = gradient(k, x)
        alpha += oracle.dot(g, g)
        a = (math.sqrt(alpha) + 1e-10) / 0.5
        z = radial([z[i] - g[i] / a for i in range(4)], None)
        x = [0.5 * x[i] + 0.5 * z[i] for i in range(4)]
        torch.testing.assert_close(ours[k][0], x, rtol=1e-10, atol=1e-12)
