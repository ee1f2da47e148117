# SPDX-License-Identifier: Apache-2.0
"""The loss of several samples of the noise: one number to minimise."""

import dataclasses
from typing import Any

import keras

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses.objectives import OBJECTIVES
from keras_bayesdrop.training._loss_terms import Terms
from keras_bayesdrop.training._loss_terms import check_likelihood_loss
from keras_bayesdrop.training._loss_terms import terms_of
from keras_bayesdrop.training._outputs import Outputs
from keras_bayesdrop.training._samples import folded

PER = ("example", "batch")


@dataclasses.dataclass(frozen=True)
class SampledLikelihood:
    """Log-likelihoods of a batch.

    Attributes:
        log_likelihood: Tensor [examples, samples] in nats, the sum over the
            outputs of an example.
        values: Tensor [examples], the number of values that Keras averages
            over.
    """

    log_likelihood: Any
    values: Any


@dataclasses.dataclass(frozen=True)
class MonteCarloLoss:
    """A likelihood per output, and the objective of several samples.

    Attributes:
        outputs: Names of the outputs.
        likelihoods: One per output, or `None` for an output that has none.
        weights: Factor of the log-likelihood of each output.
        objective: One of `OBJECTIVES`.
        per: One of `PER`.
    """

    outputs: Outputs
    likelihoods: tuple[Any, ...]
    weights: tuple[float, ...]
    objective: str
    per: str

    def sampled(
        self, y: Any, y_pred: Any, sample_weight: Any, samples: int
    ) -> SampledLikelihood:
        """Returns the log-likelihoods of the targets.

        Args:
            y: Targets, in the user's structure.
            y_pred: Outputs for `samples` samples, folded.
            sample_weight: Weights, in the structure that Keras passes. One
                weight per example is left to `reduce`; others multiply
                log-likelihoods.
            samples: Samples per example.

        Returns:
            The log-likelihoods.
        """
        targets = self.outputs.targets(y, "y")
        weights: list[Any] = [None] * len(targets)
        if not _per_example(sample_weight):
            weights = self.outputs.targets(sample_weight, "sample_weight")
        predictions = keras.tree.flatten(y_pred)
        rows: Any = None
        counts: list[tuple[Terms, Any]] = []
        for number, loss in enumerate(self.likelihoods):
            if loss is None:
                continue
            target = folded(targets[number], samples)
            terms = terms_of(loss, target, predictions[number])
            weight = folded(weights[number], samples)
            log_likelihood, count = _rows(terms, weight)
            if self.weights[number] != 1.0:
                log_likelihood = self.weights[number] * log_likelihood
            rows = log_likelihood if rows is None else rows + log_likelihood
            counts.append((terms, count))
        shape = (-1, samples)
        return SampledLikelihood(
            keras.ops.reshape(rows, shape),
            keras.ops.reshape(_common_values(counts), shape)[:, 0],
        )

    def reduce(self, sampled: SampledLikelihood, sample_weight: Any) -> Any:
        """Returns minus the objective, divided by the number of values."""
        log_likelihood = sampled.log_likelihood
        weight = None
        if sample_weight is not None and _per_example(sample_weight):
            weight = keras.ops.reshape(sample_weight, (-1,))
            weight = keras.ops.cast(weight, log_likelihood.dtype)
        objective = OBJECTIVES[self.objective]
        if self.per == "batch":
            if weight is not None:
                log_likelihood = log_likelihood * weight[:, None]
            total = objective(keras.ops.sum(log_likelihood, axis=0))
        else:
            each = objective(log_likelihood)  # [examples]
            total = keras.ops.sum(each if weight is None else each * weight)
        values = keras.ops.sum(sampled.values)
        return -total / keras.ops.maximum(values, 1.0)


def make_loss(
    outputs: Outputs, loss: Any, loss_weights: Any, objective: str, per: str
) -> MonteCarloLoss:
    """Returns the loss for the arguments of `compile`.

    Args:
        outputs: The outputs of the model.
        loss: A loss, or a list or dict with one per output.
        loss_weights: A float, or a list or dict with one per output.
        objective: One of `OBJECTIVES`.
        per: One of `PER`.

    Returns:
        The loss.
    """
    likelihoods = tuple(
        None if each is None else check_likelihood_loss(each)
        for each in outputs.losses(loss)
    )
    if not any(each is not None for each in likelihoods):
        raise BayesdropError(
            "No output has a loss. Expected `loss` to be a negative "
            f"log-likelihood, such as 'binary_crossentropy'. Received: {loss!r}"
        )
    weights = tuple(outputs.weights(loss_weights))
    return MonteCarloLoss(outputs, likelihoods, weights, objective, per)


def _per_example(sample_weight: Any) -> bool:
    """Returns whether there is at most one weight per example."""
    if sample_weight is None:
        return True
    if keras.tree.is_nested(sample_weight):
        return False
    return all(size == 1 for size in sample_weight.shape[1:])


def _rows(terms: Terms, weight: Any) -> tuple[Any, Any]:
    """Returns the log-likelihood of each row, and its number of values."""
    log_prob = terms.log_prob
    axes = tuple(range(1, len(log_prob.shape)))
    count = keras.ops.ones_like(log_prob) if terms.mask is None else terms.mask
    count = count * keras.ops.cast(terms.averaged, log_prob.dtype)
    if terms.mask is not None:
        log_prob = log_prob * terms.mask
    if weight is not None:
        log_prob = log_prob * _shaped(weight, log_prob)
    if not axes:
        return log_prob, count
    return keras.ops.sum(log_prob, axis=axes), keras.ops.sum(count, axis=axes)


def _shaped(weight: Any, log_prob: Any) -> Any:
    """Returns weights [rows] or [rows, ...] with the axes of the terms."""
    if _per_example(weight):
        weight = keras.ops.reshape(weight, (-1, *[1] * (log_prob.ndim - 1)))
    if len(weight.shape) != len(log_prob.shape):
        raise BayesdropError(
            "`sample_weight` does not fit the targets. Expected one weight per "
            "example, or one for each of its log-likelihoods, of shape "
            f"{tuple(log_prob.shape)}. Received: shape {tuple(weight.shape)}"
        )
    return keras.ops.cast(weight, log_prob.dtype)


def _common_values(counts: list[tuple[Terms, Any]]) -> Any:
    """Returns the number of values per row, or raises if outputs differ."""
    if len(counts) > 1:
        sizes = {
            (*terms.log_prob.shape[1:], terms.averaged)
            for terms, _ in counts
            if terms.mask is None
        }
        masked = any(terms.mask is not None for terms, _ in counts)
        if masked or len(sizes) > 1 or None in next(iter(sizes)):
            raise BayesdropError(
                "The losses of several outputs average over different values, "
                "so that their sum is not a likelihood of the example. "
                "Expected outputs without masks, and losses with one "
                "log-likelihood per example (a loss of your own can sum in its "
                "`log_prob`). Received: log-likelihoods of the shapes "
                f"{[tuple(terms.log_prob.shape) for terms, _ in counts]}"
            )
    return counts[0][1]
