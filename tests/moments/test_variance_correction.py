# SPDX-License-Identifier: Apache-2.0
"""What shared noise adds to outputs: against what is exact, and by hand."""

import keras
import numpy as np
import pytest
from scipy import stats

import keras_bayesdrop as kbd
from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.moments import variance_correction
from tests.moments.enumeration import Masked
from tests.moments.enumeration import enumerate_masks
from tests.moments.passes import moments_of

layers = keras.layers
FEATURES = 70  # more than are told apart case by case


def _moments(model, x, full=False, chosen=None):
    return moments_of(model, x, full, chosen)[:2]


def _inputs(rows=7, features=FEATURES, dtype="float64"):
    return np.random.default_rng(0).normal(size=(rows, features)).astype(dtype)


@pytest.fixture(autouse=True)
def _float64():
    keras.utils.set_random_seed(4)
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")


def _sequential(*stack):
    return keras.Sequential([keras.Input((FEATURES,)), *stack])


def _with_skip():
    x = keras.Input((FEATURES,))
    hidden = layers.Dense(4)(layers.Dropout(0.2)(x))
    inner = layers.Dense(4)(layers.Dropout(0.4)(hidden))
    return keras.Model(x, layers.Dense(1)(layers.Add()([hidden, inner])))


def _with_halves():
    x = keras.Input((FEATURES,))
    hidden = layers.Dense(4)(layers.Dropout(0.2)(x))
    halves = [hidden, layers.Dropout(0.4)(hidden)]
    return keras.Model(x, layers.Dense(1)(layers.Concatenate()(halves)))


def _normalized():
    model = _sequential(
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


# Linear, with one output and nothing but the covariances of one layer missing:
# the one direction is the output, so that what it finds is exact, and so is
# what carries all covariances.
LINEAR = {
    "dropout": lambda: _sequential(
        layers.Dropout(0.2),
        layers.Dense(4),
        layers.Dropout(0.4),
        layers.Dense(1),
    ),
    "noise before all": lambda: _sequential(
        layers.Dropout(0.2), layers.Dense(4), layers.Dense(3), layers.Dense(1)
    ),
    "gaussian noise": lambda: _sequential(
        layers.GaussianNoise(0.5),
        layers.Dense(4),
        layers.GaussianDropout(0.4),
        layers.Dense(1),
    ),
    "alpha": lambda: _sequential(
        layers.AlphaDropout(0.2),
        layers.Dense(4),
        layers.AlphaDropout(0.4),
        layers.Dense(1),
    ),
    "skip": _with_skip,
    "concatenated": _with_halves,
    "normalized": _normalized,
    "drop connect": lambda: _sequential(
        layers.Dropout(0.2),
        kbd.layers.DropConnectDense(4, 0.3),
        kbd.layers.DropConnectDense(1, 0.3),
    ),
    "bayesian": lambda: _sequential(
        layers.Dropout(0.2), _bayesian(units=4), _bayesian(units=1)
    ),
    "variational": lambda: _sequential(
        kbd.layers.VariationalDense(4, 10, "correlated", prior="gaussian"),
        kbd.layers.VariationalDense(1, 10, "correlated", prior="gaussian"),
    ),
}


@pytest.mark.parametrize("name", LINEAR)
def test_one_output_of_a_linear_network_is_exact(name):
    model, x = LINEAR[name](), _inputs()
    model(x)
    mean, variance = _moments(model, x)
    exact_mean, exact = _moments(model, x, full=True)
    np.testing.assert_allclose(mean, exact_mean, rtol=1e-12)
    np.testing.assert_allclose(variance, exact, rtol=1e-11)
    # Without it, it is not: the case is one in which something is shared.
    without = _uncorrected(model, x)
    assert np.abs(without / exact - 1).max() > 0.01


def _uncorrected(model, x):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variance_correction, "CHEAP_MULTIPLY_ADDS", 0)
        patch.setattr(variance_correction, "_MAX_SHARE", 0.0)
        return _moments(model, x)[1]


