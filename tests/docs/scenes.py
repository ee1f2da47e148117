# SPDX-License-Identifier: Apache-2.0
"""The names that an example in a docstring uses without defining them.

An example takes some names for granted, such as `model` and `x`: a scene of
its own provides them, or else `usual`.
"""

import dataclasses
import math

import keras
import numpy as np
import tensorflow as tf

import keras_bayesdrop
from keras_bayesdrop import layers
from tests.helpers import flat

ROWS, FEATURES, CLASSES = 20, 6, 10


def _classes(*hidden, **kwargs):
    """A small classifier that is compiled."""
    model = keras.Sequential(
        [
            keras.Input((FEATURES,), **kwargs),
            *(hidden or [keras.layers.Dense(16, activation="relu")]),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(CLASSES, activation="softmax", name="classes"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def usual():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, FEATURES)).astype(np.float32)
    y = generator.integers(CLASSES, size=ROWS)
    return {
        **{name: x for name in ("x", "x_val", "x_test", "pool")},
        **{name: y for name in ("y", "y_val", "y_test")},
        "model": _classes(),
    }


def _regression(features=FEATURES):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, features)).astype(np.float32)
    y = generator.normal(size=(ROWS, 1)).astype(np.float32)
    model = keras.Sequential(
        [
            keras.Input((features,)),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(1),
        ]
    )
    return {
        **{name: x for name in ("x", "x_train", "x_val", "x_test")},
        **{name: y for name in ("y", "y_train", "y_val", "y_test")},
        "model": model,
        "tau": 4.0,
    }


def _predicted(scene, **kwargs):
    """Predictions for two parts of the rows, with the targets of one."""
    half = ROWS // 2
    first, second = (
        keras_bayesdrop.predict_with_uncertainty(
            scene["model"], x, verbose=0, **flat(**kwargs)
        )
        for x in (scene["x"][:half], scene["x"][half:])
    )
    y = scene["y"][:half]
    return {
        **scene,
        "x": scene["x"][:half],
        "p": first,
        "p_val": first,
        "p_new": second,
        **{name: y for name in ("y", "y_val", "y_test")},
    }


def _evaluated():
    scene = _predicted(usual())
    evaluation = keras_bayesdrop.evaluate_with_uncertainty(
        scene["model"], scene["x"], scene["y"], num_resamples=20, verbose=0
    )
    return {**scene, "evaluation": evaluation}


def _half_right():
    scene = _predicted(usual(), return_samples=True)
    likeliest = scene["p_val"].mean.argmax(axis=-1)
    return {**scene, "y_val": (likeliest + np.arange(len(likeliest)) % 2) % 10}


def _with_first_layer(make):
    """The usual scene, with a learned first layer in its model."""
    return lambda: {**usual(), "model": _classes(make())}


def _layer_names():
    model = _classes(
        keras.layers.Dense(16, activation="relu", name="dense"),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(16, activation="relu", name="dense_1"),
    )
    return {**usual(), "model": model}


def _bayesian():
    return layers.BayesianDense(16, ROWS, activation="relu", name="dense")


def _variational():
    return layers.VariationalDense(16, ROWS, activation="relu")


def _residual():
    inner = keras.layers.Dense(FEATURES, activation="relu", use_bias=False)
    return layers.ADDResidual(inner, "half_cauchy", num_train_examples=ROWS)


def _hidden():
    return {**usual(), "hidden": keras.KerasTensor((None, 50))}


def _matrices():
    generator = np.random.default_rng(0)
    return {
        "x": generator.normal(size=(4, 3)),
        "y": generator.normal(size=(4, 2)),
        "w": generator.normal(size=(3, 2)),
        "w1": generator.normal(size=(3, 5)),
        "w2": generator.normal(size=(5, 2)),
    }


def _square():
    @keras.saving.register_keras_serializable("tests")
    class Square(keras.layers.Layer):
        def call(self, inputs):
            return inputs**2

    return {"Square": Square}


