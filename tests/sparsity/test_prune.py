# SPDX-License-Identifier: Apache-2.0
import functools
import json

import keras
import numpy as np
import pytest

import keras_bayesdrop
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.errors import UnbuiltModelError
from keras_bayesdrop.layers.drop_connect import DropConnectConv2D
from keras_bayesdrop.layers.drop_connect import DropConnectDense
from keras_bayesdrop.regularizers import DropoutL2
from keras_bayesdrop.sparsity import prune
from keras_bayesdrop.sparsity import to_sparse_size
from tests.helpers import TestCase
from tests.sparsity import architectures
from tests.sparsity.fakes import Kit
from tests.sparsity.fakes import LearnedNoise
from tests.sparsity.fakes import NoisyDense
from tests.sparsity.fakes import assert_same
from tests.sparsity.fakes import inputs_for
from tests.sparsity.fakes import model_and_answer
from tests.sparsity.fakes import outputs

layers = keras.layers


def _noisy_row(*middle, units=3):
    """Returns a built Sequential: a noisy layer, and what is given."""
    model = keras.Sequential(
        [keras.Input((4,), name="x"), NoisyDense(units, name="noisy"), *middle]
    )
    return model


def _state(model):
    """Returns all that pruning must leave alone."""
    return (
        json.dumps(model.get_config(), default=str),
        [np.array(v) for v in model.variables],
        [layer.output.name for layer in model.layers],
    )


@pytest.mark.parametrize("name", architectures.ALL)
def test_pruned_model_is_that_of_the_kept_means(name):
    model, answer = model_and_answer(architectures.ALL[name])
    plain = prune(model)
    assert_same(plain, answer)
    config = json.dumps(plain.get_config(), default=str)
    for word in ("keras_bayesdrop", "Noisy", "LearnedNoise"):
        assert word not in config


def test_the_threshold_decides():
    model, _ = model_and_answer(architectures.sequential)
    first = model.layers[0]
    # Far above: nothing is removed. Exactly at a weight: it is kept.
    log_alpha = np.linspace(-4, 4, 54, dtype="float32").reshape(6, 9)
    first.log_alphas.assign(log_alpha)
    for threshold in (float(log_alpha[2, 3]), 50.0):
        plain = prune(model, threshold)
        kept = np.asarray(plain.layers[0].kernel) != 0
        np.testing.assert_array_equal(kept, log_alpha <= threshold)


def test_one_log_alpha_may_stand_for_many_weights():
    model = _noisy_row()
    noisy = model.layers[0]
    noisy.log_alpha = lambda: np.array([[1.0], [9.0], [2.0], [9.0]])
    plain = prune(model)
    wanted = np.asarray(noisy.kernel) * [[1], [0], [1], [0]]
    np.testing.assert_array_equal(plain.layers[0].kernel, wanted)


@pytest.mark.parametrize(
    "name", ["sequential", "two_heads", "nested", "wrapped"]
)
@pytest.mark.parametrize("structured", [False, True])
def test_the_users_model_is_not_changed(name, structured):
    model, _ = model_and_answer(architectures.ALL[name])
    before = _state(model)
    plain = prune(model, structured=structured)
    for variable in plain.variables:
        variable.assign(np.ones(variable.shape))
    after = _state(model)
    assert before[0] == after[0]
    assert before[2] == after[2]
    for one, other in zip(before[1], after[1], strict=True):
        np.testing.assert_array_equal(one, other)


def test_names_and_structure_of_inputs_and_outputs_stay():
    model, _ = model_and_answer(architectures.two_heads)
    for structured in (False, True):
        plain = prune(model, structured=structured)
        assert plain.name == "heads"
        made = plain({"x": np.ones((2, 5))})
        assert set(made) == {"mean", "spread", "trunk"}
        assert plain.output_names == model.output_names
    model, _ = model_and_answer(architectures.wrapped)
    plain = prune(model)
    assert plain.output_names == model.output_names == ["end"]
    inner = keras.Sequential([keras.Input((2,)), NoisyDense(1, name="n")])
    inner.name = "head"
    x = keras.Input((2,), name="given")
    model = keras.Model(x, inner(x))
    plain = prune(model)
    assert plain.output_names == ["head"]
    assert plain.inputs[0].name == "given"


