# SPDX-License-Identifier: Apache-2.0
"""Ensembles: mixtures of what their networks predict alone."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.prediction import ensemble
from keras_bayesdrop.random.seeds import member_seed

T = 20
SEED = 3
ACTIVATIONS = {
    "regression": None,
    "classification": "softmax",
    "binary": "sigmoid",
}


def network(rate=0.3, activation=None, outputs=3, units=8, seed=0):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(units, activation="relu"),
            keras.layers.Dropout(rate),
            keras.layers.Dense(outputs, activation=activation),
        ]
    )


def networks(count=3, **options):
    return [network(seed=n, units=8 + n, **options) for n in range(count)]


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(11, 4)).astype("float32")


def predict(model, x, **options):
    return kbd.predict_with_uncertainty(
        model, x, T, seed=SEED, verbose=0, **options
    )


def alone(models, x, **options):
    """Predicts with each network, with the seed that it has in an ensemble."""
    return [
        kbd.predict_with_uncertainty(
            model, x, T, seed=member_seed(SEED, number), verbose=0, **options
        )
        for number, model in enumerate(models)
    ]


def close(actual, desired, rounds=20):
    """Asserts equality up to float32 roundings of numbers of size 1."""
    np.testing.assert_allclose(
        actual, desired, rtol=rounds * 2**-24, atol=rounds * 2**-24
    )


def test_seeds_are_those_of_splitmix64():
    # The first outputs of the published generator for seed 1234567.
    assert [member_seed(1234567, n) for n in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]
    assert member_seed(-1, 0) == member_seed(2**64 - 1, 0)


@pytest.mark.parametrize("task", ACTIVATIONS)
@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_equals_hand_computation(x, task, masks):
    models = networks(activation=ACTIVATIONS[task])
    method = kbd.Sampling(masks=masks, draws="independent")
    p = predict(models, x, method=method, return_samples=True)
    members = alone(models, x, method=method, return_samples=True)
    samples = np.concatenate([each.samples for each in members])
    np.testing.assert_array_equal(p.samples, samples)
    assert (p.task, p.stats.num_samples) == (task, 3 * T)
    wide = samples.astype("float64")
    close(p.mean, wide.mean(0))
    close(p.variance, wide.var(0, ddof=1))
    close(p.within + p.between, wide.var(0))
    means = wide.reshape(3, T, *p.mean.shape).mean(1)
    close(p.between, means.var(0))
    error = np.sqrt(sum(each.variance / T for each in members)) / 3
    close(p.mc_error, error)
    if task == "classification":
        entropy = -(wide * np.log(wide)).sum(-1).mean(0)
        whole = -(wide.mean(0) * np.log(wide.mean(0))).sum(-1)
        close(p.mutual_information, whole - entropy)
        votes = (wide.argmax(-1)[..., None] == np.arange(3)).sum(0)
        close(p.variation_ratio, 1 - votes.max(-1) / (3 * T))
        close(p.aleatoric, (wide * (1 - wide)).mean(0))
    again = kbd.Predictive.from_samples(samples, head=p.head)
    close(p.variance, again.variance)
    close(p.total, again.total)


def test_without_noise_each_network_counts_once(x):
    models = networks(rate=0.0, activation="softmax")
    p = predict(models, x, return_samples=True, quantiles=[0.5])
    outputs = np.stack([model.predict(x, verbose=0) for model in models])
    assert p.stats.num_samples == p.stats.num_members == 3
    close(p.samples, outputs)
    close(p.mean, outputs.mean(0))
    close(p.variance, outputs.var(0, ddof=1))
    close(p.between, outputs.var(0))
    close(p.quantile(0.5), np.median(outputs, 0))
    assert not p.within.any() and not p.mc_error.any()
    entropy = -(outputs * np.log(outputs)).sum(-1).mean(0)
    close(p.expected_entropy, entropy)


def test_networks_weigh_the_same_whatever_their_samples(x):
    models = [network(rate=0.0), network(seed=1)]
    method = kbd.Sampling(draws="independent")
    p = predict(models, x, method=method, return_samples=True)
    point = models[0].predict(x, verbose=0).astype("float64")
    noisy = kbd.predict_with_uncertainty(
        models[1],
        x,
        T,
        seed=member_seed(SEED, 1),
        verbose=0,
        method=method,
    )
    close(p.mean, (point + noisy.mean) / 2)
    close(p.within, noisy.variance * (T - 1) / T / 2)
    close(p.between, np.square(point - noisy.mean) / 4)
    # Weights: one half for the point, one half of 1/T for a sample.
    squares = 1 / 4 + 1 / (4 * T)
    close(p.variance, (p.within + p.between) / (1 - squares))
    close(p.samples.mean(0), p.mean)
    close(p.mc_error, noisy.mc_error / 2)


@pytest.mark.parametrize("method", ["moments", "rao_blackwell"])
def test_closed_forms(x, method):
    models = networks()
    p = predict(models, x, method=method)
    members = alone(models, x, method=method)
    means = np.stack([each.mean for each in members]).astype("float64")
    close(p.mean, means.mean(0))
    close(p.between, means.var(0))
    if method == "moments":
        variances = np.stack([each.variance for each in members])
        close(p.variance, variances.mean(0) + means.var(0))
        assert p.stats.num_samples == 0 and not p.mc_error.any()
    else:
        errors = np.stack([each.mc_error for each in members])
        close(p.mc_error, np.sqrt(np.square(errors).sum(0)) / 3)
        close(p.variance, p.within + p.between + np.square(p.mc_error))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_batches_and_streams(x, size):
    models = networks()
    whole = predict(models, x, quantiles=[0.2])
    cut = predict(models, x, quantiles=[0.2], batch_size=size)
    close(cut.mean, whole.mean)
    close(cut.quantile_values, whole.quantile_values)
    stream = tf.data.Dataset.from_tensor_slices(x).batch(size)
    close(predict(models, stream).variance, whole.variance)
    once = (x[begin : begin + 4] for begin in range(0, len(x), 4))
    close(predict(models, once).variance, whole.variance)


def test_quantiles_take_rows_in_parts(x, monkeypatch):
    models = networks()
    whole = predict(models, x, quantiles=[0.2, 0.8])
    sizes = []
    mix = ensemble.mix

    def watched(members, *rest):
        sizes.append(len(members[0]))
        return mix(members, *rest)

    monkeypatch.setattr(ensemble, "mix", watched)
    # Room for the samples of four rows.
    monkeypatch.setattr(ensemble, "SKETCH_BYTES", 4 * 3 * T * 3 * 8)
    parts = predict(models, x, quantiles=[0.2, 0.8])
    assert sizes == [4, 4, 3]
    close(parts.quantile_values, whole.quantile_values)
    assert parts.samples is None and parts.stats.num_rows == len(x)


def test_samples_in_a_file(x, tmp_path):
    models = [*networks(), network(rate=0.0, seed=5)]
    path = tmp_path / "samples.npy"
    p = predict(models, x, return_samples=path, quantiles=[0.3], batch_size=4)
    q = predict(models, x, return_samples=True, quantiles=[0.3])
    close(np.load(path), q.samples)
    close(p.samples, q.samples)
    close(p.quantile_values, q.quantile_values)
    assert len(p.samples) == 4 * T


def test_tolerance(x):
    models = networks(activation="softmax")
    method = kbd.Sampling(absolute_tolerance=0.02, draws="independent")
    p = kbd.predict_with_uncertainty(
        models, x, 400, seed=SEED, verbose=0, method=method
    )
    members = [
        kbd.predict_with_uncertainty(
            model,
            x,
            400,
            seed=member_seed(SEED, n),
            verbose=0,
            method=method,
        )
        for n, model in enumerate(models)
    ]
    used = np.stack([each.num_samples_used for each in members])
    np.testing.assert_array_equal(p.num_samples_used, used.sum(0))
    close(p.mean, np.mean([each.mean for each in members], 0))
    errors = np.stack([each.mc_error for each in members]).astype("float64")
    close(p.mc_error, np.sqrt(np.square(errors).sum(0)) / 3)
    shares = (1 / used).sum(0)[:, None] / 9
    close(p.variance, (p.within + p.between) / (1 - shares))


def test_structures_of_outputs(x):
    def two(seed):
        keras.utils.set_random_seed(seed)
        inputs = keras.Input((4,))
        hidden = keras.layers.Dropout(0.2)(keras.layers.Dense(6)(inputs))
        a = keras.layers.Dense(2, name="a")(hidden)
        b = keras.layers.Dense(3, activation="softmax", name="b")(hidden)
        return keras.Model(inputs, {"a": a, "b": b})

    models = [two(0), two(1)]
    p = predict(models, x)
    members = alone(models, x)
    assert {key: each.task for key, each in p.items()} == {
        "a": "regression",
        "b": "classification",
    }
    for key, each in p.items():
        close(each.mean, (members[0][key].mean + members[1][key].mean) / 2)


def test_subclassed_members_and_views(x):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.drop = keras.layers.Dropout(0.4)
            self.dense = keras.layers.Dense(3)

        def call(self, inputs, training=None):
            return self.dense(self.drop(inputs, training=training))

    own = Own()
    own(x)
    plain = network(rate=0.0)
    p = predict([own, kbd.stochastic(network(seed=2)), plain], x)
    members = alone([own, network(seed=2)], x)
    point = plain.predict(x, verbose=0)
    close(p.mean, (members[0].mean + members[1].mean + point) / 3)


def test_the_record(x, tmp_path):
    models = networks()
    p = predict(models, x)
    assert p.stats.seed == SEED and p.stats.num_members == 3
    names = [step.name for step in p.stats.engine]
    assert {name.split("/")[0] for name in names} == {"0", "1", "2"}
    p.save(tmp_path / "p.npz")
    loaded = kbd.Predictive.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(loaded.between, p.between)
    np.testing.assert_array_equal(p[2:4].within, p.within[2:4])
    assert loaded.stats == p.stats


def test_a_cascade_takes_ensembles(x):
    models = networks()
    cascade = kbd.decisions.Cascade(
        network(seed=9), models, budget=3, num_samples=T, seed=SEED
    )
    result = cascade.predict(x)
    close(result.mean[result.asked], predict(models, x[result.asked]).mean)
    swapped = kbd.decisions.Cascade(models, network(rate=0.0), budget=2)
    assert len(swapped.predict(x).asked) == 2


class TestRefused:
    """Ensembles that cannot be."""

    def test_no_network(self, x):
        with pytest.raises(BayesdropError, match="at least one"):
            predict([], x)

    def test_one_without_noise(self, x):
        with pytest.raises(BayesdropError, match="two networks, or noise"):
            predict([network(rate=0.0)], x)

    def test_not_a_model(self, x):
        with pytest.raises(BayesdropError, match=r"keras\.Model"):
            predict([network(), "model"], x)

    def test_other_outputs(self, x):
        with pytest.raises(BayesdropError, match=r"\(3,\).*\(2,\) of network"):
            predict([network(), network(outputs=2)], x)

    def test_other_heads(self, x):
        with pytest.raises(BayesdropError, match="predict different things"):
            predict([network(), network(activation="softmax")], x)

    def test_rows_that_mix(self, x):
        inputs = keras.Input((4,))
        mean = keras.ops.mean(inputs, axis=0, keepdims=True)
        outputs = keras.layers.Dense(3)(inputs - mean)
        mixing = keras.Model(inputs, outputs)
        with pytest.raises(PlanError, match="rest of their batch"):
            predict([mixing, network()], x)

    def test_a_single_model_still_needs_noise(self, x):
        with pytest.raises(NothingToSampleError):
            predict(network(rate=0.0), x)


def test_learned_noise(x):
    def learned(seed, rate):
        return network(rate=rate, outputs=4, seed=seed)

    models = [learned(0, 0.3), learned(1, 0.0)]
    head = kbd.Heteroscedastic()
    p = predict(models, x, head=head, return_samples=True)
    first = alone(models[:1], x, head=head, return_samples=True)[0]
    mean, log_variance = np.split(models[1].predict(x, verbose=0), 2, axis=-1)
    noise = np.exp(log_variance.astype("float64"))
    close(p.mean, (first.mean + mean) / 2)
    close(p.aleatoric, (first.noise_variance + noise) / 2, rounds=100)
    close(p.noise_samples.mean(0), p.aleatoric, rounds=100)
    assert p.noise_samples.shape == p.samples.shape == (2 * T, len(x), 2)
