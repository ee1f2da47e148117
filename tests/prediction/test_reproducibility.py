# SPDX-License-Identifier: Apache-2.0
"""Same seed, same samples: however the rows come, and in whichever process.

Masks are equal bit for bit (`tests/noise/test_draws.py`); samples then agree up
to the rounding of a float32 matmul, 1e-6 of the largest.
"""

import hypothesis
import hypothesis.strategies as st
import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from tests.helpers import TestCase
from tests.helpers import flat
from tests.random.test_balanced import balanced_words
from tests.random.test_rng import philox_words

MASKS = ("shared", "independent")
ROWS = 23


def _sequential():
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(17, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(3),
        ]
    )


def _functional():
    """Skip connection, a branch without noise, a shared layer."""
    inputs = keras.Input((6,))
    shared = keras.layers.Dense(6, activation="tanh")
    left = keras.layers.Dropout(0.3)(shared(inputs))
    right = keras.layers.GaussianDropout(0.2)(keras.layers.Dense(6)(inputs))
    x = keras.layers.Add()([left, right, inputs])
    x = keras.layers.BatchNormalization()(shared(x))
    x = keras.layers.AlphaDropout(0.2)(x)
    return keras.Model(inputs, keras.layers.Dense(2)(x))


def _nested():
    """Three levels deep, the middle one called twice."""
    inmost = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(6, activation="tanh"),
            keras.layers.Dropout(0.3),
        ]
    )
    inputs = keras.Input((6,))
    middle = keras.Model(inputs, keras.layers.Add()([inmost(inputs), inputs]))
    inputs = keras.Input((6,))
    x = middle(keras.layers.Dropout(0.1)(middle(inputs)))
    return keras.Model(inputs, keras.layers.Dense(2)(x))


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.first = keras.layers.Dense(9, activation="tanh")
        self.drop = keras.layers.Dropout(0.4)
        self.second = _sequential()

    def call(self, inputs, training=None):
        x = self.drop(self.first(inputs), training=training)
        return self.second(self.drop(x, training=training)[:, :6])


def _subclassed():
    model = Subclassed()
    model(np.zeros((1, 6), np.float32))
    return model


def _recurrent():
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Reshape((3, 2)),
            keras.layers.LSTM(4, dropout=0.3, recurrent_dropout=0.2),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2),
        ]
    )


MODELS = {
    "sequential": _sequential,
    "functional": _functional,
    "nested": _nested,
    "subclassed": _subclassed,
    "recurrent": _recurrent,
}
every_model = pytest.mark.parametrize("kind", MODELS)
every_mask = pytest.mark.parametrize("masks", MASKS)


def _inputs(rows=ROWS):
    return np.random.default_rng(7).normal(size=(rows, 6)).astype(np.float32)


def _samples(model, x, num_samples=21, *, seed=11, **kwargs):
    return kbd.predict_with_uncertainty(
        model,
        x,
        num_samples,
        seed=seed,
        return_samples=True,
        verbose=0,
        **flat(**kwargs),
    ).samples


def assert_same_samples(actual, desired):
    assert actual.shape == desired.shape
    scale = np.abs(desired).max()
    np.testing.assert_allclose(actual, desired, rtol=0, atol=1e-6 * scale)


@every_mask
@every_model
def test_batch_size_does_not_matter(kind, masks):
    model, x = MODELS[kind](), _inputs()
    whole = _samples(model, x, masks=masks)
    assert whole.std(axis=0).min() > 0
    for batch_size in (1, 7, 256):
        again = _samples(model, x, masks=masks, batch_size=batch_size)
        assert_same_samples(again, whole)


@every_mask
@pytest.mark.parametrize("kind", ["sequential", "functional", "subclassed"])
def test_first_samples_stay_when_more_are_drawn(kind, masks):
    model, x = MODELS[kind](), _inputs(5)
    many = _samples(model, x, 70, masks=masks)
    for count in (2, 3, 16, 17, 33):
        for batch_size in (None, 4):
            few = _samples(model, x, count, masks=masks, batch_size=batch_size)
            assert_same_samples(few, many[:count])


@every_model
def test_different_seeds_differ(kind):
    model, x = MODELS[kind](), _inputs(5)
    one = _samples(model, x, seed=1)
    # 2^64 + 1 and 1 are the same key; all others are not.
    for seed in (2, -1, 2**32 + 1, 2**63 + 1):
        assert np.abs(_samples(model, x, seed=seed) - one).max() > 1e-2
    assert_same_samples(_samples(model, x, seed=2**64 + 1), one)


