# SPDX-License-Identifier: Apache-2.0
"""Predictions with `Masksembles` equal loops over its masks by hand."""

import warnings

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.layers import Masksembles
from keras_bayesdrop.layers import MCDropout
from keras_bayesdrop.losses import GaussianNLL
from keras_bayesdrop.sparsity import prune
from keras_bayesdrop.theory import ensemble_network
from keras_bayesdrop.training import MonteCarloModel

layers = keras.layers
MASKS = ("shared", "independent")
ENGINES = ("reference", "auto")


def rows(count=7, shape=(5,), seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, *shape)).astype("float32")


def dense(num_masks=(4, 4), dtype=None):
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dense(32, activation="relu", dtype=dtype),
            Masksembles(num_masks[0], 2.0, name="one", dtype=dtype),
            layers.Dense(24, activation="tanh", dtype=dtype),
            Masksembles(num_masks[1], 3.0, name="two", dtype=dtype),
            layers.Dense(2, dtype=dtype),
        ]
    )


def convolutional():
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(8, 3, activation="relu"),
            Masksembles(3, 2.0),
            layers.Conv2D(16, 3, activation="relu"),
            Masksembles(3, 2.0),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )


def recurrent():
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((4, 6)),
            Masksembles(3, 2.0),
            layers.LSTM(16, return_sequences=True),
            layers.TimeDistributed(Masksembles(3, 2.0)),
            layers.GRU(8),
            layers.Dense(2),
        ]
    )


def nested():
    keras.utils.set_random_seed(1)
    block = keras.Sequential(
        [
            keras.Input((16,)),
            Masksembles(4, 2.0),
            layers.Dense(16, activation="relu"),
        ]
    )
    x = keras.Input((5,))
    h = layers.Dense(16)(x)
    branch = layers.Add()([h, block(h)])
    return keras.Model(x, layers.Dense(2)(Masksembles(4, 1.5)(branch)))


class Own(keras.Model):
    """A model whose `call` is its own code."""

    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(16, activation="relu")
        self.masks = Masksembles(4, 2.0)
        self.out = layers.Dense(2)

    def call(self, x, training=None):
        return self.out(self.masks(self.hidden(x), training=training))


def own():
    keras.utils.set_random_seed(1)
    model = Own()
    model(rows())
    return model


MODELS = {
    "dense": (dense, (5,)),
    "float64": (lambda: dense(dtype="float64"), (5,)),
    "other numbers": (lambda: dense((2, 3)), (5,)),
    "convolutional": (convolutional, (6, 6, 2)),
    "recurrent": (recurrent, (4, 6)),
    "nested": (nested, (5,)),
    "own code": (own, (5,)),
}


class OneMask:
    """While open, layers call their mask number `k` only."""

    def __init__(self, model, k):
        self.layers = [
            each
            for each in model._flatten_layers()
            if isinstance(each, Masksembles)
        ]
        self.k = k

    def __enter__(self):
        self.kept = [each.masks.numpy() for each in self.layers]
        for each, masks in zip(self.layers, self.kept, strict=True):
            one = masks[self.k % len(masks)]
            # In inference a layer takes the mean of its masks.
            each.masks.assign(np.broadcast_to(one, masks.shape))

    def __exit__(self, *error):
        for each, masks in zip(self.layers, self.kept, strict=True):
            each.masks.assign(masks)


def by_hand(model, x, k):
    """Returns the prediction of sub-network `k`, by Keras."""
    with OneMask(model, k):
        return np.asarray(model(x, training=False))


def samples(model, x, count, masks="shared", engine="auto", **kwargs):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Nothing in model")
        return kbd.predict_with_uncertainty(
            model,
            x,
            count,
            return_samples=True,
            verbose=0,
            method=kbd.Sampling(masks=masks, engine=engine),
            **kwargs,
        ).samples


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", MODELS)
def test_samples_equal_a_loop_over_masks(name, engine):
    make, shape = MODELS[name]
    model, x = make(), rows(shape=shape)
    period = 6 if name == "other numbers" else 4
    if name in ("convolutional", "recurrent"):
        period = 3
    hand = np.stack([by_hand(model, x, k) for k in range(period)])
    assert hand.std(axis=0).min() > 0
    # Rounding of float32 sums, in another order.
    close = {"rtol": 1e-4, "atol": 1e-5 * np.abs(hand).max()}
    for count in (2, period, 2 * period + 1):
        t = np.arange(count)
        shared = samples(model, x, count, "shared", engine)
        np.testing.assert_allclose(shared, hand[t % period], **close)
        independent = samples(model, x, count, "independent", engine)
        row = np.arange(len(x))
        numbers = (t[:, None] + row) % period
        np.testing.assert_allclose(independent, hand[numbers, row], **close)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("engine", ENGINES)
