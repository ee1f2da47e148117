# SPDX-License-Identifier: Apache-2.0
"""Batches that are folded, mixed or turned: right, slower, or refused."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import EngineUnavailableError
from keras_bayesdrop.errors import PlanError
from tests import zoo
from tests.prediction.right_or_refused import THREE_BEATS
from tests.prediction.right_or_refused import keeps
from tests.prediction.right_or_refused import predict
from tests.prediction.right_or_refused import quiet

layers = keras.layers
ops = keras.ops


class Folds(layers.Layer):
    """Moves time into the batch, and says that it does not."""

    def call(self, x):
        return ops.reshape(x, (-1, 3))

    def compute_output_shape(self, shape):
        return (shape[0], 3)


class FoldsTimeMajor(Folds):
    """Likewise, the steps outermost."""

    def call(self, x):
        return ops.reshape(ops.transpose(x, (1, 0, 2)), (-1, 3))


class Unfolds(layers.Layer):
    def call(self, x):
        return ops.reshape(x, (-1, 2, 3))


class Centres(layers.Layer):
    def call(self, x):
        return x - ops.mean(x, axis=0, keepdims=True)


def folded(*parts):
    return keras.Sequential([keras.Input((2, 3)), *parts])


@pytest.mark.parametrize("engine", ["reference", "auto"])
@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize(
    "fold",
    [
        Folds,
        lambda: layers.Lambda(
            lambda x: ops.reshape(x, (-1, 3)), output_shape=(3,)
        ),
    ],
)
def test_time_folded_into_the_batch(fold, masks, engine):
    """Against the same network that keeps time where it is."""
    keras.utils.set_random_seed(0)
    dense = layers.Dense(3)
    model = folded(fold(), layers.Dropout(0.5), dense, Unfolds())
    plain = folded(layers.Dropout(0.5), dense)
    x = zoo.numbers(2, 3)
    wanted = predict(plain, x, masks=masks, engine="reference")
    for batch_size in (None, 1, 2):
        p = predict(model, x, masks=masks, engine=engine, batch_size=batch_size)
        np.testing.assert_allclose(
            p.samples, wanted.samples, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_an_output_that_stays_folded_has_a_row_for_every_step(masks):
    """As `model.predict` returns it."""
    keras.utils.set_random_seed(0)
    dense = layers.Dense(4)
    model = folded(Folds(), layers.Dropout(0.5), dense)
    plain = folded(layers.Dropout(0.5), dense)
    x = zoo.numbers(2, 3)
    assert model.predict(x, verbose=0).shape == (10, 4)
    wanted = predict(plain, x, masks=masks, engine="reference").samples
    for batch_size in (None, 2):
        p = predict(
            model, x, masks=masks, batch_size=batch_size, quantiles=[0.5]
        )
        assert p.mean.shape == (10, 4)
        assert len(p) == 10
        np.testing.assert_allclose(
            p.samples, wanted.reshape(20, 10, 4), rtol=1e-5, atol=1e-6
        )
        np.testing.assert_allclose(p.quantile(0.5), np.median(p.samples, 0))
    with pytest.raises(PlanError, match=THREE_BEATS):
        predict(model, x, return_samples="samples.npy")


def test_steps_outermost_are_noticed():
    """No entry has the noise of another row, however the rows are ordered."""
    model = folded(FoldsTimeMajor(), layers.Dropout(0.5))
    x = zoo.numbers(2, 3)
    with pytest.warns(kbd.BayesdropWarning, match="one at a time"):
        p = predict(model, x, 400)
    kept = (p.samples != 0).reshape(400, -1)
    # 400 samples of 30 independent coins: 4.5 standard errors of a mean, and
    # of a correlation, of 435 pairs.
    assert np.abs(kept.mean(axis=0) - 0.5).max() < 0.113
    correlations = np.corrcoef(kept.T)[np.triu_indices(30, 1)]
    assert np.abs(correlations).max() < 0.225


@pytest.mark.parametrize(
    "mix",
    [
        Centres,
        lambda: layers.Softmax(axis=0),
        lambda: layers.Lambda(lambda x: x + 1e-4 * ops.sum(x, 0)),
    ],
)
@pytest.mark.parametrize("place", ["before", "behind"])
def test_rows_that_influence_each_other_are_predicted_as_they_come(mix, place):
    """A sample of a batch is one function of that batch."""
    keras.utils.set_random_seed(0)
    parts = [layers.Dense(4), layers.Dropout(0.5), layers.Dense(4)]
    parts.insert(1 if place == "before" else 3, mix())
    model = keras.Sequential([keras.Input((3,)), *parts])
    x = zoo.numbers(3, rows=6)
    for size in (2, 6, None):
        with pytest.warns(kbd.BayesdropWarning, match="rest of their batch"):
            p = predict(model, x, batch_size=size)
        for begin in range(0, 6, size or 6):
            rows = slice(begin, begin + (size or 6))
            for sample in (0, 17):
                f = kbd.sample_function(model, 5, sample)
                np.testing.assert_allclose(
                    p.samples[sample, rows], f(x[rows]), rtol=1e-4, atol=1e-5
                )


def test_one_row_at_a_time_does_not_hide_that_samples_mix():
    model = keras.Sequential(
        [keras.Input((3,)), layers.Dropout(0.5), Centres(name="centres")]
    )
    with pytest.warns(kbd.BayesdropWarning) as caught:
        p = predict(model, zoo.numbers(3, rows=1))
    assert "rest of their batch" in str(caught[0].message)
    assert "`centres` does not vary" in str(caught[1].message)
    np.testing.assert_array_equal(p.samples, np.zeros_like(p.samples))


@pytest.mark.filterwarnings("ignore::keras_bayesdrop.BayesdropWarning")
def test_what_needs_rows_apart_is_refused_where_they_are_not():
    model = keras.Sequential(
        [keras.Input((3,)), layers.Dropout(0.5), Centres(), layers.Dense(1)]
    )
    x = zoo.numbers(3)
    for asked in (
        {"tolerance": 0.1, "noise_precision": 1.0, "return_samples": False},
        {"method": "rao_blackwell", "return_samples": False},
        {"method": "moments", "return_samples": False},
    ):
        with pytest.raises(kbd.BayesdropError, match=THREE_BEATS):
            predict(model, x, **asked)
    with pytest.raises(kbd.BayesdropError, match=THREE_BEATS):
        predict(
            keras.Sequential(
                [
                    keras.Input((3,)),
                    layers.Dropout(0.5),
                    layers.Dense(2),
                    layers.UnitNormalization(axis=0),
                ]
            ),
            x,
            method="moments",
            return_samples=False,
        )


class NoiseOnNumbers(layers.Layer):
    """One draw for all rows."""

    def call(self, x, training=None):
        if not training:
            return x
        return x + keras.random.normal((x.shape[-1],))


def test_a_draw_without_rows_is_the_same_for_all():
    model = keras.Sequential([keras.Input((4,)), NoiseOnNumbers()])
    x = zoo.numbers(4)
    with pytest.warns(kbd.BayesdropWarning, match="one at a time"):
        p = predict(model, x, 64, masks="independent")
    noise = p.samples - x
    np.testing.assert_allclose(
        noise, np.broadcast_to(noise[:, :1], noise.shape), atol=1e-6
    )
    # 256 normal numbers: 4 standard errors of their spread.
    assert np.std(noise[:, 0]) == pytest.approx(1, abs=0.18)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # It is said once.
        q = predict(model, x, 64, masks="independent", batch_size=2)
    np.testing.assert_allclose(p.samples, q.samples, atol=1e-6)
    with pytest.raises(EngineUnavailableError, match="one at a time"):
        predict(model, x, engine="fused")
    with pytest.raises(PlanError, match=THREE_BEATS):
        kbd.export_uncertainty(model, "nowhere")


class Mistaken(layers.Layer):
    """Declares another rank than it makes."""

    def call(self, x):
        return ops.stack([x, 2 * x], axis=1)

    def compute_output_shape(self, shape):
        return shape


def test_declared_shapes_are_not_believed():
    inputs = keras.Input((3,))
    x = layers.Dropout(0.5)(Mistaken()(inputs))
    model = keras.Model(inputs, layers.Lambda(lambda t: ops.sum(t, 1))(x))
    rows = zoo.numbers(3)
    p = predict(model, rows, masks="independent")
    kept = keeps(0, 20, 5, 6).reshape(20, 5, 2, 3)
    wanted = np.where(kept, 2 * np.stack([rows, 2 * rows], 1), 0).sum(2)
    np.testing.assert_allclose(p.samples, wanted, rtol=1e-5, atol=1e-6)


def test_a_model_of_one_batch_size_runs_in_it():
    class Pairs(layers.Layer):
        def call(self, x):
            return ops.reshape(ops.reshape(x, (4, 3)), (4, 3))

    model = keras.Sequential(
        [keras.Input(batch_shape=(4, 3)), Pairs(), layers.Dropout(0.5)]
    )
    x = zoo.numbers(3, rows=8)
    p = quiet(model, x, masks="independent")
    kept = keeps(0, 20, 8, 3)
    np.testing.assert_allclose(p.samples, np.where(kept, 2 * x, 0))


class Silent(layers.Layer):
    def call(self, x):
        return 0 * x


def test_a_network_that_does_not_vary_is_named():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dropout(0.5),
            Silent(name="silent"),
            layers.Dense(2),
        ]
    )
    with pytest.warns(kbd.BayesdropWarning, match="`silent` does not vary"):
        p = predict(model, zoo.numbers(3))
    assert not p.variance.any()
    on_zeros = keras.Sequential(
        [keras.Input((3,)), layers.Dropout(0.5, name="drop")]
    )
    with pytest.warns(kbd.BayesdropWarning, match="`drop` does not vary"):
        predict(on_zeros, np.zeros((4, 3), "float32"))


def test_samples_that_agree_by_chance_are_not_dead():
    model = keras.Sequential([keras.Input((1,)), layers.Dropout(0.1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(5):
            p = predict(model, np.ones((1, 1), "float32"), 2, seed=seed)
    assert p.variance.shape == (1, 1)


def test_a_stream_of_mixed_rows_keeps_its_batches():
    model = keras.Sequential(
        [keras.Input((3,)), layers.Dropout(0.5), Centres()]
    )
    x = zoo.numbers(3, rows=6)
    data = tf.data.Dataset.from_tensor_slices(x).batch(3)
    p, q = quiet(model, data), quiet(model, x, batch_size=3)
    np.testing.assert_array_equal(p.samples, q.samples)
