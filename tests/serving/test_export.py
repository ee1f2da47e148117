# SPDX-License-Identifier: Apache-2.0
"""SavedModels with uncertainty, against `predict_with_uncertainty`."""

import json
import os
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.errors import WriteError
from keras_bayesdrop.serving import export_uncertainty
from keras_bayesdrop.serving._signature import inputs_of
from keras_bayesdrop.serving.quantities import OF_CLASSES
from keras_bayesdrop.serving.quantities import QUANTITIES
from tests import zoo
from tests.helpers import TestCase
from tests.helpers import largest_file

layers = keras.layers

SEED = 9
T = 20


def _predict(model, x, **kwargs):
    settings = {
        "num_samples": T,
        "seed": SEED,
        "verbose": 0,
        "engine": "reference",
        **kwargs,
    }
    return kbd.predict_with_uncertainty(model, x, **settings)


def _export(model, path, **kwargs):
    settings = {"num_samples": T, "seed": SEED, **kwargs}
    export_uncertainty(model, path, **settings)
    return tf.saved_model.load(str(path)).signatures


def _named(model, x, input_signature=None):
    """Inputs by the names that a signature has for them."""
    if isinstance(x, dict):
        return {name: tf.constant(value) for name, value in x.items()}
    names = inputs_of(model, input_signature).specs
    leaves = keras.tree.flatten(x)
    return {
        name: tf.constant(leaf)
        for name, leaf in zip(names, leaves, strict=True)
    }


def _classifier(activation="softmax", outputs=3):
    return keras.Sequential(
        [
            keras.Input((4,), name="features"),
            layers.Dense(8, activation="tanh"),
            layers.Dropout(0.5),
            layers.Dense(outputs, activation=activation),
        ]
    )


def _outputs_by_name(model, p):
    """Predictions by what their names begin with."""
    if isinstance(p, kbd.Predictive):
        return {"": p}
    if isinstance(p, dict):
        return {f"{name}_": each for name, each in p.items()}
    names = [f"{name}_" for name in model.output_names]
    if len(set(names)) < len(names):
        names = [f"output_{number}_" for number in range(len(p))]
    return dict(zip(names, p, strict=True))


def _check_member(name, masks, path):
    model, x = zoo.ZOO[name].build()
    zoo.outputs_of(model, x)  # Keras prepares some layers at their call.
    before = zoo.fingerprint(model)
    own_code = name.startswith("subclassed")
    given = x if own_code else None
    if name == "one_feature_without_its_axis":
        x = x[:, np.newaxis]
    signatures = _export(
        model,
        path,
        masks=masks,
        outputs=("mean", "variance"),
        quantiles=(0.2, 1.0),
        batch_size=12,
        input_signature=given,
    )
    assert zoo.fingerprint(model) == before
    served = signatures["serving_default"](**_named(model, x, given))
    expected = _predict(model, x, masks=masks, quantiles=(0.2, 1.0))
    rtol = zoo.ZOO[name].rtol
    found = _outputs_by_name(model, expected)
    assert len(served) == 3 * len(found)
    for prefix, p in found.items():
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
# several inputs and outputs, masks, mixed precision, code of one's own.
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
        (None, {"task": "classification", "from_logits": True}),
    ],
)
def test_every_quantity(activation, settings, tmp_path):
    model, x = _classifier(activation), 3 * zoo.numbers(4)
    p = _predict(model, x, **settings)
    wanted = [
        name
        for name in QUANTITIES
        if p.task != "regression" or name not in OF_CLASSES
    ]
    signatures = _export(model, tmp_path / "m", outputs=wanted, **settings)
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


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_masks_are_the_same_bits(masks, tmp_path):
    """Outputs are masks themselves: sums of zeros and twos are exact."""
    inputs = keras.Input((3, 7), name="x")
    model = keras.Model(inputs, layers.Dropout(0.5)(inputs))
    x = np.ones((6, 3, 7), np.float32)
    levels = tuple(np.linspace(0, 1, 33))
    signatures = _export(
        model, tmp_path / "m", num_samples=33, masks=masks, quantiles=levels
    )
    with_seed = signatures["with_seed"]
    for seed in (SEED, -3, 2**62 + 1):
        p = _predict(model, x, num_samples=33, masks=masks, seed=seed)
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
    assert len(np.unique(counts)) > 4


