# SPDX-License-Identifier: Apache-2.0
"""A saved and loaded model draws the same samples."""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from tests import zoo
from tests.helpers import flat
from tests.integration.samples import settings

NOT_SERIALIZABLE = {
    "functional_subclass",
    "subclassed",
    "subclassed_built_by_shape",
    "subclassed_deep",
    "subclassed_dict",
    "layers_with_layers",
    "lambdas",
    "time_folded_inside_a_layer",
    "positions",
    "noise_on_positions",
    "losses",
}


def same_after_loading(model, x, folder):
    path = str(folder / "model.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
    for a, b in zip(
        *(
            keras.tree.flatten(
                kbd.predict_with_uncertainty(
                    m, x, **flat(**settings(return_samples=True))
                )
            )
            for m in (model, loaded)
        ),
        strict=True,
    ):
        np.testing.assert_allclose(a.samples, b.samples, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        "nested_three_deep",
        "two_inputs",
        "dict_inputs",
        "list_outputs",
        "dict_outputs",
        "dropout_called_twice",
        "model_called_twice",
        "attention",
        "ours",
    ],
)
def test_same_samples_after_loading(name, tmp_path):
    same_after_loading(*zoo.ZOO[name].build(), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(zoo.ZOO) - NOT_SERIALIZABLE))
def test_same_samples_after_loading_all(name, tmp_path):
    same_after_loading(*zoo.ZOO[name].build(), tmp_path)


def test_same_samples_after_loading_parallel_branches(tmp_path):
    """Sites of equal depth, entered in an order that is not alphabetical."""
    a, b = keras.Input((30,), name="z"), keras.Input((30,), name="a")
    drops = [keras.layers.Dropout(0.5, name=name) for name in "qbxm"]
    outputs = {
        "z": drops[0](a),
        "c": drops[2](b),
        "k": drops[1](a) + drops[3](b),
        "a": drops[3](a),
    }
    model = keras.Model({"z": a, "a": b}, outputs)
    x = {name: np.ones((2, 30), "float32") for name in "za"}
    same_after_loading(model, x, tmp_path)
