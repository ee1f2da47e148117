# SPDX-License-Identifier: Apache-2.0
"""Corrections of output variances for noise that units share."""

import keras
import numpy as np
import pytest
from scipy import stats

import keras_bayesdrop as kbd
from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.moments import variance_correction
from tests.helpers import flat
from tests.moments.deep_networks import FEATURES
from tests.moments.deep_networks import classifier
from tests.moments.deep_networks import mean_and_variance
from tests.moments.deep_networks import random_inputs
from tests.moments.deep_networks import sequential
from tests.moments.deep_networks import uncorrected_variance
from tests.moments.deep_networks import with_skip
from tests.moments.enumeration import Masked
from tests.moments.enumeration import enumerate_masks

layers = keras.layers


@pytest.fixture(autouse=True)
def _float64():
    keras.utils.set_random_seed(4)
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")


def _with_halves():
    x = keras.Input((FEATURES,))
    hidden = layers.Dense(4)(layers.Dropout(0.2)(x))
    halves = [hidden, layers.Dropout(0.4)(hidden)]
    return keras.Model(x, layers.Dense(1)(layers.Concatenate()(halves)))


def _normalized():
    model = sequential(
        layers.Dropout(0.2),
        layers.Dense(4),
        layers.BatchNormalization(),
        layers.Dropout(0.4),
        layers.Dense(1),
        layers.Rescaling(3.0, 1.0),
    )
    model.layers[2].moving_variance.assign([0.5, 1.0, 2.0, 4.0])
    return model


def _bayesian(**kwargs):
    return kbd.layers.BayesianDense(num_train_examples=10, **kwargs)


# Linear networks with one output: the only direction is the output, so that the
# correction is exact, as is the pass with full covariances.
LINEAR = {
    "dropout": lambda: sequential(
        layers.Dropout(0.2),
        layers.Dense(4),
        layers.Dropout(0.4),
        layers.Dense(1),
    ),
    "noise before all": lambda: sequential(
        layers.Dropout(0.2), layers.Dense(4), layers.Dense(3), layers.Dense(1)
    ),
    "gaussian noise": lambda: sequential(
        layers.GaussianNoise(0.5),
        layers.Dense(4),
        layers.GaussianDropout(0.4),
        layers.Dense(1),
    ),
    "alpha": lambda: sequential(
        layers.AlphaDropout(0.2),
        layers.Dense(4),
        layers.AlphaDropout(0.4),
        layers.Dense(1),
    ),
    "skip": with_skip,
    "concatenated": _with_halves,
    "normalized": _normalized,
    "drop connect": lambda: sequential(
        layers.Dropout(0.2),
        kbd.layers.DropConnectDense(4, 0.3),
        kbd.layers.DropConnectDense(1, 0.3),
    ),
    "bayesian": lambda: sequential(
        layers.Dropout(0.2), _bayesian(units=4), _bayesian(units=1)
    ),
    "variational": lambda: sequential(
        kbd.layers.VariationalDense(
            4, 10, parametrization="correlated", prior="gaussian"
        ),
        kbd.layers.VariationalDense(
            1, 10, parametrization="correlated", prior="gaussian"
        ),
    ),
}


@pytest.mark.parametrize("name", LINEAR)
def test_one_output_of_a_linear_network_is_exact(name):
    model, x = LINEAR[name](), random_inputs()
    model(x)
    mean, variance = mean_and_variance(model, x)
    exact_mean, exact = mean_and_variance(model, x, full=True)
    np.testing.assert_allclose(mean, exact_mean, rtol=1e-12)
    np.testing.assert_allclose(variance, exact, rtol=1e-11)
    # Without the correction it is not exact, so the network shares noise.
    without = uncorrected_variance(model, x)
    assert np.abs(without / exact - 1).max() > 0.01


def test_draws_of_weights_share_nothing():
    """Noise on weights leaves hidden units uncorrelated."""
    model = sequential(
        kbd.layers.DropConnectDense(4, 0.3), kbd.layers.DropConnectDense(3, 0.3)
    )
    x = random_inputs()
    np.testing.assert_allclose(
        mean_and_variance(model, x)[1],
        mean_and_variance(model, x, full=True)[1],
        rtol=1e-12,
    )


