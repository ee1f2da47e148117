# SPDX-License-Identifier: Apache-2.0
"""Exports a model with its uncertainty as a SavedModel."""

import json
import os
import pathlib
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.choice import get_choice
from keras_bayesdrop._core.files import replacing_folder
from keras_bayesdrop._core.renamed import refuse_old_keywords
from keras_bayesdrop._core.scratch import clear_left_overs
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_levels
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop._core.version import __version__
from keras_bayesdrop.engines import choose_portable_engine
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import WriteError
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.prediction.detection import check_heads
from keras_bayesdrop.prediction.methods import Sampling
from keras_bayesdrop.prediction.model_checks import check_num_samples
from keras_bayesdrop.prediction.request import OLD_KEYWORDS
from keras_bayesdrop.prediction.sampling.geometry import rows_per_batch
from keras_bayesdrop.random.philox import seed_to_key
from keras_bayesdrop.serving._members import prepare_members
from keras_bayesdrop.serving._program import Network
from keras_bayesdrop.serving._program import Program
from keras_bayesdrop.serving._signature import RESERVED
from keras_bayesdrop.serving._signature import SignatureInputs
from keras_bayesdrop.serving._signature import prefixes_of
from keras_bayesdrop.serving.quantities import QUANTITIES
from keras_bayesdrop.serving.quantities import is_defined

# Operations that call back into Python, which a server does not run.
_PYTHON_OPERATIONS = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
# A folder with this file is a SavedModel.
_MARK = "saved_model.pb"