def test_the_default_seed_is_drawn_and_told():
    model, x = _sequential(), _inputs(5)
    first = kbd.predict_with_uncertainty(model, x, 5, verbose=0)
    second = kbd.predict_with_uncertainty(model, x, 5, verbose=0)
    assert first.stats.seed != second.stats.seed
    again = kbd.predict_with_uncertainty(
        model, x, 5, verbose=0, seed=first.stats.seed
    )
    assert_same_samples(again.mean, first.mean)
    keras.utils.set_random_seed(5)
    third = kbd.predict_with_uncertainty(model, x, 5, verbose=0)
    keras.utils.set_random_seed(5)
    fourth = kbd.predict_with_uncertainty(model, x, 5, verbose=0)
    assert third.stats.seed == fourth.stats.seed


@every_model
def test_sample_function_is_that_sample(kind):
    model, x = MODELS[kind](), _inputs(5)
    samples = _samples(model, x, 35)
    for number in (0, 15, 16, 34):
        function = kbd.sample_function(model, 11, number)
        assert_same_samples(np.asarray(function(x)), samples[number])
    assert_same_samples(function.predict(x, verbose=0), samples[34])
    assert_same_samples(function.predict(x[3:], verbose=0), samples[34][3:])


@every_model
def test_saving_and_loading(kind, tmp_path):
    model, x = MODELS[kind](), _inputs(5)
    before = _samples(model, x, masks="independent")
    model.save(tmp_path / "model.keras")
    assert_same_samples(_samples(model, x, masks="independent"), before)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_samples(_samples(loaded, x, masks="independent"), before)


def test_branches_keep_their_masks_when_loaded(tmp_path):
    """Sites at the same depth, named against the order of creation."""
    inputs = {
        "b": keras.Input((6,), name="b"),
        "a": keras.Input((6,), name="a"),
    }
    last = keras.layers.Dropout(0.5, name="z")(inputs["a"])
    first = keras.layers.Dropout(0.5, name="y")(inputs["b"])
    both = keras.layers.Dropout(0.5, name="x")(inputs["b"])
    model = keras.Model(inputs, {"q": last, "p": first, "r": both})
    x = {"a": np.ones((3, 6), np.float32), "b": np.ones((3, 6), np.float32)}
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    options = {"seed": 4, "return_samples": True, "verbose": 0}
    before = kbd.predict_with_uncertainty(model, x, 20, **flat(**options))
    masks = [before[name].samples for name in "pqr"]
    assert np.any(masks[0] != masks[1]) and np.any(masks[1] != masks[2])
    for other in (loaded, clone):
        after = kbd.predict_with_uncertainty(other, x, 20, **flat(**options))
        for name in "pqr":
            np.testing.assert_array_equal(
                before[name].samples, after[name].samples
            )


class NewProcessTest(TestCase):
    def test_samples_are_the_same(self):
        model, x = _sequential(), _inputs()
        folder = self.get_temp_dir()
        model.save(f"{folder}/model.keras")
        np.save(f"{folder}/x.npy", x)
        self.run_in_new_process(
            """
import sys
import keras
import numpy as np
import keras_bayesdrop as kbd
folder = sys.argv[1]
model = keras.models.load_model(f"{folder}/model.keras")
for masks in ("shared", "independent"):
    p = kbd.predict_with_uncertainty(
        model, np.load(f"{folder}/x.npy"), 21, seed=11,
        method=kbd.Sampling(masks=masks), batch_size=5, return_samples=True,
        verbose=0)
    np.save(f"{folder}/{masks}.npy", p.samples)
f = kbd.sample_function(model, 11, 20)
np.save(f"{folder}/function.npy", f.predict(np.load(f"{folder}/x.npy")))
""",
            folder,
        )
        for masks in MASKS:
            there = np.load(f"{folder}/{masks}.npy")
            assert_same_samples(there, _samples(model, x, masks=masks))
        assert_same_samples(
            np.load(f"{folder}/function.npy"), _samples(model, x)[20]
        )


