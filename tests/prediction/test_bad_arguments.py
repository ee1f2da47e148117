# SPDX-License-Identifier: Apache-2.0
"""Bad arguments: a `ValueError` in three beats, before any computation."""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop import errors
from tests import zoo
from tests.helpers import flat
from tests.prediction.refusals import X
from tests.prediction.refusals import counting_model
from tests.prediction.refusals import refuse
from tests.prediction.refusals import texts_of

layers = keras.layers


@pytest.fixture
def model():
    return counting_model()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("num_samples", 0),
        ("num_samples", -3),
        ("num_samples", 1),
        ("num_samples", 2**24 + 1),
        ("num_samples", 10**30),
        ("num_samples", 2.5),
        ("num_samples", "many"),
        ("num_samples", None),
        ("num_samples", True),
        ("batch_size", 0),
        ("batch_size", -1),
        ("batch_size", 2.0),
        ("batch_size", "auto"),
        ("masks", "both"),
        ("masks", None),
        ("method", "guess"),
        ("method", None),
        ("seed", "abc"),
        ("seed", 1.5),
        ("seed", True),
        ("head", "ranking"),
        ("head", 3),
        ("engine", "fast"),
        ("engine", None),
        ("quantiles", [1.5]),
        ("quantiles", [-0.1]),
        ("quantiles", [float("nan")]),
        ("quantiles", 0.5),
        ("quantiles", []),
        ("quantiles", ["a"]),
        ("noise_precision", 0),
        ("noise_precision", -1.0),
        ("noise_precision", float("inf")),
        ("noise_precision", float("nan")),
        ("noise_precision", "high"),
        ("verbose", 3),
        ("verbose", -1),
        ("verbose", "loud"),
        ("verbose", None),
        ("verbose", []),
        ("verbose", np.zeros(2)),
        ("callbacks", 5),
        ("callbacks", "x"),
        ("callbacks", [keras.callbacks.Callback(), 5]),
        ("return_samples", "no"),
        ("return_samples", 1),
        ("return_samples", None),
        ("tolerance", 1e-200),
        ("tolerance", -1.0),
        ("absolute_tolerance", -1.0),
        ("first_row", 2**63),
        ("first_row", 2**70),
        ("steps", 0),
        ("steps", -1),
        ("steps", 1.5),
        ("layers", "nothing"),
        ("layers", []),
        ("layers", 3),
    ],
)
def test_arguments(model, argument, value, capsys):
    before = zoo.fingerprint(model)
    arguments = {"num_samples": 4, "verbose": 0, argument: value}
    refuse(
        errors.BayesdropError,
        lambda: kbd.predict_with_uncertainty(model, X, **flat(**arguments)),
        argument,
    )
    assert model.layers[0].calls == 0
    assert zoo.fingerprint(model) == before
    assert capsys.readouterr().out == ""


def test_too_few_samples_are_told_why_in_one_way(model, tmp_path):
    def messages(number):
        return texts_of(
            lambda: kbd.predict_with_uncertainty(model, X, number, verbose=0),
            lambda: kbd.export_uncertainty(model, tmp_path / "e", number),
            lambda: kbd.callbacks.UncertaintyMonitor((X, X), number),
        )

    for number in (0, 1):
        (text,) = set(messages(number))
        assert "at least 2" in text and "undefined" in text
        assert text.endswith(f"num_samples={number}")
    assert messages(0)[0][:-1] == messages(1)[0][:-1]


def test_smallest_tolerance_is_warned_of(model):
    with pytest.warns(errors.BayesdropWarning, match=r"= 1e\+300, or"):
        method = kbd.Sampling(tolerance=1e-150, draws="independent")
        p = kbd.predict_with_uncertainty(model, X, 20, verbose=0, method=method)
    assert np.all(p.num_samples_used == 20)


def test_one_callback_needs_no_list(model):
    class Counts(keras.callbacks.Callback):
        batches = 0

        def on_predict_batch_end(self, batch, logs=None):
            self.batches += 1

    counts = Counts()
    kbd.predict_with_uncertainty(model, X, 4, callbacks=counts, verbose=0)
    assert counts.batches == 1


def test_arguments_elsewhere(model, tmp_path):
    refuse(
        errors.BayesdropError,
        lambda: kbd.decisions.Cascade(
            model, model, budget=1, return_samples=str(tmp_path / "s.npy")
        ),
        "return_samples",
        "one file",
    )
    refuse(
        errors.BayesdropError,
        lambda: kbd.decisions.Cascade(
            model, model, budget=1, return_samples="no"
        ),
        "return_samples='no'",
    )
    for look in (
        lambda number: kbd.decisions.ThompsonSampler(model, 0, number),
        lambda number: kbd.sample_function(model, 0, number),
    ):
        look(2**36 - 1)
        refuse(errors.BayesdropError, lambda look=look: look(2**36), str(2**36))


@pytest.mark.parametrize(
    "make",
    [
        lambda: kbd.MCDropout(1.5),
        lambda: kbd.MCDropout(-0.1),
        lambda: kbd.MCDropout("half"),
        lambda: kbd.MCSpatialDropout1D(1.5),
        lambda: kbd.MCSpatialDropout2D(-1),
        lambda: kbd.MCSpatialDropout3D(float("nan")),
        lambda: kbd.MCGaussianDropout(1.0),
        lambda: kbd.MCAlphaDropout(2),
    ],
)
def test_rates(make):
    refuse(errors.BayesdropError, make, "rate")


@pytest.mark.parametrize("rate", [1.5, -0.5, float("nan")])
def test_rates_set_later(model, rate):
    """Keras checks a rate once, and users anneal it."""
    model.layers[1].rate = rate
    refuse(
        errors.BayesdropError,
        lambda: kbd.predict_with_uncertainty(model, X, 4, verbose=0),
        "rate",
    )


@pytest.mark.parametrize("kind", [layers.AlphaDropout, layers.GaussianDropout])
def test_rate_of_one_where_the_noise_is_infinite(kind):
    model = keras.Sequential([keras.Input((4,)), kind(1.0, name="culprit")])
    refuse(
        errors.BayesdropError,
        lambda: kbd.predict_with_uncertainty(model, X, 4, verbose=0),
        "culprit",
    )
