# SPDX-License-Identifier: Apache-2.0
"""Works on any Keras model, and never changes it: the whole zoo, one by one."""

import dataclasses
import re
import threading
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop.plan import NoiseStep
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction import input_data
from tests import zoo
from tests.helpers import flat

SEED = 3
SAMPLES = 4
# Draws in a comparison of distributions, and how many standard errors apart
# two estimates may be. The zoo makes about 2,500 comparisons, and a normal
# draw is beyond 5 with probability 6e-7: one false alarm in 700 seeds.
MANY = 2000
STANDARD_ERRORS = 5.0
VALUES = 8


@dataclasses.dataclass(frozen=True)
class Visit:
    """A member of the zoo, with what it predicts."""

    member: zoo.Member
    model: Any
    x: Any

    def predict(self, **kwargs: Any) -> list[Any]:
        """Returns the `Predictive` of each output."""
        settings = {
            "num_samples": SAMPLES,
            "seed": SEED,
            "return_samples": True,
            "head": "regression",
            "verbose": 0,
            **kwargs,
        }
        x = settings.pop("x", self.x)
        return keras.tree.flatten(
            kbd.predict_with_uncertainty(self.model, x, **flat(**settings))
        )

    def close(self, actual: Any, desired: Any, slack: float = 10.0) -> None:
        """Asserts that two predictions agree up to rounding."""
        desired = np.asarray(desired, "float64")
        np.testing.assert_allclose(
            np.asarray(actual, "float64"),
            desired,
            rtol=slack * self.member.rtol,
            atol=slack * self.member.rtol * np.max(np.abs(desired)),
        )


def members(wanted):
    """Names of the members that are wanted, the slow ones marked."""
    return [
        pytest.param(name, marks=pytest.mark.slow if member.slow else ())
        for name, member in zoo.ZOO.items()
        if wanted(member)
    ]


@pytest.fixture(scope="module", params=members(lambda member: True))
def visit(request):
    """Visits one member after another; what it compiled is kept meanwhile."""
    member = zoo.ZOO[request.param]
    model, x = member.build()
    return Visit(member, model, x)


def test_number_of_draws(visit):
    plan = build_plan(visit.model, None, input_data.specs_of(visit.x))
    draws = sum(
        int(step.noise.active)
        if isinstance(step, NoiseStep)
        else step.num_sites
        for step in plan.steps
    )
    assert draws == visit.member.draws


def test_deterministic_is_inference(visit):
    view = kbd.deterministic(visit.model)
    ours = view(visit.x)
    keras.tree.assert_same_structure(ours, view(visit.x))
    if visit.member.always_on:
        theirs = view(visit.x)  # Keras has no way to turn these off.
    else:
        theirs = visit.model(visit.x, training=False)
    keras.tree.assert_same_structure(ours, theirs)
    for our, their in zip(
        keras.tree.flatten(ours), keras.tree.flatten(theirs), strict=True
    ):
        assert our.dtype == their.dtype
        visit.close(our, their, slack=1)


def test_stochastic_draws_anew(visit):
    view = kbd.stochastic(visit.model, seed=1)
    first, second = (keras.tree.flatten(view(visit.x)) for _ in range(2))
    assert not np.array_equal(first[0], second[0])
    again = kbd.stochastic(visit.model, seed=1)
    for value, same in zip(
        first, keras.tree.flatten(again(visit.x)), strict=True
    ):
        np.testing.assert_array_equal(value, same)


def test_there_is_uncertainty(visit):
    predicted = visit.predict()[0]
    assert np.all(np.isfinite(predicted.variance))
    # Every row, unless the noise on it was the same four times.
    per_row = predicted.variance.reshape(len(predicted.variance), -1)
    assert np.mean(per_row.max(axis=1) > 0) > 0.5


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_batch_size_does_not_matter(visit, masks):
    whole = visit.predict(masks=masks)
    for batch_size in (1, 3):
        cut = visit.predict(masks=masks, batch_size=batch_size)
        for a, b in zip(whole, cut, strict=True):
            visit.close(b.samples, a.samples)


