# SPDX-License-Identifier: Apache-2.0
"""Predictions of models that predict the noise of an observation too.

The outputs of a model, read as a regression, are samples of its means and log
variances. What a head of learned noise gives is computed from them by hand.
"""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError
from tests.helpers import flat
from tests.prediction.two_outputs import split_outputs

layers = keras.layers

X = np.random.default_rng(0).normal(size=(9, 3)).astype("float32")
LIMIT = 2.0  # So low that it clips some, and not all.
HEAD = kbd.Heteroscedastic(log_variance_limit=LIMIT)
TWO = kbd.Heteroscedastic(mean="mu", log_variance="s", log_variance_limit=LIMIT)


def weighted(model, scale=1.0):
    rng = np.random.default_rng(1)
    model.set_weights(
        [scale * rng.normal(size=w.shape) for w in model.get_weights()]
    )
    return model


def network(targets=2, shape=None):
    stack = [
        keras.Input((3,)),
        layers.Dense(16, activation="relu"),
        layers.Dropout(0.3),
        layers.Dense(16, activation="tanh"),
        layers.Dropout(0.3),
        layers.Dense(2 * targets),
    ]
    if shape is not None:
        stack.append(layers.Reshape(shape))
    return weighted(keras.Sequential(stack), 0.7)


def split(model, outputs=lambda mu, s: {"mu": mu, "s": s}):
    """Returns the same network with two outputs."""
    return split_outputs(model, ("mu", "s"), outputs)


def predict(model, x=X, **arguments):
    settings = {"num_samples": 100, "seed": 3, "verbose": 0}
    settings = {**settings, "draws": "independent", **arguments}
    return kbd.predict_with_uncertainty(model, x, **flat(**settings))


def by_hand(model, x=X, **arguments):
    """Returns samples of means and noise variances, in float64."""
    raw = predict(
        model, x, head="regression", return_samples=True, **arguments
    ).samples.astype("float64")
    mean, s = np.split(raw, 2, axis=-1)
    assert (np.abs(s) > LIMIT).any() and (np.abs(s) < LIMIT).any()
    return mean, np.exp(np.clip(s, -LIMIT, LIMIT))


