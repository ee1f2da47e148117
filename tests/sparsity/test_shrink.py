# SPDX-License-Identifier: Apache-2.0
"""Smaller models that compute the same."""

import itertools

import keras
import numpy as np
import pytest

from keras_bayesdrop.sparsity import prune
from keras_bayesdrop.sparsity._shrink import shrink
from tests.sparsity import architectures
from tests.sparsity.fakes import assert_same
from tests.sparsity.fakes import looks_at_its_input
from tests.sparsity.fakes import model_and_answer
from tests.sparsity.fakes import units

layers = keras.layers
# Shares of weights, units and inputs that are removed; see `randomize`.
LESS = {"weights": 0.3, "units": 0.25, "inputs": 0.15}


@pytest.mark.parametrize("name", architectures.ALL)
def test_small_model_computes_the_same(name):
    model, answer = model_and_answer(architectures.ALL[name], 3, **LESS)
    small = prune(model, structured=True)
    assert_same(small, answer)
    # One round finds everything.
    assert units(shrink(small)) == units(small)


def _random_models(seeds):
    """Compares outputs; returns how many models vary, and how many shrank."""
    alive = smaller = 0
    for seed in seeds:
        make = architectures.random_architecture(seed)
        model, answer = model_and_answer(make, seed, **LESS)
        small = prune(model, structured=True)
        assert_same(small, answer)
        alive += looks_at_its_input(answer)
        smaller += small.count_params() < answer.count_params()
    return alive, smaller


def test_random_models_compute_the_same():
    # Models that are constant, or stay as they are, would not test much.
    assert min(_random_models(range(6))) >= 4


@pytest.mark.slow
def test_many_random_models_compute_the_same():
    assert min(_random_models(range(6, 80))) >= 37


def _plain(*rows, shape):
    """Returns a Sequential of (layer, kernel, bias)."""
    model = keras.Sequential([keras.Input(shape), *(row[0] for row in rows)])
    for layer, *arrays in rows:
        if arrays:
            layer.set_weights([np.asarray(a, "float32") for a in arrays])
    return model


def test_units_are_counted_as_by_hand():
    """Removing dead units of a dense network one by one, until none is left."""
    rng = np.random.default_rng(5)
    for _ in range(6):
        sizes = [4, 7, 8, 7, 2]
        kernels = []
        for a, b in itertools.pairwise(sizes):
            kept = rng.uniform(size=(a, b)) < 0.3
            kernels.append(rng.normal(size=(a, b)) * kept)
        model = _plain(
            *(
                (
                    layers.Dense(k.shape[1], activation="tanh"),
                    k,
                    rng.normal(size=k.shape[1]),
                )
                for k in kernels
            ),
            shape=(4,),
        )
        left = [k.copy() for k in kernels]
        while True:
            for number in range(len(left) - 1):
                dead = ~left[number].any(0) | ~left[number + 1].any(1)
                if dead.any():
                    left[number] = left[number][:, ~dead]
                    left[number + 1] = left[number + 1][~dead]
                    break
            else:
                break
        wanted = [max(1, kernel.shape[1]) for kernel in left]
        small = shrink(model)
        assert list(units(small).values()) == wanted
        assert_same(small, model)


def test_a_constant_goes_into_the_next_bias():
    # Unit 0 is tanh(0.5) for all inputs, unit 1 is used by nobody.
    model = _plain(
        (layers.Dense(3, activation="tanh"), [[0, 1, 2]], [0.5, 0, 0]),
        (layers.Dense(2), [[2, 3], [0, 0], [1, 1]], [10, 20]),
        shape=(1,),
    )
    small = shrink(model)
    first, last = small.layers
    np.testing.assert_array_equal(first.kernel, [[2.0]])
    np.testing.assert_array_equal(last.kernel, [[1.0, 1.0]])
    c = np.tanh(0.5)
    np.testing.assert_allclose(last.bias, [10 + 2 * c, 20 + 3 * c], rtol=1e-6)


def test_a_layer_without_bias_gets_one_if_it_needs_it():
    rows = (layers.Dense(2, activation="tanh"), [[0, 1]], [0.5, 0])
    model = _plain(
        rows, (layers.Dense(1, use_bias=False), [[2], [3]]), shape=(1,)
    )
    last = shrink(model).layers[-1]
    np.testing.assert_allclose(last.bias, [2 * np.tanh(0.5)], rtol=1e-6)
    # The constant zero needs none.
    model.layers[0].set_weights([np.array([[0, 1.0]]), np.array([0, 1.0])])
    small = shrink(model)
    assert units(small) == {model.layers[0].name: 1, model.layers[1].name: 1}
    assert not small.layers[-1].use_bias


