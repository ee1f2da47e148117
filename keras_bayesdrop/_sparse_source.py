# SPDX-License-Identifier: Apache-2.0
"""What layers tell about themselves, so that a plain model can be made of them.

The two mix-ins stand here, above the layers, since `keras_bayesdrop.sparsity`
itself imports the layers.
"""

from typing import Any

import keras


class SparseSource:
    """Mix-in of layers whose kernel carries noise.

    Such a layer has a kernel of means `theta` and a noise of relative variance
    `alpha` for each weight:

        w = theta + sigma * e,    e ~ N(0, 1),    alpha = sigma^2 / theta^2

    A weight of large `alpha` is noise only, and can be removed. A layer with a
    bias keeps it in `bias`, as the layers of Keras do, and says so in
    `use_bias`.
    """

    def log_alpha(self) -> Any:
        """Returns `log(sigma^2 / theta^2)`, clipped, for each weight.

        Returns:
            Tensor that broadcasts to the shape of `mean_kernel()`.
        """
        raise NotImplementedError

    def mean_kernel(self) -> Any:
        """Returns `theta`: a tensor in the shape of the plain layer's kernel.

        It is the kernel of the mean network, whatever is stored.
        """
        raise NotImplementedError

    def second_moments(self) -> Any:
        """Returns `theta^2 + sigma^2`: a tensor in the shape of the kernel."""
        square = keras.ops.square(self.mean_kernel())
        return square * (1.0 + keras.ops.exp(self.log_alpha()))

    def plain_layer(self) -> keras.layers.Layer:
        """Returns the `Dense` or `Conv` layer without noise.

        Returns:
            A new layer that was not built: same name, dtype policy, trainable
            flag, activation, bias, strides, padding and so on, and nothing in
            its config that needs this package to be loaded.
        """
        raise NotImplementedError


class PlainInside:
    """Mix-in of layers that, without their noise, are other layers in a row."""

    def plain_layers(self) -> list[keras.layers.Layer]:
        """Returns the layers that compute the same without noise, in order.

        Returns:
            Nothing, for a layer that is noise only. The inner layer, for a
            wrapper: as it is, built and with its weights. It is copied, never
            used itself, and may be a `SparseSource`. A layer without weights
            may be new.
        """
        raise NotImplementedError
