"""AutoGradaGrad: its formulas written out once more in plain numbers, the torch class, and float32 over many steps."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradagrad import AutoGradaGrad
from gradagrad.optax import auto_gradagrad

from .cases import noises, run_jax, run_torch

OPTIONS = {
    "plain": {},
    "gamma0": {"gamma0": 1e-2, "momentum": 0.0},
    "coupled": {"weight_decay": 0.1, "decoupled_weight_decay": False},
    "decoupled": {"weight_decay": 0.1},
    "unguarded": {"guard": False},
    "cap": {"gamma_max": 0.05, "eps": 0.01},
    "averaged": {"averaging": "polynomial"},
    "uphill": {"maximize": True},
}

SHARED = ("gamma", "displacement_scale", "agreement_square", "square_total")


class Literal:
    """The rule for one flat list, as its formulas stand; an element without a gradient rests."""

    def __init__(self, x, gamma=1e-4, beta=0.7, decay=0.0, guard=True):
        self.x, n = list(x), len(x)
        self.h, self.B, self.y, self.mean = [0.0] * n, [0.0] * n, [0.0] * n, list(x)
        self.gamma, self.beta, self.decay, self.guard, self.v, self.k = gamma, beta, decay, guard, 0.0, 0

    def step(self, g):
        self.k += 1
        k, n = self.k, len(self.x)
        damp = 1.0
        if self.guard and sum(self.B) > 0.0:
            damp = min(1.0, math.sqrt(sum(self.B) / max(k * sum(a * a for a in g), 1e-300)))
        g = [a * damp for a in g]
        agreement = 0.0
        for i in range(n):
            self.B[i] += k * g[i] ** 2
            if g[i] != 0.0:
                root = math.sqrt(2.0 * self.B[i] / (k + 1))
                pull = self.decay / math.sqrt(k)
                self.h[i] += (1.0 - self.beta) * (g[i] - self.h[i])
                agreement += math.sqrt(self.gamma) * (g[i] + pull * self.x[i] * root) * self.y[i]
                d = self.h[i] / root + pull * self.x[i]
                self.x[i] -= self.gamma * d
                self.y[i] += math.sqrt(self.gamma) * d
            self.y[i] *= 1.0 - 0.5 / (k + 1)
            self.mean[i] += 9.0 / (k + 8) * (self.x[i] - self.mean[i])
        self.v += (agreement**2 - self.v) * 2.0 / (k + 1)
        if self.v > 0.0:
            self.gamma *= 1.0 + agreement / (2.0 * math.sqrt(k * self.v))


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("options", [{}, {"decay": 0.1}, {"guard": False}], ids=str)
def test_the_formulas(options):
    """In a closed loop: each step's gradient depends on all steps before it."""
    generator = np.random.default_rng(5)
    noise = generator.standard_normal((500, 6)) * 0.3
    noise[200] *= 1.0 if "guard" in options else 1e3
    hit = (generator.random((500, 6)) < 0.8) * 1.0
    literal = Literal(np.linspace(-1.0, 2.0, 6), **options)
    names = {"decay": "weight_decay"}
    ours = auto_gradagrad(averaging="polynomial", **{names.get(k, k): v for k, v in options.items()})
    x = jnp.linspace(-1.0, 2.0, 6)

    def step(carry, given):
        x, state = carry
        update, state = ours.update((0.6 * (x - 1.0) + given[0]) * given[1], state, x)
        return (x + update, state), (x + update, state.gamma, state.average)

    _, found = jax.jit(lambda c: jax.lax.scan(step, c, (jnp.asarray(noise), jnp.asarray(hit))))((x, ours.init(x)))
    expected = []
    for k in range(500):
        literal.step([(0.6 * (a - 1.0) + noise[k][i]) * hit[k][i] for i, a in enumerate(literal.x)])
        expected.append((list(literal.x), literal.gamma, list(literal.mean)))
    assert literal.gamma > 1e-2  # it has grown a hundredfold
    for ours_found, wanted in zip(found, zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(ours_found, np.array(wanted), rtol=1e-11, atol=1e-12)


@pytest.mark.usefixtures("double")
def test_torch_and_jax_take_the_same_steps():
    signs = {name: -1.0 if name == "uphill" else 1.0 for name in OPTIONS}
    optimizers = {name: auto_gradagrad(0.5, **options) for name, options in OPTIONS.items()}
    _, found = run_jax(optimizers, 500, signs)
    for name, options in OPTIONS.items():
        for key, expected in run_torch(partial(AutoGradaGrad, lr=0.5, **options), 500, signs[name]).items():
            np.testing.assert_allclose(found[name][key], expected, rtol=1e-12, atol=1e-12, err_msg=f"{name}, {key}")


def test_a_schedule_scales_the_steps_and_not_the_displacement():
    runs = {"whole": auto_gradagrad(1.0), "schedule": auto_gradagrad(lambda count: 0.5)}
    g = jnp.asarray(noises(1)["vector"][0], jnp.float32)
    displacements, updates = {}, {}
    for name, optimizer in runs.items():
        x = jnp.zeros_like(g)
        updates[name], state = optimizer.update(g, optimizer.init(x), x)
        displacements[name] = state.displacement
    np.testing.assert_array_equal(displacements["whole"], displacements["schedule"])
    np.testing.assert_allclose(updates["schedule"], 0.5 * updates["whole"], rtol=1e-6)


def noisy_least_squares(double, elements=4096):
    """The loss and the shared numbers after 30 and after 1,000 steps."""
    with jax.enable_x64(double):
        generator, dtype = np.random.default_rng(0), jnp.float64 if double else jnp.float32
        target = jnp.asarray(generator.standard_normal(elements), dtype)
        table = jnp.asarray(generator.standard_normal(2 * elements) * 0.1, dtype)
        scale = jnp.asarray(np.geomspace(1e-2, 1.0, elements), dtype)
        optimizer = auto_gradagrad()

        def step(carry, k):
            x, state = carry
            offset = ((k.astype(jnp.uint32) * jnp.uint32(2654435761)) % jnp.uint32(elements)).astype(jnp.int32)
            noise = jax.lax.dynamic_slice(table, (offset,), (elements,))
            updates, state = optimizer.update(scale * (x - target) + noise, state, x)
            shared = {key: getattr(state, key) for key in SHARED}
            return (x + updates, state), shared | {"loss": jnp.sum(scale * (x + updates - target) ** 2)}

        x = jnp.zeros(elements, dtype)
        found = jax.jit(lambda c: jax.lax.scan(step, c, jnp.arange(1000))[1])((x, optimizer.init(x)))
        return {key: np.asarray(values)[[29, 999]] for key, values in found.items()}


def test_float32_follows_double():
    """Without double precision the numbers that all parameters share are float32 too."""
    double, single = noisy_least_squares(True), noisy_least_squares(False)
    assert double["loss"][1] < 0.1 * double["loss"][0]
    for key, exact in double.items():
        np.testing.assert_allclose(single[key], exact, rtol=1e-3, err_msg=key)