def _files():
    scene = usual()
    scene["model"].save("model.keras")
    header = ",".join(f"x{i}" for i in range(FEATURES))
    np.savetxt(
        "data.csv", scene["x"], delimiter=",", header=header, comments=""
    )
    return scene


def _images():
    scene = usual()
    images = np.random.default_rng(0).random((12, 8, 8, 1), np.float32)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    return {
        **scene,
        "model": model,
        "rotated": images,
        "angles": np.linspace(0.0, 180.0, 12),
    }


def _forecast():
    random = np.random.default_rng(0)
    forecaster = keras.Sequential(
        [
            keras.Input((20, 1)),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(6),
        ]
    )
    windows = random.normal(size=(4, 20, 1)).astype(np.float32)
    return {**usual(), "forecaster": forecaster, "windows": windows}


def _pixels():
    segmenter = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            keras.layers.Dropout(0.3),
            keras.layers.Conv2D(
                CLASSES, 3, padding="same", activation="softmax"
            ),
        ]
    )
    photos = np.random.default_rng(0).random((4, 8, 8, 3), np.float32)
    return {**usual(), "segmenter": segmenter, "photos": photos}


def _band():
    scene = _regression(features=1)
    return {**scene, "grid": np.linspace(-2, 2, 30, dtype=np.float32)[:, None]}


def _two_models():
    dense = keras.layers.Dense
    return {
        **usual(),
        "dropped": _classes(dense(16, name="hidden")),
        "ard": _classes(dense(16, name="hidden")),
    }


# What an example takes for granted, by the name that it documents.
SCENES = {
    "nwgm": lambda: {"inputs": np.linspace(-2.0, 2.0, 15).reshape(5, 3)},
    "expected_gradient": _matrices,
    "linear_moments": _matrices,
    "register_rule": _square,
    "conformal": lambda: _predicted(_regression(), return_samples=True),
    "noise_precision": lambda: _predicted(_regression(), return_samples=True),
    "with_noise": lambda: _predicted(_regression(), return_samples=True),
    "temperature": _half_right,
    "defer": lambda: _predicted(usual()),
    **dict.fromkeys(("plot", "to_frame", "to_dict", "to_html"), _evaluated),
    "fan_chart": _forecast,
    "uncertainty_map": _pixels,
    "DropoutRateLogger": _with_first_layer(
        lambda: layers.ConcreteDropout(keras.layers.Dense(16), ROWS)
    ),
    "KLAnnealing": _with_first_layer(_variational),
    "RelevanceLogger": _with_first_layer(_bayesian),
    "relevance": _with_first_layer(_bayesian),
    "prune": _with_first_layer(_variational),
    "sparsity_report": _with_first_layer(_variational),
    "to_sparse_size": _with_first_layer(_variational),
    "effective_depth": _with_first_layer(_residual),
    "prune_depth": _with_first_layer(_residual),
    "main": _files,
    "consistency": _layer_names,
    "Cascade": lambda: {**usual(), "small": _classes(), "large": _classes()},
    "ThompsonSampler": lambda: {
        **usual(),
        "contexts": np.ones((3, 1, FEATURES), np.float32),
    },
    "class_scatter": _images,
    "entropy_histogram": lambda: {
        **usual(),
        "noise": np.ones((5, FEATURES), np.float32),
    },
    "importance_weights": _regression,
    "parity": _regression,
    "regression_calibration": _regression,
    "sample_function": _regression,
    "GaussianNLL": _regression,
    "BayesdropRegressor": _regression,
    "MonteCarloModel": lambda: _regression(features=13),
    "predictive_band": _band,
    "weight_heatmap": _two_models,
    "ADD": _hidden,
    "ARDADD": _hidden,
    "export_uncertainty": lambda: {
        **usual(),
        "model": _classes(name="image"),
    },
}
MODULES = {
    "keras": keras,
    "keras_bayesdrop": keras_bayesdrop,
    "np": np,
    "tf": tf,
    "math": math,
    "dataclasses": dataclasses,
}
