# SPDX-License-Identifier: Apache-2.0
"""Plain models without the blocks that are not in use."""

import json

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.layers import ADDResidual
from keras_bayesdrop.layers import BayesianConv2D
from keras_bayesdrop.layers import BayesianDense
from keras_bayesdrop.layers import ConcreteDropout
from keras_bayesdrop.layers import VariationalDense
from keras_bayesdrop.regularizers import ADD
from keras_bayesdrop.sparsity import prune
from keras_bayesdrop.sparsity import prune_depth
from tests.helpers import TestCase
from tests.sparsity.fakes import inputs_for
from tests.sparsity.fakes import outputs

layers = keras.layers


def _block(*block, **settings):
    return ADDResidual(list(block), "half_cauchy", 10, **settings)


def _blocks(model):
    """The residual layers of a model, those of nested models as well."""
    blocks = []
    for layer in model.layers:
        if isinstance(layer, ADDResidual):
            blocks.append(layer)
        elif isinstance(layer, keras.Model):
            blocks += _blocks(layer)
    return blocks


def _randomize(model, seed=0):
    """Gives all weights values that are not those of an initializer."""
    rng = np.random.default_rng(seed)
    for variable in model.weights:
        value = 0.5 * rng.normal(size=variable.shape)
        value = np.exp(value) if "moving_variance" in variable.path else value
        variable.assign(value)


def _silence(model, unused):
    """Makes the weights of blocks small; returns the expected outputs.

    They are those of the model with zeros in place of the blocks.
    """
    blocks = [layer for layer in _blocks(model) if layer.name in unused]
    assert len(blocks) == len(unused)
    for layer in blocks:
        for inner in layer.block:
            for variable in inner.weights:
                if variable.name == "kernel":
                    variable.assign(1e-3 * np.asarray(variable))
                elif variable.name == "log_variance":
                    variable.assign(np.full(variable.shape, -20.0))

    def expected(x):
        originals = [layer.call for layer in blocks]
        for layer in blocks:
            layer.call = _shortcut_of(layer)
        try:
            return outputs(model, x)
        finally:
            for layer, original in zip(blocks, originals, strict=True):
                layer.call = original

    return expected


def _shortcut_of(layer):
    def call(inputs, training=None):
        return inputs if layer.shortcut is None else layer.shortcut(inputs)

    return call


def _row():
    return keras.Sequential(
        [
            keras.Input((4,), name="x"),
            _block(layers.Dense(4, "relu"), name="a"),
            _block(
                layers.Dense(7, "tanh"),
                layers.BatchNormalization(),
                layers.Dense(6),
                projection="auto",
                name="b",
            ),
            _block(layers.Dense(6, "relu"), name="c"),
            layers.Dense(2, name="out"),
        ],
        name="row",
    )


def _images():
    x = keras.Input((6, 6, 3), name="x")
    h = _block(
        layers.Conv2D(4, 3, padding="same", activation="relu"),
        projection="dense",
        name="a",
    )(x)
    h = _block(
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Conv2D(4, 3, strides=2, padding="same"),
        projection=layers.Conv2D(4, 1, strides=2),
        name="b",
    )(h)
    h = _block(layers.Conv2D(4, 1), name="c")(h)
    return keras.Model(x, {"maps": h, "mean": layers.Flatten()(h)})


def _nested():
    inner = keras.Sequential(
        [
            keras.Input((4,)),
            _block(layers.Dense(4), name="a"),
            _block(
                keras.Sequential([layers.Dense(5, "relu"), layers.Dense(4)]),
                name="b",
            ),
        ],
        name="inner",
    )
    x = keras.Input((4,), name="x")
    # Called twice, with the same weights.
    h = inner(inner(x))
    return keras.Model(x, _block(layers.Dense(4), name="c")(h))