class _Batches(keras.utils.PyDataset):
    def __init__(self, x, size):
        super().__init__()
        self.x, self.size = x, size

    def __len__(self):
        return -(-len(self.x) // self.size)

    def __getitem__(self, index):
        part = self.x[index * self.size : (index + 1) * self.size]
        return part, np.zeros(len(part), np.float32)


def _ways(x):
    yield "tensor", tf.constant(x)
    yield "float64", x.astype(np.float64)
    yield "dataset", tf.data.Dataset.from_tensor_slices(x).batch(7)
    yield (
        "dataset of (x, y)",
        tf.data.Dataset.from_tensor_slices((x, x[:, 0])).batch(5),
    )
    yield "PyDataset", _Batches(x, 6)
    yield "generator", (x[i : i + 4] for i in range(0, len(x), 4))
    yield (
        "generator of (x, y)",
        ((x[i : i + 9], x[i : i + 9, 0]) for i in range(0, ROWS, 9)),
    )


@every_mask
def test_the_way_the_rows_come_does_not_matter(masks):
    model, x = _sequential(), _inputs()
    whole = _samples(model, x, masks=masks)
    for name, way in _ways(x):
        for batch_size in (None, 3):
            if name.startswith("generator") and batch_size is not None:
                continue  # A generator can be read only once.
            samples = _samples(model, way, masks=masks, batch_size=batch_size)
            assert_same_samples(samples, whole)


@every_mask
def test_lists_and_dicts_of_inputs(masks):
    left = keras.Input((2,), name="z_left")
    right = keras.Input((4,), name="a_right")
    x = keras.layers.Concatenate()([left, right])
    x = keras.layers.Dropout(0.3)(keras.layers.Dense(8)(x))
    outputs = keras.layers.Dense(2)(x)
    by_list = keras.Model([left, right], outputs)
    by_dict = keras.Model({"z_left": left, "a_right": right}, outputs)
    x = _inputs()
    parts = {"z_left": x[:, :2], "a_right": x[:, 2:]}
    as_list = [parts["z_left"], parts["a_right"]]
    whole = _samples(by_list, as_list, masks=masks)
    stream = tf.data.Dataset.from_tensor_slices(parts).batch(5)
    tuples = tf.data.Dataset.from_tensor_slices(((*as_list,), x[:, 0])).batch(5)
    for model, way in (
        (by_list, tuple(as_list)),
        (by_list, tuples),
        (by_dict, parts),
        (by_dict, stream),
        (
            by_dict,
            (
                {k: v[i : i + 4] for k, v in parts.items()}
                for i in range(0, ROWS, 4)
            ),
        ),
    ):
        assert_same_samples(_samples(model, way, masks=masks), whole)


def test_inputs_by_name_for_a_model_of_listed_inputs():
    """Keras matches a dict to a list of inputs by their names, in any order."""
    left = keras.Input((2,), name="z_left")
    right = keras.Input((4,), name="a_right")
    x = keras.layers.Concatenate()([left, right])
    outputs = keras.layers.Dense(2)(keras.layers.Dropout(0.3)(x))
    model = keras.Model([left, right], outputs)
    x = _inputs()
    whole = _samples(model, [x[:, :2], x[:, 2:]])
    named = {"z_left": x[:, :2], "a_right": x[:, 2:]}
    np.testing.assert_allclose(
        model.predict(named, verbose=0),
        model.predict([x[:, :2], x[:, 2:]], verbose=0),
    )
    assert_same_samples(_samples(model, named), whole)


@hypothesis.settings(max_examples=15)
@hypothesis.given(data=st.data())
def test_any_network_in_any_pieces_is_the_network_of_the_contract(data):
    """A random network, against NumPy in float64 with masks by Philox."""
    draw = data.draw
    depth = draw(st.integers(1, 3), "layers")
    widths = draw(
        st.lists(st.integers(1, 9), min_size=depth + 1, max_size=depth + 1)
    )
    rate = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9])
    rates = draw(st.lists(rate, min_size=depth, max_size=depth))
    hypothesis.assume(any(rates))
    rows = draw(st.integers(1, 12), "rows")
    num_samples = draw(st.integers(2, 40), "samples")
    batch_size = draw(st.none() | st.integers(1, 200), "batch_size")
    masks = draw(st.sampled_from(MASKS))
    balanced = draw(st.booleans(), "balanced")
    seed = draw(st.integers(-(2**63), 2**64 - 1), "seed")

    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, widths[0])).astype(np.float32)
    layers = [keras.Input((widths[0],))]
    value = np.broadcast_to(x.astype(np.float64), (num_samples, *x.shape))
    for site, (rate, width) in enumerate(zip(rates, widths[1:], strict=True)):
        dense = keras.layers.Dense(width, activation="tanh")
        layers += [keras.layers.Dropout(rate), dense]
        dense.build((None, value.shape[-1]))
        kernel = rng.normal(size=dense.kernel.shape).astype(np.float32)
        dense.kernel.assign(kernel)
        which = range(1) if masks == "shared" else range(rows)
        make_words = balanced_words if balanced else philox_words
        units = value.shape[-1]
        words = make_words(seed, site, range(num_samples), which, units)
        keep = words >= int(rate * 2**32)
        value = value * np.swapaxes(keep, 0, 1) / (1 - rate)
        value = np.tanh(value @ kernel.astype(np.float64))
    samples = _samples(
        keras.Sequential(layers),
        x,
        num_samples,
        seed=seed,
        masks=masks,
        draws="balanced" if balanced else "independent",
        batch_size=batch_size,
    )
    # Sums of at most 9 products of size 30 in float32, through three layers.
    np.testing.assert_allclose(samples, value, rtol=0, atol=1e-4)
