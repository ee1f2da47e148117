# SPDX-License-Identifier: Apache-2.0
"""Checks the inputs `x`, and cuts them into batches of bounded size."""

import dataclasses
import types
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import NonFiniteError

# For `check_finite`, where the mean is finite.
_SPREAD = "the variance of the outputs, which leaves the range of its type"

_ROWS_NAMED = 8


@dataclasses.dataclass(frozen=True)
class Batch:
    """Some rows of `x`.

    Attributes:
        first_row: Index in `x` of the first.
        inputs: Structure of tensors [rows, ...].
        num_rows: How many there are.
        targets: Structure of the targets that a stream has beside its inputs,
            if it has any.
        weights: Structure of its sample weights, if it has any.
    """

    first_row: int
    inputs: Any
    num_rows: int
    targets: Any = None
    weights: Any = None

    def cut(self, size: int) -> Iterator["Batch"]:
        """Hands out the rows in parts of at most `size`."""
        if 0 < self.num_rows <= size:
            yield self
            return
        whole = (self.inputs, self.targets, self.weights)
        for begin in range(0, self.num_rows, size):
            end = min(begin + size, self.num_rows)
            inputs, *known = (_rows(each, begin, end) for each in whole)
            yield Batch(self.first_row + begin, inputs, end - begin, *known)


def count_rows(x: Any) -> int | None:
    """Returns the number of rows of arrays, or `None` for a stream."""
    leaves = keras.tree.flatten(x)
    if x is None or not leaves:
        raise BayesdropError(
            f"`x` is empty. Expected at least one row. Received: x={x!r}"
        )
    check_types(x)
    if any(isinstance(x, (tf.RaggedTensor, tf.SparseTensor)) for x in leaves):
        raise BayesdropError(
            "`x` holds ragged or sparse tensors. Expected dense arrays "
            "[rows, ...]; pad or densify them first. Received: "
            f"{[type(leaf).__name__ for leaf in leaves]}"
        )
    if not private_keras.is_random_access(x):
        return None
    if any(len(leaf.shape) == 0 for leaf in leaves):
        raise BayesdropError(
            "`x` has no batch axis. Expected arrays of shape [rows, ...]. "
            f"Received: shapes {[tuple(leaf.shape) for leaf in leaves]}"
        )
    return len(leaves[0])


def check_types(x: Any) -> None:
    """Raises for values that Keras cannot take, or not without a loss."""
    for leaf in keras.tree.flatten(x):
        if leaf is None or isinstance(leaf, (str, bytes, int, float, complex)):
            raise BayesdropError(
                f"`x` holds single Python values of type "
                f"{type(leaf).__name__}, no arrays. Expected arrays "
                "[rows, ...]: Keras takes a list for several inputs, not for "
                f"rows. Received: {_short(x)}. Use np.asarray(x)."
            )
        dtype = _numpy_type(leaf)
        if dtype is None:
            continue
        way_out = _WAYS_OUT.get("structured" if dtype.names else dtype.kind)
        if dtype.kind == "f" and dtype.itemsize > 8:
            way_out = "Use x.astype('float32')."
        if way_out is not None:
            raise BayesdropError(
                f"`x` holds values of type {dtype}, which Keras does not "
                "take. Expected an array of numbers of at most 64 bits. "
                f"Received: {type(leaf).__name__} of type {dtype} and shape "
                f"{tuple(leaf.shape)}. {way_out}"
            )


# What to do about arrays of some kinds of types.
_WAYS_OUT = {
    "M": "Use numbers, such as days: (x - start) / np.timedelta64(1, 'D').",
    "m": "Use numbers, such as seconds: x / np.timedelta64(1, 's').",
    "O": "Use np.asarray(x, 'float32') for numbers, np.stack(x) for arrays, "
    "tf.constant(x) for strings.",
    "U": "Keras refuses strings of NumPy in `predict` too; use tf.constant(x).",
    "S": "Keras refuses strings of NumPy in `predict` too; use tf.constant(x).",
    "structured": "Use a plain array of numbers for each input.",
}
_WAYS_OUT["T"] = _WAYS_OUT["U"]  # Strings of NumPy 2.


def _numpy_type(leaf: Any) -> Any:
    """Returns the NumPy type of an array; `None` for tensors and streams."""
    if isinstance(leaf, np.ndarray):
        return leaf.dtype
    if type(leaf).__module__.partition(".")[0] == "pandas":
        return np.asarray(leaf[:1]).dtype
    return None


def _short(x: Any) -> str:
    """Describes a structure in few words."""
    if isinstance(x, (list, tuple)):
        return f"a {type(x).__name__} of {len(x)}"
    if isinstance(x, dict):
        return f"a dict with keys {sorted(map(str, x))[:_ROWS_NAMED]}"
    return f"x={x!r:.40}"


def check_arrays(x: Any) -> None:
    """Raises for arrays that are empty, uneven, or hold NaN or infinity."""
    leaves = [np.asarray(leaf) for leaf in keras.tree.flatten(x)]
    lengths = [len(leaf) for leaf in leaves]
    if len(set(lengths)) > 1:
        raise BayesdropError(
            "The arrays of `x` differ in length. Expected the same number of "
            f"rows in each. Received: {lengths} rows"
        )
    if lengths[0] == 0:
        raise BayesdropError(
            "`x` is empty. Expected at least one row. Received: shapes "
            f"{[leaf.shape for leaf in leaves]}"
        )
    for leaf in leaves:
        check_finite(leaf, "the inputs `x`", 0)