def test_layers_keep_their_names_where_they_can():
    model, _ = model_and_answer(architectures.nested)
    plain = prune(model)
    assert [layer.name for layer in plain.layers] == [
        "x",
        "inner_same_name",
        "norm",
        "row_same_name",
        "wide",
        "same_name",
        "out",
    ]


def test_a_sequential_model_stays_one():
    inner = [NoisyDense(3, name="a"), layers.ReLU(name="b")]
    model = keras.Sequential(
        [
            keras.Input((4,), batch_size=2, name="x"),
            keras.Sequential(inner, name="inner"),
            NoisyDense(2, name="c"),
        ],
        name="outer",
    )
    plain = prune(model)
    assert type(plain) is keras.Sequential
    assert plain.name == "outer"
    assert [layer.name for layer in plain.layers] == ["a", "b", "c"]
    assert plain.inputs[0].shape == (2, 4)
    functional = keras.Model(model.inputs, model.outputs)
    assert type(prune(functional)) is not keras.Sequential


def test_trainable_flags_and_policies_stay():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            NoisyDense(3, trainable=False, name="frozen"),
            layers.BatchNormalization(trainable=False, name="norm"),
            layers.Dropout(0.5, dtype="mixed_bfloat16", name="drop"),
            NoisyDense(2, dtype="mixed_bfloat16", name="half"),
            layers.Dense(2, dtype="float64", name="double"),
        ]
    )
    for structured in (False, True):
        plain = prune(model, structured=structured)
        for old, new in zip(model.layers, plain.layers, strict=True):
            assert new.trainable == old.trainable
            assert new.dtype_policy.name == old.dtype_policy.name


def test_inputs_that_were_given_by_name():
    def make(kit):
        x = keras.Input((4,))
        h = kit.dense(5, activation="relu", name="a")(inputs=x)
        h = kit.noise(name="n")(inputs=h)
        h = layers.Dense(5, name="b")(inputs=h)
        return keras.Model(x, kit.dense(2, name="c")(h))

    model, answer = model_and_answer(make)
    for structured in (False, True):
        assert_same(prune(model, structured=structured), answer)


def test_an_output_keeps_its_type():
    x = keras.Input((4,))
    noise = LearnedNoise(dtype="mixed_float16", name="noise")
    y = noise(NoisyDense(2, dtype="mixed_float16")(x))
    plain = prune(keras.Model(x, y))
    assert plain.outputs[0].dtype == y.dtype == "float16"
    assert plain.output_names == ["noise"]


def test_dropout_layers_become_those_of_keras():
    ours = keras_bayesdrop.layers
    x = keras.Input((4, 3))
    h = ours.MCDropout(0.2, noise_shape=(None, 1, None), name="a")(x)
    h = ours.MCDropout(0.3, noise="gaussian", name="b")(h, training=True)
    h = ours.MCAlphaDropout(0.1, name="c")(h)
    h = ours.MCGaussianDropout(0.4, name="d")(h)
    h = ours.MCSpatialDropout1D(0.5, dtype="mixed_float16", name="e")(h)
    h = layers.Reshape((2, 2, 3))(h)
    h = ours.MCSpatialDropout2D(0.6, data_format="channels_first", name="f")(h)
    h = layers.Reshape((1, 2, 2, 3))(h)
    h = ours.MCSpatialDropout3D(0.7, seed=3, name="g")(h)
    h = ours.MCDropout(noise="rayleigh", name="no_such_layer")(h)
    h = NoisyDense(2, name="h")(h)
    plain = prune(keras.Model(x, h))
    assert "no_such_layer" not in [layer.name for layer in plain.layers]
    found = [
        (type(layer), layer.rate)
        for layer in plain.layers
        if hasattr(layer, "rate")
    ]
    assert found == [
        (layers.Dropout, 0.2),
        (layers.GaussianDropout, 0.3),
        (layers.AlphaDropout, 0.1),
        (layers.GaussianDropout, 0.4),
        (layers.SpatialDropout1D, 0.5),
        (layers.SpatialDropout2D, 0.6),
        (layers.SpatialDropout3D, 0.7),
    ]
    assert tuple(plain.get_layer("a").noise_shape) == (None, 1, None)
    assert plain.get_layer("e").dtype_policy.name == "mixed_float16"
    assert plain.get_layer("f").data_format == "channels_first"
    x = np.ones((2, 4, 3))
    np.testing.assert_array_equal(plain(x), plain(x))  # Off at prediction.
    assert np.any(plain(x, training=True) != plain(x))