def _bayesian():
    x = keras.Input((4, 4, 2), name="x")
    h = ADDResidual(
        BayesianConv2D(
            2, 3, 10, structure="add", scale_prior="half_cauchy", padding="same"
        ),
        name="a",
    )(x)
    h = layers.Flatten()(h)
    h = _block(
        VariationalDense(8, 10, prior="gaussian", activation="relu"),
        layers.Dropout(0.3),
        ConcreteDropout(layers.Dense(8), 10),
        layers.Dense(32),
        name="b",
    )(h)
    h = ADDResidual(
        layers.Dense(32, kernel_regularizer=ADD("half_cauchy", 10)), name="c"
    )(h)
    noisy = ADDResidual(layers.Dense(32), mode="noise", rate=0.5, name="d")
    return keras.Model(x, BayesianDense(2, 10, name="out")(noisy(h)))


MODELS = {
    "row": _row,
    "images": _images,
    "nested": _nested,
    "bayesian": _bayesian,
}


# Of Bayesian layers the largest scale counts as used, however small it is.
CASES = [
    (name, unused)
    for name in MODELS
    for unused in ("", "a", "b", "ac", "abc")
    if (name, unused) != ("bayesian", "abc")
]


@pytest.mark.parametrize("name, unused", CASES)
def test_predicts_as_if_unused_blocks_made_zeros(name, unused):
    model = MODELS[name]()
    _randomize(model)
    expected = _silence(model, unused)
    # Scales of the blocks in use are within a factor of five.
    plain = prune_depth(model, threshold=0.02)
    x = inputs_for(model)
    for actual, wanted in zip(outputs(plain, x), expected(x), strict=True):
        scale = max(1.0, np.abs(wanted).max())
        assert np.abs(actual - wanted).max() <= 1e-5 * scale
    config = json.dumps(plain.get_config(), default=str)
    assert "keras_bayesdrop" not in config
    sums = [each for each in plain.layers if isinstance(each, layers.Add)]
    # In "bayesian" a fourth block has no scale, and stays.
    assert len(sums) == 3 - len(unused) + (name == "bayesian")


def test_the_users_model_is_not_changed():
    model = _row()
    _randomize(model)
    before = (
        json.dumps(model.get_config()),
        [np.array(v) for v in model.weights],
    )
    plain = prune_depth(model)
    for variable in plain.weights:
        variable.assign(np.zeros(variable.shape))
    assert json.dumps(model.get_config()) == before[0]
    for variable, value in zip(model.weights, before[1], strict=True):
        np.testing.assert_array_equal(variable, value)
    assert len(model.losses) == 4


def test_names():
    model = _images()
    _randomize(model)
    _silence(model, "c")
    plain = prune_depth(model, 0.02)
    assert plain.output_names == model.output_names
    assert set(plain(inputs_for(model))) == {"maps", "mean"}
    assert [each.name for each in plain.inputs] == ["x"]
    # A block that makes an output leaves its name.
    model = _nested()
    _randomize(model)
    _silence(model, "c")
    plain = prune_depth(model, 0.02)
    assert plain.output_names == ["c"]
    assert isinstance(plain.get_layer("c"), layers.Identity)


def test_a_row_without_blocks_is_sequential():
    model = _row()
    _randomize(model)
    _silence(model, "abc")
    plain = prune_depth(model, 0.02)
    # All of them went: only the projection of one is left.
    assert type(plain) is keras.Sequential
    assert [each.name for each in plain.layers] == ["projection", "out"]
    assert plain.name == "row"


def test_policies_and_flags_stay():
    keras.config.set_dtype_policy("mixed_float16")
    model = _row()
    model.layers[1].block[0].trainable = False
    keras.config.set_dtype_policy("float32")
    _randomize(model)
    plain = prune_depth(model)
    x = inputs_for(model)
    np.testing.assert_allclose(plain(x), model(x), rtol=2e-3, atol=2e-3)
    assert plain.output.dtype == "float16"
    dense = plain.get_layer(model.layers[1].block[0].name)
    assert not dense.trainable
    assert dense.dtype_policy.name == "mixed_float16"