def test_against_all_masks():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            Masked(0.3),
            layers.Dense(4),
            Masked(0.5),
            layers.Dense(1),
        ]
    )
    x = random_inputs(2, 3)
    _, covariance = enumerate_masks(model, x)
    _, variance = mean_and_variance(model, x)
    np.testing.assert_allclose(variance[:, 0], covariance[:, 0, 0], rtol=1e-12)


def _relu(mean, variance):
    std = np.sqrt(variance)
    cdf, pdf = stats.norm.cdf(mean / std), stats.norm.pdf(mean / std)
    first = mean * cdf + std * pdf
    second = (mean**2 + variance) * cdf + mean * std * pdf
    return first, second - first**2, cdf


def _by_hand(model, x, rates, products, each):
    """Returns output variances of dropout, dense, relu, dropout, ... , dense.

    Args:
        model: The model.
        x: Inputs.
        rates: Rates of the dropout before each dense layer.
        products: Number of matmuls in the backward pass.
        each: Whether each output has its own direction.
    """
    kernels = [layer.kernel.numpy() for layer in model.layers if layer.weights]
    biases = [layer.bias.numpy() for layer in model.layers if layer.weights]
    mean, variance = x, np.zeros_like(x)
    steps = []
    for kernel, bias, rate in zip(kernels, biases, rates, strict=True):
        own = rate / (1 - rate) * (mean**2 + variance)
        before, spread = mean @ kernel + bias, (variance + own) @ kernel**2
        steps.append((kernel, own, variance, spread))
        mean, variance, slope = _relu(before, spread)
        steps[-1] += (variance, slope)
    believed = steps[-1][3]
    units = believed.shape[1]
    directions = np.eye(units)[:, None]
    if not each:
        signs = np.where(np.arange(units) % 2, -1, 1)
        directions = [signs / np.sqrt(believed)]

    def along(direction, products):
        g, total = direction, 0.0
        for kernel, own, before, spread, after, slope in reversed(steps):
            if after is not steps[-1][4]:
                total = total + (g**2 * (after - slope**2 * spread)).sum(1)
                g = g * slope
            g, products = g @ kernel.T, products - 1
            if products == 0:
                return total + (g**2 * (own + before)).sum(1)
            total = total + (g**2 * own).sum(1)
        return total

    ratios = [along(a, products) / along(a, 1) for a in directions]
    return believed * np.stack(ratios, axis=1)


@pytest.mark.parametrize("products", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("units", "each"), [(1, True), (2, True), (2, False), (5, False)]
)
def test_relu_networks_by_hand(products, units, each, monkeypatch):
    rates = (0.1, 0.3, 0.4, 0.2)
    widths = (11, 9, 8, units)
    stack = []
    for rate, width in zip(rates, widths, strict=True):
        last = width is widths[-1]
        stack += [
            layers.Dropout(rate),
            layers.Dense(
                width, None if last else "relu", bias_initializer="normal"
            ),
        ]
    model, x = sequential(*stack), random_inputs()
    # Exactly the cost of the last matmuls.
    sizes = [70 * 11, 11 * 9, 9 * 8, 8 * units]
    most = sum(sizes[-products:]) * (units if each else 1)
    monkeypatch.setattr(variance_correction, "CHEAP_MULTIPLY_ADDS", most)
    monkeypatch.setattr(variance_correction, "_MAX_SHARE", 0.0)
    _, variance = mean_and_variance(model, x)
    expected = _by_hand(model, x, rates, products, each)
    np.testing.assert_allclose(variance, expected, rtol=1e-7)