def test_sample_function_is_the_sample(visit):
    few, predicted = visit.predict(), visit.predict(num_samples=12)
    for a, b in zip(few, predicted, strict=True):
        visit.close(b.samples[:SAMPLES], a.samples)
    for number in (0, 11):
        view = kbd.sample_function(visit.model, SEED, number)
        outputs = keras.tree.flatten(view(visit.x))
        for output, p in zip(outputs, predicted, strict=True):
            visit.close(output, p.samples[number])


def test_nothing_changes(visit):
    model, x = visit.model, visit.x
    outputs = None if visit.member.always_on else zoo.outputs_of(model, x)
    before = zoo.fingerprint(model)
    for view in (
        kbd.stochastic(model),
        kbd.deterministic(model),
        kbd.sample_function(model, SEED, 1),
    ):
        view(x)
    visit.predict()
    visit.predict(masks="independent", seed=None)
    kbd.inspect(model)
    kbd.explain(model)
    after = zoo.fingerprint(model)
    assert after == before
    if outputs is not None:
        assert zoo.outputs_of(model, x) == outputs


def many_draws(visit):
    """Predicts two rows, with masks of their own, many times."""
    two = keras.tree.map_structure(lambda leaf: leaf[:2], visit.x)
    return visit.predict(x=two, num_samples=MANY, masks="independent")


@pytest.mark.parametrize(
    "visit", members(lambda member: member.like_training), indirect=True
)
def test_same_distribution_as_training(visit):
    """Means, variances and covariances are those of Keras' own noise."""
    tiled = keras.tree.map_structure(
        lambda leaf: np.repeat(leaf[1:2], MANY, axis=0), visit.x
    )
    ours = [p.samples[:, 1] for p in many_draws(visit)]
    theirs = keras.tree.flatten(visit.model(tiled, training=True))
    ours, theirs = (
        np.concatenate(
            [np.reshape(np.asarray(v, "float64"), (MANY, -1)) for v in values],
            axis=1,
        )[:, :VALUES]
        for values in (ours, theirs)
    )
    compare_moments(ours, theirs)


@pytest.mark.parametrize(
    "visit", members(lambda member: member.linear), indirect=True
)
def test_mean_is_the_scaled_prediction(visit):
    certain = keras.tree.flatten(visit.model(visit.x, training=False))
    for p, value in zip(many_draws(visit), certain, strict=True):
        # At most 24 values in each of a dozen members.
        assert np.all(p.mc_error > 0)
        z = (p.mean - np.asarray(value)[:2]) / p.mc_error
        assert np.max(np.abs(z)) < STANDARD_ERRORS


def compare_moments(a, b):
    """Asserts that two samples [draws, values] agree in first two moments."""
    means = [np.mean(s, axis=0) for s in (a, b)]
    products = []
    for sample, mean in zip((a, b), means, strict=True):
        centred = sample - mean
        products.append(centred[:, :, None] * centred[:, None, :])
    for pair in ((a, b), products):
        estimates = [np.mean(s, axis=0) for s in pair]
        errors = [np.std(s, axis=0) / np.sqrt(len(s)) for s in pair]
        allowed = STANDARD_ERRORS * np.hypot(*errors)
        # Constants agree up to rounding.
        allowed += 1e-5 * np.abs(estimates[0]) + 1e-6
        gap = np.abs(estimates[0] - estimates[1])
        worst = np.max(gap / allowed)
        assert worst <= 1, f"{STANDARD_ERRORS * worst:.1f} standard errors"


# One by one: what the zoo does not show.


def rnn_with_unit_weights(**kwargs):
    """h[t] = recurrent_mask * h[t - 1] + mask * x[t], unit by unit."""
    layer = keras.layers.SimpleRNN(
        3,
        activation=None,
        use_bias=False,
        kernel_initializer="identity",
        recurrent_initializer="identity",
        return_sequences=True,
        **kwargs,
    )
    return keras.Sequential([keras.Input((4, 3)), layer])


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_one_input_mask_through_time(masks):
    model = rnn_with_unit_weights(dropout=0.5)
    p = kbd.predict_with_uncertainty(
        model,
        np.ones((3, 4, 3), "float32"),
        50,
        seed=0,
        return_samples=True,
        verbose=0,
        method=kbd.Sampling(masks=masks),
    )
    sequences = np.moveaxis(p.samples, 2, -1).reshape(-1, 4)
    kept = sequences[:, 0] > 0
    assert 0 < np.mean(kept) < 1
    np.testing.assert_array_equal(
        sequences, np.where(kept[:, None], [2, 4, 6, 8], 0)
    )


