# SPDX-License-Identifier: Apache-2.0
"""Architectures whose noise is code of their own, against plain Keras.

KerasHub's Swin, MiT, SegFormer and XLNet, and `keras.applications`' ConvNeXt
with stochastic depth: tiny, with random weights. `make test-hub` runs this; the
other tests do not, since KerasHub is not among their dependencies.
"""

import re
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import keras_hub
import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from keras.src.applications import convnext

import keras_bayesdrop as kbd
from tests.helpers import flat

pytestmark = [
    # Swin passes its window mask under the name of Keras' own masks.
    pytest.mark.filterwarnings(
        "ignore:Layer 'attn' .* was passed an input with a mask:UserWarning"
    ),
]

SAMPLES = 2000
ROWS = 8
TOKENS = 7

Array = npt.NDArray[Any]


class Case(NamedTuple):
    """A model, what it is called on, and how plain Keras may be sampled."""

    model: keras.Model
    x: Any
    # Samples that one call of plain Keras draws, side by side in the batch.
    copies: int
    # Names of the layers that drop paths with a rate above 0.
    paths: set[str]


def images(size: int) -> Array:
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, size, size, 3)).astype("float32")


def swin(**rates: float) -> Case:
    model = keras_hub.models.SwinTransformerBackbone(
        image_shape=(32, 32, 3),
        embed_dim=8,
        # Every second block shifts its windows.
        depths=(2, 2),
        num_heads=(2, 2),
        window_size=4,
        drop_path=0.3,
        **rates,
    )
    return Case(model, images(32), 25, drop_paths(model, "drop_prob"))


def swin_with_dropout() -> Case:
    # These Dropout layers see windows in the batch axis: four a row.
    return swin(dropout_rate=0.1, attention_dropout=0.1)


def mit(size: int = 32) -> Case:
    model = keras_hub.models.MiTBackbone(
        layerwise_depths=[2, 2],
        num_layers=2,
        layerwise_num_heads=[1, 2],
        layerwise_sr_ratios=[2, 1],
        max_drop_path_rate=0.5,
        layerwise_patch_sizes=[7, 3],
        layerwise_strides=[4, 2],
        image_shape=(size, size, 3),
        hidden_dims=[8, 16],
    )
    return Case(model, images(size), 25, drop_paths(model, "rate"))


def segformer() -> Case:
    backbone = keras_hub.models.SegFormerBackbone(
        image_encoder=mit(16).model, projection_filters=8
    )
    model = keras_hub.models.SegFormerImageSegmenter(
        backbone=backbone, num_classes=3
    )
    return Case(model, images(16), 25, drop_paths(model, "rate"))


def convnext_with_stochastic_depth() -> Case:
    # The public functions, `ConvNeXtTiny` and so on, take no rate.
    model = convnext.ConvNeXt(
        depths=(2, 2, 2, 2),
        projection_dims=(4, 4, 8, 8),
        drop_path_rate=0.3,
        # Layer scales of 1e-6, the default, hide the noise.
        layer_scale_init_value=1.0,
        include_preprocessing=False,
        weights=None,
        input_shape=(32, 32, 3),
        classes=3,
        classifier_activation=None,
    )
    return Case(model, images(32), 25, drop_paths(model, "drop_path_rate"))


