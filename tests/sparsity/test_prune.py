# SPDX-License-Identifier: Apache-2.0
"""Pruned models: weights, names, structure, files, and refusals."""

import json

import keras
import numpy as np
import pytest

import keras_bayesdrop
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.errors import UnbuiltModelError
from keras_bayesdrop.sparsity import prune
from tests.helpers import TestCase
from tests.sparsity import architectures
from tests.sparsity.fakes import Kit
from tests.sparsity.fakes import LearnedNoise
from tests.sparsity.fakes import NoisyDense
from tests.sparsity.fakes import assert_same
from tests.sparsity.fakes import inputs_for
from tests.sparsity.fakes import model_and_answer
from tests.sparsity.fakes import noisy_sequential
from tests.sparsity.fakes import outputs

layers = keras.layers


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
    model = noisy_sequential()
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
        values = plain({"x": np.ones((2, 5))})
        assert set(values) == {"mean", "spread", "trunk"}
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


def test_plain_models_with_zeros_are_pruned_too():
    model, answer = model_and_answer(architectures.images)
    once = prune(model)
    small = prune(once, structured=True)
    assert small.count_params() < once.count_params()
    assert_same(small, answer)


def test_a_view_is_pruned_as_its_source():
    model, answer = model_and_answer(architectures.sequential)
    assert_same(prune(keras_bayesdrop.deterministic(model)), answer)


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


def test_structured_must_be_a_bool():
    with pytest.raises(BayesdropError, match="`structured`"):
        prune(noisy_sequential(), structured="yes")


def test_a_threshold_that_empties_a_layer_is_refused():
    model = noisy_sequential(NoisyDense(2, name="other"))
    model.layers[1].log_alphas.assign(np.array([[1, 2.5], [4, 5], [3, 6.0]]))
    prune(model, 1.0)
    with pytest.raises(BayesdropError) as info:
        prune(model, 0.5)
    message = str(info.value)
    assert "No weight of layer `other` would be kept" in message
    assert "threshold of at least 1" in message
    assert "Received: threshold=0.5, log alpha from 1 to 6" in message


def test_weights_that_are_no_numbers_are_refused():
    model = noisy_sequential()
    model.layers[0].log_alphas.assign(np.full((4, 3), np.nan))
    with pytest.raises(
        BayesdropError, match="12 log alpha that are NaN and 0 means"
    ):
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

    model = noisy_sequential(Around(NoisyDense(2, name="deep"), name="around"))
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

    model = noisy_sequential(Closed(lambda x: x))
    with pytest.raises(BayesdropError, match="`closed` cannot be copied"):
        prune(model)


def test_kit_models_are_noisy():
    """A copy of a noisy model differs from the expected result."""
    model = architectures.sequential(Kit(noisy=True))
    answer = architectures.sequential(Kit(noisy=False))
    x = inputs_for(answer)
    assert np.any(outputs(model, x)[0] != outputs(answer, x)[0])
