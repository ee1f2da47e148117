# SPDX-License-Identifier: Apache-2.0
"""Predictions of classes whose logits have noise that the model predicts.

The outputs of a model, read as a regression, are samples of its logits and log
variances. The probabilities are computed from them by hand, with draws that a
plain Philox makes of the counter contract.
"""

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.special
from scipy.stats import norm

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from keras_bayesdrop.errors import PlanError
from tests.prediction.noisy_logits import DRAWS
from tests.prediction.noisy_logits import HEAD
from tests.prediction.noisy_logits import LIMIT
from tests.prediction.noisy_logits import SEED
from tests.prediction.noisy_logits import TWO
from tests.prediction.noisy_logits import X
from tests.prediction.noisy_logits import averaged
from tests.prediction.noisy_logits import network
from tests.prediction.noisy_logits import predict
from tests.prediction.noisy_logits import raw_samples
from tests.prediction.noisy_logits import split

layers = keras.layers

# A softmax has an error of a few roundings of its logits, which are below 32
# here: 2^-24 * 32 = 2e-6. Engines differ by as much in the logits.
CLOSE = {"rtol": 0, "atol": 1e-5}


def entropy(p):
    return -scipy.special.xlogy(p, p).sum(axis=-1)


@pytest.mark.parametrize("engine", ["reference", "auto"])
@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("shape", [None, (2, 6)])
def test_samples_by_hand(engine, masks, shape):
    model = network(6 if shape else 3, shape=shape)
    choices = {"engine": engine, "masks": masks}
    wanted = averaged(raw_samples(model, **choices), masks == "shared")
    p = predict(model, return_samples=True, **choices)
    assert p.head == kbd.Classification(from_logits=False)
    np.testing.assert_allclose(p.samples, wanted, **CLOSE)
    np.testing.assert_allclose(p.mean, wanted.mean(0), **CLOSE)
    # Entropies have a slope of log(p), at most 17 for p above the rounding.
    np.testing.assert_allclose(
        p.expected_entropy, entropy(wanted).mean(0), atol=2e-4
    )
    np.testing.assert_allclose(
        p.mutual_information,
        entropy(wanted.mean(0)) - entropy(wanted).mean(0),
        atol=2e-4,
    )
    np.testing.assert_array_equal(
        p.samples, predict(model, return_samples=True, **choices).samples
    )


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_batches_and_later_samples_change_no_draw(masks):
    """The function of a row is the same, so its rows are bit for bit."""
    model = network()
    choices = {"masks": masks, "return_samples": True, "engine": "reference"}
    whole = predict(model, **choices).samples
    small = predict(model, batch_size=2, **choices).samples
    np.testing.assert_allclose(small, whole, rtol=0, atol=2e-7)
    fewer = predict(model, num_samples=5, **choices).samples
    np.testing.assert_allclose(fewer, whole[:5], rtol=0, atol=2e-7)
    later = predict(model, X[4:], first_row=4, **choices).samples
    np.testing.assert_allclose(later, whole[:, 4:], rtol=0, atol=2e-7)
    other = predict(model, X[4:], **choices).samples
    same = np.allclose(other, whole[:, 4:], atol=1e-3)
    assert same == (masks == "shared")


def constant(logits, log_variance, rate=0.5):
    """A network whose outputs are the same in all samples."""
    dense = layers.Dense(2 * len(logits), name="both")
    model = keras.Sequential([keras.Input((2,)), layers.Dropout(rate), dense])
    bias = np.array([*logits, *log_variance], "float32")
    dense.set_weights([np.zeros((2, len(bias))), bias])
    return model


def logistic_normal(difference, variance):
    """Mean of a sigmoid of a normal number, by quadrature."""
    sd = np.sqrt(variance)
    return scipy.integrate.quad(
        lambda z: scipy.special.expit(difference + sd * z) * norm.pdf(z),
        -12,
        12,
        limit=500,
    )[0]


@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize(
    ("logits", "log_variance"),
    [((1.0, 0.0), (-1.0, 0.5)), ((0.5, -1.0), (2.0, 2.5)), ((3, 0), (4, -20))],
)
def test_two_classes_by_quadrature(logits, log_variance, masks):
    variance = np.exp(log_variance).sum()
    exact = logistic_normal(logits[0] - logits[1], variance)
    head = kbd.NoisyLogits(num_draws=256)
    model = constant(logits, log_variance)
    p = predict(model, np.zeros((4, 2)), head=head, num_samples=64, masks=masks)
    # The deviation of one draw is at most 1/2, and pairs do not add to it.
    error = 0.5 / np.sqrt(256 * 64)
    np.testing.assert_allclose(p.mean[:, 0], exact, atol=4 * error)
    # `mc_error` says so too.
    assert np.all(np.abs(p.mean[:, 0] - exact) <= 5 * p.mc_error[:, 0] + 1e-6)
    # Noise of logits alone is no disagreement of samples. With draws of +-1/2
    # a sample is off by 1/32 at most, which adds up to 2 * (1/32)^2 nats.
    assert np.all(p.mutual_information <= 2 / 32**2)
    wanted = entropy(np.array([exact, 1 - exact]))
    np.testing.assert_allclose(p.expected_entropy, wanted, atol=0.02)


