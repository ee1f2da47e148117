# SPDX-License-Identifier: Apache-2.0
"""Reads mean, variance and mean entropy of outputs off their moments."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.moments.entropy import mean_entropy
from keras_bayesdrop.moments.outcome import MeanVariance
from keras_bayesdrop.moments.rules.activation import activate
from keras_bayesdrop.prediction.detection import has_logits
from keras_bayesdrop.predictive.heads import Head


def head_key(head: Head) -> tuple[str, bool]:
    """Returns the part of a head that compiled programs depend on."""
    return head.task, has_logits(head)


def with_probabilities(graph: Graph, heads: Sequence[Head]) -> Graph:
    """Returns a graph in which logits end in probabilities."""
    nodes, specs, outputs = list(graph.nodes), list(graph.specs), []
    for number, head in zip(graph.outputs, heads, strict=True):
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
            number = result
        outputs.append(number)
    return dataclasses.replace(
        graph, nodes=tuple(nodes), specs=tuple(specs), outputs=tuple(outputs)
    )


def read_output(
    head: Head, moments: MeanVariance, logits: bool
) -> tuple[Any, ...]:
    """Returns mean, variance and mean entropy of an output.

    Args:
        head: The head of the output.
        moments: Its moments.
        logits: Whether they are those of logits.
    """
    if logits:
        function = (
            keras.activations.softmax
            if head.task == "classification"
            else keras.activations.sigmoid
        )
        moments = activate(function, moments, "the output").moments
    mean, variance = moments.mean, moments.spread()
    if head.task == "regression":
        return mean, variance, None
    return mean, variance, _mean_entropy(head.task, mean, variance)


def _mean_entropy(task: str, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    if task == "binary":
        mean = tf.stack([mean, 1.0 - mean], axis=-1)
        variance = tf.stack([variance, variance], axis=-1)
    return mean_entropy(mean, variance)