def test_draws_of_weights_share_nothing():
    """Given their inputs, so that hidden units are uncorrelated."""
    model = _sequential(
        kbd.layers.DropConnectDense(4, 0.3), kbd.layers.DropConnectDense(3, 0.3)
    )
    x = _inputs()
    np.testing.assert_allclose(
        _moments(model, x)[1], _moments(model, x, full=True)[1], rtol=1e-12
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
    x = _inputs(2, 3)
    _, covariance = enumerate_masks(model, x)
    _, variance = _moments(model, x)
    np.testing.assert_allclose(variance[:, 0], covariance[:, 0, 0], rtol=1e-12)


def _relu(mean, variance):
    std = np.sqrt(variance)
    cdf, pdf = stats.norm.cdf(mean / std), stats.norm.pdf(mean / std)
    first = mean * cdf + std * pdf
    second = (mean**2 + variance) * cdf + mean * std * pdf
    return first, second - first**2, cdf


def _by_hand(model, x, rates, products, each):
    """Variances of the outputs of dropout, dense, relu, dropout, ... , dense.

    Args:
        model: The model.
        x: Inputs.
        rates: Of the dropout before each dense layer.
        products: How many to go back through.
        each: Whether from each output apart.
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
        for kernel, own, given, spread, made, slope in reversed(steps):
            if made is not steps[-1][4]:
                total = total + (g**2 * (made - slope**2 * spread)).sum(1)
                g = g * slope
            g, products = g @ kernel.T, products - 1
            if products == 0:
                return total + (g**2 * (own + given)).sum(1)
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
    model, x = _sequential(*stack), _inputs()
    # Exactly what so many products, from the last, take.
    sizes = [70 * 11, 11 * 9, 9 * 8, 8 * units]
    most = sum(sizes[-products:]) * (units if each else 1)
    monkeypatch.setattr(variance_correction, "CHEAP_MULTIPLY_ADDS", most)
    monkeypatch.setattr(variance_correction, "_MAX_SHARE", 0.0)
    _, variance = _moments(model, x)
    expected = _by_hand(model, x, rates, products, each)
    np.testing.assert_allclose(variance, expected, rtol=1e-7)


def test_part_of_the_work_of_the_network(monkeypatch):
    model = _sequential(
        layers.Dropout(0.2),
        layers.Dense(30),
        layers.Dropout(0.4),
        layers.Dense(1),
    )
    x = _inputs()
    weights = model.count_params()
    assert variance_correction.multiply_adds(survey(model).graph) == weights
    without, exact = _uncorrected(model, x), _moments(model, x, full=True)[1]
    monkeypatch.setattr(variance_correction, "CHEAP_MULTIPLY_ADDS", 0)
    for part, expected in (
        (0.999 * (weights - 31) / weights, without),
        (1.001 * (weights - 31) / weights, exact),
    ):
        monkeypatch.setattr(variance_correction, "_MAX_SHARE", part)
        np.testing.assert_allclose(_moments(model, x)[1], expected, rtol=1e-11)


def test_convolutions_count_all_positions():
    model = keras.Sequential(
        [
            keras.Input((8, 8, 2)),
            layers.Conv2D(3, 3, use_bias=False),
            layers.Flatten(),
            layers.Dense(4, use_bias=False),
        ]
    )
    found = variance_correction.multiply_adds(survey(model).graph)
    assert found == 36 * (9 * 2 * 3) + 108 * 4


def _same(name):
    """Networks in which nothing is shared, or nothing is known about it."""
    x = keras.Input((FEATURES,))
    if name == "one layer":
        return _sequential(layers.Dropout(0.2), layers.Dense(3))
    if name == "one draw for all units":
        noise = layers.Dropout(0.4, noise_shape=(None, 1))
        return _sequential(
            layers.Dropout(0.2), layers.Dense(4), noise, layers.Dense(2)
        )
    if name == "a sum at the end":
        hidden = layers.Dense(4)(layers.Dropout(0.2)(x))
        ends = [layers.Dense(2)(hidden), layers.Dense(2)(hidden)]
        return keras.Model(x, layers.Add()(ends))
    if name == "an unknown rule":
        return _sequential(
            layers.Dropout(0.2),
            layers.Dense(4),
            layers.Softmax(),
            layers.Dense(2),
        )
    assert name == "no vectors"
    return keras.Sequential(
        [
            keras.Input((4, FEATURES)),
            layers.Dropout(0.2),
            layers.Dense(4),
            layers.Dense(2),
        ]
    )


@pytest.mark.parametrize(
    "name",
    [
        "one layer",
        "one draw for all units",
        "a sum at the end",
        "an unknown rule",
        "no vectors",
    ],
)
def test_nothing_changes(name):
    model = _same(name)
    x = np.random.default_rng(0).normal(size=(3, *model.input_shape[1:]))
    np.testing.assert_array_equal(_moments(model, x)[1], _uncorrected(model, x))


def test_outputs_that_do_not_vary():
    model = _sequential(
        layers.Dropout(0.2),
        layers.Dense(4),
        layers.Dense(2, kernel_initializer="zeros"),
    )
    _, variance = _moments(model, _inputs())
    np.testing.assert_array_equal(variance, np.zeros((7, 2)))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_one_of_many_outputs_does_not_vary(scale):
    keras.config.set_dtype_policy("float32")
    model = _sequential(
        layers.Dropout(0.2), layers.Dense(4), layers.Dense(6, use_bias=False)
    )
    kernel = scale * model.layers[-1].kernel.numpy()
    kernel[:, 2] = 0.0
    model.layers[-1].kernel.assign(kernel)
    x = _inputs(dtype="float32")
    _, variance = _moments(model, x)
    assert np.all(variance[:, 2] == 0)
    others = np.delete(variance, 2, 1) / np.delete(_uncorrected(model, x), 2, 1)
    # One factor for all of them, which is not 1.
    np.testing.assert_allclose(others, others[:, :1] * np.ones(5), rtol=1e-5)
    assert np.abs(others - 1).min() > 1e-3


def _classifier(*end):
    return _sequential(
        layers.Dropout(0.1),
        layers.Dense(16, "relu"),
        layers.Dropout(0.3),
        layers.Dense(16, "relu"),
        layers.Dropout(0.3),
        *end,
    )


def test_the_softmax_may_be_a_layer_or_missing():
    fused = _classifier(layers.Dense(4, "softmax"))
    x = _inputs()
    expected = kbd.predict_with_uncertainty(
        fused, x, method="moments", verbose=0
    )
    plain = _classifier(layers.Dense(4))
    apart = _classifier(layers.Dense(4), layers.Softmax())
    named = _classifier(layers.Dense(4), layers.Activation("softmax"))
    for model in (plain, apart, named):
        model.set_weights(fused.get_weights())
        options = {"task": "classification"}
        if model is plain:
            options["from_logits"] = True
        found = kbd.predict_with_uncertainty(
            model, x, method="moments", verbose=0, **options
        )
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
        np.testing.assert_allclose(found.std, expected.std, rtol=1e-6)


def test_a_row_does_not_depend_on_the_others():
    model, x = _classifier(layers.Dense(4, "softmax")), _inputs()
    whole = _moments(model, x)[1]
    rows = [_moments(model, x[i : i + 1])[1][0] for i in range(len(x))]
    np.testing.assert_allclose(rows, whole, rtol=1e-12)


@pytest.mark.parametrize("full", [False, True])
def test_a_site_that_is_off_changes_nothing(full):
    off = layers.Dropout(0.5, name="off")
    model = _sequential(
        layers.Dropout(0.2, name="on"), layers.Dense(4), off, layers.Dense(3)
    )
    without = _sequential(layers.Dropout(0.2), layers.Dense(4), layers.Dense(3))
    without.set_weights(model.get_weights())
    x = _inputs()
    np.testing.assert_allclose(
        _moments(model, x, full, chosen={"on"})[1],
        _moments(without, x, full)[1],
        rtol=1e-12,
    )


def test_a_trained_classifier_comes_near_to_sampling():
    """Without covariances, below a standard error of 50 samples."""
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
        model, x[1400:], 1000, masks="independent", seed=0, verbose=0
    )
    found = kbd.predict_with_uncertainty(
        model, x[1400:], method="moments", verbose=0
    )
    miss = np.sqrt(np.mean((found.mean - sampled.mean) ** 2))
    # The mean of 1,000 samples has 0.22 of that error itself.
    assert miss < np.sqrt(np.mean(sampled.variance / 50))
    both = np.corrcoef(found.std.ravel(), sampled.std.ravel())
    assert both[0, 1] > 0.95