def test_parts_with_their_first_row_are_the_whole(tmp_path):
    model, x = _classifier(), zoo.numbers(4, rows=11)
    signatures = _export(model, tmp_path / "m", masks="independent")
    seed = tf.constant(SEED, tf.int64)
    whole = _predict(model, x, masks="independent")
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
    model, x = _classifier(), zoo.numbers(4, rows=40)
    expected = _predict(model, x, masks=masks, num_samples=37)
    for batch_size in (33, None):
        served = _export(
            model,
            tmp_path / "m",
            num_samples=37,
            masks=masks,
            batch_size=batch_size,
            overwrite=True,
        )["serving_default"]
        for rows in (1, 9, 40):
            found = served(features=tf.constant(x[:rows]))
            for name in ("mean", "std"):
                np.testing.assert_allclose(
                    found[name],
                    getattr(expected, name)[:rows],
                    rtol=1e-5,
                    atol=1e-6,
                )
    assert served(features=tf.zeros([0, 4]))["mean"].shape == (0, 3)


def test_memory_is_bounded_by_the_batch_size():
    from keras_bayesdrop.serving._program import Program

    program = Program(None, (), (), 50, True, 100, (), (), None)
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
made = signatures["serving_default"](features=tf.constant(x))
other = signatures["with_seed"](
    features=tf.constant(x), seed=tf.constant(77, tf.int64),
    first_row=tf.constant(2, tf.int64))
assert "keras_bayesdrop" not in sys.modules
print(json.dumps([{k: v.numpy().tolist() for k, v in each.items()}
                  for each in (made, other)]))
