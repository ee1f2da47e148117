# SPDX-License-Identifier: Apache-2.0
"""SavedModels with uncertainty, against `predict_with_uncertainty`."""

import json
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.serving import export_uncertainty
from keras_bayesdrop.serving.quantities import OF_CLASSES
from keras_bayesdrop.serving.quantities import QUANTITIES
from tests import zoo
from tests.helpers import TestCase
from tests.serving.exports import SEED
from tests.serving.exports import T
from tests.serving.exports import classifier
from tests.serving.exports import export
from tests.serving.exports import named_inputs
from tests.serving.exports import predict
from tests.serving.exports import predictions_by_prefix

layers = keras.layers


def _check_member(name, masks, path):
    model, x = zoo.ZOO[name].build()
    zoo.outputs_of(model, x)  # Keras builds some layers at their first call.
    before = zoo.fingerprint(model)
    own_code = name.startswith("subclassed")
    example = x if own_code else None
    if name == "one_feature_without_its_axis":
        x = x[:, np.newaxis]
    signatures = export(
        model,
        path,
        masks=masks,
        outputs=("mean", "variance"),
        quantiles=(0.2, 1.0),
        batch_size=12,
        input_signature=example,
    )
    assert zoo.fingerprint(model) == before
    served = signatures["serving_default"](**named_inputs(model, x, example))
    expected = predict(model, x, masks=masks, quantiles=(0.2, 1.0))
    rtol = zoo.ZOO[name].rtol
    predictions = predictions_by_prefix(model, expected)
    assert len(served) == 3 * len(predictions)
    for prefix, p in predictions.items():
        for quantity in ("mean", "variance"):
            np.testing.assert_allclose(
                served[prefix + quantity],
                getattr(p, quantity),
                rtol=rtol,
                atol=rtol,
            )
        quantiles = np.swapaxes(served[f"{prefix}quantiles"], 0, 1)
        np.testing.assert_allclose(
            quantiles, p.quantile_values, rtol=max(rtol, 1e-6), atol=rtol
        )


# BatchNorm, convolutions, spatial dropout, recurrent dropout, nested models,
# several inputs and outputs, masks, mixed precision, custom `call`.
MEMBERS = {
    "batch_norm_told_to_train": "independent",
    "conv_net": "shared",
    "dict_inputs": "shared",
    "dict_outputs": "independent",
    "half_precision": "independent",
    "lstm_of_any_length": "independent",
    "nested_three_deep": "independent",
    "ours": "shared",
    "subclassed_dict": "independent",
    "token_average": "independent",
}


@pytest.mark.parametrize("name", list(MEMBERS))
def test_numbers_are_those_of_predict(name, tmp_path):
    _check_member(name, MEMBERS[name], tmp_path / "served")


@pytest.mark.slow
@pytest.mark.parametrize("masks", ["shared", "independent"])
@pytest.mark.parametrize("name", list(zoo.ZOO))
def test_any_model(name, masks, tmp_path):
    _check_member(name, masks, tmp_path / "served")


@pytest.mark.parametrize(
    ("activation", "settings"),
    [
        ("softmax", {}),
        ("sigmoid", {}),
        (None, {}),
        (None, {"noise_precision": 4.0}),
        (None, {"head": "classification", "from_logits": True}),
    ],
)
def test_every_quantity(activation, settings, tmp_path):
    model, x = classifier(activation), 3 * zoo.numbers(4)
    p = predict(model, x, **settings)
    wanted = [
        name
        for name in QUANTITIES
        if p.task != "regression" or name not in OF_CLASSES
    ]
    signatures = export(model, tmp_path / "m", outputs=wanted, **settings)
    served = signatures["serving_default"](features=tf.constant(x))
    assert set(served) == set(wanted)
    for name in wanted:
        attribute = "predictive_entropy" if name == "entropy" else name
        expected = getattr(p, attribute)
        assert served[name].shape == expected.shape
        assert served[name].dtype == expected.dtype
        np.testing.assert_allclose(
            served[name], expected, rtol=2e-5, atol=2e-7, err_msg=name
        )