@refuse_old_keywords(OLD_KEYWORDS)
def export_uncertainty(
    model: keras.Model | Sequence[keras.Model],
    path: str | os.PathLike[str],
    num_samples: int = 50,
    *,
    outputs: Sequence[str] = ("mean", "std"),
    seed: int = 0,
    method: str | Sampling = "sampling",
    head: Any = "auto",
    layers: LayerSelection = None,
    quantiles: Sequence[float] | None = None,
    batch_size: int | None = None,
    input_signature: Any = None,
    overwrite: bool = False,
) -> None:
    """Writes a model with its uncertainty as a TensorFlow SavedModel.

    The SavedModel draws `num_samples` dropout masks itself and returns

        mean = sum{ f(x; mask[t]) : t } / T,    std, entropy, ...

    It consists of TensorFlow operations only, without code or compiled ops of
    this package, so it loads where this package is not installed. It computes
    the numbers of `Sampling(engine="reference")` with the same seed: the same
    masks bit for bit, and the same results up to rounding.

    There are two signatures, because inputs of signatures are not optional:

    - `serving_default` takes the inputs of the model by name, with any number
      of rows. It draws the masks of `seed`, and counts rows from 0.
    - `with_seed` also takes `seed` and `first_row`, both scalar int64. With
      `masks="independent"` the number of a row determines its masks, and with
      `first_row` the parts of a data set get the same results as the whole.

    Outputs have the names of attributes of `Predictive`. A model with several
    outputs prefixes the name of the output: `price_mean`. The first axis of
    every output is the rows. The weights are those at the time of the export.
    BatchNormalization stays in inference mode.

    Args:
        model: A built Keras model, or a list of them, an ensemble, as in
            `predict_with_uncertainty`. Inputs have the names of the first.
        path: Folder to write.
        num_samples: Number `T` of samples, from 2 to 2^24.
        outputs: Any of `"mean"`, `"variance"`, `"std"`, `"mc_error"`,
            `"epistemic"`, `"aleatoric"`, `"total"`, and for classes
            `"predictive_entropy"` (or `"entropy"`), `"expected_entropy"`,
            `"mutual_information"`, `"variation_ratio"`. A quantity that is
            not defined for an output of the model is skipped there.
        seed: Any integer, the seed of `serving_default`.
        method: `"sampling"` or `Sampling(masks=...)`, without a tolerance.
            Convolutions are cut as in prediction, unless the engine is the
            reference; everything else runs as there.
        head: As in `predict_with_uncertainty`; the noise precision of a
            `Regression`, and the noise that a model of a `Heteroscedastic`
            head predicts, are in `"aleatoric"` and `"total"`.
        layers: Which noise sites are active, see `predict_with_uncertainty`.
        quantiles: Levels in `[0, 1]`; adds the output `quantiles`,
            `[rows, levels, ...]`. All samples of a request then stay in
            memory.
        batch_size: Rows times samples that the model computes at once, a
            bound on memory. A request with more rows runs one sample at a
            time. By default chosen by the size of the model.
        input_signature: Structure of `tf.TensorSpec` or arrays like the
            inputs. Needed for a model with its own `call`.
        overwrite: Whether to replace a SavedModel at `path`, in one step.
            Other files and folders are never replaced. If the export fails or
            is killed, the old SavedModel stays.

    Example:
    ```python
    keras_bayesdrop.export_uncertainty(
        model, "served/1", outputs=("mean", "mutual_information")
    )
    served = tf.saved_model.load("served/1").signatures["serving_default"]
    served(image=x)["mutual_information"]
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
    """
    private_keras.require_tensorflow()
    target = _check_target(path, bool(overwrite))
    num_samples = check_num_samples(num_samples)
    wanted = _check_outputs(outputs)
    levels = check_levels(quantiles, "quantiles") or ()
    method = _check_method(method)
    check_heads(head)
    key = seed_to_key(check_int(seed, "seed"))
    if batch_size is not None:
        check_positive_int(batch_size, "batch_size")
    members = prepare_members(model, layers, head, input_signature)
    first = members[0]
    heads = first.job.readings.heads
    _check_defined(wanted, [head.task for head in heads])
    program = Program(
        [
            Network(
                member.job.plan,
                member.job.readings,
                num_samples if member.draws else 1,
                method.mask_rule,
                rows_per_batch(member.job.plan, batch_size),
                bool(levels),
                choose_portable_engine(
                    member.job.plan, method.engine, method.shared
                ),
            )
            for member in members
        ],
        prefixes_of(first.job.model, first.job.readings),
        wanted,
        levels,
    )
    models = [member.job.model for member in members]
    signatures = _signatures(program, [each.inputs for each in members], key)
    _check_portable(models, signatures.values())
    module = tf.Module()
    module.kept = [_variables(signatures.values()), *map(_tables, models)]
    about = {
        "made_by": f"keras_bayesdrop {__version__}",
        "model": first.job.model.name,
        "num_members": len(members),
        "num_samples": num_samples,
        "masks": method.masks,
        "draws": method.draws,
        "seed": seed,
        "outputs": sorted(signatures["serving_default"].structured_outputs),
        "tasks": [head.resolved().task for head in heads],
        "quantiles": levels,
        "noise_precision": [
            getattr(head, "noise_precision", None) for head in heads
        ],
    }
    with replacing_folder(target) as folder:
        try:
            tf.saved_model.save(module, str(folder), signatures=signatures)
        except tf.errors.OpError as error:
            raise _not_written(target, error) from error
        _describe(folder, about)
        # Another process may have written there meanwhile.
        _check_target(target, bool(overwrite))