"""


class ElsewhereTest(TestCase):
    def test_process_that_has_never_seen_the_package(self):
        folder = os.path.join(self.get_temp_dir(), "served", "1")
        model, x = _classifier(), zoo.numbers(4)
        outputs = ("mean", "std", "entropy", "mutual_information")
        export_uncertainty(
            model, folder, T, seed=SEED, outputs=outputs, masks="independent"
        )
        printed = self.run_in_new_process(
            _ELSEWHERE, folder, json.dumps(x.tolist())
        )
        made, other = json.loads(printed.splitlines()[-1])
        p = _predict(model, x, masks="independent")
        padded = np.concatenate([x[:2], x])
        q = _predict(model, padded, masks="independent", seed=77)[2:]
        for found, wanted in ((made, p), (other, q)):
            self.assertEqual(set(found), set(outputs))
            for name in outputs:
                attribute = name.replace("entropy", "predictive_entropy")
                self.assertAllClose(
                    found[name],
                    getattr(wanted, attribute),
                    rtol=1e-4,
                    atol=1e-6,
                )

    def test_layer_of_keras(self):
        folder = os.path.join(self.get_temp_dir(), "served")
        model, x = _classifier(), zoo.numbers(4)
        export_uncertainty(model, folder, T, seed=SEED)
        layer = layers.TFSMLayer(folder, call_endpoint="serving_default")
        p = _predict(model, x)
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
    served = _export(model, tmp_path / "m")["serving_default"](words=data)
    p = _predict(model, tf.data.Dataset.from_tensors(data))
    np.testing.assert_allclose(served["mean"], p.mean, rtol=1e-5)


def test_weights_are_those_of_the_moment(tmp_path):
    model, x = _classifier(), zoo.numbers(4)
    p = _predict(model, x)
    served = _export(model, tmp_path / "m")["serving_default"]
    model.set_weights([0 * w for w in model.get_weights()])
    np.testing.assert_allclose(
        served(features=tf.constant(x))["mean"], p.mean, rtol=1e-5
    )


def test_learned_rates_go_along(tmp_path):
    inputs = keras.Input((4,), name="x")
    drop = kbd.ConcreteDropout(layers.Dense(2), num_train_examples=10)
    model = keras.Model(inputs, drop(inputs))
    x = zoo.numbers(4)
    served = _export(model, tmp_path / "m")["serving_default"]
    np.testing.assert_allclose(
        served(x=tf.constant(x))["std"], _predict(model, x).std, rtol=1e-4
    )


def test_outputs_have_what_is_defined_for_them(tmp_path):
    inputs = keras.Input((4,), name="x")
    x = layers.Dropout(0.5)(inputs)
    price = layers.Dense(1, name="price")(x)
    kind = layers.Dense(3, "softmax", name="kind")(x)
    model = keras.Model(inputs, [price, kind])
    served = _export(model, tmp_path / "m", outputs=("mean", "entropy"))
    found = served["serving_default"](x=tf.constant(zoo.numbers(4)))
    assert set(found) == {"price_mean", "kind_mean", "kind_entropy"}


def test_folder_tells_how_it_was_made(tmp_path):
    _export(_classifier(), tmp_path / "m", quantiles=(0.1,))
    text = (tmp_path / "m/assets.extra/keras_bayesdrop.json").read_text()
    about = json.loads(text)
    assert about["num_samples"] == T
    assert about["seed"] == SEED
    assert about["outputs"] == ["mean", "quantiles", "std"]
    assert about["tasks"] == ["classification"]


def test_link_to_nothing_is_refused(tmp_path):
    os.symlink("nowhere", tmp_path / "m")
    for overwrite in (False, True):
        _refused(
            _classifier(),
            tmp_path / "m",
            "a symbolic link to nothing",
            "Received: a link to `nowhere`",
            overwrite=overwrite,
        )
    assert os.listdir(tmp_path) == ["m"]


def test_links_are_followed(tmp_path):
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "m")
    for outputs in (("mean",), ("variance",)):
        signatures = _export(
            _classifier(), tmp_path / "m", outputs=outputs, overwrite=True
        )
        assert os.readlink(tmp_path / "m") == "real"
        names = signatures["serving_default"].structured_outputs
        assert tuple(names) == outputs


def test_full_disk_is_said_and_the_old_model_stays(tmp_path):
    model, path = _classifier(), tmp_path / "m"
    export_uncertainty(model, path, 2)
    before = {
        file: file.read_bytes() for file in path.rglob("*") if file.is_file()
    }
    with largest_file(2000), pytest.raises(WriteError) as caught:
        export_uncertainty(model, path, 2, overwrite=True)
    text = str(caught.value)
    assert text.startswith(f"`{path}` was not written; an older export")
    assert "Expected room for a SavedModel on the disk. Received: " in text
    assert os.listdir(tmp_path) == ["m"]
    assert before == {
        file: file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "ends", "outputs"),
    [
        ("in a write", signal.SIGXFSZ, ["mean"]),
        ("before the rename", signal.SIGKILL, ["mean"]),
        ("between two renames", signal.SIGKILL, None),
        ("after the rename", signal.SIGKILL, ["std"]),
    ],
)
def test_killed_export_leaves_the_old_or_the_new(
    tmp_path, monkeypatch, moment, ends, outputs
):
    path = tmp_path / "m"
    model = _classifier()
    export_uncertainty(model, path, 2, outputs=("mean",))
    model.save(tmp_path / "model.keras")
    program = """
import os, resource, signal, sys
import keras
import keras_bayesdrop
from keras_bayesdrop._core import files

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

model = keras.saving.load_model(sys.argv[1])
if sys.argv[3] == "in a write":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
elif sys.argv[3] == "before the rename":
    os.rename = die
elif sys.argv[3] == "between two renames":
    files._exchange = lambda new, target: (os.rename(target, str(
        new.parent / "old.0")), die())
else:
    exchange = files._exchange
    files._exchange = lambda *args: (exchange(*args), die())
keras_bayesdrop.export_uncertainty(
    model, sys.argv[2], 2, outputs=("std",), overwrite=True)