def test_drop_connect_layers_become_plain():
    def make(conv, dense):
        x = keras.Input((4, 4, 1))
        h = conv(3, kernel_size=3, activation="relu", name="a")(x)
        h = layers.Flatten()(h)
        return keras.Model(x, dense(2, use_bias=False, name="b")(h))

    model = make(
        functools.partial(DropConnectConv2D, rate=0.4),
        functools.partial(DropConnectDense, rate=0.4),
    )
    answer = make(layers.Conv2D, layers.Dense)
    kernel = np.random.default_rng(0).normal(size=(3, 3, 1, 3))
    kernel[..., 1] = 0
    model.get_layer("a").kernel.assign(kernel)
    model.get_layer("a").bias.assign([0.1, 0.2, 0.3])
    for name in "ab":
        weights = model.get_layer(name).get_weights()
        answer.get_layer(name).set_weights(weights)
    for structured in (False, True):
        plain = prune(model, structured=structured)
        assert [type(layer) for layer in plain.layers[1:]] == [
            layers.Conv2D,
            layers.Flatten,
            layers.Dense,
        ]
        assert plain.get_layer("a").filters == (2 if structured else 3)
        assert_same(plain, answer)
    assert to_sparse_size(model) == to_sparse_size(answer)


def test_concrete_dropout_becomes_the_layer_inside():
    def dropped(layer, **kwargs):
        return keras_bayesdrop.layers.ConcreteDropout(
            layer, num_train_examples=100, **kwargs
        )

    x = keras.Input((5,))
    h = dropped(layers.Dense(6, activation="relu", name="plain"))(x)
    h = layers.Dense(4, activation="relu", name="zeros")(h)
    model = keras.Model(x, dropped(layers.Dense(2), name="out")(h))
    kernel = np.random.default_rng(0).normal(size=(6, 4))
    kernel[:, 2] = 0
    model.get_layer("zeros").kernel.assign(kernel)
    for structured in (False, True):
        plain = prune(model, structured=structured)
        assert [type(layer) for layer in plain.layers[1:]] == [layers.Dense] * 3
        assert [layer.name for layer in plain.layers[1:]] == [
            "plain",
            "zeros",
            "out",
        ]
        assert plain.layers[2].units == (3 if structured else 4)
        assert_same(plain, model)  # Its noise is off in a plain call.
        if not structured:
            assert to_sparse_size(plain) == to_sparse_size(model)


def test_regularizers_of_this_package_become_plain():
    decay = DropoutL2(0.1, 1.0, 4.0, num_train_examples=50)
    model = _noisy_row(
        layers.Dense(2, kernel_regularizer=decay, bias_regularizer="l1"),
        NoisyDense(2, kernel_regularizer=decay),
    )
    plain = prune(model, structured=True)
    for layer in plain.layers[1:]:
        assert type(layer.kernel_regularizer) is keras.regularizers.L2
        assert float(layer.kernel_regularizer.l2) == pytest.approx(
            decay.weight_decay, rel=1e-6
        )
    assert isinstance(plain.layers[1].bias_regularizer, keras.regularizers.L1)


def test_plain_models_with_zeros_are_pruned_too():
    model, answer = model_and_answer(architectures.images)
    once = prune(model)
    small = prune(once, structured=True)
    assert small.count_params() < once.count_params()
    assert_same(small, answer)


def test_a_view_is_pruned_as_its_source():
    model, answer = model_and_answer(architectures.sequential)
    assert_same(prune(keras_bayesdrop.deterministic(model)), answer)


