# SPDX-License-Identifier: Apache-2.0
"""A plain Keras model without the weights that are noise."""

import keras

from keras_bayesdrop._core.validate import check_bool
from keras_bayesdrop._core.validate import check_threshold
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.source import check_graph
from keras_bayesdrop.graph.source import check_source
from keras_bayesdrop.graph.surgery.kernels import Kernel
from keras_bayesdrop.graph.surgery.kernels import find_kernels
from keras_bayesdrop.sparsity.cut import cut


def prune(
    model: keras.Model, threshold: float = 3.0, structured: bool = False
) -> keras.Model:
    """Returns a plain Keras model without the weights that are noise.

    A variational layer becomes the layer of Keras whose kernel is

        w = theta  if log alpha <= threshold,  0 otherwise

    Wrappers such as `ConcreteDropout` become the layer inside, noise that is
    learned or that Keras does not have is left out, `DropConnect` layers lose
    theirs, and `MCDropout` and its like become the layers of Keras that drop
    in training only. The result is saved, loaded and trained
    like any model of Keras, without this package. Nested models are opened: it
    is one graph of layers. It has the inputs and outputs of `model`, their
    names, dtype policies and trainable flags, and it is not compiled.

    With `structured=True` the model gets smaller, too: a unit or channel is
    removed if all its outgoing weights are zero, or if its output is constant
    (all its incoming weights are zero, say), and the constant is added to the
    biases of the layers that follow. `Dense`, convolutions, batch
    normalization, activations, dropout, pooling, `Flatten`, `Reshape`, merging
    layers and `Concatenate` are followed through. Before anything else, where
    a constant meets zero padding, and in layers called more than once, all
    channels stay. So do inputs and outputs, and at least one channel of each
    layer.

    Args:
        model: A built Functional or Sequential model, with variational layers
            or with zeros in its kernels. Never changed.
        threshold: Finite float. Largest log alpha of a weight that is kept.
            Defaults to `3.0`.
        structured: Whether units and channels that do nothing are removed.
            Defaults to `False`.

    Returns:
        A new model with weights of its own, which predicts as the means of the
        weights that are kept do.

    Raises:
        BayesdropError: If no weight of a variational layer would be kept, or
            if the model has nothing to prune.

    Example:
    ```python
    small = prune(model, structured=True)
    small.save("small.keras")
    ```

    References:
        - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369).
    """
    model = check_source(model)
    threshold = check_threshold(threshold)
    structured = check_bool(structured, "structured")
    check_graph(model)
    kernels = find_kernels(model)
    noisy = [kernel for kernel in kernels if kernel.log_alpha is not None]
    if not noisy and all(kernel.mean.all() for kernel in kernels):
        raise BayesdropError(
            f"Model `{model.name}` has nothing to prune. Expected variational "
            "layers, or zeros in the kernels of plain layers. Received: "
            f"{len(kernels)} kernel(s), none with either"
        )
    for kernel in noisy:
        _check_not_empty(kernel, threshold)
    return cut(model, {k.path: k.kept(threshold) for k in noisy}, structured)


def _check_not_empty(kernel: Kernel, threshold: float) -> None:
    if kernel.kept(threshold).any():
        return
    assert kernel.log_alpha is not None
    low, high = kernel.log_alpha.min(), kernel.log_alpha.max()
    raise BayesdropError(
        f"No weight of layer `{kernel.path}` would be kept. Expected a "
        f"threshold of at least {low:.4g}, the smallest log alpha of its "
        f"{kernel.mean.size} weights. Received: threshold={threshold:g}, log "
        f"alpha from {low:.4g} to {high:.4g}"
    )