"""
    saved = str(tmp_path / "model.keras")
    done = subprocess.run(
        [sys.executable, "-c", program, saved, str(path), moment],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == -ends, done.stderr
    assert len(os.listdir(tmp_path)) == 2 + (outputs is not None)

    def names():
        about = json.loads(
            (path / "assets.extra/keras_bayesdrop.json").read_text()
        )
        tf.saved_model.load(str(path))
        return about["outputs"]

    if outputs is None:
        assert not path.exists()
        # Nothing is overwritten unasked, not even what was put back; that is
        # said before the work.
        with monkeypatch.context() as patch:
            patch.setattr(tf.saved_model, "save", None)
            _refused(model, path, "exists", "overwrite=True")
        assert names() == ["mean"]
    else:
        assert names() == outputs
    export_uncertainty(model, path, 2, outputs=("variance",), overwrite=True)
    assert names() == ["variance"]
    assert sorted(os.listdir(tmp_path)) == ["m", "model.keras"]


def _refused(model, path, *words, kind=kbd.BayesdropError, **kwargs):
    with pytest.raises(kind) as caught:
        export_uncertainty(model, path, **kwargs)
    text = str(caught.value)
    assert 0 < text.find("Expected") < text.find("Received"), text
    for word in words:
        assert word in text, text


def test_nothing_is_overwritten_unasked(tmp_path):
    model = _classifier()
    path = tmp_path / "m"
    export_uncertainty(model, path, 2)
    stamp = (path / "saved_model.pb").stat().st_mtime_ns
    _refused(model, path, "exists", "overwrite=True")
    assert (path / "saved_model.pb").stat().st_mtime_ns == stamp
    export_uncertainty(model, path, 2, outputs=("variance",), overwrite=True)
    served = tf.saved_model.load(str(path)).signatures["serving_default"]
    assert set(served.structured_outputs) == {"variance"}
    # Nothing is left beside it.
    assert os.listdir(tmp_path) == ["m"]


def test_other_folders_and_files_are_never_replaced(tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter.txt").write_text("all of it")
    file = tmp_path / "file"
    file.write_text("text")
    for path in (folder, file):
        _refused(_classifier(), path, "no SavedModel", overwrite=True)
    assert (folder / "chapter.txt").read_text() == "all of it"
    assert file.read_text() == "text"


def test_failed_export_leaves_what_was_there(tmp_path, monkeypatch):
    model, path = _classifier(), tmp_path / "m"
    export_uncertainty(model, path, 2)

    def full(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(OSError, match="No space"):
        export_uncertainty(model, path, 2, overwrite=True)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["m"]
    assert (
        "mean"
        in tf.saved_model.load(str(path))
        .signatures["serving_default"]
        .structured_outputs
    )


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("outputs", ("mean", "kurtosis")),
        ("outputs", "mean"),
        ("outputs", ()),
        ("outputs", None),
        ("num_samples", 1),
        ("num_samples", 2.5),
        ("masks", "both"),
        ("seed", None),
        ("seed", 0.5),
        ("task", "ranking"),
        ("quantiles", (1.5,)),
        ("noise_precision", -1.0),
        ("batch_size", 0),
        ("layers", "nothing"),
        ("path", 3),
        ("input_signature", ["no shape"]),
    ],
)
def test_bad_arguments(argument, value, tmp_path):
    arguments = {"path": tmp_path / "m", argument: value}
    _refused(_classifier(), arguments.pop("path"), argument, **arguments)
    assert os.listdir(tmp_path) == []


def test_models_that_cannot_be_exported(tmp_path):
    path = tmp_path / "m"
    plain = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
    _refused(plain, path, "nothing to sample", kind=NothingToSampleError)
    _refused("model", path, "`model`")
    own, _ = zoo.ZOO["subclassed"].build()
    _refused(own, path, "input_signature", "Subclassed")
    stateful = keras.Sequential(
        [
            keras.Input((3, 2), batch_size=5),
            layers.LSTM(2, stateful=True, dropout=0.5),
        ]
    )
    _refused(stateful, path, "stateful", kind=PlanError)
    _refused(_classifier(None), path, "entropy", outputs=("entropy",))
    reserved = keras.Input((4,), name="seed")
    taken = keras.Model(reserved, layers.Dropout(0.5)(reserved))
    _refused(taken, path, "['seed']")
    assert os.listdir(tmp_path) == []


def test_model_that_calls_python_is_refused(tmp_path):
    class Looks(layers.Layer):
        def call(self, x):
            return tf.ensure_shape(
                tf.numpy_function(lambda t: t, [x], tf.float32), x.shape
            )

    model = keras.Sequential(
        [keras.Input((4,)), layers.Dropout(0.5), Looks(), layers.Dense(1)]
    )
    _refused(model, tmp_path / "m", "Python code", "PyFunc")


def test_two_inputs_of_one_name_are_refused(tmp_path):
    specs = [tf.TensorSpec([None, 4], name="a")] * 2
    _refused(_classifier(), tmp_path / "m", "same name", input_signature=specs)