def test_masks_do_not_depend_on_batches(masks, engine):
    model, x = dense(), rows(23)
    whole = samples(model, x, 9, masks, engine)
    parts = samples(model, x, 9, masks, engine, batch_size=4)
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)
    rest = samples(model, x[5:], 9, masks, engine, first_row=5)
    np.testing.assert_allclose(rest, whole[:, 5:], rtol=1e-5, atol=1e-6)
    far = samples(model, x[:3], 4, masks, engine, first_row=2**40 + 1)
    first = 1 if masks == "independent" else 0
    near = samples(model, x[:3], 4, masks, engine, first_row=first)
    np.testing.assert_array_equal(far, near)


def test_every_row_sees_every_mask_as_often():
    model, x = dense(), rows(11)
    means = [samples(model, x, 8, masks).mean(axis=0) for masks in MASKS]
    np.testing.assert_allclose(*means, rtol=1e-4, atol=1e-6)


def test_mean_and_variance():
    model, x = dense(), rows()
    hand = np.stack([by_hand(model, x, k) for k in range(4)])
    p = kbd.predict_with_uncertainty(model, x, 4, verbose=0)
    np.testing.assert_allclose(p.mean, hand.mean(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(p.variance, hand.var(axis=0, ddof=1), rtol=1e-3)


def test_seeds_do_not_matter():
    model, x = dense(), rows()
    np.testing.assert_array_equal(
        samples(model, x, 4, seed=1), samples(model, x, 4, seed=2)
    )


def test_beside_random_noise():
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dense(32, activation="relu"),
            MCDropout(0.3, name="dropout"),
            layers.Dense(32, activation="relu"),
            Masksembles(4, 2.0, name="masks"),
            layers.Dense(2),
        ]
    )
    x = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # 12 samples differ
        both = kbd.predict_with_uncertainty(
            model, x, 12, seed=3, return_samples=True, verbose=0
        ).samples
    for t in (0, 1, 5, 11):
        with OneMask(model, t):
            one = samples(model, x, 12, seed=3, layers="dropout")[t]
        np.testing.assert_allclose(both[t], one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_layers_that_are_off_scale_by_their_mean(engine):
    model, x = dense(), rows()
    mean = model.layers[1].masks.numpy().mean(axis=0)
    h = np.asarray(model.layers[0](x)) * mean
    h = np.asarray(model.layers[2](h))
    desired = [
        model.layers[4](h * mask) for mask in model.layers[3].masks.numpy()
    ]
    actual = samples(model, x, 4, engine=engine, layers="two")
    np.testing.assert_allclose(actual, desired, rtol=1e-4, atol=1e-5)
    # And behind those that are on.
    mean = model.layers[3].masks.numpy().mean(axis=0)
    desired = []
    for mask in model.layers[1].masks.numpy():
        h = np.asarray(model.layers[2](np.asarray(model.layers[0](x)) * mask))
        desired.append(model.layers[4](h * mean))
    actual = samples(model, x, 4, engine=engine, layers="one")
    np.testing.assert_allclose(actual, desired, rtol=1e-4, atol=1e-5)


def test_repeats_warn():
    model, x = dense((2, 3)), rows()

    def predict(count):
        kbd.predict_with_uncertainty(model, x, count, verbose=0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predict(6)
        predict(4)
    with pytest.warns(BayesdropWarning, match="from number 6 on repeat") as one:
        predict(12)
    assert "multiple" not in str(one[0].message)
    with pytest.warns(BayesdropWarning, match="13 is no multiple of 6"):
        predict(13)


def test_stochastic_views_choose_masks_at_random():
    model, x = dense(), rows()
    hand = np.stack([by_hand(model, x, k) for k in range(4)])
    view = kbd.stochastic(model, masks="shared", seed=1)
    numbers = []
    for _ in range(40):
        error = np.abs(np.asarray(view(x)) - hand).max(axis=(1, 2))
        numbers.append(int(error.argmin()))
        assert error.min() < 1e-5
    # All but one in 25,000 sequences have each of the four.
    assert set(numbers) == {0, 1, 2, 3}


def test_sample_functions_and_deterministic_views():
    model, x = dense(), rows()
    function = kbd.sample_function(model, seed=5, sample=6)
    np.testing.assert_allclose(
        function.predict(x, verbose=0), by_hand(model, x, 2), atol=1e-6
    )
    np.testing.assert_allclose(
        kbd.deterministic(model).predict(x, verbose=0),
        model.predict(x, verbose=0),
        atol=1e-6,
    )


def test_reports_name_it():
    model = dense()
    report = kbd.inspect(model)
    assert [site.noise for site in report.stochastic] == [
        "table of 4 masks"
    ] * 2
    assert [site.layer for site in report.stochastic] == ["Masksembles"] * 2
    steps = {step.path: step for step in kbd.explain(model).steps}
    assert steps["one"].noise == "table of 4 masks"
    assert steps["one"].runs == "per sample"


def test_moments_refuse_the_masks_by_name():
    model, x = dense(), rows()
    with pytest.raises(PlanError, match=r"Layer `one` .*Expected.*Received"):
        kbd.predict_with_uncertainty(model, x, method="moments", verbose=0)
    method = kbd.Moments(fallback="sampling")
    p = kbd.predict_with_uncertainty(model, x, 4, method=method, verbose=0)
    hand = np.stack([by_hand(model, x, k) for k in range(4)])
    np.testing.assert_allclose(p.mean, hand.mean(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(p.variance, hand.var(axis=0, ddof=1), rtol=1e-3)


def test_moments_scale_by_masks_that_are_off():
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dropout(0.3, name="dropout"),
            layers.Dense(24),
            Masksembles(4, 2.0),
            layers.Dense(2),
        ]
    )
    x = rows()
    for covariance in ("diagonal", "full"):
        p = kbd.predict_with_uncertainty(
            model,
            x,
            layers="dropout",
            method=kbd.Moments(covariance=covariance),
            verbose=0,
        )
        # The network is linear: the variance of x_i d_i / 0.7 is x_i^2 3 / 7.
        share = model.layers[2].masks.numpy().mean(axis=0)
        kernel = (model.layers[1].kernel.numpy() * share) @ np.asarray(
            model.layers[3].kernel, np.float64
        )
        variance = 0.3 / 0.7 * x**2 @ np.square(kernel)
        np.testing.assert_allclose(
            p.mean, model.predict(x, verbose=0), atol=1e-5
        )
        np.testing.assert_allclose(p.variance, variance, rtol=1e-4)


def test_plain_networks_scale_by_the_mean():
    model, x = dense(), rows()
    desired = model.predict(x, verbose=0)
    plain = ensemble_network(model)
    assert isinstance(plain.layers[-2], layers.Rescaling)
    np.testing.assert_allclose(plain.predict(x, verbose=0), desired, atol=1e-6)
    kernel = model.layers[2].kernel
    kernel.assign(np.where(np.abs(kernel) < 0.1, 0, kernel))
    desired = model.predict(x, verbose=0)
    pruned = prune(model)
    np.testing.assert_allclose(pruned.predict(x, verbose=0), desired, atol=1e-6)


def test_monte_carlo_models_fold_samples():
    base = dense()
    model = MonteCarloModel(base.inputs, base.outputs)
    x, y = rows(8), rows(8, (2,))
    loss = GaussianNLL(1.0)
    with pytest.raises(BayesdropError, match=r"`one`.*Expected.*Received"):
        model.compile("sgd", loss, mc_samples=3, mc_vectorized=False)
    model.compile("sgd", loss, mc_samples=3)
    model.fit(x, y, verbose=0)
