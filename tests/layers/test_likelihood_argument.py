# SPDX-License-Identifier: Apache-2.0
"""The argument `likelihood` of all layers that have it."""

import keras
import pytest

from keras_bayesdrop import layers
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.losses import LikelihoodInNats


def _residual(**kwargs):
    return layers.ADDResidual(
        keras.layers.Dense(4), "half_cauchy", 10, **kwargs
    )


LAYERS = {
    "ADDResidual": _residual,
    "BayesianConv2D": lambda **kwargs: layers.BayesianConv2D(
        4, 3, 10, **kwargs
    ),
    "BayesianDense": lambda **kwargs: layers.BayesianDense(4, 10, **kwargs),
    "ConcreteDropout": lambda **kwargs: layers.ConcreteDropout(
        keras.layers.Dense(4), 10, **kwargs
    ),
    "VariationalConv1D": lambda **kwargs: layers.VariationalConv1D(
        4, 3, 10, prior="gaussian", **kwargs
    ),
    "VariationalConv2D": lambda **kwargs: layers.VariationalConv2D(
        4, 3, 10, prior="gaussian", **kwargs
    ),
    "VariationalDense": lambda **kwargs: layers.VariationalDense(
        4, 10, prior="gaussian", **kwargs
    ),
    "VariationalDropout": lambda **kwargs: layers.VariationalDropout(
        10, **kwargs
    ),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    "likelihood",
    [
        LikelihoodInNats(3),
        GaussianLikelihood(2.0),
        GaussianLikelihood(2.0, 3, "half_mse"),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:The log-uniform prior")
def test_config(name, likelihood):
    layer = LAYERS[name](likelihood=likelihood)
    assert type(layer).__name__ == name
    assert layer.likelihood == likelihood
    again = type(layer).from_config(layer.get_config())
    assert again.likelihood == likelihood


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.filterwarnings("ignore:The log-uniform prior")
def test_default(name):
    assert LAYERS[name]().likelihood == LikelihoodInNats()


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("old", ["loss", "noise_precision", "num_outputs"])
def test_old_spelling(name, old):
    with pytest.raises(
        BayesdropError, match=f"`{old}` .*Expected likelihood=.*: {old}=2"
    ):
        LAYERS[name](**{old: 2})
