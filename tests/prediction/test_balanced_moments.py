# SPDX-License-Identifier: Apache-2.0
"""What a prediction with balanced draws says of its own error."""

import hypothesis
import hypothesis.strategies as st
import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.prediction.sampling import accumulate
from keras_bayesdrop.predictive import Stats
from tests.helpers import flat

layers = keras.layers
X = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")


def accumulated(samples, cuts=(), task="regression"):
    """Moments of balanced samples [samples, rows, ...], in parts."""
    state = None
    for part in np.split(samples, cuts):
        tensor = tf.constant(np.swapaxes(part, 0, 1))
        if state is None:
            state = accumulate.start(tensor, task, balanced=True)
        else:
            state = accumulate.advance(state, tensor, task, balanced=True)
    return accumulate.finish(state, balanced=True)


def from_samples(samples, head="regression"):
    """The same by `Predictive`, in float64 and all at once."""
    stats = Stats(
        num_samples=len(samples), num_rows=samples.shape[1], draws="balanced"
    )
    wide = samples.astype(np.float64)
    return kbd.Predictive.from_samples(wide, head, stats=stats)


def assert_same_moments(moments, exact, rtol=3e-5):
    np.testing.assert_allclose(moments.variance, exact.variance, rtol=rtol)
    # Blocks may agree far better than samples do: what is left then has the
    # rounding of these.
    np.testing.assert_allclose(
        moments.mean_variance,
        exact.mean_variance,
        rtol=rtol,
        atol=1e-6 * float(exact.variance.max()) / exact.stats.num_samples,
    )


@hypothesis.given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(2, 150),
    cuts=st.sets(st.integers(1, 149), max_size=8),
    mean=st.floats(-1e3, 1e3),
    scale=st.sampled_from([1e-2, 1.0, 1e3]),
)
def test_any_split(seed, count, cuts, mean, scale):
    rng = np.random.default_rng(seed)
    samples = (mean + scale * rng.normal(size=(count, 2, 3))).astype("float32")
    moments = accumulated(samples, sorted(c for c in cuts if c < count))
    assert moments.variance.dtype == moments.mean_variance.dtype == np.float32
    assert_same_moments(moments, from_samples(samples))


@pytest.mark.parametrize("cuts", [(), (32, 48), range(4, 50, 4), range(1, 50)])
@pytest.mark.parametrize("scale", [1e-30, 1e-25, 1e25, 1e37])
def test_numbers_of_any_size(scale, cuts):
    rng = np.random.default_rng(3)
    samples = (scale * rng.normal(size=(50, 4))).astype("float32")
    # Rows of another size beside them.
    samples[:, 1] = rng.normal(size=50)
    moments = accumulated(samples, cuts)
    for row in range(4):
        exact = from_samples(samples[:, row : row + 1])
        np.testing.assert_allclose(
            moments.variance[row], exact.variance[0], rtol=3e-5
        )
        np.testing.assert_allclose(
            moments.mean_variance[row], exact.mean_variance[0], rtol=3e-5
        )
    assert moments.mean_variance.dtype == np.float64


@pytest.mark.parametrize("task", ["classification", "binary"])
def test_probabilities(task):
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(50, 4, 3))
    p = tf.nn.softmax(logits).numpy().astype("float32")
    moments = accumulated(p, (16, 20, 32), task)
    exact = from_samples(p, task)
    assert_same_moments(moments, exact)
    np.testing.assert_allclose(
        moments.mean_entropy, exact.mean_entropy, rtol=1e-6
    )
    np.testing.assert_array_equal(moments.vote_counts, exact.vote_counts)


def test_rows_are_taken_with_their_blocks():
    rng = np.random.default_rng(3)
    samples = rng.normal(size=(50, 4)).astype("float32")
    block = tf.constant(samples.T)
    state = accumulate.start(block[:, :20], "regression", balanced=True)
    state = accumulate.take(state, [3, 1])
    state = accumulate.advance(
        state, tf.gather(block[:, 20:], [3, 1]), "regression", balanced=True
    )
    moments = accumulate.finish(state, balanced=True)
    assert_same_moments(moments, from_samples(samples[:, [3, 1]]))


def test_state_does_not_grow():
    block = tf.constant(np.ones((4, 48), "float32"))
    state = accumulate.start(block, "regression", balanced=True)
    sizes = [part.shape for part in state]
    for _ in range(3):
        state = accumulate.advance(state, block, "regression", balanced=True)
    assert [part.shape for part in state] == sizes


# Predictions.


def network(*last, rate=0.3, **details):
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(16, activation="tanh"),
            layers.Dropout(rate),
            layers.Dense(12, activation="tanh"),
            layers.Dropout(rate),
            *(last or [layers.Dense(2, **details)]),
        ]
    )


def predict(model, num_samples=50, **options):
    settings = {
        "seed": 4,
        "verbose": 0,
        "draws": "balanced",
        "engine": "reference",
        **options,
    }
    return kbd.predict_with_uncertainty(
        model, X, num_samples, **flat(**settings)
    )


@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("num_samples", [20, 32, 50, 70])
def test_prediction_is_that_of_its_samples(num_samples, masks):
    model = network()
    for batch_size in (None, 1, 3, 5, 40):
        p = predict(
            model,
            num_samples,
            masks=masks,
            batch_size=batch_size,
            return_samples=True,
        )
        again = kbd.Predictive.from_samples(p.samples, stats=p.stats)
        assert_same_moments(p, again, 1e-4)
        np.testing.assert_allclose(p.mc_error, again.mc_error, rtol=1e-4)


