# SPDX-License-Identifier: Apache-2.0
"""Reads the outputs of a model as its heads say."""

import tensorflow as tf

from keras_bayesdrop.predictive.heads import Head


def has_logits(head: Head) -> bool:
    """Returns whether an output lacks its softmax or sigmoid."""
    return bool(getattr(head, "from_logits", False))


def probabilities(head: Head, outputs: tf.Tensor) -> tf.Tensor:
    """Returns outputs as float32 or float64, logits as probabilities."""
    if outputs.dtype not in (tf.float32, tf.float64):
        outputs = tf.cast(outputs, tf.float32)
    if not has_logits(head):
        return outputs
    if head.task == "classification":
        return tf.nn.softmax(outputs)
    return tf.sigmoid(outputs)
