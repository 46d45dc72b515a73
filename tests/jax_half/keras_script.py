"""The script that `test_keras` runs under each backend. It exits with an error if a check fails."""

# Keras types what its functions give and take as little.
# pyright: reportFunctionMemberAccess=false
import json
import sys
import tempfile

import keras
import numpy as np
import pytest
from oracle import algorithm_2

from gradagrad.keras import AutoGradaGrad, GradaGrad
from gradagrad.optax import auto_gradagrad, auto_gradagrad_eval_params

LISTING = (
    ({}, {}),
    ({"momentum": 0.9, "rho": 10.0}, {"beta": 0.9, "rho": 10.0}),
    ({"grad_bound": 3.0}, {"G": 3.0}),
    ({"gamma_max": 0.5}, {"D": 0.5}),
    ({"growth_limit": 1.2**0.5}, {"r": 0.2}),
)
WRONG = (
    ({"granularity": "group"}, "granularity must be one of 'element', 'row', 'tensor', got 'group'"),
    ({"rho": -1}, "rho must be a finite number >= 0, got -1.0"),
    ({"learning_rate": -1.0}, "learning_rate must be"),
    ({"epsilon": -1.0}, "epsilon must be a finite number >= 0"),
    ({"lr": 1.0}, "lr is called learning_rate in Keras: pass learning_rate=1.0"),
    ({"eps": 1.0}, "eps is called epsilon in Keras"),
)


def follows_the_listing() -> None:
    noise = np.random.default_rng(3).standard_normal((50, 6)) * 0.3
    start = np.linspace(-1.0, 2.0, 6)

    def gradient(k, x):
        return [0.6 * (x[i] - 1.0) + noise[k][i] for i in range(6)]

    # On torch Keras computes in float32, so that fewer steps can be compared.
    is_double = keras.backend.result_type("float64", "float64") == "float64"
    steps, tolerance = (50, {"rtol": 1e-9, "atol": 1e-12}) if is_double else (10, {"rtol": 1e-4, "atol": 1e-5})
    for options, listing in LISTING:
        config = GradaGrad(0.25, epsilon=0.0, **options).get_config()
        optimizer = GradaGrad.from_config(json.loads(json.dumps(config)))
        assert optimizer.get_config() == config
        x = keras.Variable(start, dtype="float64")
        expected = algorithm_2(gradient, list(start), steps, gamma_0=0.25, **listing).x
        for k in range(steps):
            g = np.array(gradient(k, keras.ops.convert_to_numpy(x)))
            optimizer.apply([keras.ops.convert_to_tensor(g, dtype="float64")], [x])
            np.testing.assert_allclose(keras.ops.convert_to_numpy(x), expected[k + 1], **tolerance)


def finds_its_rate_as_jax_does() -> None:
    is_double = keras.backend.result_type("float64", "float64") == "float64"
    for options in ({}, {"guard": False, "gamma_max": 0.02}, {"weight_decay": 0.1, "momentum": 0.4}):
        ours = AutoGradaGrad(0.5, gamma0=1e-2, use_ema=True, **options)
        theirs = auto_gradagrad(0.5, gamma0=1e-2, **options)
        xs = [keras.Variable(start, dtype="float64") for start in (np.linspace(-1.0, 2.0, 6), np.ones((2, 3)))]
        ours.build([*xs, keras.Variable(1.0)])  # The third has no gradient, so it neither moves nor votes.
        params = [keras.ops.convert_to_numpy(x).astype(np.float64) for x in xs]
        state = theirs.init(params)
        for k in range(40 if is_double else 10):
            gradients = [0.6 * (x - 1.5) + np.sin(k + np.arange(x.size)).reshape(x.shape) for x in params]
            ours.apply([keras.ops.convert_to_tensor(g, dtype="float64") for g in gradients], xs)
            if k in (0, 5):  # A step in which every gradient is zero changes nothing.
                before = [keras.ops.convert_to_numpy(x) for x in (*xs, *ours.variables[2:])]
                ours.apply([keras.ops.zeros(x.shape, dtype="float64") for x in xs], xs)
                for x, value in zip((*xs, *ours.variables[2:]), before, strict=True):
                    np.testing.assert_array_equal(keras.ops.convert_to_numpy(x), value)
            updates, state = theirs.update(gradients, state, params)
            params = [np.asarray(x + u) for x, u in zip(params, updates, strict=True)]
        iterates = [keras.ops.convert_to_numpy(x) for x in xs]
        ours.finalize_variable_values(ours._trainable_variables)
        for x, iterate, at, mean in zip(xs, iterates, params, auto_gradagrad_eval_params(state, params), strict=True):
            rtol = 1e-9 if is_double else 1e-4
            np.testing.assert_allclose(iterate, at, rtol=rtol, atol=rtol)
            np.testing.assert_allclose(keras.ops.convert_to_numpy(x), mean, rtol=rtol, atol=rtol)
            assert np.abs(mean - at).max() > 1e-3
        assert not any(np.any(keras.ops.convert_to_numpy(offset)) for offset in ours._fields["offset"])


def trains() -> None:
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).standard_normal((256, 4)).astype("float32")
    y = np.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    optimizers = [
        GradaGrad(rate, granularity=granularity, momentum=0.5, lazy=True, weight_decay=1e-4)
        for granularity, rate in (("element", 0.02), ("row", 0.3), ("tensor", 0.3))
    ]
    for optimizer in (*optimizers, AutoGradaGrad(gamma0=1e-3, weight_decay=1e-4), AutoGradaGrad(use_ema=True)):
        model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
        model.compile(optimizer=optimizer, loss="mse")
        at_average = [keras.callbacks.SwapEMAWeights()] if optimizer.use_ema else []
        fit = model.fit(x, y, epochs=8, batch_size=32, verbose=0, validation_data=(x, y), callbacks=at_average)
        losses = fit.history["loss"]
        np.testing.assert_allclose(model.evaluate(x, y, verbose=0), fit.history["val_loss"][-1], rtol=1e-5)
        assert losses[-1] < 0.6 * losses[0], (optimizer.get_config(), losses)
        goes_on_after_saving(model, x, y)


def goes_on_after_saving(model, x, y) -> None:
    """A model from a file trains as the one that was saved: its optimizer's state is in the file too."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/model.keras"
        model.save(file)
        other = keras.saving.load_model(file)
    assert other.optimizer.get_config() == model.optimizer.get_config()
    after = [m.fit(x, y, epochs=1, batch_size=32, shuffle=False, verbose=0).history["loss"][0] for m in (model, other)]
    np.testing.assert_allclose(after[1], after[0], rtol=1e-5)


def refuses() -> None:
    for wrong, message in WRONG:
        with pytest.raises((TypeError, ValueError), match=message):
            GradaGrad(**wrong)
    with pytest.raises(ValueError, match="weight_decay must be None or a finite number >= 0, got -1"):
        AutoGradaGrad(weight_decay=-1)
    with pytest.raises(ValueError, match="ema_overwrite_frequency must be None, got 5"):
        AutoGradaGrad(use_ema=True, ema_overwrite_frequency=5)


if __name__ == "__main__":
    follows_the_listing()
    finds_its_rate_as_jax_does()
    trains()
    refuses()
    assert ("torch" in sys.modules) == (keras.backend.backend() == "torch")