@pytest.mark.parametrize("masks", ["shared", "independent"])
def test_one_recurrent_mask_through_time(masks):
    model = rnn_with_unit_weights(recurrent_dropout=0.5)
    p = kbd.predict_with_uncertainty(
        model,
        np.ones((3, 4, 3), "float32"),
        50,
        seed=0,
        return_samples=True,
        verbose=0,
        method=kbd.Sampling(masks=masks),
    )
    sequences = np.moveaxis(p.samples, 2, -1).reshape(-1, 4)
    kept = sequences[:, 1] > 1
    assert 0 < np.mean(kept) < 1
    np.testing.assert_array_equal(
        sequences, np.where(kept[:, None], [1, 3, 7, 15], 1)
    )


@pytest.mark.parametrize(
    "kind", ["functional", "subclassed_deep", "masked_lstm"]
)
def test_samples_beyond_the_first_block(kind):
    """Counters come in blocks of 16 samples."""
    model, x = zoo.ZOO[kind].build()
    p = kbd.predict_with_uncertainty(
        model, x, 35, seed=SEED, return_samples=True, verbose=0
    )
    for number in (15, 16, 34):
        view = kbd.sample_function(model, SEED, number)
        np.testing.assert_allclose(
            p.samples[number], view(x), rtol=1e-5, atol=1e-6
        )
    flat = p.samples.reshape(35, -1)
    assert len(np.unique(flat, axis=0)) > 25


def test_padding_has_no_influence():
    """The mask of an Embedding reaches the LSTM behind two dropouts."""
    model, x = zoo.ZOO["masked_lstm"].build()
    short = x[:, :2].copy()
    short[short == 0] = 1
    padded = np.concatenate([short, np.zeros_like(short)], axis=1)
    settings = {
        "num_samples": 8,
        "seed": 0,
        "return_samples": True,
        "verbose": 0,
        "layers": lambda layer: isinstance(layer, keras.layers.LSTM),
    }
    ours = kbd.predict_with_uncertainty(
        model, padded, **flat(**settings)
    ).samples
    # The same network for sequences of two steps, without masks.
    unmasked = keras.Sequential(
        [
            keras.Input((2,), dtype="int32"),
            keras.layers.Embedding(9, 3),
            keras.layers.Dropout(0.5),
            keras.layers.LSTM(3, dropout=0.3),
            keras.layers.Dense(2),
        ]
    )
    unmasked.set_weights(model.get_weights())
    theirs = kbd.predict_with_uncertainty(
        unmasked, short, **flat(**settings)
    ).samples
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert np.std(ours, axis=0).max() > 0


def settings(**kwargs):
    return {"num_samples": 8, "seed": 1, "verbose": 0, **kwargs}


def fitted(look):
    """Returns all variables after two fits, with `look` in between."""
    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="relu", activity_regularizer="l2"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.3, seed=11),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    x = zoo.numbers(4, rows=32)
    y = x[:, :1] ** 2
    model.fit(x, y, epochs=2, batch_size=8, verbose=0)
    look(model, x)
    model.fit(x, y, epochs=2, batch_size=8, verbose=0)
    return [np.array(v) for v in (*model.variables, *model.optimizer.variables)]


def test_fit_does_not_notice():
    def look(model, x):
        kbd.predict_with_uncertainty(model, x, **flat(**settings()))
        kbd.stochastic(model, seed=1)(x)
        kbd.deterministic(model).predict(x, verbose=0)
        kbd.sample_function(model, 0)(x)
        kbd.inspect(model)
        kbd.explain(model)

    for a, b in zip(fitted(lambda *_: None), fitted(look), strict=True):
        np.testing.assert_array_equal(a, b)


class Fragile(keras.layers.Layer):
    """Fails on demand, in the middle of a call."""

    broken = False

    def call(self, x):
        if self.broken:
            raise RuntimeError("out of order")
        return x


class FragileModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.rnn = keras.layers.LSTM(3, dropout=0.5, return_sequences=True)
        self.norm = keras.layers.BatchNormalization()
        self.drop = keras.layers.Dropout(0.5)
        self.attention = keras.layers.Attention(dropout=0.5)
        self.fragile = Fragile()

    def call(self, x):
        x = self.norm(self.drop(self.rnn(x)))
        return self.fragile(self.attention([x, x]))


@pytest.mark.parametrize("subclassed", [True, False])
@pytest.mark.parametrize(
    "look",
    [
        lambda model, x: kbd.stochastic(model)(x),
        lambda model, x: kbd.deterministic(model)(x),
        lambda model, x: kbd.sample_function(model, 0)(x),
        lambda model, x: kbd.stochastic(model).predict(x, verbose=0),
        lambda model, x: kbd.predict_with_uncertainty(model, x, verbose=0),
    ],
)
def test_nothing_changes_when_a_layer_fails(subclassed, look):
    x = zoo.numbers(4, 3)
    if subclassed:
        model = FragileModel()
        model(x)
        fragile = model.fragile
    else:
        fragile = Fragile()
        model = keras.Sequential(
            [
                keras.Input((4, 3)),
                zoo.Block(3),
                keras.layers.LSTM(3, dropout=0.5),
                fragile,
            ]
        )
    outputs = zoo.outputs_of(model, x)
    fragile.broken = True
    before = zoo.fingerprint(model)
    with pytest.raises(RuntimeError, match="out of order"):
        look(model, x)
    assert zoo.fingerprint(model) == before
    fragile.broken = False
    assert zoo.outputs_of(model, x) == outputs


def test_variables_that_a_layer_assigns_stay():
    class Counts(keras.layers.Layer):
        def build(self, shape):
            self.count = self.add_weight(
                shape=(), initializer="zeros", trainable=False
            )

        def call(self, x):
            self.count.assign_add(1.0)
            return x

    counts = Counts()
    model = keras.Sequential(
        [keras.Input((4,)), counts, keras.layers.Dropout(0.5), Counts()]
    )
    x = zoo.numbers(4)
    model(x)
    assert float(counts.count) == 1.0
    kbd.predict_with_uncertainty(model, x, **flat(**settings()))
    kbd.stochastic(model)(x)
    assert float(counts.count) == 1.0
    model(x)
    assert float(counts.count) == 2.0


# What the cache of compiled programs must notice.


def first_sample(model, x):
    p = kbd.predict_with_uncertainty(
        model, x, **flat(**settings(return_samples=True))
    )
    return p.samples[0]


def agrees_with_the_model(model, x):
    """Compares the compiled program with a call of the layers as they are."""
    view = kbd.sample_function(model, 1, 0)
    np.testing.assert_allclose(
        first_sample(model, x), np.asarray(view(x)), rtol=1e-4, atol=1e-5
    )


def test_second_call_does_not_trace():
    class Traced(keras.layers.Layer):
        calls = 0

        def call(self, x):
            self.calls += 1
            return x * 1.0

    before, after = Traced(), Traced()
    model = keras.Sequential(
        [keras.Input((4,)), before, keras.layers.Dropout(0.5), after]
    )
    x = zoo.numbers(4, rows=12)
    first_sample(model, x)
    calls = before.calls, after.calls
    for rows in (12, 1, 7):
        first_sample(model, x[:rows])
        kbd.predict_with_uncertainty(
            model, x[:rows], **flat(**settings(seed=9))
        )
    assert (before.calls, after.calls) == calls


def test_training_in_between_is_noticed():
    model, x = zoo.ZOO["functional"].build()
    first_sample(model, x)
    model.compile("sgd", "mse")
    model.fit(x, np.full((len(x), 3), 9.0), epochs=3, verbose=0)
    agrees_with_the_model(model, x)


def test_another_rate_is_noticed():
    model, x = zoo.ZOO["sequential"].build()
    first_sample(model, x)
    model.layers[1].rate = 0.9
    agrees_with_the_model(model, x)


def test_another_layer_is_noticed():
    model, x = zoo.ZOO["sequential"].build()
    assert first_sample(model, x).shape == (zoo.ROWS, 2)
    model.add(keras.layers.Dense(7))
    assert first_sample(model, x).shape == (zoo.ROWS, 7)
    agrees_with_the_model(model, x)