def test_part_of_the_work_of_the_network(monkeypatch):
    model = sequential(
        layers.Dropout(0.2),
        layers.Dense(30),
        layers.Dropout(0.4),
        layers.Dense(1),
    )
    x = random_inputs()
    weights = model.count_params()
    assert variance_correction.multiply_adds(survey(model).graph) == weights
    without, exact = (
        uncorrected_variance(model, x),
        mean_and_variance(model, x, full=True)[1],
    )
    monkeypatch.setattr(variance_correction, "CHEAP_MULTIPLY_ADDS", 0)
    for part, expected in (
        (0.999 * (weights - 31) / weights, without),
        (1.001 * (weights - 31) / weights, exact),
    ):
        monkeypatch.setattr(variance_correction, "_MAX_SHARE", part)
        np.testing.assert_allclose(
            mean_and_variance(model, x)[1], expected, rtol=1e-11
        )


def test_convolutions_count_all_positions():
    model = keras.Sequential(
        [
            keras.Input((8, 8, 2)),
            layers.Conv2D(3, 3, use_bias=False),
            layers.Flatten(),
            layers.Dense(4, use_bias=False),
        ]
    )
    work = variance_correction.multiply_adds(survey(model).graph)
    assert work == 36 * (9 * 2 * 3) + 108 * 4


def test_the_softmax_may_be_a_layer_or_missing():
    fused = classifier(layers.Dense(4, "softmax"))
    x = random_inputs()
    expected = kbd.predict_with_uncertainty(
        fused, x, method="moments", verbose=0
    )
    plain = classifier(layers.Dense(4))
    apart = classifier(layers.Dense(4), layers.Softmax())
    named = classifier(layers.Dense(4), layers.Activation("softmax"))
    for model in (plain, apart, named):
        model.set_weights(fused.get_weights())
        options = {"head": "classification"}
        if model is plain:
            options["from_logits"] = True
        prediction = kbd.predict_with_uncertainty(
            model, x, verbose=0, **flat(method="moments", **options)
        )
        np.testing.assert_allclose(prediction.mean, expected.mean, rtol=1e-6)
        np.testing.assert_allclose(prediction.std, expected.std, rtol=1e-6)


def test_a_row_does_not_depend_on_the_others():
    model, x = classifier(layers.Dense(4, "softmax")), random_inputs()
    whole = mean_and_variance(model, x)[1]
    rows = [mean_and_variance(model, x[i : i + 1])[1][0] for i in range(len(x))]
    np.testing.assert_allclose(rows, whole, rtol=1e-12)


@pytest.mark.parametrize("full", [False, True])
def test_a_site_that_is_off_changes_nothing(full):
    off = layers.Dropout(0.5, name="off")
    model = sequential(
        layers.Dropout(0.2, name="on"), layers.Dense(4), off, layers.Dense(3)
    )
    without = sequential(layers.Dropout(0.2), layers.Dense(4), layers.Dense(3))
    without.set_weights(model.get_weights())
    x = random_inputs()
    np.testing.assert_allclose(
        mean_and_variance(model, x, full, chosen={"on"})[1],
        mean_and_variance(without, x, full)[1],
        rtol=1e-12,
    )


def test_a_trained_classifier_comes_near_to_sampling():
    """Without covariances the error is below that of 50 samples."""
    datasets = pytest.importorskip("sklearn.datasets")
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    x, y = datasets.load_digits(return_X_y=True)
    x = (x / 16).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dropout(0.1),
            layers.Dense(64, "relu"),
            layers.Dropout(0.3),
            layers.Dense(64, "relu"),
            layers.Dropout(0.3),
            layers.Dense(10, "softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x[:1400], y[:1400], epochs=15, verbose=0)
    sampled = kbd.predict_with_uncertainty(
        model,
        x[1400:],
        1000,
        seed=0,
        verbose=0,
        method=kbd.Sampling(masks="independent"),
    )
    prediction = kbd.predict_with_uncertainty(
        model, x[1400:], method="moments", verbose=0
    )
    miss = np.sqrt(np.mean((prediction.mean - sampled.mean) ** 2))
    # The mean of 1,000 samples has 0.22 of that error.
    assert miss < np.sqrt(np.mean(sampled.variance / 50))
    both = np.corrcoef(prediction.std.ravel(), sampled.std.ravel())
    assert both[0, 1] > 0.95
