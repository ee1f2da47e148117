# SPDX-License-Identifier: Apache-2.0
"""Outputs of any finite size have the spread that float64 gives them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bayesdrop as kbd
from tests.helpers import flat

SIZES = (1e-30, 1e-25, 1.0, 1e25, 1e30)
X = np.ones((3, 8), np.float32)


def network(size, dtype=None):
    """Sums of inputs of which half are dropped, times `size`."""
    kernel = keras.initializers.Constant(size)
    return keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dropout(0.5, dtype=dtype),
            keras.layers.Dense(2, kernel_initializer=kernel, dtype=dtype),
        ]
    )


def predict(model, x=X, **arguments):
    settings = {"num_samples": 40, "seed": 1, "verbose": 0}
    settings = {**settings, "draws": "independent", **arguments}
    return kbd.predict_with_uncertainty(model, x, **flat(**settings))


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("size", SIZES)
def test_spread_of_samples(size, engine):
    p = predict(network(size), engine=engine, return_samples=True)
    exact = p.samples.astype(np.float64)
    wanted = exact.std(axis=0, ddof=1)
    assert np.all(wanted > 0)
    assert p.std.dtype == p.mean.dtype == np.float32
    np.testing.assert_allclose(p.std, wanted, rtol=1e-5)
    np.testing.assert_allclose(p.mean, exact.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(p.mc_error, wanted / np.sqrt(40), rtol=1e-5)
    np.testing.assert_allclose(p.epistemic, wanted**2, rtol=1e-5)
    np.testing.assert_allclose(p.total, wanted**2, rtol=1e-5)
    lower, upper = predict(network(size), engine=engine).interval(0.9)
    np.testing.assert_allclose(upper - lower, 2 * 1.6448536 * wanted, rtol=1e-4)


def test_type_of_an_ordinary_variance_is_that_of_the_mean():
    assert predict(network(1.0)).variance.dtype == np.float32
    assert predict(network(1e25)).variance.dtype == np.float64


def test_saved_and_loaded(tmp_path):
    p = predict(network(1e25))
    p.save(tmp_path / "p.npz")
    loaded = kbd.Predictive.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(loaded.std, p.std)
    np.testing.assert_array_equal(p[1:].std, p.std[1:])


def test_rows_of_different_size_in_batches_of_their_own():
    model = network(1.0)
    x = X * np.float32([[1.0], [1e25], [1e-25]])
    rows = [
        kbd.predict_with_uncertainty(
            model, x, 40, seed=1, verbose=0, **flat(**options)
        )
        for options in ({}, {"batch_size": 1})
    ]
    for p in rows:
        scaled = p.std.astype(np.float64) / x[:, :1]
        np.testing.assert_allclose(scaled, scaled[:1].repeat(3, 0), rtol=1e-5)


@pytest.mark.parametrize("size", SIZES)
def test_rows_stop_at_the_same_number_of_samples(size):
    wanted = predict(
        network(1.0), num_samples=2000, tolerance=0.05, noise_precision=1.0
    )
    p = predict(
        network(size),
        num_samples=2000,
        tolerance=0.05,
        noise_precision=1.0 / size**2,
    )
    np.testing.assert_array_equal(p.num_samples_used, wanted.num_samples_used)
    assert np.all(p.num_samples_used < 2000)


def two_sites(size):
    kernel = keras.initializers.Constant(size)
    return keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(6, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2, kernel_initializer=kernel),
        ]
    )


@pytest.mark.parametrize("method", ["moments", "rao_blackwell"])
def test_closed_forms_are_right_or_refused(method):
    # They compute variances in the type of the model, which ends at 3e38.
    fine = predict(two_sites(1e15), method=method)
    assert np.all(np.isfinite(fine.std))
    with pytest.raises(kbd.BayesdropError, match="variance of the outputs"):
        predict(two_sites(1e25), method=method)


@pytest.mark.parametrize("size", [1e-25, 1.0, 1e25])
def test_exported(size, tmp_path):
    model = network(size)
    names = ("mean", "std", "mc_error")
    kbd.export_uncertainty(
        model,
        tmp_path / "served",
        num_samples=40,
        seed=1,
        outputs=names,
        method=kbd.Sampling(draws="independent"),
    )
    served = tf.saved_model.load(str(tmp_path / "served"))
    signature = served.signatures["serving_default"]
    (name,) = signature.structured_input_signature[1]
    made = signature(**{name: tf.constant(X)})
    wanted = predict(model, engine="reference")
    for key in names:
        np.testing.assert_allclose(
            made[key], getattr(wanted, key), rtol=1e-5, err_msg=key
        )
    assert np.all(np.isfinite(made["std"])) and np.all(made["std"] > 0)


def test_float64_beyond_its_range_is_refused():
    model = network(1.0, "float64")
    model.set_weights([np.full((8, 2), 1e200), np.zeros(2)])
    with pytest.raises(kbd.BayesdropError, match="variance of the outputs"):
        predict(model)