def test_lora_is_noticed():
    model, x = zoo.ZOO["sequential"].build()
    first_sample(model, x)
    dense = model.layers[0]
    dense.enable_lora(2)
    dense.lora_kernel_b.assign(np.ones(dense.lora_kernel_b.shape))
    agrees_with_the_model(model, x)


def test_quantization_is_noticed():
    model, x = zoo.ZOO["sequential"].build()
    first_sample(model, x)
    model.layers[0].quantize("int8")
    agrees_with_the_model(model, x)


def test_another_activation_is_noticed_after_compile():
    # Keras' own `predict` needs `compile` to notice it.
    model, x = zoo.ZOO["sequential"].build()
    first_sample(model, x)
    model.layers[-1].activation = keras.ops.square
    model.compile("sgd", "mse")
    agrees_with_the_model(model, x)


def test_noise_in_layers_that_are_called_more_often():
    model, x = zoo.ZOO["layers_with_layers"].build()
    kbd.stochastic(model)(x)
    model.layers[0].repeats = 1
    fresh = keras.Sequential([keras.Input((4,)), *model.layers])
    np.testing.assert_array_equal(
        kbd.sample_function(model, 0)(x), kbd.sample_function(fresh, 0)(x)
    )


# Saving and loading: the order of noise sites must survive it.

NOT_SERIALIZABLE = {
    "functional_subclass",
    "subclassed",
    "subclassed_built_by_shape",
    "subclassed_deep",
    "subclassed_dict",
    "layers_with_layers",
    "lambdas",
    "time_folded_inside_a_layer",
    "positions",
    "noise_on_positions",
    "losses",
}


def same_after_loading(model, x, folder):
    path = str(folder / "model.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
    for a, b in zip(
        *(
            keras.tree.flatten(
                kbd.predict_with_uncertainty(
                    m, x, **flat(**settings(return_samples=True))
                )
            )
            for m in (model, loaded)
        ),
        strict=True,
    ):
        np.testing.assert_allclose(a.samples, b.samples, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        "nested_three_deep",
        "two_inputs",
        "dict_inputs",
        "list_outputs",
        "dict_outputs",
        "dropout_called_twice",
        "model_called_twice",
        "attention",
        "ours",
    ],
)
def test_same_samples_after_loading(name, tmp_path):
    same_after_loading(*zoo.ZOO[name].build(), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(zoo.ZOO) - NOT_SERIALIZABLE))
def test_same_samples_after_loading_all(name, tmp_path):
    same_after_loading(*zoo.ZOO[name].build(), tmp_path)


def test_same_samples_after_loading_parallel_branches(tmp_path):
    """Sites of equal depth, entered in an order that is not alphabetical."""
    a, b = keras.Input((30,), name="z"), keras.Input((30,), name="a")
    drops = [keras.layers.Dropout(0.5, name=name) for name in "qbxm"]
    outputs = {
        "z": drops[0](a),
        "c": drops[2](b),
        "k": drops[1](a) + drops[3](b),
        "a": drops[3](a),
    }
    model = keras.Model({"z": a, "a": b}, outputs)
    x = {name: np.ones((2, 30), "float32") for name in "za"}
    same_after_loading(model, x, tmp_path)


# Inputs as `model.predict` takes them.


def dropout_behind(inputs):
    """A model whose first sample shows which input went where."""
    x = keras.layers.Concatenate()(inputs)
    return keras.layers.Dropout(0.5, noise_shape=(None, 1))(x)


def test_dict_for_a_model_of_listed_inputs():
    a = keras.Input((3,), name="zebra")
    b = keras.Input((2,), name="ant")
    model = keras.Model([a, b], dropout_behind([a, b]))
    x = {"zebra": zoo.numbers(3), "ant": zoo.numbers(2, seed=1)}
    listed = [x["zebra"], x["ant"]]
    np.testing.assert_array_equal(
        model.predict(x, verbose=0), model.predict(listed, verbose=0)
    )
    np.testing.assert_array_equal(
        first_sample(model, x), first_sample(model, listed)
    )


