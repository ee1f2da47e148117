# SPDX-License-Identifier: Apache-2.0
"""What users hold in their hands survives pickling.

Objects of Keras (layers, losses, metrics, regularizers, models) are saved by
their configurations; their own tests do that, and those of the estimators.
"""

import dataclasses
import importlib
import inspect
import pickle

import keras
import numpy as np
import pytest
import sklearn.base
import tensorflow as tf

import keras_bayesdrop as kbd
from keras_bayesdrop import calibrate
from keras_bayesdrop import losses
from keras_bayesdrop import metrics
from keras_bayesdrop import noise
from keras_bayesdrop import priors
from keras_bayesdrop import sparsity
from tests.update_golden import public_names

# Saved by Keras or scikit-learn, or raised.
SAVED_BY_OTHERS = (
    sklearn.base.BaseEstimator,
    keras.layers.Layer,
    keras.callbacks.Callback,
    keras.losses.Loss,
    keras.metrics.Metric,
    keras.regularizers.Regularizer,
    Exception,
)
# What others are made of: bases, protocols, and noise that is a view of the
# variables of a layer and goes with it.
PARTS = {
    noise.Concrete,
    noise.LearnedBernoulli,
    noise.LearnedGaussian,
    noise.MaskTable,
    noise.Multiplicative,
    noise.Noise,
    noise.NoiseSource,
    noise.NoiseThenLayer,
    noise.WeightNoise,
    noise.WeightNoiseSource,
    losses.Likelihood,
    priors.ScalePrior,
    priors.WeightPrior,
    sparsity.PlainInside,
    sparsity.SparseSource,
    # Of a rule, which runs inside of a compiled function.
    kbd.moments.Outcome,
}


def network():
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(8, activation="relu"),
            kbd.MCDropout(0.5),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )


def objects():
    """One of every public class whose objects users hold."""
    model, x = network(), np.ones((20, 3), "float32")
    x[:, 0] = np.linspace(-1, 1, 20)
    p = kbd.predict_with_uncertainty(
        model, x, 8, seed=0, verbose=0, return_samples=True
    )
    # Every fifth is predicted wrong.
    y = np.where(
        np.arange(20) % 5 == 0, 1 - p.mean.argmax(-1), p.mean.argmax(-1)
    )
    line = dataclasses.replace(
        p, head=kbd.Regression(), mean_entropy=None, vote_counts=None
    )
    sparse = keras.Sequential(
        [
            keras.Input((3,)),
            kbd.layers.VariationalDense(2, 10, prior="gaussian"),
        ]
    )
    deep = keras.Sequential(
        [
            keras.Input((3,)),
            kbd.layers.ADDResidual(keras.layers.Dense(3), "inverse_gamma", 10),
        ]
    )
    report = kbd.sparsity_report(sparse)
    depth = kbd.effective_depth(deep)
    cascade = kbd.Cascade(model, network(), budget=0.2)
    sampler = kbd.ThompsonSampler(model, seed=0)
    kernel = np.ones((3, 2), "float32")
    return [
        p,
        p.stats,
        kbd.evaluate_with_uncertainty(model, x, y, 8, seed=0, verbose=0),
        kbd.Regression(noise_precision=4.0),
        kbd.Heteroscedastic(mean="mu", log_variance="s"),
        kbd.Classification(from_logits=True),
        kbd.NoisyLogits(logits="f", log_variance="s"),
        kbd.Binary(),
        kbd.Sampling(masks="independent"),
        kbd.Moments(),
        kbd.RaoBlackwell(),
        kbd.Predictor(model, 8, seed=0),
        cascade,
        cascade.predict(x),
        sampler,
        sampler.sample(),
        p.defer(budget=0.1, y=y),
        kbd.acquire(p, 2),
        calibrate.temperature(y, p),
        calibrate.conformal(y, p, level=0.8),
        calibrate.conformal(np.zeros((20, 2)), line, level=0.8),
        metrics.reliability(y, p),
        metrics.calibration_curve(np.zeros((20, 2)), line),
        metrics.risk_coverage(y, p.predictive_entropy),
        report,
        report.layers[0],
        depth,
        depth.blocks[0],
        kbd.to_sparse_size(sparse),
        kbd.theory.linear_moments(x, [kernel], unit_rates=0.5),
        kbd.theory.expected_gradient(x, x[:, :2], [kernel], unit_rates=0.5),
        kbd.moments.MeanVariance(tf.ones([2, 3]), tf.ones([2, 3])),
        kbd.moments.Matrix(tf.ones([3, 2])),
        kbd.moments.Factor(tf.ones([1, 3])),
        kbd.regularizers.ARD("inverse_gamma", 10).scales(kernel),
        noise.AdditiveGaussian(0.5),
        noise.Alpha(0.5),
        noise.Bernoulli(0.5),
        noise.Beta(2.0, 1.0),
        noise.CenteredGaussian(),
        noise.Gaussian(0.5),
        noise.HalfCauchy(),
        noise.InverseNakagami(2.0, 1.0),
        noise.LogNormal(0.0, 1.0),
        noise.Rayleigh(),
        noise.Uniform(0.0, 1.0),
        losses.GaussianLikelihood(4.0, 2),
        losses.LikelihoodInNats(3),
        priors.HalfCauchyScale(),
        priors.InverseGammaScale(),
        priors.LogUniformScale(),
        priors.GaussianPrior(),
        priors.HorseshoePrior(),
        priors.LogUniformPrior(),
        priors.StudentTPrior(),
    ]


def test_every_public_class_is_covered():
    classes = set()
    for name in public_names():
        module, _, last = name.rpartition(".")
        value = getattr(importlib.import_module(module), last)
        if inspect.isclass(value) and not issubclass(value, SAVED_BY_OTHERS):
            classes.add(value)
    covered = {type(each) for each in objects()}
    assert classes - PARTS - covered == set()


def same(one, other):
    """Whether two values are the same, array by array."""
    assert type(one) is type(other)
    if isinstance(one, (keras.Model, tf.Tensor, np.ndarray)):
        if isinstance(one, keras.Model):
            one, other = one.get_weights(), other.get_weights()
            assert len(one) == len(other)
        for a, b in zip(
            one if isinstance(one, list) else [one],
            other if isinstance(other, list) else [other],
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif type(one).__module__.startswith("keras_bayesdrop"):
        same(_state(one), _state(other))
    else:
        assert one == other


def _state(value):
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: getattr(value, field.name) for field in fields}
    if hasattr(value, "get_config"):
        return value.get_config()
    state = value.__getstate__()
    return state if isinstance(state, dict) else {"state": state}


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_pickling(protocol):
    for each in objects():
        same(each, pickle.loads(pickle.dumps(each, protocol)))