@pytest.mark.parametrize("draws", ["balanced", "independent"])
@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_masks_are_the_same_bits(masks, draws, tmp_path):
    """Outputs are masks themselves: sums of zeros and twos are exact."""
    inputs = keras.Input((3, 7), name="x")
    model = keras.Model(inputs, layers.Dropout(0.5)(inputs))
    x = np.ones((6, 3, 7), np.float32)
    levels = tuple(np.linspace(0, 1, 33))
    signatures = export(
        model,
        tmp_path / "m",
        num_samples=33,
        masks=masks,
        draws=draws,
        quantiles=levels,
    )
    with_seed = signatures["with_seed"]
    for seed in (SEED, -3, 2**62 + 1):
        p = predict(
            model, x, num_samples=33, masks=masks, draws=draws, seed=seed
        )
        served = with_seed(
            x=tf.constant(x),
            seed=tf.constant(seed, tf.int64),
            first_row=tf.constant(0, tf.int64),
        )
        counts = np.round(served["mean"] * 33)
        np.testing.assert_array_equal(counts, np.round(p.mean * 33))
        if seed == SEED:
            default = signatures["serving_default"](x=tf.constant(x))
            for name, value in served.items():
                np.testing.assert_array_equal(value, default[name])
    # Of balanced draws 16 or 17 are kept.
    assert len(np.unique(counts)) > (4 if draws == "independent" else 1)


def test_parts_with_their_first_row_are_the_whole(tmp_path):
    model, x = classifier(), zoo.numbers(4, rows=11)
    signatures = export(model, tmp_path / "m", masks="independent")
    seed = tf.constant(SEED, tf.int64)
    whole = predict(model, x, masks="independent")
    for begin, end in ((0, 4), (4, 5), (5, 11)):
        part = signatures["with_seed"](
            features=tf.constant(x[begin:end]),
            seed=seed,
            first_row=tf.constant(begin, tf.int64),
        )
        np.testing.assert_allclose(
            part["mean"], whole.mean[begin:end], rtol=1e-5
        )
        np.testing.assert_allclose(part["std"], whole.std[begin:end], rtol=1e-4)
    # Without it rows count from 0: other masks.
    alone = signatures["serving_default"](features=tf.constant(x[5:]))
    assert np.abs(alone["mean"] - whole.mean[5:]).min() > 1e-4


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_any_number_of_rows_and_any_batch_size(masks, tmp_path):
    model, x = classifier(), zoo.numbers(4, rows=40)
    expected = predict(model, x, masks=masks, num_samples=37)
    for batch_size in (33, None):
        served = export(
            model,
            tmp_path / "m",
            num_samples=37,
            masks=masks,
            batch_size=batch_size,
            overwrite=True,
        )["serving_default"]
        for rows in (1, 9, 40):
            values = served(features=tf.constant(x[:rows]))
            for name in ("mean", "std"):
                np.testing.assert_allclose(
                    values[name],
                    getattr(expected, name)[:rows],
                    rtol=1e-5,
                    atol=1e-6,
                )
    assert served(features=tf.zeros([0, 4]))["mean"].shape == (0, 3)


def test_memory_is_bounded_by_the_batch_size():
    from keras_bayesdrop.serving._program import Network

    program = Network(None, (), 50, True, 100, False)
    sizes = {
        rows: int(program._samples_at_once(tf.constant(rows)))
        for rows in (0, 1, 6, 7, 12, 13, 50, 51, 100, 101, 5000)
    }
    assert sizes == {
        0: 16, 1: 16, 6: 16, 7: 8, 12: 8, 13: 4, 50: 2, 51: 1, 100: 1,
        101: 1, 5000: 1,
    }  # fmt: skip


_ELSEWHERE = """
import importlib.abc, json, sys


class Forbid(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "keras_bayesdrop":
            raise ImportError(f"{name} is not installed here")


sys.meta_path.insert(0, Forbid())
import numpy as np
import tensorflow as tf

folder, x = sys.argv[1], np.array(json.loads(sys.argv[2]), np.float32)
signatures = tf.saved_model.load(folder).signatures
first = signatures["serving_default"](features=tf.constant(x))
other = signatures["with_seed"](
    features=tf.constant(x), seed=tf.constant(77, tf.int64),
    first_row=tf.constant(2, tf.int64))
assert "keras_bayesdrop" not in sys.modules
print(json.dumps([{k: v.numpy().tolist() for k, v in each.items()}
                  for each in (first, other)]))
"""


