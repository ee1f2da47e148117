# SPDX-License-Identifier: Apache-2.0
"""Event files that TensorBoard reads, without TensorBoard.

`tf.summary.scalar` and `tf.summary.histogram` need TensorBoard to be installed.
What they write is a tensor and the name of the plugin that shows it.
"""

from typing import Any

import numpy as np
import tensorflow as tf

_BINS = 30
_SCALAR, _TENSOR = 1, 2  # the data classes of TensorBoard


def open_writer(log_dir: str) -> Any:
    """Returns a writer of a new event file in `log_dir`."""
    return tf.summary.create_file_writer(log_dir)


def scalar(writer: Any, tag: str, value: float, step: int) -> None:
    """Writes a number."""
    _write(writer, tag, np.float32(value), step, "scalars", _SCALAR)


def histogram(writer: Any, tag: str, values: np.ndarray, step: int) -> None:
    """Writes a histogram of the finite ones: [bins, (left, right, count)]."""
    counts, edges = np.histogram(values[np.isfinite(values)], _BINS)
    bins = np.stack([edges[:-1], edges[1:], counts], axis=1)
    _write(writer, tag, bins, step, "histograms", _TENSOR)


def _write(
    writer: Any, tag: str, value: Any, step: int, plugin: str, data_class: int
) -> None:
    metadata = tf.compat.v1.SummaryMetadata(
        plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name=plugin),
        data_class=data_class,
    )
    with writer.as_default():
        tf.summary.write(tag, value, step=step, metadata=metadata)
