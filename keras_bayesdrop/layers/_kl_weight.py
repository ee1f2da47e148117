# SPDX-License-Identifier: Apache-2.0
"""What layers with a KL divergence share: its place in the loss, its weight.

    loss = data + kl_weight * c / (N * D) * KL

with `N` training examples, `D` outputs, and `c` as in `DropoutL2`: 1 for a
loss in nats, `2 / tau` for the squared error.

The penalty is the regularizer of one variable, so it counts as those of Keras
do: once, however often the layer is called; in `fit` and `evaluate`; whatever
the batch size; divided among the replicas of a `tf.distribute` strategy. What
`add_loss` collects in `call` would count a shared layer twice, and is mixed up
between replicas that wait for each other inside the model.
"""

from typing import Any

import keras

from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop.losses.likelihood import get_likelihood


class KLLayer:
    """Mixin of a `keras.layers.Layer` whose parameters have a posterior.

    The layer calls `_init_kl` in its `__init__`, and gives one trainable
    variable `regularizer=self._kl_penalty`.

    Attributes:
        kl_weight: Scalar float32 variable. It is there before the layer is
            built, so that a callback can set it before the first batch.
    """

    kl_weight: Any

    def kl_divergence(self) -> Any:
        """Returns KL(posterior || prior) in nats, a scalar, without weight."""
        raise NotImplementedError

    def _nats(self) -> Any:
        """Returns what `kl_weight` weighs: the KL, if there is no more."""
        return self.kl_divergence()

    def _init_kl(
        self,
        num_train_examples: int,
        likelihood: Any = "nll",
    ) -> None:
        """Makes `kl_weight`; checks and keeps the arguments of `DropoutL2`."""
        self.num_train_examples = check_positive_int(
            num_train_examples, "num_train_examples"
        )
        self.likelihood = get_likelihood(likelihood)
        with keras.name_scope(self.name):  # type: ignore[attr-defined]
            self.kl_weight = self.add_weight(  # type: ignore[attr-defined]
                name="kl_weight",
                shape=(),
                initializer="ones",
                trainable=False,
                dtype="float32",
                autocast=False,
            )

    def _kl_config(self) -> dict[str, Any]:
        """Returns the arguments of `_init_kl`."""
        return {
            "num_train_examples": self.num_train_examples,
            "likelihood": keras.saving.serialize_keras_object(self.likelihood),
        }

    @property
    def _kl_penalty(self) -> keras.regularizers.Regularizer:
        """The regularizer that stands for the KL in the loss."""
        return _KLPenalty(self)


class _KLPenalty(keras.regularizers.Regularizer):
    """What the KL of a layer adds to the loss.

    Args:
        layer: The layer. Of the variable that the penalty is called with,
            nothing is needed.
    """

    def __init__(self, layer: KLLayer) -> None:
        self._layer = layer

    def __call__(self, x: Any) -> Any:
        """Returns the penalty, a scalar in float32."""
        layer = self._layer
        per_nat = layer.likelihood.loss_per_nat(layer.num_train_examples)
        nats = keras.ops.cast(layer._nats(), "float32")
        return layer.kl_weight * (per_nat * nats)
