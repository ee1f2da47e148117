# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of layers: which changes count, and which do not."""

import dataclasses
import functools
import gc
import weakref

import keras
import numpy as np
import pytest

from keras_bayesdrop.graph.fingerprint import calls_watched
from keras_bayesdrop.graph.fingerprint import forget
from keras_bayesdrop.graph.fingerprint import version_of
from keras_bayesdrop.graph.identity import identity
from keras_bayesdrop.graph.loans import lent


@dataclasses.dataclass
class Settings:
    gain: float = 1.0


class Slotted:
    __slots__ = ("gain",)


def double(x, by=2):
    return x * by


PAIRS = {
    "int": (1, 2),
    "type": (1, True),
    "float_for_int": (1, 1.0),
    "sign_of_zero": (0.0, -0.0),
    "string": ("same", "valid"),
    "none": (None, 0),
    "list": ([1, 2], [1, 3]),
    "nested": ({"a": [(1, 2)]}, {"a": [(1, 3)]}),
    "set": ({1, 2}, {1, 3}),
    "function": (double, functools.cache),
    "partial": (
        functools.partial(double, by=2),
        functools.partial(double, by=3),
    ),
    "method": (Settings().__repr__, Settings().__eq__),
    "array": (np.arange(5), np.arange(1, 6)),
    "dtype": (np.zeros(2, "int32"), np.zeros(2, "float32")),
    "scalar": (np.float32(1), np.float32(2)),
    "large_array": (np.zeros(5000), np.zeros(5000)),
    "object": (Settings(1.0), Settings(2.0)),
    "slots": (Slotted(), Slotted()),
}


@pytest.mark.parametrize("one, other", PAIRS.values(), ids=PAIRS)
def test_values_are_told_apart(one, other):
    layer = keras.layers.Layer()
    layer.value = one
    first = version_of(layer)
    assert version_of(layer) == first
    layer.value = other
    assert version_of(layer) != first
    layer.value = one
    assert version_of(layer) == first


EQUAL = {
    "float": (lambda: float("0.5")),
    "nan": lambda: float("nan"),
    "list": lambda: [1, "two", (3.0,)],
    "partial": lambda: functools.partial(double, by=2),
    "array": lambda: np.arange(5),
    "set": lambda: {"a", "b", "c"},
}


@pytest.mark.parametrize("make", EQUAL.values(), ids=EQUAL)
def test_equal_values_are_no_change(make):
    layer = keras.layers.Layer()
    layer.value = make()
    first = version_of(layer)
    layer.value = make()
    assert version_of(layer) == first


def test_changes_in_place():
    layer = keras.layers.Layer()
    layer.settings = Settings()
    layer.table = np.zeros(3)
    layer.options = {"a": [1]}
    seen = [version_of(layer)]
    layer.settings.gain = 2.0
    seen.append(version_of(layer))
    layer.table[1] = 1
    seen.append(version_of(layer))
    layer.options["a"].append(2)
    seen.append(version_of(layer))
    del layer.table
    seen.append(version_of(layer))
    layer.trainable = False
    seen.append(version_of(layer))
    assert len(set(seen)) == len(seen)


def test_long_values_are_looked_at_up_to_a_bound():
    """Neither depth nor length makes it slow."""
    layer = keras.layers.Layer()
    layer.rows = [[float(i + j) for i in range(900)] for j in range(900)]
    looped = [1]
    looped.append(looped)
    layer.settings = Settings(looped)
    assert version_of(layer) == version_of(layer)


def test_variables_count_by_which_they_are():
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    first = version_of(layer)
    layer.kernel.assign(layer.kernel + 1)
    assert version_of(layer) == first
    layer.enable_lora(1)
    assert version_of(layer) != first


def test_sublayers_count():
    model = keras.Sequential([keras.Input((2,)), keras.layers.LeakyReLU()])
    first = version_of(model)
    model.layers[0].negative_slope = 0.7
    assert version_of(model) != first


def test_two_models_have_no_version_in_common():
    one, other = keras.layers.Dropout(0.5), keras.layers.Dropout(0.5)
    assert version_of(one) != version_of(other)


def test_loans_are_no_change():
    layer = keras.layers.Dropout(0.5)
    first = version_of(layer)
    with lent(layer, "call", print):
        assert version_of(layer) == first
    layer.call = double
    first = version_of(layer)
    layer.added_later = 1
    second = version_of(layer)
    with lent(layer, "call", print):
        assert version_of(layer) == second != first


def test_an_attribute_is_a_result_once_two_traces_changed_it():
    layer = keras.layers.Layer()
    layer.calls = 0
    with calls_watched(layer):
        layer.calls += 1
    first = version_of(layer)
    layer.calls += 1
    assert version_of(layer) != first
    with calls_watched(layer):
        layer.calls += 1
    first = version_of(layer)
    layer.calls += 1
    assert version_of(layer) == first
    forget(layer)
    first = version_of(layer)
    layer.calls += 1
    assert version_of(layer) != first


def test_results_taken_out_do_not_change_the_version():
    model = keras.Sequential([keras.Input((2,)), keras.layers.LeakyReLU()])
    layer = model.layers[0]
    layer.calls = 0
    first = version_of(model)
    for _ in range(2):
        with calls_watched(layer):
            layer.calls += 1
    assert version_of(model) == first
    layer.negative_slope = 0.7
    assert version_of(model) != first


def test_versions_are_forgotten():
    layer = keras.layers.Dropout(0.5)
    first = version_of(layer)
    forget(layer)
    second = version_of(layer)
    assert second != first
    forget()
    assert version_of(layer) not in (first, second)


def test_fingerprints_do_not_keep_what_they_name():
    def make():
        class Local(keras.layers.Layer):
            def call(self, x):
                return holder[0](x)

        layer = Local()
        holder = [layer]
        layer.function = lambda x: holder[0]
        layer.method = layer.get_config
        version_of(layer)
        return weakref.ref(layer)

    gone = make()
    gc.collect()
    assert gone() is None


def test_identities_are_never_reused():
    seen = set()
    for _ in range(1000):
        value = Settings()
        assert identity(value) == identity(value)
        seen.add(identity(value))
    assert len(seen) == 1000


def test_identity_of_what_has_no_weak_references():
    one, other = Slotted(), Slotted()
    assert identity(one) == identity(one)
    assert hash(identity(one)) == hash(identity(one))
    assert identity(one) != identity(other)
    assert identity(one) != 5
