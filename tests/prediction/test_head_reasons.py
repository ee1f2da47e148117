# SPDX-License-Identifier: Apache-2.0
"""The rule behind `head="auto"`, losses of several outputs, the witness."""

import dataclasses
import operator
import warnings

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.prediction.detection import resolve_heads
from tests.prediction import head_models
from tests.prediction.head_cases import CLASS_LOGITS
from tests.prediction.head_cases import CLASSES
from tests.prediction.head_cases import LABELS
from tests.prediction.head_cases import REGRESSION
from tests.prediction.head_models import dense
from tests.prediction.head_models import sequence
from tests.prediction.small_model import predict

layers = keras.layers
LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def predicted(model, num_samples=4, **kwargs):
    x = head_models.inputs_of(model)
    return predict(model, x, num_samples, engine="reference", **kwargs)


def heads_of(model, head="auto", count=1, pack=operator.itemgetter(0)):
    decisions = resolve_heads(model, count, head, pack)
    return [decision.require() for decision in decisions]


def test_learned_noise_of_the_loss():
    loss = kbd.losses.HeteroscedasticGaussianNLL(log_variance_limit=7.0)
    model = sequence(dense(2, None), loss=loss)
    learned = kbd.Heteroscedastic(log_variance_limit=7.0)
    assert heads_of(model) == [learned]
    assert heads_of(model, "heteroscedastic") == [learned]
    # An object says all there is to say.
    assert heads_of(model, kbd.Heteroscedastic()) == [kbd.Heteroscedastic()]
    model.compile("sgd", "mse")
    assert heads_of(model, "heteroscedastic") == [kbd.Heteroscedastic()]


@pytest.mark.parametrize(
    ("loss", "head"),
    [
        (head_models.SPARSE, CLASSES),
        (keras.losses.SparseCategoricalCrossentropy(), CLASSES),
        (LOGITS, CLASSES),
        (keras.losses.BinaryCrossentropy(), CLASSES),
        ([keras.losses.CategoricalCrossentropy()], CLASSES),
    ],
)
def test_head_of_a_loaded_model(tmp_path, loss, head):
    model = sequence(head_models.concrete(dense()), loss=loss)
    path = tmp_path / "model.keras"
    model.save(path)
    assert heads_of(keras.saving.load_model(path)) == [head]


@pytest.mark.parametrize(
    ("loss", "head"),
    [
        (LOGITS, CLASS_LOGITS),
        ("mse", REGRESSION),
        (kbd.losses.GaussianNLL(4.0), kbd.Regression(noise_precision=4.0)),
        (kbd.losses.HeteroscedasticGaussianNLL(9.0), kbd.Heteroscedastic()),
    ],
)
def test_loss_of_a_loaded_model(tmp_path, loss, head):
    model = head_models.own(None, 2, loss=loss)
    path = tmp_path / "model.keras"
    model.save(path)
    if head.task == "heteroscedastic":
        head = dataclasses.replace(head, log_variance_limit=9.0)
    assert heads_of(keras.saving.load_model(path)) == [head]


def two_outputs(structure=list):
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5)(inputs)
    outputs = {
        "z": dense(3, None, name="z")(x),
        "a": dense(3, None, name="a")(x),
    }
    if structure is dict:
        return keras.Model(inputs, outputs)
    return keras.Model(inputs, list(outputs.values()))


@pytest.mark.parametrize("structure", [list, dict])
@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        # Keras pairs lists with dicts by the order of their keys.
        ([LOGITS, "mse"], {list: "z", dict: "a"}),
        ((LOGITS, "mse"), {list: "z", dict: "a"}),
        ({"z": LOGITS, "a": "mse"}, {list: "z", dict: "z"}),
        ({"a": LOGITS, "z": "mse"}, {list: "a", dict: "a"}),
    ],
)
def test_loss_per_output(structure, loss, expected):
    model = two_outputs(structure)
    model.compile("sgd", loss)
    x = head_models.inputs_of(model) if structure is list else np.ones((3, 4))
    p = predict(model, x.astype("float32"), 4, engine="reference")
    p = dict(zip("za", p, strict=True)) if structure is list else p
    classes = [name for name, part in p.items() if part.task != "regression"]
    assert classes == [expected[structure]]
    # The trainer of Keras agrees: labels of classes fit that output alone.
    labels, numbers = np.zeros((3, 1), int), np.zeros((3, 3))
    targets = {
        name: labels if name == expected[structure] else numbers
        for name in "za"
    }
    y = targets if structure is dict else [targets["z"], targets["a"]]
    model.fit(x[:3], y, verbose=0)


