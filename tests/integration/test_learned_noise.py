# SPDX-License-Identifier: Apache-2.0
"""Models that learn the noise of their observations, on data made for it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.losses import HeteroscedasticGaussianNLL

pytestmark = pytest.mark.slow

layers = keras.layers


def fit(model, loss, x, y, steps, rate, batch=256):
    """Fits for some steps, with a rate that falls to zero, in few calls."""
    data = tf.data.Dataset.from_tensor_slices((x, y))
    data = data.shuffle(len(x), seed=0).repeat().batch(batch).prefetch(4)
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
    model.compile(
        keras.optimizers.Adam(schedule), loss, steps_per_execution=100
    )
    model.fit(data, steps_per_epoch=steps, verbose=0, shuffle=False)


# Noise that depends on the input, and a gap without data.

GAP = (0.0, 1.5)


def deviation(x):
    """Standard deviation of the noise, 0.15 to 0.45."""
    return 0.3 + 0.15 * np.sin(1.5 * x)


def with_a_gap(count, seed):
    rng, half = np.random.default_rng(seed), count // 2
    parts = (rng.uniform(-3, GAP[0], half), rng.uniform(GAP[1], 3, half))
    x = np.concatenate(parts)[:, None]
    y = np.cos(2 * x) + deviation(x) * rng.normal(size=x.shape)
    return x.astype("float32"), y.astype("float32")


@pytest.fixture(scope="module")
def fitted():
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((1,)),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.02),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.02),
            layers.Dense(2),
        ]
    )
    x, y = with_a_gap(20_000, seed=1)
    fit(model, HeteroscedasticGaussianNLL(), x, y, 6000, 3e-3)
    return model


def predict(model, x, **arguments):
    settings = {"num_samples": 100, "seed": 2, "verbose": 0, **arguments}
    return kbd.predict_with_uncertainty(
        model, x, head="heteroscedastic", **settings
    )


def test_learned_noise_is_the_true_one(fitted):
    dense = np.concatenate([np.linspace(-2.7, -0.3), np.linspace(1.8, 2.7)])
    x = dense[:, None].astype("float32")
    p = predict(fitted, x)
    ratio = np.sqrt(p.aleatoric) / deviation(x)
    assert (np.abs(ratio - 1) < 0.1).all()


@pytest.mark.parametrize("kept", [True, False], ids=["mixture", "normal"])
def test_intervals_cover_what_they_say(fitted, kept):
    x, y = with_a_gap(20_000, seed=7)
    p = predict(fitted, x, return_samples=kept)
    lower, upper = p.interval(0.9)
    inside = (y >= lower) & (y <= upper)
    # The standard deviation of this share is 0.2 %.
    assert 0.88 <= inside.mean() <= 0.92
    # Also where the noise is small, and where it is large.
    for part in (deviation(x) < 0.25, deviation(x) > 0.35):
        assert 0.86 <= inside[part].mean() <= 0.94


def test_epistemic_part_grows_in_the_gap(fitted):
    def epistemic(x):
        x = np.asarray(x, "float32")[:, None]
        return predict(fitted, x).epistemic.mean()

    centre = epistemic(np.linspace(0.5, 1.0, 20))
    beside = epistemic(np.linspace(-2.5, -0.5, 20))
    assert centre > 2 * beside


def test_saved_and_loaded_with_its_loss(fitted, tmp_path):
    fitted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x, _ = with_a_gap(20, seed=3)
    p, again = predict(fitted, x), predict(loaded, x)
    np.testing.assert_array_equal(again.noise_variance, p.noise_variance)
    assert isinstance(loaded.loss, HeteroscedasticGaussianNLL)


# Noise of two scales: the left half is easy, the right half has waves.


def two_scales(count, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (count, 1))
    right = x >= 0.5
    f = np.where(right, np.sin(8 * np.pi * (x - 0.5)), 0.5 * x)
    noise = np.where(right, 0.2, 0.005) * rng.normal(size=x.shape)
    scaled = (4 * x - 2).astype("float32")
    return scaled, (f + noise).astype("float32"), f, right[:, 0]


def error_of_the_waves(beta):
    """Returns the root mean squared error of the mean in the right half."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((1,)),
            layers.Dense(64, activation="tanh"),
            layers.Dense(64, activation="tanh"),
            layers.Dense(2),
        ]
    )
    x, y, _, _ = two_scales(500, seed=0)
    fit(model, HeteroscedasticGaussianNLL(beta=beta), x, y, 3000, 3e-3, 100)
    x, _, f, right = two_scales(4000, seed=1)
    mean = model.predict(x, verbose=0, batch_size=4000)[:, :1]
    return np.sqrt(np.mean(np.square(mean - f)[right]))


def test_the_plain_loss_gives_up_and_beta_does_not():
    plain, weighted = error_of_the_waves(0.0), error_of_the_waves(0.5)
    # Waves of amplitude 1 have a root mean square of 0.71: they are missed.
    assert plain > 0.5
    # Beside noise of 0.2, of which 250 rows leave about 0.05 and more.
    assert weighted < 0.3
