# SPDX-License-Identifier: Apache-2.0
"""Reads losses as log-likelihoods in nats.

A loss with a method `log_prob(y_true, y_pred)` is a likelihood. So are these
losses of Keras:

    BinaryCrossentropy              Bernoulli
    CategoricalCrossentropy         categorical
    SparseCategoricalCrossentropy   categorical
    Poisson                         Poisson, without the term log(y!)

The missing term is the same for all samples of the noise. The first and the
last average over the last axis; here the average becomes a sum.
"""

import dataclasses
from typing import Any

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import BayesdropError

_losses = keras.losses
# The function of each class of Keras.
_KNOWN: dict[type, Any] = {
    _losses.BinaryCrossentropy: _losses.binary_crossentropy,
    _losses.CategoricalCrossentropy: _losses.categorical_crossentropy,
    _losses.SparseCategoricalCrossentropy: (
        _losses.sparse_categorical_crossentropy
    ),
    _losses.Poisson: _losses.poisson,
}
# Losses that average over the last axis.
_AVERAGED = (_losses.BinaryCrossentropy, _losses.Poisson)
_EXPECTED = (
    "a loss with a `log_prob` method (such as `keras_bayesdrop.losses."
    "GaussianNLL`), or one of "
    + ", ".join(f"`{known.__name__}`" for known in _KNOWN)
)
_MEANS = ("sum_over_batch_size", "mean")


@dataclasses.dataclass(frozen=True)
class Terms:
    """Log-likelihoods of one output.

    Attributes:
        log_prob: Tensor [rows, ...] in nats, float32 or better.
        mask: Tensor of the same shape and dtype, 0 where there is nothing to
            predict, or `None`.
        averaged: Number of values per entry that Keras averages over.
    """

    log_prob: Any
    mask: Any
    averaged: Any


def check_likelihood_loss(loss: Any) -> Any:
    """Returns a loss as an object, or raises if it is not a likelihood.

    Args:
        loss: Name, function or object, as `compile` takes it.

    Returns:
        An object with `log_prob`, or a known loss of Keras.
    """
    instance = loss
    if isinstance(loss, str):
        try:
            instance = _losses.get(loss)
        except ValueError:
            raise _not_a_likelihood(loss) from None
    for known, function in _KNOWN.items():
        if instance is function or instance is known:
            instance = known()
    if not callable(getattr(instance, "log_prob", None)):
        if type(instance) not in _KNOWN:
            raise _not_a_likelihood(loss)
        if getattr(instance, "label_smoothing", 0.0):
            raise BayesdropError(
                "With smoothed labels a cross-entropy is not the likelihood "
                "of the targets. Expected label_smoothing=0. Received: "
                f"label_smoothing={instance.label_smoothing!r} in {loss!r}"
            )
    if not getattr(instance, "in_nats", True):
        raise BayesdropError(
            "The loss weighs its terms, and is no log-likelihood. Expected "
            f"beta=0. Received: beta={instance.beta!r} in {loss!r}"
        )
    reduction = getattr(instance, "reduction", _MEANS[0])
    if reduction not in _MEANS:
        raise BayesdropError(
            "The loss of several samples is a mean over the examples. "
            f"Expected a loss with reduction='{_MEANS[0]}'. Received: "
            f"reduction={reduction!r} in {loss!r}"
        )
    return instance


def terms_of(loss: Any, y_true: Any, y_pred: Any) -> Terms:
    """Returns the log-likelihoods of the targets of one output.

    Args:
        loss: The object that `check_likelihood_loss` returned.
        y_true: Targets [rows, ...].
        y_pred: The output [rows, ...], with its Keras mask if it has one.

    Returns:
        The log-likelihoods.
    """
    mask = private_keras.get_mask(y_pred)
    wide = keras.backend.result_type(y_pred.dtype, "float32")
    if type(loss) in _KNOWN:
        y_pred = keras.ops.cast(y_pred, wide)
        values, averaged = _keras_terms(loss, y_true, y_pred)
        mask = _both(mask, private_keras.get_mask(values))
    else:
        values, averaged = loss.log_prob(y_true, y_pred), 1
        wide = keras.backend.result_type(values.dtype, wide)
    log_prob = keras.ops.cast(values, wide)
    if mask is not None:
        mask = _shaped(mask, log_prob)
    return Terms(log_prob, mask, averaged)


def _keras_terms(loss: Any, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Returns the log-likelihoods, and the number of averaged values."""
    if len(y_pred.shape) == 1:
        y_pred = keras.ops.expand_dims(y_pred, -1)
    # Keras casts class numbers too, and compares them as floats.
    y_true = keras.ops.cast(y_true, y_pred.dtype)
    averaged: Any = 1
    if isinstance(loss, _AVERAGED):
        if len(y_true.shape) == len(y_pred.shape) - 1:
            y_true = keras.ops.expand_dims(y_true, -1)
        axis = getattr(loss, "axis", -1)
        averaged = keras.ops.shape(y_pred)[axis]
    values = loss.call(y_true, y_pred)
    mask = private_keras.get_mask(values)
    if isinstance(averaged, int):
        log_prob = -averaged * values
    else:
        log_prob = -keras.ops.cast(averaged, values.dtype) * values
    if mask is not None:
        private_keras.set_mask(log_prob, mask)
    return log_prob, averaged


def _both(one: Any, other: Any) -> Any:
    """Returns the logical and of two masks, either of which may be `None`."""
    if one is None or other is None:
        return other if one is None else one
    return keras.ops.logical_and(one, other)


def _shaped(mask: Any, log_prob: Any) -> Any:
    """Returns a mask [rows, ...] as numbers in the shape of the terms."""
    missing = len(log_prob.shape) - len(mask.shape)
    if missing < 0:
        raise BayesdropError(
            "The mask of an output does not fit its log-likelihoods. Expected "
            f"at most {len(log_prob.shape)} axes. Received: "
            f"mask.shape={tuple(mask.shape)}"
        )
    for _ in range(missing):
        mask = keras.ops.expand_dims(mask, -1)
    ones = keras.ops.ones_like(log_prob)
    return keras.ops.cast(mask, log_prob.dtype) * ones


def _not_a_likelihood(loss: Any) -> BayesdropError:
    name = str(getattr(loss, "name", getattr(loss, "__name__", loss)))
    squared = name in ("mse", "mean_squared_error", "MeanSquaredError")
    way_out = (
        " The squared error has no scale of its own: use "
        "`keras_bayesdrop.losses.GaussianNLL(noise_precision)`."
        if squared
        else ""
    )
    return BayesdropError(
        "The loss is not a known negative log-likelihood. Expected "
        f"{_EXPECTED}. Received: {loss!r}.{way_out}"
    )
