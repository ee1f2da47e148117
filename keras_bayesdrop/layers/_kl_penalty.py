# SPDX-License-Identifier: Apache-2.0
"""The KL divergence of a layer as a penalty in the loss.

    loss = data + kl_weight * c / (N * D) * KL

with `N` training examples, `D` outputs, and `c` as in `DropoutL2`: 1 for a
loss in nats, `2 / tau` for the squared error.

The penalty is the regularizer of a variable, so it counts as Keras' own
regularizers do: once, however often the layer is called; in `fit` and
`evaluate`; whatever the batch size; divided among the replicas of a
`tf.distribute` strategy. `add_loss` in `call` would count a shared layer twice,
and mixes up replicas that wait for each other inside the model.
"""

from collections.abc import Callable
from typing import Any

import keras

from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.losses.likelihood import get_likelihood


class KLPenalty(keras.regularizers.Regularizer):
    """A penalty in nats, weighed for the loss of a model.

    A layer owns one, gives it to one of its trainable variables as
    `regularizer`, and shows `weight` as its attribute `kl_weight`.

    Args:
        layer: The layer, which gets the variable `kl_weight` at once: a
            callback can set it before the layer is built.
        nats: Function without arguments. Returns the penalty without weight,
            a scalar tensor.
        num_train_examples: Positive int. Number of training examples.
        likelihood: As in `DropoutL2`.

    Attributes:
        weight: Scalar float32 variable, 1 to begin with, not trained.
    """

    def __init__(
        self,
        layer: Any,
        nats: Callable[[], Any],
        num_train_examples: Any,
        likelihood: Any = "nll",
    ) -> None:
        self._nats = nats
        self.num_train_examples = check_positive_int(
            num_train_examples, "num_train_examples"
        )
        self.likelihood = get_likelihood(likelihood)
        with keras.name_scope(layer.name):
            self.weight = layer.add_weight(
                name="kl_weight",
                shape=(),
                initializer="ones",
                trainable=False,
                dtype="float32",
                autocast=False,
            )

    def __call__(self, x: Any) -> Any:
        """Returns the penalty, a scalar in float32.

        Args:
            x: The variable, of which nothing is needed.
        """
        return self.weigh(keras.ops.cast(self._nats(), "float32"))

    def weigh(self, nats: Any) -> Any:
        """Returns what `nats`, a scalar tensor, add to the loss."""
        per_nat = self.likelihood.loss_per_nat(self.num_train_examples)
        return keras.ops.cast(self.weight, nats.dtype) * (per_nat * nats)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that the layer's constructor has for it."""
        return {
            "num_train_examples": self.num_train_examples,
            "likelihood": keras.saving.serialize_keras_object(self.likelihood),
        }