def _two_convolutions(padding, size, bias, activation="relu"):
    """A convolution with one dead channel of two, and another after it."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(3, 3, 1, 2))
    first[..., 0] = 0
    return _plain(
        (
            layers.Conv2D(2, 3, padding="same", activation=activation),
            first,
            [bias, 0.3],
        ),
        (
            layers.Conv2D(3, size, padding=padding),
            rng.normal(size=(size, size, 2, 3)),
            rng.normal(size=3),
        ),
        shape=(6, 5, 1),
    )


@pytest.mark.parametrize(
    ("padding", "size", "bias", "left"),
    [
        ("valid", 3, 0.7, 1),
        ("same", 3, 0.7, 2),  # 0.7 inside, 0 at the border
        ("same", 3, 0.0, 1),
        ("same", 3, -0.7, 1),  # relu makes it 0
        ("same", 1, 0.7, 1),  # no border
    ],
)
def test_constants_and_zero_padding(padding, size, bias, left):
    model = _two_convolutions(padding, size, bias)
    small = shrink(model)
    assert list(units(small).values()) == [left, 3]
    assert_same(small, model)


def test_zero_padding_layer_stops_a_constant():
    for bias, left in ((0.7, 2), (-0.7, 1)):
        model = _two_convolutions("valid", 3, bias)
        first, last = model.layers
        padded = keras.Sequential(
            [keras.Input((6, 5, 1)), first, layers.ZeroPadding2D(), last]
        )
        small = shrink(padded)
        assert list(units(small).values()) == [left, 3]
        assert_same(small, padded)


def test_batch_norm_is_cut_and_its_own_dead_channels_go():
    norm = layers.BatchNormalization()
    rng = np.random.default_rng(1)
    kernel = rng.normal(size=(2, 4))
    kernel[:, 1] = 0  # Constant before the normalization.
    model = _plain(
        (layers.Dense(4), kernel, rng.normal(size=4)),
        (norm, [1, 2, 3, 0], *rng.normal(size=(2, 4)), [1, 2, 3, 4]),
        (layers.Activation("relu"),),
        (layers.Dense(2), rng.normal(size=(4, 2)), [0, 0]),
        shape=(2,),
    )
    small = shrink(model)
    # Channel 3 has gamma 0: whatever the unit before it says, it is beta.
    assert list(units(small).values()) == [2, 2]
    cut = small.layers[1]
    for name in ("gamma", "beta", "moving_mean", "moving_variance"):
        wanted = np.asarray(getattr(norm, name))[[0, 2]]
        np.testing.assert_array_equal(getattr(cut, name), wanted)
    assert_same(small, model)


def test_flatten_maps_channels_to_positions():
    rng = np.random.default_rng(2)
    kernel = rng.normal(size=(1, 1, 1, 3))
    kernel[..., 1] = 0
    last = rng.normal(size=(2 * 2 * 3, 1))
    last[2::3] = 0  # Channel 2, at all four positions.
    model = _plain(
        (layers.Conv2D(3, 1), kernel, [0.1, 0.2, 0.3]),
        (layers.Flatten(),),
        (layers.Dense(1), last, [0]),
        shape=(2, 2, 1),
    )
    small = shrink(model)
    np.testing.assert_array_equal(
        small.layers[-1].kernel, last[0::3].astype("float32")
    )
    assert_same(small, model)
    # One position that is used is enough to stay.
    last[5] = 1.0
    model.layers[-1].kernel.assign(last)
    assert list(units(shrink(model)).values()) == [2, 1]


def test_at_least_one_unit_stays():
    model = _plain(
        (layers.Dense(3, activation="relu"), np.zeros((2, 3)), [1, 2, 3]),
        (layers.Dense(3, activation="relu"), np.ones((3, 3)), [1, 2, 3]),
        (layers.Dense(2), np.ones((3, 2)), [1, 2]),
        shape=(2,),
    )
    small = shrink(model)
    assert list(units(small).values()) == [1, 1, 2]
    assert_same(small, model)


def test_infinite_constants_stay():
    model = _plain(
        (layers.Dense(2, activation="exponential"), [[0, 1]], [1000, 0]),
        (layers.Dense(2, activation="sigmoid"), [[1, 0], [1, 1]], [0, 0]),
        shape=(1,),
    )
    assert list(units(shrink(model)).values()) == [2, 2]


def test_units_that_share_an_activation_stay():
    # No layer uses unit 0, but it takes its share of the softmax.
    model = _plain(
        (layers.Dense(3, activation="softmax"), [[1, 2, 3]], [0, 1, 2]),
        (layers.Dense(1), [[0], [1], [2]], [0]),
        shape=(1,),
    )
    small = shrink(model)
    assert list(units(small).values()) == [3, 1]
    assert_same(small, model)


def test_inputs_and_outputs_stay():
    # No input is used but one, and one output is constant.
    kernel = np.zeros((3, 2))
    kernel[1, 0] = 1
    model = _plain((layers.Dense(2), kernel, [1, 2]), shape=(3,))
    small = shrink(model)
    np.testing.assert_array_equal(small.layers[0].kernel, kernel)
    assert_same(small, model)


def test_an_output_in_the_middle_stays_whole():
    x = keras.Input((2,))
    middle = layers.Dense(3, activation="relu", name="middle")
    last = layers.Dense(1, name="last")
    h = middle(x)
    model = keras.Model(x, [h, last(h)])
    middle.set_weights([np.array([[0, 1, 1], [0, 1, 2.0]]), np.ones(3)])
    small = shrink(model)
    assert units(small) == {"middle": 3, "last": 1}
    assert_same(small, model)


@pytest.mark.parametrize("training", [None, True])
def test_noise_that_is_always_on_is_a_wall(training):
    x = keras.Input((2,))
    first = layers.Dense(3, activation="relu", name="first")
    h = layers.Dropout(0.0)(first(x), training=training)
    model = keras.Model(x, layers.Dense(1, name="last")(h))
    first.set_weights([np.array([[0, 1, 1], [0, 1, 2.0]]), np.ones(3)])
    small = shrink(model)
    assert units(small) == {"first": 3 if training else 2, "last": 1}
    assert_same(small, model)


def test_a_noise_shape_that_names_the_units_is_a_wall():
    for shape, left in (((None, 3), 3), ((1, None), 2)):
        model = _plain(
            (layers.Dense(3), [[0, 1, 2]], [1, 1, 1]),
            (layers.Dropout(0.5, noise_shape=shape),),
            (layers.Dense(1), np.ones((3, 1)), [0]),
            shape=(1,),
        )
        small = shrink(model)
        assert list(units(small).values()) == [left, 1]
        small(np.ones((3, 1)), training=True)


def test_layers_that_use_a_mask_are_walls():
    ids = keras.Input((4,), dtype="int32")
    h = layers.Embedding(9, 3, mask_zero=True)(ids)
    first = layers.Dense(3, activation="relu", name="first")
    second = layers.Dense(3, activation="relu", name="second")
    h = layers.GlobalAveragePooling1D()(second(layers.Dropout(0.5)(first(h))))
    model = keras.Model(ids, layers.Dense(1, name="last")(h))
    first.set_weights([np.eye(3) * [0, 1, 1], np.ones(3)])
    second.set_weights([np.eye(3) * [1, 1, 0], np.ones(3)])
    x = np.array([[1, 2, 0, 0], [3, 4, 5, 0], [0, 0, 0, 0]])
    small = shrink(model)
    assert units(small) == {"first": 1, "second": 3, "last": 1}
    np.testing.assert_allclose(small(x), model(x), rtol=1e-5, atol=1e-6)


def test_initializers_of_one_shape_do_not_matter():
    kernel = np.array([[0, 1.0], [0, 2.0]], "float32")
    model = keras.Sequential(
        [
            keras.Input((2,)),
            layers.Dense(
                2, kernel_initializer=keras.initializers.Constant(kernel)
            ),
            layers.Dense(1),
        ]
    )
    small = shrink(model)
    assert list(units(small).values()) == [1, 1]
    assert_same(small, model)


def test_half_precision():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model, answer = model_and_answer(architectures.images, 3, **LESS)
    finally:
        keras.config.set_dtype_policy("float32")
    small = prune(model, structured=True)
    assert small.count_params() < answer.count_params()
    for layer in small.layers[1:]:
        assert layer.dtype_policy.name == "mixed_float16", layer.name
    # Five layers, each of sums rounded to 2^-11, and some room.
    assert_same(small, answer, tolerance=20 * 2**-11)
