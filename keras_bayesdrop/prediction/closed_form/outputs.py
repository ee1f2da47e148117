# SPDX-License-Identifier: Apache-2.0
"""Reads results off the moments of a model's outputs."""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.moments.entropy import mean_entropy
from keras_bayesdrop.moments.exponential import mean_exponential
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.rules.activation import activate
from keras_bayesdrop.prediction.reading import Reading
from keras_bayesdrop.prediction.reading import has_logits
from keras_bayesdrop.predictive.heads import Heteroscedastic


class OutputMoments(NamedTuple):
    """The moments of one result, tensors [rows, ...] or [rows, samples, ...].

    Attributes:
        mean: Of the values.
        variance: Likewise.
        entropy: Mean entropy, for classes.
        noise: Mean variance of learned noise.
    """

    mean: Any
    variance: Any
    entropy: Any = None
    noise: Any = None

    def map(self, function: Callable[[Any], Any]) -> "OutputMoments":
        """Returns the results of a function for what is there."""
        return OutputMoments(
            *(None if each is None else function(each) for each in self)
        )


def reading_key(reading: Reading) -> tuple[Any, ...]:
    """Returns the part of a reading that compiled programs depend on."""
    head = reading.head
    limit = getattr(head, "log_variance_limit", None)
    return head.task, has_logits(head), limit, reading.sources


def with_probabilities(graph: Graph, readings: Sequence[Reading]) -> Graph:
    """Returns a graph in which logits end in probabilities."""
    nodes, specs = list(graph.nodes), list(graph.specs)
    outputs = list(graph.outputs)
    for reading in readings:
        head, place = reading.head, reading.sources[0]
        number = outputs[place]
        if has_logits(head):
            softmax = head.task == "classification"
            wide = specs[number].dtype == "float64"
            activation = keras.layers.Activation(
                "softmax" if softmax else "sigmoid",
                dtype="float64" if wide else "float32",
            )
            result = len(specs)
            specs.append(specs[number])
            nodes.append(
                Node(
                    path=activation.name,
                    operation=activation,
                    inputs=(number,),
                    outputs=(result,),
                    fill=lambda values: ((values[0],), {}),
                )
            )
            outputs[place] = result
    return dataclasses.replace(
        graph, nodes=tuple(nodes), specs=tuple(specs), outputs=tuple(outputs)
    )


def read_output(
    reading: Reading, outputs: Sequence[MeanVariance], logits: bool
) -> OutputMoments:
    """Returns the moments of a result.

    Args:
        reading: How it is read off the outputs.
        outputs: The moments of all outputs of the model.
        logits: Whether they are those of logits.
    """
    head = reading.head
    if isinstance(head, Heteroscedastic):
        return _with_noise(reading, outputs, head.log_variance_limit)
    moments = outputs[reading.sources[0]]
    if logits:
        function = (
            keras.activations.softmax
            if head.task == "classification"
            else keras.activations.sigmoid
        )
        moments = activate(function, moments, "the output").moments
    mean, variance = moments.mean, moments.spread()
    if head.task == "regression":
        return OutputMoments(mean, variance)
    entropy = _mean_entropy(head.task, mean, variance)
    return OutputMoments(mean, variance, entropy)


def _with_noise(
    reading: Reading, outputs: Sequence[MeanVariance], limit: float
) -> OutputMoments:
    """Returns the moments of numbers with learned noise."""
    taken = [outputs[number] for number in reading.sources]
    mean, log_mean = reading.parts([each.mean for each in taken])
    variance, log_spread = reading.parts([each.spread() for each in taken])
    noise = mean_exponential(log_mean, log_spread, limit)
    return OutputMoments(mean, variance, noise=tf.cast(noise, mean.dtype))


def _mean_entropy(task: str, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    if task == "binary":
        mean = tf.stack([mean, 1.0 - mean], axis=-1)
        variance = tf.stack([variance, variance], axis=-1)
    return mean_entropy(mean, variance)