@pytest.mark.filterwarnings("ignore:The structure of `inputs`")
def test_dict_with_more_than_the_model_takes():
    """Keras takes the first arrays in the order of their names: `note`!"""
    a = keras.Input((3,), name="zebra")
    b = keras.Input((2,), name="ant")
    model = keras.Model({"zebra": a, "ant": b}, dropout_behind([a, b]))
    x = {"zebra": zoo.numbers(3), "ant": zoo.numbers(2, seed=1)}
    for features in (3, 7):
        more = {**x, "note": zoo.numbers(features, seed=2)}
        # Refused, or right: never an array that nobody asked for.
        try:
            sample = first_sample(model, more)
        except kbd.BayesdropError as error:
            assert "Expected" in str(error)
        else:
            np.testing.assert_array_equal(sample, first_sample(model, x))


class Rows(keras.utils.PyDataset):
    def __init__(self, x):
        super().__init__()
        self.x = x

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return (self.x[2 * index : 2 * index + 2],)


FEEDS = {
    "tensor": tf.constant,
    "dataset": lambda x: tf.data.Dataset.from_tensor_slices(x).batch(2),
    "dataset_with_targets": lambda x: tf.data.Dataset.from_tensor_slices(
        (x, x)
    ).batch(3),
    "generator": lambda x: (x[i : i + 2] for i in range(0, len(x), 2)),
    "generator_with_targets": lambda x: (
        (x[i : i + 2],) * 2 for i in range(0, len(x), 2)
    ),
    "py_dataset": Rows,
    "float64": lambda x: x.astype("float64"),
    "list_of_one": lambda x: [x],
}


@pytest.mark.parametrize(
    ("kind", "feed"),
    [
        *(("functional", feed) for feed in FEEDS),
        # Its `call` takes no list.
        *(("subclassed", feed) for feed in FEEDS if feed != "list_of_one"),
    ],
)
@pytest.mark.filterwarnings("ignore:The structure of `inputs`")
def test_feeds(kind, feed):
    model, x = zoo.ZOO[kind].build()
    feed = FEEDS[feed]
    for masks in ("shared", "independent"):
        want = kbd.predict_with_uncertainty(
            model, x, **flat(**settings(masks=masks, return_samples=True))
        )
        for batch_size in (None, 1):
            got = kbd.predict_with_uncertainty(
                model,
                feed(x),
                batch_size=batch_size,
                **flat(**settings(masks=masks, return_samples=True)),
            )
            np.testing.assert_allclose(
                got.samples, want.samples, rtol=1e-5, atol=1e-6
            )


# Callbacks, and what is printed.


class Diary(keras.callbacks.Callback):
    def __init__(self, stop_after=None):
        super().__init__()
        self.entries = []
        self.outputs = []
        self.stop_after = stop_after

    def on_predict_begin(self, logs=None):
        self.entries.append("begin")

    def on_predict_batch_begin(self, batch, logs=None):
        self.entries.append(f"batch {batch}")

    def on_predict_batch_end(self, batch, logs=None):
        self.entries.append(f"done {batch}")
        self.outputs.append(logs["outputs"])
        if batch == self.stop_after:
            self.model.stop_predicting = True

    def on_predict_end(self, logs=None):
        self.entries.append("end")


def test_callbacks_hear_everything():
    model, x = zoo.ZOO["functional"].build()
    diary = Diary()
    p = kbd.predict_with_uncertainty(
        model, x, **flat(**settings(batch_size=3, callbacks=[diary]))
    )
    assert diary.entries == [
        "begin", "batch 0", "done 0", "batch 1", "done 1", "end"
    ]  # fmt: skip
    np.testing.assert_array_equal(np.concatenate(diary.outputs), p.mean)


def test_callbacks_can_stop():
    model, x = zoo.ZOO["functional"].build()
    model.predict(x, verbose=0)
    model.stop_predicting = "as it was"
    p = kbd.predict_with_uncertainty(
        model,
        x,
        **flat(**settings(batch_size=2, callbacks=[Diary(stop_after=1)])),
    )
    assert p.mean.shape == (4, 3)
    assert p.stats.num_rows == 4
    assert model.stop_predicting == "as it was"
    # And the next prediction is whole again.
    p = kbd.predict_with_uncertainty(
        model, x, **flat(**settings(batch_size=2, callbacks=[Diary()]))
    )
    assert p.mean.shape == (5, 3)


