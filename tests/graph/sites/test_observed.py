# SPDX-License-Identifier: Apache-2.0
"""Noise in code of one's own: sampled like Dropout, or refused by name."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import HiddenNoiseError
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.errors import PlanError
from tests import zoo
from tests.graph.sites import own_layers as own
from tests.helpers import flat

layers = keras.layers
ops = keras.ops
THREE_BEATS = "(?s)Expected.*Received"


def around(layer, width=4):
    """Returns a layer between two others, with weights that do not change."""
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(width, activation="tanh"),
            layer,
            layers.Dense(3),
        ]
    )


def predict(model, x, samples=20, **kwargs):
    settings = {"seed": 5, "return_samples": True, "verbose": 0, **kwargs}
    return kbd.predict_with_uncertainty(model, x, samples, **flat(**settings))


@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("kind", own.DROPOUTS, ids=lambda kind: kind.__name__)
def test_every_spelling_is_dropout_to_the_bit(kind, masks):
    x = zoo.numbers(4)
    model, like = around(kind(name="it")), around(layers.Dropout(own.RATE))
    # The layers may differ in weights (a BatchNormalization).
    model.layers[-1].set_weights(like.layers[-1].get_weights())
    before = zoo.fingerprint(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = predict(model, x, masks=masks)
        q = predict(model, x, masks=masks, batch_size=2)
    wanted = predict(like, x, masks=masks, engine="reference")
    close = {"rtol": 1e-5, "atol": 1e-6}
    if kind is own.IfTrainingBesideBatchNorm:
        close = {"rtol": 1e-2, "atol": 1e-2}  # its epsilon
    np.testing.assert_allclose(p.samples, wanted.samples, **close)
    np.testing.assert_allclose(p.samples, q.samples, rtol=1e-5, atol=1e-6)
    assert p.variance.min() > 0
    assert zoo.fingerprint(model) == before
    (site,) = kbd.inspect(model, x).stochastic
    assert site.path.startswith("it")
    assert site.drawn


@pytest.mark.parametrize("kind", own.DROPOUTS, ids=lambda kind: kind.__name__)
def test_every_spelling_inside_a_model_of_its_own(kind):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.first = layers.Dropout(0.5)
            self.it = kind(name="it")

        def call(self, x, training=None):
            return self.it(self.first(x, training=training), training=training)

    if kind is own.Always:
        Model.call = lambda self, x: self.it(self.first(x))
    model, x = Model(), zoo.numbers(40)
    model(x)
    p = predict(model, x, masks="independent")
    # Two masks of rate 1/2: a quarter is kept, 4 of a standard deviation of
    # sqrt(3/16 / 4000).
    assert np.mean(p.samples != 0) == pytest.approx(0.25, abs=0.028)
    if kind not in (own.IfTrainingBesideBatchNorm,):
        kept = p.samples != 0
        np.testing.assert_allclose(
            p.samples[kept], np.broadcast_to(4 * x, kept.shape)[kept], rtol=1e-6
        )
    alone = predict(model, x, layers="it.*", masks="independent")
    assert np.mean(alone.samples != 0) == pytest.approx(0.5, abs=0.032)


@pytest.mark.parametrize("kind", own.OUT_OF_REACH, ids=lambda k: k.__name__)
def test_noise_out_of_reach_is_refused_by_name(kind):
    model, x = around(kind(name="culprit")), zoo.numbers(4)
    model.layers[1].name = "culprit"
    both = keras.Sequential([model, layers.Dropout(0.5, name="drop")])
    both.build((None, 4))
    for each in (model, both):
        with pytest.raises(HiddenNoiseError, match=THREE_BEATS) as caught:
            predict(each, x)
        assert "culprit" in str(caught.value)
        assert own.OUT_OF_REACH[kind] in str(caught.value)
        assert kbd.inspect(each).unreachable
    with pytest.warns(kbd.BayesdropWarning, match="culprit"):
        p = predict(both, x, allow_hidden_noise=True)
    assert p.variance.max() > 0
    with pytest.warns(kbd.BayesdropWarning, match="culprit") as caught:
        try:
            predict(model, x, allow_hidden_noise=True)
        except NothingToSampleError:
            warnings.warn("culprit", kbd.BayesdropWarning, stacklevel=1)


def test_noise_out_of_reach_does_not_matter_to_other_sites_asked_for():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            own.ByTensorFlow(),
            layers.Dropout(0.5, name="drop"),
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = predict(model, zoo.numbers(4), layers="drop")
    assert p.variance.max() > 0
    # Noise that is on whatever the mode does.
    always = keras.Sequential(
        [
            keras.Input((4,)),
            own.AlwaysByTensorFlow(),
            layers.Dropout(0.5, name="drop"),
        ]
    )
    with pytest.raises(HiddenNoiseError):
        predict(always, zoo.numbers(4), layers="drop")


@pytest.mark.parametrize(
    "make",
    [
        lambda model: kbd.stochastic(model)(zoo.numbers(4)),
        lambda model: kbd.sample_function(model, 0)(zoo.numbers(4)),
        lambda model: kbd.export_uncertainty(model, "nowhere"),
    ],
)
def test_other_ways_in_refuse_it_too(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = keras.Sequential(
        [keras.Input((4,)), own.ByTensorFlow(), layers.Dropout(0.5)]
    )
    with pytest.raises(HiddenNoiseError, match=THREE_BEATS):
        make(model)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: keras.random.shuffle(x, axis=1),
        lambda x: x * keras.random.gamma(ops.shape(x), 2.0),
        lambda x: x * keras.random.beta(ops.shape(x), 2.0, 2.0),
        lambda x: x * keras.random.binomial(ops.shape(x), 2.0, 0.5),
        lambda x: keras.random.dropout(x, 0.5, seed=3),
    ],
)
def test_draws_without_a_counter_form_are_refused(draw):
    class Draws(layers.Layer):
        def call(self, x, training=None):
            return draw(x) if training else x

    with pytest.raises(PlanError, match=THREE_BEATS) as caught:
        predict(around(Draws(name="culprit")), zoo.numbers(4))
    assert "culprit" in str(caught.value)


def test_a_draw_in_a_loop_of_ones_own_is_refused():
    class Loops(layers.Layer):
        def call(self, x, training=None):
            if not training:
                return x
            return tf.while_loop(
                lambda i, y: i < 3,
                lambda i, y: (i + 1, keras.random.dropout(y, 0.5)),
                [0, x],
            )[1]

    with pytest.raises(PlanError, match="loop"):
        predict(around(Loops()), zoo.numbers(4))


def test_a_draw_that_never_happens_is_no_site():
    class Unused(layers.Layer):
        def __init__(self):
            super().__init__()
            self.drop = layers.Dropout(0.5, name="drop")

        def call(self, x, training=None):
            return x

    model = keras.Sequential([keras.Input((4,)), Unused()])
    (site,) = kbd.inspect(model).stochastic
    assert site.active
    assert site.drawn is False
    with pytest.raises(NothingToSampleError, match=r"Never seen to draw.*drop"):
        predict(model, zoo.numbers(4))


def test_a_draw_whose_result_is_thrown_away_is_not_seen():
    class Throws(layers.Layer):
        def __init__(self):
            super().__init__()
            self.drop = layers.Dropout(0.5)

        def call(self, x, training=None):
            self.drop(x)
            return x

    model = keras.Sequential([keras.Input((4,)), Throws()])
    with pytest.raises(NothingToSampleError, match="Never seen to draw"):
        predict(model, zoo.numbers(4))


def test_a_call_that_is_a_function_of_tensorflow_keeps_its_noise():
    """A trace without noise must not be the one that training finds."""

    class Compiled(layers.Layer):
        def __init__(self):
            super().__init__()
            self.generator = keras.random.SeedGenerator(1)

        @tf.function(autograph=False)
        def call(self, x, training=None):
            if not training:
                return x
            return keras.random.dropout(x, 0.5, seed=self.generator)

    model = keras.Sequential([keras.Input((40,)), Compiled()])
    for rows in (7, 11):  # The batch sizes that layers are traced for.
        x = np.ones((rows, 40), "float32")
        p = predict(model, x, masks="independent")
        # 5600 coins or more: 4 standard errors are 0.027.
        assert np.mean(p.samples == 0) == pytest.approx(0.5, abs=0.027)
        assert np.any(np.asarray(model(x, training=True)) == 0)
        np.testing.assert_array_equal(model(x), x)


def test_drop_in_is_sampled():
    """Its output is `keep * x + (1 - keep)`."""
    model = keras.Sequential(
        [keras.Input((40,)), kbd.experimental.DropIn(0.25)]
    )
    x = zoo.numbers(40)
    p = predict(model, x, 50, masks="independent")
    ones = p.samples == 1
    # 10,000 units: 4 standard errors are 0.0173.
    assert np.mean(ones) == pytest.approx(0.25, abs=0.018)
    kept = np.broadcast_to(x, ones.shape)[~ones]
    np.testing.assert_array_equal(p.samples[~ones], kept)


def test_augmentation_is_sampled_if_asked_for():
    model = keras.Sequential(
        [
            keras.Input((4, 4, 2)),
            layers.RandomFlip("horizontal", name="flip"),
            layers.Dropout(0.5, name="drop"),
        ]
    )
    x = zoo.numbers(4, 4, 2)
    report = {s.path: s for s in kbd.inspect(model).stochastic}
    assert not report["flip"].active
    plain = predict(model, x, masks="independent")
    without = keras.Sequential([keras.Input((4, 4, 2)), *model.layers[1:]])
    same = predict(without, x, masks="independent")
    np.testing.assert_array_equal(plain.samples, same.samples)
    flipped = predict(model, x, 64, layers="flip", masks="independent")
    turned = np.all(flipped.samples == x[:, :, ::-1], axis=(2, 3, 4))
    whole = np.all(flipped.samples == x, axis=(2, 3, 4))
    assert np.all(turned ^ whole)
    # 320 coins: 4 standard errors are 0.112.
    assert np.mean(turned) == pytest.approx(0.5, abs=0.112)
    both = predict(model, x, layers=["flip", "drop"], masks="independent")
    # Who is asked for does not change the noise of the others.
    kept = plain.samples != 0
    np.testing.assert_array_equal(both.samples != 0, kept)
    few = predict(
        model, x, 64, layers="flip", masks="independent", batch_size=2
    )
    np.testing.assert_array_equal(few.samples, flipped.samples)


def test_augmentation_alone_says_how_to_ask():
    model = keras.Sequential(
        [keras.Input((4, 4, 2)), layers.RandomFlip(name="flip")]
    )
    with pytest.raises(NothingToSampleError, match=r"named in `layers`.*flip"):
        predict(model, zoo.numbers(4, 4, 2))


def test_a_subclassed_model_is_unknown_without_an_example():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.drop = layers.Dropout(0.5, name="drop")
            self.it = own.ByModule(name="it")

        def call(self, x, training=None):
            return self.it(self.drop(x), training=training)

    model, x = Model(), zoo.numbers(4)
    model(x)
    (site,) = kbd.inspect(model).stochastic
    assert site.drawn is None
    assert "unknown" in str(kbd.inspect(model))
    sites = kbd.inspect(model, x).stochastic
    assert [(each.path, each.drawn) for each in sites] == [
        ("drop", True),
        ("it", True),
    ]


def test_inspect_refuses_what_are_no_rows():
    model = around(layers.Dropout(0.5))
    for x in (True, iter([zoo.numbers(4)]), zoo.numbers(7)):
        with pytest.raises(kbd.BayesdropError, match=THREE_BEATS):
            kbd.inspect(model, x)


def test_a_function_of_ones_own_inside_a_layer_of_keras():
    def noisy_tanh(x):
        return keras.random.dropout(ops.tanh(x), 0.5)

    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(4, activation=noisy_tanh),
            layers.Dense(3),
        ]
    )
    p = predict(model, zoo.numbers(4))
    like = predict(around(layers.Dropout(0.5)), zoo.numbers(4))
    np.testing.assert_allclose(p.samples, like.samples, rtol=1e-5, atol=1e-6)


def test_the_mode_and_the_seeds_are_put_back():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.it = own.BySeedGenerator()

        def call(self, x, training=None):
            return self.it(x, training=training)

    model, x = Model(), zoo.numbers(4)
    model(x)
    seeds = np.asarray(model.it.generator.state)
    predict(model, x)
    np.testing.assert_array_equal(seeds, model.it.generator.state)
    np.testing.assert_array_equal(model(x), x)
    np.testing.assert_array_equal(model.predict(x, verbose=0), x)
    assert np.any(np.asarray(model(x, training=True)) != x)


def test_drawing_by_hand_needs_no_noise_layer_and_trains_as_before():
    model, x = around(own.ByModule()), zoo.numbers(4)
    model.compile("sgd", "mse", jit_compile=False)
    model.fit(x, np.zeros((5, 3)), verbose=0)
    assert predict(model, x).variance.min() > 0
    model.fit(x, np.zeros((5, 3)), verbose=0)
    assert predict(model, x).variance.min() > 0


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_time_major_noise_has_the_masks_of_its_rows(axis):
    """Dropout between two transposes is Dropout, up to the order of units."""
    order = {0: (0, 1, 2), 1: (1, 0, 2), 2: (1, 2, 0)}[axis]
    back = tuple(order.index(n) for n in range(3))
    inputs = keras.Input((3, 4))
    x = layers.Dropout(0.5)(ops.transpose(inputs, order))
    model = keras.Model(inputs, ops.transpose(x, back))
    rows = zoo.numbers(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kbd.BayesdropWarning)
        p = predict(model, rows, masks="independent")
        q = predict(model, rows, masks="independent", batch_size=2)
        shared = predict(model, rows, masks="shared")
    plain = keras.Sequential([keras.Input((3, 4)), layers.Dropout(0.5)])
    wanted = predict(plain, rows, masks="independent")
    np.testing.assert_array_equal(p.samples, wanted.samples)
    np.testing.assert_array_equal(p.samples, q.samples)
    kept = shared.samples != 0
    np.testing.assert_array_equal(
        kept, np.broadcast_to(kept[:, :1], kept.shape)
    )