def test_pairs_have_a_smaller_error():
    """Without them a sample would vary by p (1 - p) / draws at this noise."""
    model = constant((0.0, 0.0), (6.0, 6.0))
    head = kbd.NoisyLogits(num_draws=8)
    with pytest.warns(kbd.BayesdropWarning, match="all samples are the same"):
        p = predict(model, np.zeros((1, 2)), head=head)
    # `e` and `-e` have opposite differences of logits: they add up to one.
    np.testing.assert_allclose(p.mean, 0.5, atol=1e-6)
    assert np.all(p.std < 1e-6)


def test_many_draws_by_brute_force():
    model = network(rate=0.2)
    raw = raw_samples(model, num_samples=4)
    logits, s = np.split(raw.astype("float64"), 2, axis=-1)
    scale = np.exp(0.5 * np.clip(s, -LIMIT, LIMIT))
    noise = np.random.default_rng(5).normal(size=(20_000, 1, 1, 3))
    exact = np.mean(
        [scipy.special.softmax(logits + scale * e, axis=-1) for e in noise],
        axis=0,
    )
    head = kbd.NoisyLogits(num_draws=4096, log_variance_limit=LIMIT)
    p = predict(model, head=head, num_samples=4, return_samples=True)
    # Five deviations of both, with a deviation of 1/2 of a draw.
    tolerance = 5 * 0.5 * np.sqrt(1 / 4096 + 1 / 20_000)
    np.testing.assert_allclose(p.samples, exact, atol=tolerance)
    plain = scipy.special.softmax(logits, axis=-1)
    assert np.abs(plain - exact).max() > 2 * tolerance


@pytest.mark.parametrize(
    "outputs", [lambda f, s: {"f": f, "s": s}, lambda f, s: [f, s]]
)
def test_two_outputs(outputs):
    model = network()
    one = predict(model, return_samples=True)
    two = predict(split(model, outputs), head=TWO, return_samples=True)
    np.testing.assert_allclose(two.samples, one.samples, **CLOSE)


def test_outputs_beside_it_have_draws_of_their_own():
    both = split(network(), lambda f, s: [f, s])
    hidden = both.layers[-1].input
    number = layers.Dense(1, name="number")(hidden)
    again = layers.Concatenate(name="again")(both.outputs)
    model = keras.Model(both.inputs, [number, *both.outputs, again])
    head = ["regression", TWO, HEAD]
    number, first, second = predict(model, head=head, return_samples=True)
    assert number.task == "regression" and number.mean.shape == (9, 1)
    raw = raw_samples(keras.Model(both.inputs, both.outputs))
    for output, p in ((1, first), (3, second)):
        wanted = averaged(raw, True, output=output)
        np.testing.assert_allclose(p.samples, wanted, **CLOSE)
    assert np.abs(first.samples - second.samples).max() > 0.01


def test_mixed_precision():
    model = network(dtype="mixed_float16")
    raw = raw_samples(model)
    p = predict(model, return_samples=True)
    # The outputs are float16, and all that follows is float32.
    assert p.samples.dtype == np.float32
    np.testing.assert_allclose(p.samples, averaged(raw, True), **CLOSE)


def test_samples_one_at_a_time():
    """Layers that look at the whole batch run one sample at a time."""

    class Centred(layers.Layer):
        def call(self, x):
            return x - keras.ops.mean(x, axis=0, keepdims=True)

    inputs = keras.Input((3,))
    hidden = Centred()(layers.Dropout(0.3)(layers.Dense(8)(inputs)))
    model = keras.Model(inputs, layers.Dense(6)(hidden))
    with pytest.warns(UserWarning, match="depend on the rest"):
        raw = predict(model, head="regression", return_samples=True).samples
    with pytest.warns(UserWarning, match="depend on the rest"):
        p = predict(model, return_samples=True)
    np.testing.assert_allclose(p.samples, averaged(raw, True), **CLOSE)