@pytest.mark.parametrize("engine", ["reference", "auto"])
@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_moments_of_samples(engine, masks):
    choices = {"engine": engine, "masks": masks}
    mean, noise = by_hand(network(), **choices)
    p = predict(network(), head=HEAD, return_samples=True, **choices)
    assert p.head == HEAD
    np.testing.assert_allclose(p.samples, mean, rtol=1e-6)
    # exp of a float32: three roundings of a number of size one.
    np.testing.assert_allclose(p.noise_samples, noise, rtol=1e-6)
    np.testing.assert_allclose(p.mean, mean.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(p.epistemic, mean.var(0, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(p.aleatoric, noise.mean(0), rtol=1e-6)
    np.testing.assert_array_equal(p.total, p.epistemic + p.aleatoric)
    again = predict(network(), head=HEAD, **choices)
    for name in ("mean", "variance", "noise_variance"):
        np.testing.assert_array_equal(getattr(again, name), getattr(p, name))
    assert again.samples is None and again.noise_samples is None


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_both_engines_agree(masks):
    one, other = (
        predict(network(), head=HEAD, masks=masks, engine=engine)
        for engine in ("reference", "auto")
    )
    # Float32 matmuls with other orders of summation; a variance has squares.
    for name in ("mean", "noise_variance", "variance"):
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=1e-4, atol=1e-5
        )


def test_result_equals_that_of_its_samples():
    p = predict(network(), head=HEAD, return_samples=True, quantiles=[0.2])
    other = kbd.Predictive.from_samples(
        p.samples, HEAD, quantiles=[0.2], noise_samples=p.noise_samples
    )
    for name in ("mean", "noise_variance", "quantile_values"):
        np.testing.assert_allclose(
            getattr(p, name), getattr(other, name), rtol=2e-6, atol=1e-6
        )
    np.testing.assert_allclose(p.variance, other.variance, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_any_batch_size(size):
    whole = predict(network(), head=HEAD, masks="independent")
    p = predict(network(), head=HEAD, masks="independent", batch_size=size)
    # The order of a float32 matmul's sums depends on the number of rows.
    np.testing.assert_allclose(p.aleatoric, whole.aleatoric, rtol=1e-5)
    np.testing.assert_allclose(p.variance, whole.variance, rtol=1e-4)


def test_axes_in_between():
    model = network(6, (3, 4))
    mean, noise = by_hand(model)
    p = predict(model, head=HEAD)
    assert p.mean.shape == (9, 3, 2)
    np.testing.assert_allclose(p.aleatoric, noise.mean(0), rtol=1e-6)
    np.testing.assert_allclose(p.mean, mean.mean(0), rtol=1e-5, atol=1e-6)


def test_large_and_small_means_beside_noise():
    """Sums of squares that leave float32 are those of a regression."""
    for scale in (1e-25, 1e25):
        model = network(1)
        *rest, kernel, bias = model.get_weights()
        kernel[:, 0] *= scale
        model.set_weights([*rest, kernel, bias * 0])
        whole = predict(model, head="regression")
        p = predict(model, head="heteroscedastic")
        np.testing.assert_allclose(
            p.variance, whole.variance[:, :1], rtol=1e-12
        )


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_tolerance_counts_the_noise(masks):
    """A row stops when its error is a share of the total deviation."""
    choices = {"num_samples": 400, "masks": masks, "tolerance": 0.1}
    p = predict(network(), head=HEAD, **choices)
    used = p.num_samples_used
    assert len(set(used)) > 1
    samples = by_hand(network(), num_samples=400, masks=masks)
    for row, count in enumerate(used):
        mean, noise = (part[:count, row] for part in samples)
        for until in range(16, count + 1, 16):
            variance = mean[:until].var(0, ddof=1)
            total = variance + noise[:until].mean(0)
            done = np.all(variance / until <= 0.01 * total)
            assert done == (until == count), (row, until)
        np.testing.assert_allclose(p.aleatoric[row], noise.mean(0), rtol=1e-6)


def test_file_of_samples(tmp_path):
    path = tmp_path / "samples.npy"
    kept = predict(network(), head=HEAD, return_samples=True, quantiles=[0.5])
    p = predict(network(), head=HEAD, return_samples=path, quantiles=[0.5])
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "samples.noise.npy",
        "samples.npy",
    ]
    for name in ("samples", "noise_samples", "quantile_values"):
        np.testing.assert_array_equal(getattr(p, name), getattr(kept, name))
    assert isinstance(p.noise_samples.base, np.memmap) or isinstance(
        p.noise_samples, np.memmap
    )
    np.testing.assert_array_equal(p.interval(), kept.interval())


def test_a_stream_keeps_noise_samples():
    batches = (X[begin : begin + 4] for begin in range(0, 9, 4))
    p = predict(network(), batches, head=HEAD, return_samples=True)
    whole = predict(network(), head=HEAD, return_samples=True)
    np.testing.assert_allclose(p.noise_samples, whole.noise_samples, rtol=1e-5)


@pytest.mark.parametrize(
    ("outputs", "head", "take"),
    [
        (lambda mu, s: {"mu": mu, "s": s}, TWO, lambda p: p),
        (lambda mu, s: [s, mu], TWO, lambda p: p),
        (
            lambda mu, s: [s, mu],
            kbd.Heteroscedastic(1, 0, log_variance_limit=LIMIT),
            lambda p: p,
        ),
        (
            lambda mu, s: {"a": {"mu": mu, "s": s}, "b": mu},
            {
                "a": kbd.Heteroscedastic("a.mu", "a.s", LIMIT),
                "b": "regression",
            },
            lambda p: p["a"],
        ),
        (
            lambda mu, s: [mu, layers.Activation("softmax")(mu), s],
            TWO,
            lambda p: p[0],
        ),
    ],
    ids=["dict", "list", "positions", "nested", "three"],
)
def test_two_outputs_are_one_result(outputs, head, take):
    assert_same_result(split(network(), outputs), head, take, "sampling")


@pytest.mark.parametrize("method", ["moments", "rao_blackwell"])
def test_two_outputs_are_one_result_in_closed_form(method):
    model = split(network(), lambda mu, s: [s, layers.Softmax()(mu), mu])
    assert_same_result(model, TWO, lambda p: p[1], method)


def assert_same_result(model, head, take, method):
    one = predict(network(), head=HEAD, method=method)
    p = take(predict(model, head=head, method=method))
    assert isinstance(p, kbd.Predictive)
    assert p.head == HEAD
    for name in ("mean", "variance", "noise_variance"):
        np.testing.assert_allclose(
            getattr(p, name), getattr(one, name), rtol=1e-4, atol=1e-6
        )


def test_other_outputs_stay_in_their_places():
    model = split(
        network(),
        lambda mu, s: [mu, layers.Activation("softmax")(mu), s],
    )
    p = predict(model, head=TWO)
    assert [each.task for each in p] == ["heteroscedastic", "classification"]
    # The same, written out; and as an object from a file.
    for head in (
        [TWO, "classification"],
        [kbd.predictive.heads.serialize(TWO), "auto"],
    ):
        again = predict(model, head=head)
        np.testing.assert_array_equal(again[1].mean, p[1].mean)
        np.testing.assert_array_equal(
            again[0].noise_variance, p[0].noise_variance
        )


@pytest.mark.parametrize(
    ("model", "head", "message"),
    [
        (network(), TWO, "names outputs.*does not have.*mean='mu'"),
        (
            split(network()),
            kbd.Heteroscedastic("mu", "t"),
            r"does not have.*\['mu', 's'\].*log_variance='t'",
        ),
        (split(network()), kbd.Heteroscedastic(0, 1), "does not have.*mean=0"),
        (split(network()), {"mu": TWO, "s": TWO}, "Two heads take the same"),
        (split(network()), {"mu": "auto", "s": TWO}, "`head` does not fit"),
        (
            split(network(), lambda mu, s: [mu, s, layers.ReLU()(mu)]),
            ["regression", TWO],
            "in the place of its mean",
        ),
        (
            split(network(), lambda mu, s: {"mu": mu, "s": s[:, :1]}),
            TWO,
            r"two outputs of one shape.*\(None, 2\) and \(None, 1\)",
        ),
        (
            split(network(), lambda mu, s: mu[:, :1]),
            "heteroscedastic",
            r"even number.*Received: an output of shape \(None, 1\)",
        ),
        (
            network(),
            kbd.Regression([1.0, 2.0, 3.0]),
            r"noise_precision.*\(None, 4\).*3 precisions",
        ),
    ],
)
def test_heads_that_do_not_fit(model, head, message):
    with pytest.raises(BayesdropError, match=message):
        predict(model, head=head, num_samples=10**7)


def test_outputs_that_are_not_numbers_are_refused():
    model = network(1)
    *rest, _ = model.get_weights()
    for value in (np.nan, np.inf):
        model.set_weights([*rest, np.array([0.0, np.nan])])
        for method in ("sampling", "moments", "rao_blackwell"):
            with pytest.raises(
                NonFiniteError, match=r"log variances.*9 bad row\(s\)"
            ):
                predict(model, head=HEAD, method=method)
        model.set_weights([*rest, np.array([value, 0.0])])
        with pytest.raises(NonFiniteError, match="outputs"):
            predict(model, head=HEAD)


def test_an_infinite_log_variance_is_clipped_as_in_the_loss():
    model = network(1)
    *rest, _ = model.get_weights()
    model.set_weights([*rest, np.array([0.0, -np.inf])])
    p = predict(model, head=HEAD)
    np.testing.assert_allclose(p.aleatoric, np.exp(-LIMIT), rtol=1e-6)


def test_the_clip_is_that_of_the_loss():
    """Loss and log-likelihood of one sample are the same number."""
    model, y = network(), np.full((9, 2), 0.5)
    loss = kbd.losses.HeteroscedasticGaussianNLL(LIMIT, reduction=None)
    raw = predict(model, head="regression", return_samples=True).samples
    p = predict(model, head=HEAD, return_samples=True)
    expected = np.stack([loss(y, sample) for sample in raw])
    together = np.logaddexp.reduce(-expected.astype(float)) - np.log(100)
    np.testing.assert_allclose(p.log_likelihood(y), together, rtol=1e-5)


def test_precisions_of_each_output():
    model = network()
    head = kbd.Regression([1.0, 2.0, 4.0, 8.0])
    for method in ("sampling", "moments"):
        p = predict(model, head=head, method=method)
        np.testing.assert_allclose(p.aleatoric[3], [1.0, 0.5, 0.25, 0.125])


def test_posterior_functions_are_means():
    method = kbd.Sampling(draws="independent")
    sampler = kbd.ThompsonSampler(network(), head=HEAD, seed=3, method=method)
    p = predict(network(), head=HEAD, return_samples=True)
    np.testing.assert_allclose(sampler.sample()(X), p.samples[0], rtol=1e-5)


def test_half_precision_outputs_are_read_in_float32():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dropout(0.3),
            layers.Dense(4, dtype="float16", bias_initializer="ones"),
        ]
    )
    raw = predict(model, head="regression", return_samples=True).samples
    p = predict(model, head="heteroscedastic", return_samples=True)
    assert p.mean.dtype == p.noise_variance.dtype == "float32"
    _, s = np.split(raw.astype("float64"), 2, axis=-1)
    np.testing.assert_allclose(p.noise_samples, np.exp(s), rtol=1e-6)


