# SPDX-License-Identifier: Apache-2.0
"""Compares predictors with `predict_with_uncertainty`."""

import dataclasses

import keras

import keras_bayesdrop as kbd
from keras_bayesdrop.prediction import prepared

# They tell how long it took.
TIMES = {"seconds", "samples_per_second"}


def content(prediction):
    """Everything that a prediction holds, but the time that it took."""
    parts = []
    for p in keras.tree.flatten(prediction):
        for field in dataclasses.fields(p):
            value = getattr(p, field.name)
            if field.name == "stats":
                value = tuple(
                    (each.name, getattr(value, each.name))
                    for each in dataclasses.fields(value)
                    if each.name not in TIMES
                )
            elif hasattr(value, "tobytes"):
                value = (value.shape, value.dtype.str, value.tobytes())
            parts.append((field.name, value))
    return parts


def assert_equal(one, other):
    """Asserts that two predictions have the same bits."""
    keras.tree.assert_same_structure(one, other)
    for (name, mine), (_, theirs) in zip(
        content(one), content(other), strict=True
    ):
        assert mine == theirs, name


def whole_call(model, x, *args, **options):
    return kbd.predict_with_uncertainty(model, x, *args, verbose=0, **options)


class Ways:
    """Counts the ways that calls of predictors take."""

    def __init__(self, monkeypatch):
        self.short = self.long = 0
        drive, repeat = prepared.drive, prepared.repeat

        def long_way(*args, **kwargs):
            self.long += 1
            return drive(*args, **kwargs)

        def short_way(*args, **kwargs):
            self.short += 1
            return repeat(*args, **kwargs)

        monkeypatch.setattr(prepared, "drive", long_way)
        monkeypatch.setattr(prepared, "repeat", short_way)