def test_lone_loss_is_that_of_every_output():
    model = two_outputs()
    model.compile("sgd", LOGITS)
    assert [p.task for p in predicted(model)] == ["classification"] * 2


def test_losses_that_disagree_say_nothing():
    model = sequence(dense(2, None), loss=["mse", LOGITS])
    assert heads_of(model) == [REGRESSION]
    model = sequence(dense(2, None), loss=[head_models.own_loss, LOGITS])
    assert heads_of(model) == [CLASS_LOGITS]


def test_unknown_loss_of_logits():
    class OwnLoss(keras.losses.Loss):
        from_logits = True

    model = sequence(dense(2, None), loss=OwnLoss())
    with pytest.raises(BayesdropError, match=r"of which kind.*OwnLoss"):
        heads_of(model)


def test_shared_softmax():
    """A layer that is called twice: the last call counts."""
    shared = dense(3, None)
    inputs = keras.Input((3,))
    x = layers.Dropout(0.5)(inputs)
    first = layers.Softmax()(shared(x))
    identity = layers.Identity()
    identity(x)
    model = keras.Model(inputs, [identity(first), shared(x)])
    assert [p.task for p in predicted(model)] == [
        "classification",
        "regression",
    ]


def test_noise_behind_a_softmax_warns():
    model = sequence(dense(), layers.Dropout(0.1, name="late"))
    with pytest.warns(BayesdropWarning, match="noise of `late` comes after"):
        p = predict(
            model, head_models.inputs_of(model), 200, engine="reference"
        )
    assert p.task == "classification"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = predicted(model, layers="dropout.*")
        assert p.task == "classification"
        np.testing.assert_allclose(p.mean.sum(axis=-1), 1.0, atol=1e-6)
        model = sequence(dense(), layers.Dropout(0.0, name="late"))
        assert predicted(model).task == "classification"


@pytest.mark.parametrize("wrapped", [False, True])
def test_noise_that_drives_probabilities_out_of_range(wrapped):
    """Samples of a sure class are 0 or 2: some row has a mean above 1."""
    sure = dense(2, kernel_initializer="zeros", bias_initializer=_sure)
    inner = keras.Sequential(
        [keras.Input((4,)), sure, layers.Dropout(0.5, name="late")]
    )
    model = sequence(inner)
    if wrapped:
        model = head_models.steps(layers.TimeDistributed(inner))
    with pytest.raises(BayesdropError, match=r"late` before the softmax.*Rec"):
        predicted(model, 50, masks="independent", draws="independent")
    assert predicted(model, head="regression").task == "regression"


