# SPDX-License-Identifier: Apache-2.0
"""What a pass on moments asks of the nodes of a graph."""

from collections.abc import Collection
from collections.abc import Sequence

import tensorflow as tf

from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.graph.read import Node
from keras_bayesdrop.moments.moments import Moments
from keras_bayesdrop.plan.calls import inference_call


def certain(node: Node, given: Sequence[Moments]) -> dict[int, Moments]:
    """Calls an operation with all noise off."""
    call = inference_call(node.operation, node.fill)
    made = call([x.mean for x in given], None)
    return {
        number: Moments(real(tensor))
        for number, tensor in zip(node.outputs, made, strict=True)
    }


def last_uses(graph: Graph, done: Collection[int]) -> dict[int, int]:
    """Returns, per value, the index of the last node that takes it.

    What nodes take that are not run is needed after all others.
    """
    last = dict.fromkeys(graph.outputs, len(graph.nodes))
    for index, node in enumerate(graph.nodes):
        for number in node.inputs:
            use = len(graph.nodes) if index in done else index
            last[number] = max(use, last.get(number, 0))
    return last


def real(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a tensor in float32 or better; ids and the like as they are."""
    tensor = tf.convert_to_tensor(tensor)
    if tensor.dtype in (tf.float16, tf.bfloat16):
        return tf.cast(tensor, tf.float32)
    return tensor
