# SPDX-License-Identifier: Apache-2.0
"""What layers tell about the scales that the prior of their weights has."""

import abc

from keras_bayesdrop.priors import GroupScales


class ScaleSource(abc.ABC):
    """Mix-in of layers that learn scales of the prior of their weights.

        w[r, j] ~ N(0, sigma0^2 * xi[r]^2 * tau^2)

    The scales that explain the weights best are known in closed form. A layer
    either takes them in-line, at every step those of the weights of that step,
    or holds them in variables, which only `update_scales` changes: then the
    M-step of variational EM is a step of its own.
    """

    @property
    @abc.abstractmethod
    def scales_in_variables(self) -> bool:
        """Whether the layer holds its scales in variables."""

    @abc.abstractmethod
    def learned_scales(self) -> GroupScales:
        """Returns the scales that the layer's penalty has now.

        Returns:
            NumPy arrays: `rows` of shape `[rows]`, `matrix` a scalar, `None`
            for what the structure of the prior does not have. Both are
            `None` for a layer that was made without structure.
        """

    @abc.abstractmethod
    def update_scales(self) -> None:
        """Assigns the best scales for the weights to the variables.

        With operations of Keras only, so that callers can compile it.

        Raises:
            BayesdropError: If the layer takes its scales in-line, where they
                are never anything else.
        """