def _sure(shape, dtype=None):
    return keras.ops.convert_to_tensor([9.0, 0.0], dtype)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_witness_allows_for_rounding(dtype):
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5, dtype=dtype)(inputs)
    x = dense(50, None, dtype=dtype)(x)
    last = layers.Lambda(keras.ops.softmax, dtype=dtype)
    model = keras.Model(inputs, last(x))
    with pytest.warns(BayesdropWarning, match="add up to 1"):
        predicted(model)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: 1.01 * keras.ops.softmax(x),
        lambda x: 4.0 * keras.ops.softmax(x) - 1.0,
        lambda x: keras.ops.ones_like(x[:, :1]) * keras.ops.sigmoid(x[:, :1]),
        lambda x: keras.ops.concatenate(
            [x, 1.0 - keras.ops.sum(x, axis=-1, keepdims=True)], axis=-1
        ),
    ],
)
def test_other_numbers_are_no_classes(function):
    """Sums of 1.01, values outside [0, 1], one channel."""
    model = head_models.functional(lambda x: layers.Lambda(function)(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert predicted(model).task == "regression"


def test_only_the_first_batch_is_a_witness():
    """Rows after the first batch may be anything."""
    model = head_models.own()
    x = head_models.inputs_of(model)
    with pytest.warns(BayesdropWarning) as caught:
        predict(model, x, 4, engine="reference", batch_size=2)
    assert len([w for w in caught if "add up to 1" in str(w.message)]) == 1


def test_witness_names_the_output():
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5)(inputs)
    own = layers.Lambda(keras.ops.softmax)
    model = keras.Model(
        inputs, {"z": dense(2, None)(x), "a": own(dense(3, None)(x))}
    )
    with pytest.warns(BayesdropWarning, match="Output `a` is read"):
        predicted(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = predicted(model, head={"z": "auto", "a": "classification"})
    assert p["a"].task == "classification"


def test_error_keeps_the_samples_file(tmp_path):
    """An output that cannot be read replaces nothing."""
    path = tmp_path / "samples.npy"
    path.write_bytes(b"before")
    model = head_models.own(None, loss=head_models.SPARSE)
    with pytest.raises(BayesdropError, match="not the probabilities"):
        predicted(model, return_samples=path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_reasons():
    def reason(model):
        (report,) = kbd.explain(model, engine="reference").heads
        return report.head, report.reason

    concrete = head_models.concrete(dense(name="last"))
    concrete.name = "concrete"
    assert reason(sequence(concrete)) == (
        repr(CLASSES),
        "softmax of `concrete/last`",
    )
    assert reason(sequence(dense(1, "sigmoid", name="last"))) == (
        repr(LABELS),
        "sigmoid of `last`",
    )
    assert reason(sequence(dense(2, None, name="last"), loss="mse")) == (
        repr(REGRESSION),
        "linear of `last`, compiled with mse",
    )
    head, why = reason(
        sequence(dense(2, None, name="last"), loss=head_models.SPARSE)
    )
    assert head == "" and "from_logits=True" in why
    assert "`Own` has its own `call`" in reason(head_models.own())[1]
    unread = sequence(dense(2, None), loss=head_models.SPARSE)
    text = str(kbd.explain(unread, engine="reference"))
    assert "Output `output` cannot be read: The compiled loss takes" in text
    two = two_outputs(dict)
    reports = kbd.explain(two, engine="reference").heads
    assert {each.output for each in reports} == {"a", "z"}
    own = head_models.own()
    own.compile("sgd", {"a": "mse", "z": "mse"})
    assert kbd.explain(own, engine="reference").heads == ()


def test_each_network_of_an_ensemble_is_a_witness():
    """The second network has logits, and its loss does not say so."""
    x = head_models.inputs_of(head_models.own())
    right = head_models.own(loss=head_models.SPARSE)
    wrong = head_models.own(None, loss=head_models.SPARSE)
    p = predict([right, right], x, 4, engine="reference")
    assert p.task == "classification"
    for networks in ([right, wrong], [wrong, right]):
        with pytest.raises(BayesdropError, match="not the probabilities"):
            predict(networks, x, 4, engine="reference")
    with pytest.warns(BayesdropWarning, match="looks like a classification"):
        predict([head_models.own()] * 2, x, 4, engine="reference")


def test_learned_noise_is_read_off_one_output():
    loss = kbd.losses.HeteroscedasticGaussianNLL(log_variance_limit=7.0)
    p = predicted(sequence(dense(6, None), loss=loss))
    assert p.head == kbd.Heteroscedastic(log_variance_limit=7.0)
    assert p.mean.shape == p.noise_variance.shape == (6, 3)


def test_list_of_losses_follows_the_order_of_keras():
    """Keras flattens a dict by its keys, whatever the order of outputs."""
    model = head_models.own(None, loss=[LOGITS, "mse"])
    heads = heads_of(
        model, count=2, pack=lambda each: dict(b=each[0], a=each[1])
    )
    assert heads == [REGRESSION, CLASS_LOGITS]


def test_a_decision_is_kept_until_the_model_is_compiled_anew():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(4),
        ]
    )
    x = np.ones((2, 3), "float32")

    def task():
        method = kbd.Sampling(engine="reference")
        return kbd.predict_with_uncertainty(
            model, x, 4, verbose=0, method=method
        ).task

    assert task() == "regression"
    logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", logits)
    assert task() == "classification"
    model.compile("sgd", "mse")
    assert task() == "regression"
    model.layers[-1].activation = keras.activations.sigmoid
    assert task() == "binary"
