# SPDX-License-Identifier: Apache-2.0
"""Mix-ins by which layers describe themselves to other rooms.

`SparseSource` and `PlainInside` let surgery turn a layer into a plain one,
`ResidualSource` lets a graph be read through it, and `ScaleSource` gives access
to the learned scales of its prior.
"""

import abc
from typing import Any

import keras

from keras_bayesdrop.priors import GroupScales


class SparseSource:
    """Mix-in of layers whose kernel carries noise.

    Such a layer has a kernel of means `theta` and a noise of relative variance
    `alpha` for each weight:

        w = theta + sigma * e,    e ~ N(0, 1),    alpha = sigma^2 / theta^2

    A weight of large `alpha` is noise only, and can be removed. A layer with a
    bias keeps it in `bias`, as Keras' layers do, and sets `use_bias`.
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


class ResidualSource(abc.ABC):
    """Mix-in of layers that are other layers in a row, beside a shortcut.

        y = add([shortcut(x), branch(x)])

    With one input and no arguments the layer computes nothing else.
    """

    @abc.abstractmethod
    def residual_layers(self) -> tuple[list[Any], list[Any], Any]:
        """Returns the layers of the shortcut, of the branch, and `add`.

        Returns:
            Two lists of layers, in the order of their calls, the first empty
            if the shortcut is the input itself; and a `keras.layers.Add`.
        """


class ScaleSource(abc.ABC):
    """Mix-in of layers that learn scales of the prior of their weights.

        w[r, j] ~ N(0, sigma0^2 * xi[r]^2 * tau^2)

    The scales that explain the weights best are known in closed form. A layer
    either computes them in-line, at every step from the weights of that step,
    or holds them in variables, which only `update_scales` changes: then the
    M-step of variational EM is a separate step.
    """

    @property
    @abc.abstractmethod
    def scales_in_variables(self) -> bool:
        """True if the layer holds its scales in variables."""

    @abc.abstractmethod
    def learned_scales(self) -> GroupScales:
        """Returns the scales that the layer's penalty has now.

        Returns:
            NumPy arrays: `rows` of shape `[rows]`, `matrix` a scalar, `None`
            for what the structure of the prior does not have. Both are
            `None` for a layer without structure.
        """

    @abc.abstractmethod
    def update_scales(self) -> None:
        """Assigns the best scales for the weights to the variables.

        Uses Keras' operations only, so that callers can compile it.

        Raises:
            BayesdropError: If the layer computes its scales in-line.
        """
