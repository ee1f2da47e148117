# SPDX-License-Identifier: Apache-2.0
"""Exports write a SavedModel in one step, and replace nothing else."""

import json
import os
import signal
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

from keras_bayesdrop.errors import WriteError
from keras_bayesdrop.serving import export_uncertainty
from tests.helpers import largest_file
from tests.serving.exports import SEED
from tests.serving.exports import T
from tests.serving.exports import assert_refused
from tests.serving.exports import classifier
from tests.serving.exports import export

layers = keras.layers


def test_folder_tells_how_it_was_made(tmp_path):
    export(classifier(), tmp_path / "m", quantiles=(0.1,))
    text = (tmp_path / "m/assets.extra/keras_bayesdrop.json").read_text()
    about = json.loads(text)
    assert about["num_samples"] == T
    assert about["seed"] == SEED
    assert about["outputs"] == ["mean", "quantiles", "std"]
    assert about["tasks"] == ["classification"]


def test_link_to_nothing_is_refused(tmp_path):
    os.symlink("nowhere", tmp_path / "m")
    for overwrite in (False, True):
        assert_refused(
            classifier(),
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
        signatures = export(
            classifier(), tmp_path / "m", outputs=outputs, overwrite=True
        )
        assert os.readlink(tmp_path / "m") == "real"
        names = signatures["serving_default"].structured_outputs
        assert tuple(names) == outputs


def test_full_disk_is_said_and_the_old_model_stays(tmp_path):
    model, path = classifier(), tmp_path / "m"
    export_uncertainty(model, path, 2)
    before = {
        file: file.read_bytes() for file in path.rglob("*") if file.is_file()
    }
    with largest_file(2000), pytest.raises(WriteError) as caught:
        export_uncertainty(model, path, 2, overwrite=True)
    text = str(caught.value)
    assert text.startswith(f"`{path}` was not written; an older export")
    assert "Expected disk space for a SavedModel. Received: " in text
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
    model = classifier()
    export_uncertainty(model, path, 2, outputs=("mean",))
    model.save(tmp_path / "model.keras")
    program = """
import os, resource, signal, sys
import keras
import keras_bayesdrop
from keras_bayesdrop._core import scratch

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

model = keras.saving.load_model(sys.argv[1])
if sys.argv[3] == "in a write":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
elif sys.argv[3] == "before the rename":
    os.rename = die
elif sys.argv[3] == "between two renames":
    scratch._exchange = lambda new, target: (os.rename(target, str(
        new.parent / "old.0")), die())
else:
    exchange = scratch._exchange
    scratch._exchange = lambda *args: (exchange(*args), die())
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
        # A restored SavedModel is not overwritten without `overwrite`. The
        # error comes before the work.
        with monkeypatch.context() as patch:
            patch.setattr(tf.saved_model, "save", None)
            assert_refused(model, path, "exists", "overwrite=True")
        assert names() == ["mean"]
    else:
        assert names() == outputs
    export_uncertainty(model, path, 2, outputs=("variance",), overwrite=True)
    assert names() == ["variance"]
    assert sorted(os.listdir(tmp_path)) == ["m", "model.keras"]


def test_nothing_is_overwritten_unasked(tmp_path):
    model = classifier()
    path = tmp_path / "m"
    export_uncertainty(model, path, 2)
    stamp = (path / "saved_model.pb").stat().st_mtime_ns
    assert_refused(model, path, "exists", "overwrite=True")
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
        assert_refused(classifier(), path, "not a SavedModel", overwrite=True)
    assert (folder / "chapter.txt").read_text() == "all of it"
    assert file.read_text() == "text"


def test_failed_export_leaves_what_was_there(tmp_path, monkeypatch):
    model, path = classifier(), tmp_path / "m"
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
