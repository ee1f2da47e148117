# SPDX-License-Identifier: Apache-2.0
"""The cross-entropy of noisy logits, against brute force."""

import keras
import numpy as np
import pytest
import scipy.special

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses import NoisyLogitsCrossentropy

rng = np.random.default_rng(0)
F = rng.normal(size=(6, 3))
S = rng.normal(size=(6, 3))
OUTPUTS = np.concatenate([F, S], axis=-1).astype("float32")
LABELS = np.array([0, 1, 2, 2, 1, 0])


def brute_force(logits, log_variance, labels, draws):
    noise = np.random.default_rng(1).normal(size=(draws, *logits.shape))
    noisy = logits + np.exp(0.5 * log_variance) * noise
    p = scipy.special.softmax(noisy, axis=-1).mean(axis=0)
    return -np.log(np.take_along_axis(p, labels[..., None], -1)[..., 0])


def each(labels=LABELS, outputs=OUTPUTS, **arguments):
    loss = NoisyLogitsCrossentropy(reduction=None, **arguments)
    return np.asarray(loss(labels, outputs))


def test_against_brute_force():
    exact = brute_force(F, S, LABELS, 100_000)
    value = each(num_draws=20_000, seed=0)
    # A draw deviates by 1/2 at most, relative to the probability `p` itself.
    p = np.exp(-exact)
    error = 0.5 / p * np.sqrt(1 / 20_000 + 1 / 100_000)
    assert np.all(np.abs(value - exact) < 5 * error)
    plain = -np.log(scipy.special.softmax(F, axis=-1)[np.arange(6), LABELS])
    assert np.any(np.abs(plain - exact) > 10 * error)
    # Few draws have a loss that is too large on average.
    few = np.mean([each(num_draws=2, seed=n) for n in range(300)], axis=0)
    assert few.mean() > exact.mean()


def test_shapes_of_labels():
    wanted = each(seed=0)
    assert wanted.shape == (6,)
    np.testing.assert_array_equal(each(LABELS[:, None], seed=0), wanted)
    image = np.stack([OUTPUTS] * 2, axis=1)  # [6, 2, 6]
    labels = np.stack([LABELS] * 2, axis=1)
    value = each(labels, image, seed=0, num_draws=4000)
    assert value.shape == (6, 2)
    np.testing.assert_allclose(value[:, 0], value[:, 1], atol=0.2)


def test_no_noise_is_the_plain_crossentropy():
    outputs = np.concatenate([F, np.full_like(F, -50.0)], -1)
    plain = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=None
    )
    # Clipped to exp(-10), a deviation of 4.5e-5 of a logit.
    np.testing.assert_allclose(
        each(outputs=outputs.astype("float32")),
        plain(LABELS, F.astype("float32")),
        atol=1e-4,
    )


def test_large_logits_are_finite():
    outputs = np.array([[500.0, -500.0, 40.0, 40.0]], "float32")
    value = each(np.array([1]), outputs, log_variance_limit=10.0, seed=0)
    assert np.all(np.isfinite(value)) and value[0] > 100


def test_clipped_with_the_gradient_of_the_raw_output():
    import tensorflow as tf

    outputs = tf.Variable([[0.5, -0.5, 30.0, 30.0]])
    loss = NoisyLogitsCrossentropy(log_variance_limit=2.0, seed=0)
    with tf.GradientTape() as tape:
        value = loss([0], outputs)
    gradient = tape.gradient(value, outputs).numpy()
    clipped = np.array([[0.5, -0.5, 2.0, 2.0]], "float32")
    same = NoisyLogitsCrossentropy(log_variance_limit=2.0, seed=0)
    assert float(value) == float(same([0], clipped))
    assert np.all(np.isfinite(gradient)) and np.all(gradient != 0)


def test_draws_are_new_at_every_call_and_follow_from_the_seed():
    loss = NoisyLogitsCrossentropy(seed=4)
    first, second = float(loss(LABELS, OUTPUTS)), float(loss(LABELS, OUTPUTS))
    assert first != second
    again = NoisyLogitsCrossentropy(seed=4)
    assert float(again(LABELS, OUTPUTS)) == first


@pytest.mark.parametrize("bad", [3, -1, 0.5, np.nan])
def test_labels_that_are_no_classes_are_seen(bad):
    labels = LABELS.astype("float32")
    labels[2] = bad
    value = each(labels)
    assert np.isnan(value[2]) and np.all(np.isfinite(np.delete(value, 2)))


@pytest.mark.parametrize(
    ("labels", "outputs", "message"),
    [
        (LABELS, OUTPUTS[:, :5], "cannot be split"),
        (LABELS, OUTPUTS[:, :2], "at least two classes"),
        (np.eye(3)[LABELS], OUTPUTS, "class numbers, one for 6 outputs"),
        (LABELS[:4], OUTPUTS, "Labels and outputs do not fit"),
    ],
)
def test_shapes_that_do_not_fit(labels, outputs, message):
    with pytest.raises(BayesdropError, match=f"{message}.*Received"):
        each(labels, outputs)


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_draws": 3},
        {"num_draws": 0},
        {"log_variance_limit": 0.0},
        {"log_variance_limit": 90.0},
        {"seed": 1.5},
    ],
)
def test_bad_arguments(arguments):
    with pytest.raises(BayesdropError, match=r"Expected.*Received"):
        NoisyLogitsCrossentropy(**arguments)


def classifier(dtype=None):
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(8, activation="relu", dtype=dtype),
            keras.layers.Dropout(0.2, dtype=dtype),
            keras.layers.Dense(6, dtype=dtype),
        ]
    )


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("dtype", [None, "mixed_float16"])
def test_fit(jit, dtype):
    model = classifier(dtype)
    model.compile("adam", NoisyLogitsCrossentropy(seed=0), jit_compile=jit)
    x = np.random.default_rng(2).normal(size=(64, 3))
    history = model.fit(x, x.argmax(-1), epochs=20, verbose=0).history["loss"]
    assert np.all(np.isfinite(history))
    assert history[-1] < history[0]


def test_saved_with_its_model(tmp_path):
    model = classifier()
    loss = NoisyLogitsCrossentropy(num_draws=6, log_variance_limit=3.0, seed=5)
    model.compile("adam", loss)
    x = np.ones((4, 3), "float32")
    model.fit(x, np.zeros(4), verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.loss.get_config() == loss.get_config()
    loaded.fit(x, np.zeros(4), verbose=0)
    arguments = {"num_samples": 5, "seed": 0, "verbose": 0}
    far = 100 * np.random.default_rng(0).normal(size=(4, 3))  # beyond limits

    def mean(head):
        return kbd.predict_with_uncertainty(
            loaded, far, head=head, **arguments
        ).mean

    recognised = mean("auto")
    assert recognised.shape == (4, 3)
    np.testing.assert_array_equal(mean("noisy_logits"), recognised)
    own = mean(kbd.NoisyLogits(log_variance_limit=3.0))
    np.testing.assert_array_equal(own, recognised)
    other = mean(kbd.NoisyLogits())
    assert np.abs(other - recognised).max() > 1e-3


def test_recognised_and_explained():
    model = classifier()
    model.compile("adam", NoisyLogitsCrossentropy())
    assert "NoisyLogitsCrossentropy" in str(kbd.explain(model))
    x = np.ones((4, 3), "float32")
    for head in ("classification", "binary"):
        with pytest.raises(BayesdropError, match=r"Expected.*noisy_logits"):
            kbd.predict_with_uncertainty(model, x, head=head)
    p = kbd.predict_with_uncertainty(model, x, head="regression", verbose=0)
    assert p.mean.shape == (4, 6)