@keras.saving.register_keras_serializable("tests")
class Doubled(keras.layers.Layer):
    """A layer of the user's own, with layers inside."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.inner = layers.Dense(units)

    def build(self, input_shape):
        self.inner.build(input_shape)

    def call(self, inputs):
        return 2 * self.inner(inputs)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def test_other_layers_are_copied_with_all_they_hold():
    norm = layers.Normalization()
    norm.adapt(np.random.default_rng(0).normal(3.0, 2.0, (50, 4)))
    words = keras.Input((1,), dtype="string", name="words")
    lookup = layers.StringLookup(output_mode="multi_hot")
    lookup.adapt([["a"], ["b"], ["c"]])
    x = keras.Input((4,), name="x")
    h = layers.Concatenate()([norm(x), lookup(words)])
    h = layers.Lambda(lambda t: t + 1.0)(h)
    h = Doubled(5, name="doubled")(h)
    h = layers.Reshape((1, 5))(h)
    h = layers.Bidirectional(layers.LSTM(3))(h)
    noisy = NoisyDense(3, name="noisy")
    model = keras.Model([x, words], noisy(h))
    answer = keras.Model([x, words], layers.Dense(3, name="d")(h))
    answer.get_layer("d").set_weights([noisy.kernel, noisy.bias])
    given = [
        keras.ops.ones((2, 4)),
        keras.ops.convert_to_tensor([["a"], ["z"]]),
    ]
    for structured in (False, True):
        plain = prune(model, structured=structured)
        np.testing.assert_allclose(
            plain(given), answer(given), rtol=1e-5, atol=1e-6
        )


def test_functions_that_are_not_registered():
    class Shrinking(keras.regularizers.Regularizer):
        def __call__(self, x):
            return keras.ops.sum(x)

        def get_config(self):
            return {}

    def made(shape, dtype=None):
        assert tuple(shape) == (4, 3)  # It knows this shape only.
        return keras.ops.ones(shape, dtype)

    def activation(x):
        return x + 2

    decay = Shrinking()
    model = keras.Sequential(
        [
            keras.Input((4,)),
            NoisyDense(
                3,
                kernel_initializer=made,
                kernel_regularizer=decay,
                activation="relu",
            ),
            layers.Dense(
                2, activation=activation, kernel_regularizer=decay, name="d"
            ),
            layers.Activation(lambda x: 3 * x),
        ]
    )
    model.layers[0].log_alphas.assign(np.full((4, 3), [-1.0, 9.0, -1.0]))
    for structured in (False, True):
        plain = prune(model, structured=structured)
        dense = plain.get_layer("d")
        assert dense.activation is activation
        assert dense.kernel_regularizer is decay
        assert plain.layers[0].units == (2 if structured else 3)
        assert type(plain.layers[0].kernel_regularizer) is Shrinking
        x = np.ones((1, 4))
        hidden = np.full((1, 3), [4.0, 0.0, 4.0])
        wanted = 3 * (hidden @ np.asarray(model.layers[1].kernel) + 2)
        np.testing.assert_allclose(plain(x), wanted, rtol=1e-5)


def test_masks_reach_the_layers_that_use_them():
    def make(kit):
        ids = keras.Input((5,), dtype="int32")
        h = layers.Embedding(9, 4, mask_zero=True, name="e")(ids)
        h = kit.dense(4, activation="relu", name="d")(h)
        h = layers.LSTM(3, name="l")(h)
        return keras.Model(ids, kit.dense(2, name="o")(h))

    model, answer = model_and_answer(make)
    x = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])
    for structured in (False, True):
        plain = prune(model, structured=structured)
        np.testing.assert_allclose(plain(x), answer(x), rtol=1e-5, atol=1e-6)


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
    inputs = {"x": data["x"]} if name.startswith("heads") else data["x"]
    flat = keras.tree.flatten(model(inputs))
    for number, y in enumerate(flat):
        np.testing.assert_allclose(y, data[f"y{number}"], rtol=1e-5, atol=1e-6)
    print(name)
"""
        folder = self.get_temp_dir()
        names = []
        for architecture in ("sequential", "two_heads"):
            model, _ = model_and_answer(architectures.ALL[architecture])
            for structured in (False, True):
                plain = prune(model, structured=structured)
                name = f"{plain.name}_{architecture}_{structured}"
                name = name.replace("heads_two_heads", "heads")
                plain.save(f"{folder}/{name}.keras")
                x = inputs_for(plain)
                arrays = {f"y{n}": y for n, y in enumerate(outputs(plain, x))}
                x = x["x"] if isinstance(x, dict) else x
                np.savez(f"{folder}/{name}.npz", x=x, **arrays)
                names.append(name)
        done = self.run_in_new_process(program, folder, *names)
        self.assertEqual(done.split(), names)

    def test_pruned_models_train(self):
        model, _ = model_and_answer(architectures.images)
        plain = prune(model, structured=True)
        plain.compile("sgd", "mse")
        x = inputs_for(plain)
        plain.fit(x, np.ones((len(x), 2)), verbose=0)