def _signatures(
    program: Program, inputs: Sequence[SignatureInputs], key: int
) -> dict[str, Any]:
    """Traces the signatures, whose inputs have the names of the first model."""
    first = inputs[0].specs

    def pack(tensors: dict[str, tf.Tensor]) -> list[Any]:
        flat = [tensors[name] for name in first]
        return [each.pack(flat) for each in inputs]

    def serving_default(**tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        return program.trace(
            pack(tensors),
            tf.constant(key, tf.uint64),
            tf.constant(0, tf.int64),
        )

    def with_seed(
        seed: tf.Tensor, first_row: tf.Tensor, **tensors: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return program.trace(
            pack(tensors), tf.bitcast(seed, tf.uint64), first_row
        )

    numbers = {name: tf.TensorSpec([], tf.int64, name) for name in RESERVED}
    return {
        function.__name__: tf.function(
            function, autograph=False
        ).get_concrete_function(**specs)
        for function, specs in (
            (serving_default, first),
            (with_seed, {**first, **numbers}),
        )
    }


def _check_method(method: Any) -> Sampling:
    """Returns the method of an export: sampling with a fixed number."""
    sampling = get_choice(method, "method", (Sampling,))
    if sampling.stops_early or sampling.engine == "fused":
        raise BayesdropError(
            "An export draws the same number of samples for every row, in "
            "plain TensorFlow. Expected Sampling(masks=...) without a "
            f"tolerance, and engine='auto' or 'reference'. Received: {sampling}"
        )
    return sampling


def _check_outputs(outputs: Any) -> tuple[str, ...]:
    expected = f"a sequence of names out of {', '.join(map(repr, QUANTITIES))}"
    if isinstance(outputs, str) or not isinstance(outputs, Iterable):
        raise invalid("outputs", outputs, expected)
    names = tuple(dict.fromkeys(outputs))
    if not names or any(name not in QUANTITIES for name in names):
        raise invalid("outputs", outputs, expected)
    return names


def _check_defined(names: Sequence[str], tasks: Sequence[str]) -> None:
    for name in names:
        if not any(is_defined(name, task) for task in tasks):
            raise BayesdropError(
                f"`{name}` is not defined for any output of the model. "
                "Expected an output of probabilities: "
                f"head='classification' or 'binary'. Received: {list(tasks)}"
            )


def _check_portable(models: Sequence[Any], functions: Iterable[Any]) -> None:
    """Raises an error if a graph calls Python."""
    for function in functions:
        graph = function.graph.as_graph_def()
        nodes = [*graph.node]
        for inner in graph.library.function:
            nodes.extend(inner.node_def)
        calls = sorted({n.op for n in nodes if n.op in _PYTHON_OPERATIONS})
        if calls:
            raise BayesdropError(
                f"Model `{models[0].name}` calls Python, which is not there "
                "when it is served. Expected layers of TensorFlow operations "
                "only, without `tf.py_function` or `tf.numpy_function`. "
                f"Received: {calls}"
            )


def _variables(functions: Iterable[Any]) -> list[tf.Variable]:
    """Returns the variables that functions read, each once."""
    variables = {id(v): v for f in functions for v in f.graph.variables}
    return list(variables.values())


def _tables(model: Any) -> list[Any]:
    """Returns the lookup tables of a model, such as vocabularies."""
    tables = [
        getattr(layer, "lookup_table", None)
        for layer in private_keras.all_layers(model)
    ]
    return [table for table in tables if table is not None]


def _not_written(target: pathlib.Path, error: Exception) -> WriteError:
    """Returns the error of an export that TensorFlow could not write."""
    reason = str(error).strip().splitlines()[0]
    return WriteError(
        f"`{target}` was not written; an older export there is unchanged. "
        f"Expected disk space for a SavedModel. Received: {reason}"
    )


def _describe(folder: pathlib.Path, about: dict[str, Any]) -> None:
    """Writes the settings of an export to its extra assets."""
    extra = folder / "assets.extra"
    extra.mkdir()
    text = json.dumps(about, indent=2) + "\n"
    (extra / "keras_bayesdrop.json").write_text(text, "utf-8")


def _check_target(
    path: str | os.PathLike[str], overwrite: bool
) -> pathlib.Path:
    """Returns the path of a new SavedModel, if it may be written.

    Only a SavedModel is ever replaced, so that a wrong path does not remove
    another folder.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise BayesdropError(
            "Invalid value for argument `path`. Expected a folder to write. "
            f"Received: path={path!r}"
        )
    target = pathlib.Path(path)
    if target.is_symlink() and not target.exists():
        raise BayesdropError(
            f"`{target}` is a symbolic link to nothing. Expected a link to a "
            "SavedModel, or a path that does not exist. Received: a "
            f"link to `{os.readlink(target)}`"
        )
    # A killed export may have moved the old one aside.
    clear_left_overs(target)
    if not target.exists():
        return target
    if not overwrite:
        raise BayesdropError(
            f"`{target}` exists. Expected a path that does not exist, or "
            "overwrite=True. Received: overwrite=False"
        )
    empty = target.is_dir() and not any(target.iterdir())
    if not empty and not (target / _MARK).is_file():
        raise BayesdropError(
            f"`{target}` is not a SavedModel, and is not replaced. Expected a "
            f"folder with a file `{_MARK}`, an empty folder, or a new path. "
            f"Received: another {'folder' if target.is_dir() else 'file'}"
        )
    return target
