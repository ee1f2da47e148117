# SPDX-License-Identifier: Apache-2.0
"""Several samples of the noise for every example of a batch.

In a folded batch the samples of an example are neighbouring rows, as
everywhere in this package: row `example * samples + sample`.
"""

from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.engines import Reference
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.graph.survey import find_sites
from keras_bayesdrop.layers._dropout.noisy_weights import NoisyWeightsLayer
from keras_bayesdrop.noise.draws import Draws
from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.random.philox import SAMPLES_PER_BLOCK

# Seed of the noise of `evaluate`, which is the same every time.
EVALUATION_SEED = 0
# Older versions of Keras sum the activity penalties over the rows of a batch.
_ACTIVITY_IS_AVERAGED = (3, 14)


def check_foldable(model: Any) -> None:
    """Raises if the samples of one batch would not be independent."""
    for site in find_sites(model):
        shape = site.noise_shape
        one_draw = shape is not None and shape[0] is not None
        # Noise on weights draws once, unless the outputs are drawn instead.
        one_draw = one_draw or isinstance(site.layer, NoisyWeightsLayer)
        if one_draw and site.noise.active:
            raise BayesdropError(
                f"Noise site `{site.path}` draws once for a whole batch, so "
                "that all samples in the batch would be the same. Expected "
                "`mc_vectorized=False`, or noise for every example. Received: "
                f"a {type(site.layer).__name__} with noise_shape={shape}"
            )
    version = tuple(int(part) for part in keras.__version__.split(".")[:2])
    if version >= _ACTIVITY_IS_AVERAGED:
        return
    for layer in private_keras.all_layers(model):
        if getattr(layer, "activity_regularizer", None) is not None:
            raise BayesdropError(
                f"Layer `{layer.name}` has an activity regularizer, which "
                f"Keras {keras.__version__} adds up over all rows of a batch: "
                "it would count once per sample. Expected "
                "`mc_vectorized=False`, or Keras 3.14 or newer. Received: "
                "mc_vectorized=True"
            )


def check_repeatable(model: Any) -> None:
    """Raises if calls of a model with one batch would all be the same."""
    for site in find_sites(model):
        if site.noise.period is not None and site.noise.active:
            raise BayesdropError(
                f"Noise site `{site.path}` gives every row of a batch a mask "
                "by its place, so that all samples would be the same. Expected "
                "`mc_vectorized=True`. Received: mc_vectorized=False, and a "
                f"{type(site.layer).__name__}"
            )


def folded(structure: Any, samples: int) -> Any:
    """Repeats the rows of every tensor of a structure; keeps `None`."""
    if samples == 1:
        return structure

    def repeat(x: Any) -> Any:
        return None if x is None else keras.ops.repeat(x, samples, axis=0)

    return keras.tree.map_structure(repeat, structure)


def num_rows(structure: Any) -> Any:
    """Returns the number of rows of the tensors of a structure."""
    leaves = [x for x in keras.tree.flatten(structure) if x is not None]
    return keras.ops.shape(leaves[0])[0]


def evaluation_samples(
    model: Any, inputs: Any, samples: int, first_row: Any
) -> list[Any] | None:
    """Returns the outputs for several samples of the noise.

    They are those of `predict_with_uncertainty(..., seed=0)` with
    `Sampling(masks="independent", draws="independent")`: dropout of all kinds
    draws, and everything else is in inference mode. Replicas have noise of
    their own.

    Args:
        model: A Functional model.
        inputs: Inputs of the model.
        samples: Number of samples.
        first_row: Scalar int64 tensor, the number of earlier rows.

    Returns:
        Folded tensors, one per output; `None` if the model has no noise.
    """
    plan = build_plan(model, None, inputs)
    if not plan.chosen:
        return None
    plan.require_folding()
    flat = plan.flatten(inputs)
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    draws = Draws(
        seed=tf.cast(EVALUATION_SEED + replica, tf.uint64),
        first_sample=0,
        num_samples=samples,
        num_blocks=-(-samples // SAMPLES_PER_BLOCK),
        first_row=first_row,
        num_rows=tf.shape(flat[0])[0],
        shared=False,
        balanced=False,
    )
    engine = Reference()
    with private_keras.losses_kept(model):
        cut = engine.run_prefix(plan, flat)
        return engine.run_suffix(plan, cut, draws)