def check_finite(values: Any, what: str, rows: Any) -> None:
    """Raises if any row holds NaN or infinity, naming the rows.

    Args:
        values: Array or tensor [rows, ...].
        what: What the values are, for the message.
        rows: Index in `x` of the first row, or of each.
    """
    values = np.asarray(values)
    if values.dtype.kind not in "fc":
        return
    finite = np.isfinite(values)
    if finite.all():
        return
    bad = np.flatnonzero(~finite.reshape(len(values), -1).all(axis=1))
    numbers = bad + rows if isinstance(rows, int) else rows[bad]
    named = ", ".join(str(number) for number in numbers[:_ROWS_NAMED])
    more = ", ..." if len(bad) > _ROWS_NAMED else ""
    raise NonFiniteError(
        f"NaN or infinity in {what}. Expected finite numbers. Received: "
        f"{len(bad)} bad row(s), at {named}{more}"
    )


def check_shapes(model: Any, inputs: Any) -> None:
    """Raises if inputs do not have the features that a graph was built for."""
    graph = private_keras.graph_of(model)
    if graph is None:
        return
    wanted = graph.inputs
    leaves = keras.tree.flatten(inputs)
    names = [spec.name for spec in wanted]
    if isinstance(inputs, dict) and set(inputs) >= set(names):
        leaves = [inputs[name] for name in names]
    for leaf, spec in zip(leaves, wanted, strict=False):
        dtype = _numpy_type(leaf) or getattr(leaf, "dtype", None)
        if _is_complex(dtype) and not _is_complex(spec.dtype):
            raise BayesdropError(
                f"`x` is complex, and input `{spec.name}` of model "
                f"`{model.name}` is not: Keras would drop the imaginary part. "
                f"Expected type {spec.dtype}. Received: type {dtype}. Use "
                "np.stack([x.real, x.imag], axis=-1), or np.abs(x)."
            )
    fits = len(leaves) == len(wanted) and all(
        _fits(tuple(leaf.shape), tuple(spec.shape))
        for leaf, spec in zip(leaves, wanted, strict=True)
    )
    if not fits:
        raise BayesdropError(
            f"`x` does not fit the inputs of model `{model.name}`. Expected "
            f"shape(s) {[tuple(spec.shape) for spec in wanted]}. Received: "
            f"{[tuple(leaf.shape) for leaf in leaves]}"
        )


def check_moments(
    mean: Any, variance: Any, rows: Any, noise_variance: Any = None
) -> None:
    """Raises if a mean or a variance of the outputs is not finite.

    Args:
        mean: Array [rows, ...].
        variance: Array [rows, ...].
        rows: As in `check_finite`.
        noise_variance: Array [rows, ...] of learned noise, if it is.
    """
    check_finite(mean, "the outputs", rows)
    check_finite(variance, _SPREAD, rows)
    if noise_variance is not None:
        check_finite(noise_variance, "the log variances of the outputs", rows)


def _is_complex(dtype: Any) -> bool:
    return "complex" in str(dtype)


def _fits(shape: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    """Returns whether a shape is the expected one, up to a last axis of 1."""
    if len(shape) == len(wanted) + 1 and shape[-1] == 1:
        shape = shape[:-1]
    elif len(shape) == len(wanted) - 1 and wanted[-1] == 1:
        shape = (*shape, 1)
    return len(shape) == len(wanted) and all(
        want is None or size is None or size == want
        for size, want in zip(shape[1:], wanted[1:], strict=True)
    )


def specs_of(x: Any, batch_size: int | None = None) -> Any:
    """Returns the structure of `tf.TensorSpec` of a batch of arrays.

    Args:
        x: Structure of arrays.
        batch_size: Most rows of the batch; any number by default.
    """

    def spec(leaf: Any) -> tf.TensorSpec:
        dtype = np.asarray(leaf[:1]).dtype
        if dtype.kind == "f":
            dtype = keras.config.floatx()
        rows = None if batch_size is None else min(batch_size, len(leaf))
        return tf.TensorSpec([rows, *leaf.shape[1:]], dtype)

    return keras.tree.map_structure(spec, x)


def iterate(x: Any, batch_size: int, steps: int | None) -> Iterator[Batch]:
    """Hands out the rows of `x` in order.

    Args:
        x: Whatever `keras.Model.predict` takes.
        batch_size: Most rows a batch may have, or 0 for whatever a stream
            hands out.
        steps: Batches of `x` after which to stop, or `None`.

    Yields:
        Batches.
    """
    first_row = 0
    if isinstance(x, types.GeneratorType):
        x = _checked(x)
    for inputs, *known in private_keras.batches(x, batch_size or None, steps):
        inputs = keras.tree.map_structure(tf.convert_to_tensor, inputs)
        rows = int(keras.tree.flatten(inputs)[0].shape[0])
        whole = Batch(first_row, inputs, rows, *known)
        yield from whole.cut(batch_size or max(rows, 1))
        first_row += rows


def _rows(structure: Any, begin: int, end: int) -> Any:
    """Returns some rows of a structure of arrays; `None` for none."""
    if structure is None:
        return None
    return keras.tree.map_structure(lambda leaf: leaf[begin:end], structure)


def _checked(batches: Iterator[Any]) -> Iterator[Any]:
    """Passes batches of a generator on, after a look at their types."""
    for batch in batches:
        inputs, *_ = batch if isinstance(batch, tuple) else (batch,)
        check_types(inputs)
        yield batch