def test_classes_have_the_variance_of_their_labels():
    model = network(activation="softmax")
    p = predict(model, return_samples=True)
    noise = (p.samples * (1 - p.samples)).mean(axis=0)
    np.testing.assert_allclose(p.aleatoric, noise, rtol=1e-5)


def test_error_is_smaller_than_that_of_independent_draws():
    model = network(rate=0.1)
    for number, most in ((50, 0.95), (64, 0.9), (256, 0.75)):
        p = predict(model, number)
        ratio = p.mc_error / (p.std / np.sqrt(number))
        assert ratio.mean() < most
        plain = predict(model, number, draws="independent")
        assert plain.mean_variance is None
        np.testing.assert_allclose(
            plain.mc_error, plain.std / np.sqrt(number), rtol=1e-6
        )


def test_rows_that_stop_have_the_numbers_of_as_many_samples():
    model = network(rate=0.5)
    p = predict(model, 1000, tolerance=0.03, noise_precision=1.0)
    used = p.num_samples_used
    assert used.min() < used.max() < 1000
    for row, number in enumerate(used):
        whole = predict(model, int(number), noise_precision=1.0)
        np.testing.assert_allclose(
            p.mean_variance[row], whole.mean_variance[row], rtol=1e-4
        )
        np.testing.assert_allclose(
            p.mc_error[row], whole.mc_error[row], rtol=1e-4
        )
        limit = 0.03 * np.sqrt(p.total[row])
        assert np.all(p.mc_error[row] <= limit)
        before = predict(model, int(number) - 16, noise_precision=1.0)
        assert np.any(before.mc_error[row] > 0.03 * np.sqrt(before.total[row]))


@pytest.mark.parametrize(
    ("draws", "text"),
    [
        ("balanced", "takes up to about 1 / tolerance.* = 100 samples for"),
        ("independent", "takes as many samples for every row: 1 / tol.* = 100"),
    ],
)
def test_warning_of_a_tolerance_that_knows_no_noise(draws, text):
    with pytest.warns(kbd.errors.BayesdropWarning, match=text):
        p = predict(network(), 200, tolerance=0.1, draws=draws)
    most = 16 * np.ceil(16 / 15 * 100 / 16)
    assert np.all(p.num_samples_used <= most)


def test_rao_blackwell_has_the_error_of_its_sampled_part():
    model = network()
    p = predict(model, 64, method="rao_blackwell")
    assert p.stats.draws == "balanced"
    blocks = (64 // 16) - 1
    alone = p.sampled_variance / 64
    blend = (4 * alone + blocks * p.mean_variance) / (4 + blocks)
    np.testing.assert_allclose(
        p.mc_error**2, np.minimum(blend, 16 / 15 * alone), rtol=1e-5
    )
    ratio = p.variance.mean() / p.sampled_variance.mean()
    np.testing.assert_allclose(p.stats.variance_reduction, ratio, rtol=1e-5)
    assert np.all(p.mean_variance < alone)


@pytest.mark.parametrize("options", [{}, {"tolerance": 0.1}])
def test_moments_that_are_not_finite_are_refused(options):
    model = network(layers.Dense(1, dtype="float64"))
    *first, kernel, bias = model.get_weights()
    model.set_weights([*first, np.full_like(kernel, 1e200), bias])
    with pytest.raises(kbd.BayesdropError, match="variance of the outputs"):
        predict(model, noise_precision=1.0, **options)


def test_infinite_samples():
    samples = np.zeros((50, 2))
    samples[3, 1] = np.inf
    p = from_samples(samples)
    assert p.mc_error[0] == 0 and np.isnan(p.mc_error[1])


# Masks from tables.


def masks_in_a_table(num_masks, rate):
    keras.utils.set_random_seed(2)
    return keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(24, activation="relu"),
            kbd.layers.Masksembles(num_masks, 2.0),
            layers.Dropout(rate),
            layers.Dense(1),
        ]
    )


@pytest.mark.filterwarnings("ignore:Nothing in model")
@pytest.mark.parametrize("num_masks", [4, 6])
def test_only_masks_from_a_table_are_not_balanced(num_masks):
    model = masks_in_a_table(num_masks, 0.0)
    p = predict(model, 48)
    plain = predict(model, 48, draws="independent")
    assert p.stats.draws == "independent" and p.mean_variance is None
    np.testing.assert_array_equal(p.variance, plain.variance)
    np.testing.assert_array_equal(p.mc_error, plain.mc_error)


@pytest.mark.parametrize("num_masks", [4, 6, 20])
def test_error_of_masks_from_a_table_and_others(num_masks):
    """It is not below the spread of predictions with other seeds."""
    model = masks_in_a_table(num_masks, 0.3)
    several = [predict(model, 120, seed=seed) for seed in range(40)]
    assert several[0].stats.draws == "balanced"
    spread = np.std([p.mean for p in several], axis=0, ddof=1)
    error = np.mean([p.mc_error for p in several], axis=0)
    # A standard deviation of 40 numbers is known to 1 / sqrt(78).
    assert np.all(spread < (1 + 3 / np.sqrt(78)) * error)