def xlnet(padded: bool = False) -> Case:
    model = keras_hub.models.XLNetBackbone(
        vocabulary_size=30,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        dropout=0.1,
        # Larger than the default of 0.02, for attention that is not uniform.
        kernel_initializer_range=0.5,
    )
    rng = np.random.default_rng(0)
    padding_mask = np.ones((ROWS, TOKENS), "int32")
    if padded:
        padding_mask[ROWS // 2 :, TOKENS // 2 :] = 0
    x = {
        "token_ids": rng.integers(0, 30, (ROWS, TOKENS)).astype("int32"),
        "padding_mask": padding_mask,
        "segment_ids": np.zeros((ROWS, TOKENS), "int32"),
    }
    # One sample a call. KerasHub reshapes the position embeddings from
    # [positions, rows, units] to [rows, positions, units] where a transpose is
    # meant, so what XLNet gives for a row depends on the rows in its batch.
    return Case(model, x, 1, set())


def drop_paths(model: keras.Model, rate: str) -> set[str]:
    """Returns the names of layers that drop paths, and draw in doing so."""
    return {
        layer.name
        for layer in model._flatten_layers()
        if type(layer).__name__ in ("DropPath", "StochasticDepth")
        and getattr(layer, rate) > 0.0
    }


# Those where a row's outputs do not depend on its batch.
CASES = [
    swin,
    swin_with_dropout,
    mit,
    segformer,
    convnext_with_stochastic_depth,
]
of_every_case = pytest.mark.parametrize("make", CASES)


def cut(x: Any, start: int, stop: int | None = None) -> Any:
    return tf.nest.map_structure(lambda array: array[start:stop], x)


def plain_keras(case: Case, batch_size: int = ROWS) -> Array:
    """Returns `SAMPLES` draws of `model(x, training=True)`.

    Args:
        case: The model and its inputs.
        batch_size: Rows that the model sees at once, but for copies.

    Returns:
        Array of shape `[samples, rows, ...]`.
    """
    model, _, copies, _ = case

    def draw(rows: Any) -> tf.Tensor:
        tiled = tf.nest.map_structure(
            lambda t: tf.tile(t, [copies] + [1] * (t.shape.rank - 1)), rows
        )
        return tf.map_fn(
            lambda _: model(tiled, training=True),
            tf.range(SAMPLES // copies),
            fn_output_signature=model.compute_dtype,
        )

    compiled = tf.function(draw, autograph=False)
    norms = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    for norm in norms:
        norm.trainable = False
    batches = []
    for start in range(0, ROWS, batch_size):
        rows = cut(case.x, start, start + batch_size)
        outputs = compiled(tf.nest.map_structure(tf.constant, rows)).numpy()
        count = min(batch_size, ROWS - start)
        batches.append(outputs.reshape(SAMPLES, count, *outputs.shape[2:]))
    for norm in norms:
        norm.trainable = True
    return np.concatenate(batches, axis=1)


def predict(case: Case, num_samples: int = 50, **arguments: Any) -> Any:
    defaults = {
        "x": case.x,
        "masks": "independent",
        "seed": 0,
        # KerasHub compiles its segmenter with a loss on logits. The default
        # adds the softmax to it that `model(x)` does not have.
        "head": "regression",
        "verbose": 0,
    }
    return kbd.predict_with_uncertainty(
        case.model, num_samples=num_samples, **flat(**{**defaults, **arguments})
    )


def pooled(variance: Array) -> float:
    return float(np.sqrt(np.mean(variance, dtype=np.float64)))


def check_against(samples: Array, prediction: Any) -> None:
    """Compares pooled deviation and mean with those of plain Keras."""
    variance = samples.var(axis=0, ddof=1, dtype=np.float64)
    # The deviation of one output has a relative error of about 1.6 % in either
    # estimate, that of 8 independent rows 0.6 %: 5 % are six errors of the
    # difference, and more since outputs of a row are not one and the same.
    np.testing.assert_allclose(
        pooled(np.square(prediction.std)), pooled(variance), rtol=0.05
    )
    # Mean squared error of the difference of two means over `SAMPLES`, in its
    # own units: 1 on average. Rows are 8 independent draws of it.
    error = np.mean(np.square(prediction.mean - samples.mean(axis=0)))
    assert error / (np.mean(variance) * 2 / SAMPLES) < 4.0


def check_same(prediction: Any, other: Any) -> None:
    # Float32 matmuls of other sizes, of numbers of the order of 1.
    np.testing.assert_allclose(prediction.mean, other.mean, atol=1e-5)
    np.testing.assert_allclose(prediction.std, other.std, atol=1e-5)


def test_plain_keras_draws_in_training_only() -> None:
    for make in CASES:
        model, x, _, _ = make()
        first, second, drawn = (
            model(x, training=training).numpy()
            for training in (False, False, True)
        )
        np.testing.assert_array_equal(first, second)
        assert np.abs(drawn - first).max() > 0.01


def test_plain_xlnet_depends_on_its_batch() -> None:
    model, x, _, _ = xlnet()
    whole = model(x).numpy()
    assert np.abs(model(cut(x, 0, 1)).numpy() - whole[:1]).max() > 0.01
    # It is the number of other rows that matters, not what they hold ...
    x["token_ids"][1:] = (x["token_ids"][1:] + 1) % 30
    np.testing.assert_array_equal(model(x).numpy()[0], whole[0])
    # ... but for their padding.
    x["padding_mask"][ROWS // 2 :, TOKENS // 2 :] = 0
    assert np.abs(model(x).numpy()[0] - whole[0]).max() > 0.01


@of_every_case
def test_spread_is_that_of_plain_keras(make: Callable[[], Case]) -> None:
    case = make()
    check_against(plain_keras(case), predict(case, SAMPLES))


@of_every_case
def test_results_do_not_depend_on_batches(make: Callable[[], Case]) -> None:
    case = make()
    whole = predict(case, batch_size=64)
    assert pooled(np.square(whole.std)) > 0.0
    check_same(predict(case, batch_size=3), whole)
    rest = predict(case, x=cut(case.x, 5), first_row=5)
    np.testing.assert_allclose(rest.mean, whole.mean[5:], atol=1e-5)
    np.testing.assert_allclose(rest.std, whole.std[5:], atol=1e-5)


@of_every_case
def test_seed_decides_and_the_model_stays(make: Callable[[], Case]) -> None:
    case = make()
    # Variables of a model include the states of its seed generators.
    before = [np.array(v) for v in case.model.variables]
    once, again, other = (predict(case, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(once.mean, again.mean)
    np.testing.assert_array_equal(once.std, again.std)
    assert np.any(once.mean != other.mean)
    assert len(before) == len(case.model.variables)
    for old, new in zip(before, case.model.variables, strict=True):
        np.testing.assert_array_equal(old, np.array(new))


@of_every_case
def test_dropped_paths_are_sites_that_draw(make: Callable[[], Case]) -> None:
    case = make()
    assert case.paths
    report = kbd.inspect(case.model, x=case.x)
    drawing = {
        name
        for site in report.stochastic
        if site.drawn
        for name in re.findall(r"\w+", site.path)
    }
    assert case.paths <= drawing
    assert not report.unreachable


@pytest.mark.parametrize("batch_size", [1, ROWS])
@pytest.mark.filterwarnings("ignore::keras_bayesdrop.BayesdropWarning")
def test_xlnet_is_sampled_in_the_batches_asked_for(batch_size: int) -> None:
    case = xlnet()
    check_against(
        plain_keras(case, batch_size),
        predict(case, SAMPLES, batch_size=batch_size),
    )


@pytest.mark.filterwarnings("ignore::keras_bayesdrop.BayesdropWarning")
def test_rows_of_xlnet_do_not_depend_on_other_batches() -> None:
    case = xlnet()
    whole = predict(case, batch_size=4)
    assert pooled(np.square(whole.std)) > 0.0
    rest = predict(case, x=cut(case.x, 4), batch_size=4, first_row=4)
    np.testing.assert_allclose(rest.mean, whole.mean[4:], atol=1e-5)
    np.testing.assert_allclose(rest.std, whole.std[4:], atol=1e-5)


@pytest.mark.filterwarnings("ignore::keras_bayesdrop.BayesdropWarning")
def test_seed_decides_for_xlnet() -> None:
    case = xlnet()
    once, again, other = (predict(case, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(once.mean, again.mean)
    np.testing.assert_array_equal(once.std, again.std)
    assert np.any(once.mean != other.mean)


def test_padding_of_xlnet_mixes_rows_and_is_warned_of() -> None:
    # KerasHub reshapes the padding mask, too, where a transpose is meant: the
    # padding of one row hides tokens of another.
    case = xlnet(padded=True)
    with pytest.warns(kbd.BayesdropWarning):
        prediction = predict(case, SAMPLES, batch_size=ROWS)
    check_against(plain_keras(case), prediction)
