# SPDX-License-Identifier: Apache-2.0
"""Callbacks and the progress bar of a prediction."""

import re

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests import zoo
from tests.helpers import flat
from tests.integration.samples import settings


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