def test_ensemble_of_networks_without_dropout():
    models = [network(rate=0.0), network(rate=0.0)]
    models[1].set_weights([-w for w in models[1].get_weights()])
    p = predict(models, return_samples=True)
    seeds = [kbd.random.seeds.member_seed(SEED, n) for n in range(2)]
    wanted = [
        averaged(model(X).numpy()[None], True, seed)[0]
        for model, seed in zip(models, seeds, strict=True)
    ]
    np.testing.assert_allclose(p.mean, np.mean(wanted, axis=0), **CLOSE)
    small = predict(models, batch_size=2)
    np.testing.assert_allclose(small.mean, p.mean, rtol=0, atol=2e-7)


def test_ensemble_of_networks_with_dropout():
    models = [network(), network(rate=0.5)]
    p = predict(models)
    seeds = [kbd.random.seeds.member_seed(SEED, n) for n in range(2)]
    each = [
        predict(model, seed=seed).mean
        for model, seed in zip(models, seeds, strict=True)
    ]
    np.testing.assert_allclose(p.mean, np.mean(each, axis=0), **CLOSE)


def test_thompson_function_is_the_sample_of_its_number():
    model = network()
    samples = predict(model, return_samples=True).samples
    method = kbd.Sampling(draws="independent")
    sampler = kbd.ThompsonSampler(model, head=HEAD, seed=SEED, method=method)
    for sample in range(3):
        np.testing.assert_allclose(
            sampler.sample()(X), samples[sample], **CLOSE
        )


# What is refused.


@pytest.mark.parametrize("method", ["moments", "rao_blackwell"])
def test_closed_forms_are_refused(method):
    with pytest.raises(PlanError, match=r"Expected.*sampling.*Received"):
        predict(network(), method=method)


@pytest.mark.parametrize(
    ("model", "head", "message"),
    [
        (network(), TWO, "names outputs.*Expected two of.*logits='f'"),
        (constant((0,), (0,)), HEAD, "several classes.*Expected.*Received"),
        (
            keras.Sequential(
                [keras.Input((3,)), layers.Dropout(0.5), layers.Dense(5)]
            ),
            HEAD,
            r"split into logits.*Expected.*NoisyLogits\(logits=.*Received",
        ),
    ],
)
def test_outputs_that_do_not_fit(model, head, message):
    x = np.zeros((4, model.input_shape[-1]))
    with pytest.raises(BayesdropError, match=message):
        predict(model, x, head=head)


def test_two_outputs_of_different_shapes():
    inputs = keras.Input((3,))
    hidden = layers.Dropout(0.5)(inputs)
    model = keras.Model(
        inputs, {"f": layers.Dense(3)(hidden), "s": layers.Dense(2)(hidden)}
    )
    with pytest.raises(BayesdropError, match=r"Logits and log var.*Expected"):
        predict(model, head=TWO)


def test_several_entries_per_row():
    inputs = keras.Input((12,))
    hidden = layers.Dropout(0.5)(inputs)
    entries = keras.ops.reshape(hidden, (-1, 6))
    model = keras.Model(inputs, layers.Dense(6)(entries))
    with pytest.raises(BayesdropError, match=r"one entry per row. Expected"):
        predict(model, np.ones((4, 12)))


def test_logits_that_are_not_finite():
    model = constant((np.nan, 0.0), (0.0, 0.0))
    with pytest.raises(NonFiniteError, match="Expected"):
        predict(model, np.zeros((2, 2)))


def test_samples_from_elsewhere():
    samples = np.full((4, 2, 3), 1 / 3)
    with pytest.raises(BayesdropError, match=r"Expected.*classification"):
        kbd.Predictive.from_samples(samples, head="noisy_logits")


def test_network_without_noise_alone():
    with pytest.raises(kbd.errors.NothingToSampleError):
        predict(network(rate=0.0))


def test_cascade_with_a_slow_network_without_noise():
    cascade = kbd.Cascade(
        network(), network(rate=0.0), budget=0.5, num_samples=5, head=HEAD
    )
    with pytest.raises(BayesdropError, match=r"Expected.*Received"):
        cascade.predict(X)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_draws": 5}, "an even integer from 2 to 65536"),
        ({"num_draws": 0}, "an even integer"),
        ({"num_draws": 2**17}, "an even integer"),
        ({"num_draws": True}, "an even integer"),
        ({"num_draws": 4.0}, "an even integer"),
        ({"logits": "f"}, "Logits and log variance are not told apart"),
        ({"logits": "f", "log_variance": "f"}, "not told apart"),
        ({"logits": 1.5, "log_variance": "s"}, "name of an output"),
        ({"log_variance_limit": 81}, r"a float in \(0, 80"),
    ],
)
def test_bad_heads(fields, message):
    with pytest.raises(BayesdropError, match=f"{message}.*Received"):
        kbd.NoisyLogits(**fields)


def test_head_from_its_config():
    assert kbd.NoisyLogits.from_config(TWO.get_config()) == TWO
    assert TWO.num_draws == DRAWS and TWO.takes_two and not HEAD.takes_two
