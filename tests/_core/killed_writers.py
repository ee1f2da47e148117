# SPDX-License-Identifier: Apache-2.0
"""Writes over a good file or folder, and dies in the act.

`main` runs in a process that has imported the package without TensorFlow, so
that it may fork. The child is killed; the parent looks at what is left, writes
again, and prints what it saw as JSON.
"""

import json
import os
import pathlib
import resource
import signal
import sys

import numpy as np

from keras_bayesdrop._core import files
from keras_bayesdrop._core import scratch
from keras_bayesdrop.cli.output_file import writers_of
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.predictive.stats import Stats

ROWS, SAMPLES = 500, 4
LIMIT = 20_000  # bytes; every writer writes more

STATS = Stats(
    num_samples=SAMPLES,
    num_rows=ROWS,
    seed=0,
    masks="shared",
    method="sampling",
    engine=(),
    seconds=1.0,
    samples_per_second=1.0,
    batch_size=1,
)


def prediction(value):
    samples = np.full((SAMPLES, ROWS, 3), value, "float32")
    samples[0] += 1
    return Predictive(
        head="regression",
        mean=samples.mean(0),
        variance=samples.var(0, ddof=1),
        samples=samples,
        stats=STATS,
    )


def save(value):
    prediction(value).save("target.npz")
    return pathlib.Path("target.npz")


def by_command(suffix):
    def write(value):
        target = pathlib.Path(f"target{suffix}")
        writers = writers_of(
            {"output": prediction(value)}, {"output": target}, 0.9
        )
        files.write_files(writers, lambda: None)
        return target

    return write


def stream(value):
    with files.replacing_array("target.npy", (ROWS, 30), "float32") as array:
        array[:] = value
    return pathlib.Path("target.npy")


def folder(value):
    with files.replacing_folder("target") as new:
        (new / "inner").mkdir(parents=True)
        (new / "a").write_text(str(value))
        (new / "inner" / "b").write_text(str(value) * 2 * LIMIT)
    return pathlib.Path("target")


WRITERS = {
    "save": save,
    "npz": by_command(".npz"),
    "csv": by_command(".csv"),
    "npy": by_command(".npy"),
    "stream": stream,
    "folder": folder,
}


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def die_once_in_place(rename):
    """Kills after the rename to the target, not within a scratch folder."""

    def function(source, target):
        done = rename(source, target)
        if os.path.dirname(os.path.abspath(target)) == os.getcwd():
            die()
        return done

    return function


def in_a_write():
    # Beyond the limit the kernel ends the process, in the middle of a write.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def in_a_sync():
    os.fsync = die


def before_the_rename():
    os.replace = os.rename = die


def after_the_rename():
    os.replace = die_once_in_place(os.replace)
    scratch._exchange = die_once_in_place(scratch._exchange)


def between_two_renames():
    scratch._exchange = lambda *_: False
    rename = os.rename

    def kill_if_old_is_aside(source, target):
        rename(source, target)
        if str(source).endswith("target"):
            die()

    os.rename = kill_if_old_is_aside


MOMENTS = {
    moment.__name__: moment
    for moment in (
        in_a_write,
        in_a_sync,
        before_the_rename,
        after_the_rename,
        between_two_renames,
    )
}


def content(path):
    if not path.exists():
        return None
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file())
        return {str(f.relative_to(path)): f.read_bytes() for f in files}
    return path.read_bytes()


def main(writer, moment):
    writer, moment = WRITERS[writer], MOMENTS[moment]
    target = writer(1)
    good = content(target)
    child = os.fork()
    if not child:
        moment()
        writer(2)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    seen = {"signal": os.WTERMSIG(status)}
    seen["parts"] = len([n for n in os.listdir() if n.endswith(".part")])
    seen["there"] = target.exists()
    if not seen["there"]:
        scratch.clear_left_overs(target)  # As the next run does at once.
    after = content(target)
    writer(2)
    new = content(target)
    seen["content"] = {0: "other", 1: "old", 2: "new"}[
        (after == good) + 2 * (after == new)
    ]
    seen["listing"] = os.listdir() == [target.name]
    sys.stdout.write(json.dumps(seen))