class ElsewhereTest(TestCase):
    def test_process_that_has_never_seen_the_package(self):
        folder = os.path.join(self.get_temp_dir(), "served", "1")
        model, x = classifier(), zoo.numbers(4)
        outputs = ("mean", "std", "entropy", "mutual_information")
        export_uncertainty(
            model,
            folder,
            T,
            seed=SEED,
            outputs=outputs,
            method=kbd.Sampling(masks="independent"),
        )
        printed = self.run_in_new_process(
            _ELSEWHERE, folder, json.dumps(x.tolist())
        )
        first, other = json.loads(printed.splitlines()[-1])
        p = predict(model, x, masks="independent")
        padded = np.concatenate([x[:2], x])
        q = predict(model, padded, masks="independent", seed=77)[2:]
        for values, wanted in ((first, p), (other, q)):
            self.assertEqual(set(values), set(outputs))
            for name in outputs:
                attribute = name.replace("entropy", "predictive_entropy")
                self.assertAllClose(
                    values[name],
                    getattr(wanted, attribute),
                    rtol=1e-4,
                    atol=1e-6,
                )

    def test_layer_of_keras(self):
        folder = os.path.join(self.get_temp_dir(), "served")
        model, x = classifier(), zoo.numbers(4)
        export_uncertainty(model, folder, T, seed=SEED)
        layer = layers.TFSMLayer(folder, call_endpoint="serving_default")
        p = predict(model, x)
        served = layer(tf.constant(x))
        self.assertAllClose(served["mean"], p.mean, rtol=1e-5)
        self.assertAllClose(served["std"], p.std, rtol=1e-5)
        # As a part of another model, through its own save and load.
        inputs = keras.Input((4,))
        outer = keras.Model(inputs, layer(inputs)["std"] * 2.0)
        path = os.path.join(self.get_temp_dir(), "outer.keras")
        outer.save(path)
        again = keras.models.load_model(path, safe_mode=False)
        self.assertAllClose(again.predict(x, verbose=0), 2 * p.std, rtol=1e-5)


def test_words_go_in_where_the_model_takes_words(tmp_path):
    words = keras.Input((3,), dtype="string", name="words")
    x = layers.StringLookup(vocabulary=["yes", "no", "maybe"])(words)
    x = layers.Flatten()(layers.Embedding(5, 4)(x))
    model = keras.Model(words, layers.Dense(2)(layers.Dropout(0.5)(x)))
    data = tf.constant([["yes", "no", "what"], ["maybe", "yes", "yes"]])
    served = export(model, tmp_path / "m")["serving_default"](words=data)
    p = predict(model, tf.data.Dataset.from_tensors(data))
    np.testing.assert_allclose(served["mean"], p.mean, rtol=1e-5)


def test_weights_are_those_of_the_moment(tmp_path):
    model, x = classifier(), zoo.numbers(4)
    p = predict(model, x)
    served = export(model, tmp_path / "m")["serving_default"]
    model.set_weights([0 * w for w in model.get_weights()])
    np.testing.assert_allclose(
        served(features=tf.constant(x))["mean"], p.mean, rtol=1e-5
    )


def test_learned_rates_go_along(tmp_path):
    inputs = keras.Input((4,), name="x")
    drop = kbd.ConcreteDropout(layers.Dense(2), num_train_examples=10)
    model = keras.Model(inputs, drop(inputs))
    x = zoo.numbers(4)
    served = export(model, tmp_path / "m")["serving_default"]
    np.testing.assert_allclose(
        served(x=tf.constant(x))["std"], predict(model, x).std, rtol=1e-4
    )


def test_outputs_have_what_is_defined_for_them(tmp_path):
    inputs = keras.Input((4,), name="x")
    x = layers.Dropout(0.5)(inputs)
    price = layers.Dense(1, name="price")(x)
    kind = layers.Dense(3, "softmax", name="kind")(x)
    model = keras.Model(inputs, [price, kind])
    served = export(model, tmp_path / "m", outputs=("mean", "entropy"))
    values = served["serving_default"](x=tf.constant(zoo.numbers(4)))
    assert set(values) == {"price_mean", "kind_mean", "kind_entropy"}
