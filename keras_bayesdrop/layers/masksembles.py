# SPDX-License-Identifier: Apache-2.0
"""A fixed number of masks instead of random ones."""

import math
import weakref
from numbers import Real
from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import check_seed
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers._dropout.mask_families import make_masks
from keras_bayesdrop.layers._dropout.mask_families import ones_per_mask
from keras_bayesdrop.layers._operations import wide_dtype
from keras_bayesdrop.layers.sources import PlainInside
from keras_bayesdrop.noise import MaskTable
from keras_bayesdrop.noise import NoiseSource

# All layers of a model draw the same turns, so that a row has the mask of one
# number in all of them.
_SEED_OF_TURNS = 0


@export("keras_bayesdrop.layers.Masksembles")
class Masksembles(keras.layers.Layer, NoiseSource, PlainInside):
    """A fixed set of masks: an ensemble of overlapping sub-networks.

    The layer makes `num_masks` binary masks when it is built, and keeps them.
    Mask `k` of all such layers in a model cuts one sub-network out of it:

        y = x * masks[k]

    Kept units are not rescaled. `scale` sets how much the masks overlap. Each
    keeps `M` of the `C` units, and two of them have in common

        |a and b| / |a or b| = 1 / (2 * scale - 1)
        C = M * scale * (1 - (1 - 1 / scale)^num_masks)

    on average, up to the rounding of `M`. At scale 1 all units are kept, and
    the masks do nothing. With a large scale the masks are disjoint: the
    sub-networks are an ensemble that shares the layers without masks.
    All masks have `M` ones, and every unit is in at least one of them.

    The mask depends on what calls the layer:

    - In training, row `i` of a batch has mask `i mod num_masks`. A batch that
      `num_masks` does not divide begins with a random mask, the same in all
      layers of the model, so that in the end all masks see as many rows.
    - `predict_with_uncertainty` gives sample `t` mask `t mod num_masks`, for
      all rows; with `Sampling(masks="independent")` row `i` has mask `(t + i)
      mod num_masks`. With as many samples as masks every row sees each mask
      once. Further samples repeat the first ones, and weigh masks unequally
      unless `num_masks` divides their number: where nothing else is random,
      this warns.
    - `model.predict`, `model.evaluate` and any other call in inference mode
      multiply by the mean of the masks, as `Dropout` takes the expected value
      of its noise there. A prediction does not depend on the place of a row in
      its batch.

    The variance of `num_samples = num_masks` samples has `num_masks - 1` in
    the denominator: it estimates the variance over masks that could have been
    made. The variance over the masks there are is `1 - 1 / num_masks` times
    that.

    Args:
        num_masks: Positive int. Number of masks.
        scale: Float of at least 1. Defaults to `2.0`.
        seed: Optional int. Makes the masks reproducible. They are saved with
            the weights of the layer, with and without a seed. Layers of equal
            width and equal seed have equal masks.
        **kwargs: Passed to `keras.layers.Layer`, e.g. `name` and `dtype`.

    Call arguments:
        inputs: Tensor [batch, ..., units]. The last axis has the masks: the
            units of a `Dense` layer, or the channels of a convolution.
        training: Bool or `None`. Whether to split the batch over the masks.

    Example:
    ```python
    model = keras.Sequential([
        keras.layers.Dense(256, activation="relu"),
        keras_bayesdrop.layers.Masksembles(4, scale=2.0),
        keras.layers.Dense(10, activation="softmax"),
    ])
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=128)
    p = keras_bayesdrop.predict_with_uncertainty(model, x, num_samples=4)
    ```

    References:
        - [Durasov et al., 2021](https://arxiv.org/abs/2012.08334).
    """

    def __init__(
        self,
        num_masks: int,
        scale: float = 2.0,
        *,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_masks = check_positive_int(num_masks, "num_masks")
        self.scale = _check_scale(scale)
        self.seed = None if seed is None else check_int(seed, "seed", 0)
        self.seed_generator = keras.random.SeedGenerator(_SEED_OF_TURNS)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Makes the masks."""
        units = _check_units(input_shape)
        if (
            self.scale > 1
            and self.num_masks > 1
            and ones_per_mask(self.num_masks, units, self.scale) == units
        ):
            raise BayesdropError(
                f"Layer `{self.name}` (Masksembles) would drop nothing: of so "
                "few units every mask keeps all. Expected more units, a larger "
                "scale, or scale=1 for a layer without masks. Received: "
                f"units={units}, num_masks={self.num_masks}, "
                f"scale={self.scale:g}"
            )

        def masks(shape: Any, dtype: Any = None) -> Any:
            seed = check_seed(self.seed)
            table = make_masks(self.num_masks, units, self.scale, seed)
            return keras.ops.convert_to_tensor(table, dtype)

        self.masks = self.add_weight(
            name="masks",
            shape=(self.num_masks, units),
            initializer=masks,
            dtype="uint8",
            trainable=False,
            autocast=False,
        )
        self._ones = (1,) * (len(input_shape) - 2)
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Splits the batch over the masks in training."""
        if not training:
            return self.call_expected(inputs)
        rows = keras.ops.shape(inputs)[0]
        keep = keras.ops.take(self.masks, self._turns(rows), axis=0)
        keep = keras.ops.reshape(keep, (-1, *self._ones, keep.shape[-1]))
        return keras.ops.where(keras.ops.cast(keep, "bool"), inputs, 0.0)

    def call_expected(self, inputs: Any) -> Any:
        """Multiplies by the mean of the masks, in the dtype of the inputs."""
        wide = wide_dtype(self)
        share = keras.ops.mean(keras.ops.cast(self.masks, wide), axis=0)
        outputs = keras.ops.cast(inputs, wide) * share
        return keras.ops.cast(outputs, inputs.dtype)

    def noise_site(self) -> tuple[MaskTable, tuple[int | None, ...]]:
        """Returns the noise of predictions with uncertainty."""
        units = self.masks.shape[1]
        ones = ones_per_mask(self.num_masks, units, self.scale)
        noise = MaskTable(weakref.ref(self), self.num_masks, ones < units)
        return noise, (None, *self._ones, None)

    def plain_layers(self) -> list[keras.layers.Layer]:
        """Returns the factors of the mean network."""
        share = keras.ops.convert_to_numpy(self.masks).mean(axis=0)
        return [
            keras.layers.Rescaling(
                share.tolist(), name=self.name, dtype=self.dtype_policy
            )
        ]

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the input."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "num_masks": self.num_masks,
            "scale": self.scale,
            "seed": self.seed,
        }

    def _turns(self, rows: Any) -> Any:
        """Returns the number of the mask of each row of a batch."""
        first = keras.random.randint(
            (), 0, self.num_masks, seed=self.seed_generator
        )
        first = keras.ops.where(rows % self.num_masks == 0, 0, first)
        return (keras.ops.arange(rows) + first) % self.num_masks


def _check_scale(scale: Any) -> float:
    """Returns a finite scale of at least 1."""
    real = isinstance(scale, Real) and not isinstance(scale, bool)
    if not real or not math.isfinite(scale) or scale < 1:
        raise invalid("scale", scale, "a finite float of at least 1")
    return float(scale)


def _check_units(input_shape: Any) -> int:
    """Returns the size of the last axis."""
    if len(input_shape) < 2 or not input_shape[-1]:
        raise BayesdropError(
            "Masksembles has a mask entry for each unit. Expected inputs "
            "[batch, ..., units] with a known number of units. Received: "
            f"input_shape={tuple(input_shape)}"
        )
    return int(input_shape[-1])