def test_masks():
    model = keras.Sequential(
        [
            keras.Input((5, 3)),
            layers.Masking(),
            _block(layers.Dense(3), name="a"),
            _block(layers.Dense(3), name="b"),
            layers.LSTM(2),
        ]
    )
    _randomize(model)
    expected = _silence(model, "b")
    x = inputs_for(model)
    x[1, 2:] = 0.0
    plain = prune_depth(model, 0.02)
    np.testing.assert_allclose(outputs(plain, x), expected(x), atol=1e-5)


def test_weights_can_be_pruned_as_well():
    # `prune` handles layers inside a block as well.
    inside = VariationalDense(4, 10, prior="gaussian", name="inside")
    model = keras.Sequential(
        [keras.Input((4,)), _block(inside, layers.Dense(4), name="a")]
    )
    inside.log_noise.assign(np.full((4, 4), -20.0))
    inside.kernel.assign(np.eye(4))
    plain = prune(model)
    np.testing.assert_array_equal(plain.get_layer("inside").kernel, np.eye(4))
    np.testing.assert_allclose(
        outputs(plain, inputs_for(model)), outputs(model, inputs_for(model))
    )


def test_from_a_view():
    model = _row()
    _randomize(model)
    plain = prune_depth(kbd.stochastic(model))
    x = inputs_for(model)
    np.testing.assert_allclose(plain(x), model(x), rtol=1e-5, atol=1e-6)


class LoadingTest(TestCase):
    def test_pruned_models_load_without_this_package(self):
        program = """
import sys
sys.modules["keras_bayesdrop"] = None  # Importing it raises.
import keras
import numpy as np
folder, names = sys.argv[1], sys.argv[2:]
for name in names:
    model = keras.saving.load_model(f"{folder}/{name}.keras")
    data = np.load(f"{folder}/{name}.npz")
    for number, y in enumerate(keras.tree.flatten(model(data["x"]))):
        np.testing.assert_allclose(y, data[f"y{number}"], rtol=1e-5, atol=1e-6)
    print(name)
"""
        folder = self.get_temp_dir()
        for name, make in MODELS.items():
            model = make()
            _randomize(model)
            _silence(model, "a")
            plain = prune_depth(model, 0.02)
            plain.save(f"{folder}/{name}.keras")
            x = inputs_for(plain)
            arrays = {f"y{n}": y for n, y in enumerate(outputs(plain, x))}
            np.savez(f"{folder}/{name}.npz", x=x, **arrays)
        done = self.run_in_new_process(program, folder, *MODELS)
        self.assertEqual(done.split(), list(MODELS))

    def test_pruned_models_train(self):
        model = _row()
        plain = prune_depth(model)
        plain.compile("sgd", "mse")
        x = inputs_for(plain)
        plain.fit(x, np.ones((len(x), 2)), verbose=0)


def test_scales_without_blocks():
    dense = layers.Dense(3, kernel_regularizer=ADD("half_cauchy", 10))
    model = keras.Sequential([keras.Input((3,)), dense])
    with pytest.raises(
        BayesdropError, match=r"no blocks to remove. Expected .* Received: "
    ):
        prune_depth(model)


def test_blocks_that_cannot_be_taken_apart():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.first = _block(layers.Dense(3))

        def call(self, inputs):
            return self.first(inputs)

    model = Own()
    model(np.ones((1, 3)))
    with pytest.raises(PlanError, match="Expected a Functional or a Sequent"):
        prune_depth(model)
    wrapped = layers.TimeDistributed(_block(layers.Dense(3)), name="each")
    model = keras.Sequential([keras.Input((2, 3)), wrapped])
    with pytest.raises(BayesdropError, match=r"`each.*` has no plain form"):
        prune_depth(model)