def test_callbacks_leave_no_attribute():
    model, x = zoo.ZOO["functional"].build()
    before = zoo.fingerprint(model)
    kbd.predict_with_uncertainty(
        model, x, **flat(**settings(callbacks=[Diary()]))
    )
    assert zoo.fingerprint(model) == before


@pytest.mark.parametrize(
    "event", ["on_predict_begin", "on_predict_batch_end", "on_predict_end"]
)
def test_callbacks_that_fail_leave_the_model_as_it_was(event):
    def fail(*args, **kwargs):
        raise RuntimeError("callback out of order")

    model, x = zoo.ZOO["functional"].build()
    model.stop_predicting = "as it was"
    callback = Diary()
    setattr(callback, event, fail)
    with pytest.raises(RuntimeError, match="callback out of order"):
        kbd.predict_with_uncertainty(
            model, x, **flat(**settings(callbacks=[callback]))
        )
    assert model.stop_predicting == "as it was"


def test_progress_bar(capsys):
    model, x = zoo.ZOO["functional"].build()
    kbd.predict_with_uncertainty(model, x, **flat(**settings(verbose=0)))
    assert capsys.readouterr().out == ""
    for verbose in (1, "auto"):
        kbd.predict_with_uncertainty(
            model, x, **flat(**settings(verbose=verbose))
        )
        printed = capsys.readouterr().out
        assert "1/1" in printed
        assert "━" in printed
    kbd.predict_with_uncertainty(
        model,
        x,
        **flat(**settings(verbose=1, batch_size=1, engine="reference")),
    )
    # Five rows, eight samples, one forward pass at a time.
    assert "40/40" in capsys.readouterr().out
    kbd.predict_with_uncertainty(
        model, x, **flat(**settings(verbose=1, batch_size=1))
    )
    # A chain keeps no activations, so that more samples fit.
    last = re.findall(r"(\d+)/(\d+)", capsys.readouterr().out)[-1]
    assert last[0] == last[1] and 5 <= int(last[1]) <= 40


# Threads.


@pytest.mark.parametrize(
    "kind", ["functional", "subclassed_deep", "simple_rnn"]
)
def test_another_thread_predicts_without_noise(kind):
    """While one thread samples, another one's predictions stay certain."""
    model, x = zoo.ZOO[kind].build()
    want = np.asarray(model(x, training=False))
    view = kbd.stochastic(model)
    view(x)
    stop = threading.Event()
    seen = []

    def look():
        while not stop.is_set():
            seen.append(np.asarray(model(x, training=False)))
            seen.append(model.predict_on_batch(x))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for masks in ("shared", "independent"):
            view(x)
            kbd.predict_with_uncertainty(
                model, x, **flat(**settings(masks=masks))
            )
    finally:
        stop.set()
        thread.join()
    assert len(seen) >= 2
    for got in seen:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


class Gated(keras.Model):
    """Waits at a gate of the calling thread before it drops."""

    def __init__(self):
        super().__init__()
        self.drop = keras.layers.Dropout(0.5)
        self.gates = {}

    def call(self, x):
        self.gates.get(threading.get_ident(), lambda: None)()
        return self.drop(x)


def test_two_threads_sample_at_once():
    """The second to begin is the last to end; both must be noisy."""
    model = Gated()
    x = np.ones((4, 50), "float32")
    model(x)
    views = [kbd.stochastic(model, seed=i) for i in range(2)]
    for view in views:
        view(x)  # traces, where the gates are open
    first_inside, second_inside, first_done = (
        threading.Event() for _ in range(3)
    )
    results = {}

    def run(number, gate, done=None):
        model.gates[threading.get_ident()] = gate
        results[number] = np.asarray(views[number](x))
        if done is not None:
            done.set()

    def first_gate():
        first_inside.set()
        second_inside.wait(1)

    def second_gate():
        second_inside.set()
        first_done.wait(5)

    threads = [
        threading.Thread(target=run, args=(0, first_gate, first_done)),
        threading.Thread(target=run, args=(1, second_gate)),
    ]
    threads[0].start()
    first_inside.wait(5)
    threads[1].start()
    for thread in threads:
        thread.join()
    for result in results.values():
        # 200 units: none dropped with probability 2^-200.
        assert np.any(result == 0)
    assert "call" not in vars(model.drop)
    np.testing.assert_array_equal(model(x), x)