@pytest.mark.parametrize(
    "threshold", [float("nan"), float("inf"), "3", True, None]
)
def test_threshold_must_be_a_finite_number(threshold):
    with pytest.raises(BayesdropError, match="`threshold`"):
        prune(_noisy_row(), threshold)


def test_structured_must_be_a_bool():
    with pytest.raises(BayesdropError, match="`structured`"):
        prune(_noisy_row(), structured="yes")


def test_a_threshold_that_empties_a_layer_is_refused():
    model = _noisy_row(NoisyDense(2, name="other"))
    model.layers[1].log_alphas.assign(np.array([[1, 2.5], [4, 5], [3, 6.0]]))
    prune(model, 1.0)
    with pytest.raises(BayesdropError) as info:
        prune(model, 0.5)
    message = str(info.value)
    assert "No weight of layer `other` would be kept" in message
    assert "threshold of at least 1" in message
    assert "Received: threshold=0.5, log alpha from 1 to 6" in message


def test_weights_that_are_no_numbers_are_refused():
    model = _noisy_row()
    model.layers[0].log_alphas.assign(np.full((4, 3), np.nan))
    with pytest.raises(BayesdropError, match="12 log alpha that are NaN and 0 means"):
        prune(model)


@pytest.mark.parametrize("structured", [False, True])
def test_nothing_to_prune(structured):
    model = keras.Sequential([keras.Input((2,)), layers.Dense(2, name="d")])
    model.layers[0].kernel.assign([[1, 2], [3, 4]])
    with pytest.raises(
        BayesdropError, match=r"has nothing to prune.*Received: 1"
    ):
        prune(model, structured=structured)


def test_models_that_cannot_be_taken_apart():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.noisy = NoisyDense(2)

        def call(self, inputs):
            return self.noisy(inputs)

    model = Own()
    with pytest.raises(UnbuiltModelError):
        prune(model)
    model(np.ones((1, 3)))
    with pytest.raises(PlanError, match="its `call` is its own code"):
        prune(model)
    with pytest.raises(BayesdropError, match="Expected a `keras"):
        prune("model")


def test_noise_inside_a_layer_of_another_kind_is_refused():
    class Around(keras.layers.Wrapper):
        def call(self, inputs):
            return self.layer(inputs)

    model = _noisy_row(Around(NoisyDense(2, name="deep"), name="around"))
    with pytest.raises(
        BayesdropError, match=r"`around` has no plain form.*`deep`"
    ):
        prune(model)


def test_layers_that_cannot_be_copied_are_named():
    class Closed(keras.layers.Layer):
        def __init__(self, function):
            super().__init__(name="closed")
            self.function = function

        def call(self, inputs):
            return self.function(inputs)

    model = _noisy_row(Closed(lambda x: x))
    with pytest.raises(BayesdropError, match="`closed` cannot be copied"):
        prune(model)


def test_kit_models_are_noisy():
    """A copy of a noisy model would not pass for its answer."""
    model = architectures.sequential(Kit(noisy=True))
    answer = architectures.sequential(Kit(noisy=False))
    x = inputs_for(answer)
    assert np.any(outputs(model, x)[0] != outputs(answer, x)[0])