class OwnCall(keras.Model):
    """A subclassed model with two outputs by key."""

    def __init__(self):
        super().__init__()
        self.drop = layers.Dropout(0.3)
        self.parts = layers.Dense(2), layers.Dense(2)

    def call(self, x):
        dropped = self.drop(x)
        return {"mu": self.parts[0](dropped), "s": self.parts[1](dropped)}


def test_a_subclassed_model_and_callbacks_of_keras():
    model, seen = OwnCall(), []
    model(X)
    callback = keras.callbacks.LambdaCallback()
    callback.on_predict_batch_end = lambda batch, logs: seen.append(
        logs["outputs"]
    )
    p = predict(model, head=TWO, callbacks=[callback])
    raw = predict(model, head="regression", return_samples=True)
    s = np.clip(raw["s"].samples.astype("float64"), -LIMIT, LIMIT)
    np.testing.assert_allclose(p.aleatoric, np.exp(s).mean(0), rtol=1e-5)
    np.testing.assert_array_equal(np.concatenate(seen), p.mean)


def test_recognised_from_its_loss():
    model = network()
    model.compile("sgd", kbd.losses.HeteroscedasticGaussianNLL(LIMIT))
    p = predict(model)
    assert p.head == HEAD
    expected = predict(model, head=HEAD)
    np.testing.assert_array_equal(p.aleatoric, expected.aleatoric)
