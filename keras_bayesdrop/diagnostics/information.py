# SPDX-License-Identifier: Apache-2.0
"""The report of `info`: versions, the op library, the machine, the engine."""

import dataclasses
import os
import platform

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core import op_library
from keras_bayesdrop._core.renamed import refuse_old_keywords
from keras_bayesdrop._core.table import Report
from keras_bayesdrop._core.table import Table
from keras_bayesdrop._core.version import __version__
from keras_bayesdrop.engines import why_no_fused_engine


@dataclasses.dataclass(frozen=True, repr=False)
class Information(Report):
    """The installation and the machine. Prints itself.

    Attributes:
        keras_bayesdrop: Version of this package.
        tensorflow: Version of TensorFlow.
        keras: Version of Keras.
        backend: Backend of Keras.
        numpy: Version of NumPy.
        python: Version of Python.
        library: File of the op library; empty if it is not in use.
        library_problem: Why the op library is not in use; empty if it is.
        built_for: TensorFlow version that it was built for, if known.
        compiler: Compiler that built it, if known.
        instruction_set: Instruction set of its CPU kernels.
        instruction_set_problem: Why the instruction set of the environment
            variable `KBD_ISA` is not in use; empty if it is.
        threads: Threads that one op may use.
        cores: Cores that this process may use.
        gpus: GPUs that TensorFlow sees.
        cuda_architectures: GPU architectures that the op library has code for.
        engine: Engine that `engine="auto"` uses.
        engine_reason: Why it uses this engine.
    """

    keras_bayesdrop: str
    tensorflow: str
    keras: str
    backend: str
    numpy: str
    python: str
    library: str
    library_problem: str
    built_for: str
    compiler: str
    instruction_set: str
    instruction_set_problem: str
    threads: int
    cores: int
    gpus: tuple[str, ...]
    cuda_architectures: tuple[str, ...]
    engine: str
    engine_reason: str

    def _blocks(self) -> list[Table]:
        rows = [
            ("TensorFlow", self.tensorflow),
            ("Keras", f"{self.keras}, backend {self.backend}"),
            ("NumPy", self.numpy),
            ("Python", self.python),
            ("op library", self.library or f"none: {self.library_problem}"),
        ]
        if self.built_for:
            rows.append(
                ("built", f"for TensorFlow {self.built_for} by {self.compiler}")
            )
        if self.instruction_set:
            problem = self.instruction_set_problem
            rows.append(
                (
                    "instruction set",
                    self.instruction_set + (f" ({problem})" if problem else ""),
                )
            )
        rows += [
            ("threads", f"{self.threads} on {self.cores} core(s)"),
            ("GPUs", ", ".join(self.gpus) or "none"),
            ("GPU code", ", ".join(self.cuda_architectures) or "none"),
            ("engine='auto'", f"{self.engine}: {self.engine_reason}"),
        ]
        return [Table(("keras_bayesdrop", self.keras_bayesdrop), rows)]


@refuse_old_keywords({"verbose": "`print(info())` to print the report"})
def info() -> Information:
    """Reports versions, the op library, the machine, and the engine in use.

    `keras-bayesdrop info` prints the same. The call loads the op library,
    which starts TensorFlow's runtime: change settings such as
    `tf.config.threading` before it.

    Returns:
        The report, which prints itself.

    Example:
    ```python
    report = keras_bayesdrop.info()
    print(report)
    assert report.engine in ("fused", "reference")
    ```
    """
    library = op_library.library()
    build = library.build
    instruction_set, instruction_set_problem = library.instruction_set()
    engine, engine_reason = _engine()
    cores = _cores()
    return Information(
        keras_bayesdrop=__version__,
        tensorflow=tf.__version__,
        keras=keras.__version__,
        backend=keras.backend.backend(),
        numpy=np.__version__,
        python=platform.python_version(),
        library=library.path if library.ops is not None else "",
        library_problem=library.problem,
        built_for=build.TENSORFLOW_VERSION if build else "",
        compiler=build.COMPILER if build else "",
        instruction_set=instruction_set,
        instruction_set_problem=instruction_set_problem,
        threads=_threads(cores),
        cores=cores,
        gpus=_gpus(),
        cuda_architectures=library.gpu_code,
        engine=engine,
        engine_reason=engine_reason,
    )


def _engine() -> tuple[str, str]:
    if op_library.library().problem:
        return "reference", "there is no op library"
    why_not = why_no_fused_engine()
    if why_not:
        return "reference", why_not
    return "fused", "for chains of dense layers; `explain(model)` shows them"


def _cores() -> int:
    # The cores of this process, where the system reports them.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _threads(cores: int) -> int:
    # Zero means "not set": TensorFlow then reads its environment variable, then
    # the number of cores.
    setting = tf.config.threading.get_intra_op_parallelism_threads()
    if not setting:
        asked = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
        setting = int(asked) if asked.isdecimal() else 0
    return int(setting) or cores


def _gpus() -> tuple[str, ...]:
    details = tf.config.experimental.get_device_details
    return tuple(
        details(gpu).get("device_name", gpu.name)
        for gpu in tf.config.list_physical_devices("GPU")
    )
