# SPDX-License-Identifier: Apache-2.0
"""A model that is trained with several samples of its noise per example."""

import warnings
from typing import Any

import keras
import tensorflow as tf

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop._core.validate import check_positive_int
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses.objectives import OBJECTIVES
from keras_bayesdrop.training._monte_carlo_loss import PER
from keras_bayesdrop.training._monte_carlo_loss import MonteCarloLoss
from keras_bayesdrop.training._monte_carlo_loss import SampledLikelihood
from keras_bayesdrop.training._monte_carlo_loss import make_loss
from keras_bayesdrop.training._outputs import outputs_of
from keras_bayesdrop.training._samples import check_foldable
from keras_bayesdrop.training._samples import check_repeatable
from keras_bayesdrop.training._samples import evaluation_samples
from keras_bayesdrop.training._samples import folded
from keras_bayesdrop.training._samples import num_rows


@export("keras_bayesdrop.training.MonteCarloModel")
class MonteCarloModel(private_keras.Functional):
    """A Functional model trained with several samples of its noise.

    The log-likelihood of a model with noise, such as dropout, is
    `log E[p(y | x, noise)]`, with the mean over the noise. Keras trains with
    one mask per example and step, which maximises the lower
    `E[log p(y | x, noise)]`. Here a step draws `S` samples of the noise for
    every example. With `l_s` the log-likelihood under sample `s`,
    `mc_objective` is one of

        "lower_bound"           1/S * sum{ l_s : s }
        "importance_weighted"   log( 1/S * sum{ exp(l_s) : s } )
        "tail_adaptive"         sum{ w_s * l_s : s }

    The weights `w_s` are proportional to `1 / (number of k with l_k >= l_s)`,
    sum to one, and are not differentiated. The gradient of each objective is
    a weighted mean of the samples' gradients. The weights are equal, in
    proportion to the likelihood, and by the rank of the likelihood.

    The *expectation* of the first two is a lower bound of the log of the mean
    likelihood; a single estimate may lie above. The second bound is tighter,
    and gets tighter with every sample. The third is not a bound: it covers
    more of the posterior.

    With `mc_per="example"`, `l_s` belongs to an example, and the objectives
    of the examples are added. With `mc_per="batch"`, `l_s` is the sum over the
    batch, as if the data were one observation. That is the paper's formula for
    the data set, where a sample of the noise serves all examples: to follow
    it, use noise with `noise_shape=(1, ...)` and set `mc_vectorized=False`.
    With layers that draw for every example, it is a looser bound than
    `mc_per="example"`.

    The loss is minus the objective, divided as Keras divides its loss (by the
    number of examples and of values that the loss averages over), plus the
    penalties of the model, once. With `mc_samples=1` all objectives are Keras'
    own training.

    Losses must be negative log-likelihoods: `BinaryCrossentropy`,
    `CategoricalCrossentropy`, `SparseCategoricalCrossentropy`, `Poisson`, or
    any object with a method `log_prob(y_true, y_pred)`, such as
    `keras_bayesdrop.losses.GaussianNLL`. The mean squared error is not one.
    If several outputs have a loss, their log-likelihoods under one sample of
    the noise, times their `loss_weights`, are added first.

    A weight per example (`sample_weight`, `class_weight`) multiplies its
    objective, or with `mc_per="batch"` its log-likelihood. Weights per time
    step, and those of several outputs, multiply log-likelihoods.

    `fit` and `evaluate` log

    - `loss`: the value that training minimises;
    - `mc_loss`: the same without penalties;
    - `nll`: the loss of `predict`'s output, without penalties. If the noise is
      off at prediction, this is the loss of the deterministic network;
    - the metrics of `compile`, also for `predict`'s output.

    `evaluate` (and validation in `fit`) computes `loss` and `mc_loss` with the
    noise of `predict_with_uncertainty(..., seed=0)` by independent masks and
    draws, and everything else in inference mode. The noise is the same each
    time, so that epochs can be compared. For `"importance_weighted"` by
    example, minus `mc_loss` is the test log-likelihood. Tell callbacks that
    less is better, as in `EarlyStopping("val_mc_loss", mode="min")`.

    Args:
        inputs: As in `keras.Model`.
        outputs: As in `keras.Model`.
        name: Optional name.
        **kwargs: Passed to `keras.Model`.

    Example:
    ```python
    inputs = keras.Input((13,))
    x = keras.layers.Dense(50, activation="relu")(inputs)
    x = keras.layers.Dropout(0.05)(x)
    model = keras_bayesdrop.training.MonteCarloModel(
        inputs, keras.layers.Dense(1)(x)
    )
    model.compile(
        "adam",
        keras_bayesdrop.losses.GaussianNLL(noise_precision=5.0),
        mc_samples=10,
        mc_objective="importance_weighted",
    )
    model.fit(x_train, y_train, validation_data=(x_test, y_test))
    prediction = keras_bayesdrop.predict_with_uncertainty(model, x_test)
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045),
          equations 10, 15, 16 and 17.
        - [Burda et al., 2016](https://arxiv.org/abs/1509.00519).
        - [Noh et al., 2017](https://arxiv.org/abs/1710.05179).
        - [Wang et al., 2018](https://arxiv.org/abs/1810.11943).
    """

    # There is no `__init__`: Keras saves the graph of a class only if it has
    # the `__init__` of Functional.

    @classmethod
    def from_model(
        cls, model: keras.Model, inputs: Any = None, name: str | None = None
    ) -> "MonteCarloModel":
        """Returns a model that shares the layers of another.

        Args:
            model: A built Keras model.
            inputs: `keras.Input`s to call it with. Needed for a model with a
                `call` of its own; ignored otherwise.
            name: Name of the new model. Defaults to the name of `model`.

        Returns:
            The model, not compiled.
        """
        check_model(model)
        graph = private_keras.graph_of(model)
        if graph is not None:
            inputs, outputs = graph.input, graph.output
        elif inputs is None:
            raise BayesdropError(
                f"Model `{model.name}` has no graph to take its inputs from. "
                "Expected `inputs`, such as keras.Input((4,)), for a model "
                f"with a `call` of its own. Received: {type(model).__name__}"
            )
        else:
            outputs = model(inputs)
        trained = cls(inputs, outputs, name=name or model.name)
        trained.dtype_policy = model.dtype_policy
        return trained

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        *,
        mc_samples: int = 10,
        mc_objective: str = "lower_bound",
        mc_per: str = "example",
        mc_vectorized: bool = True,
        **kwargs: Any,
    ) -> None:
        """Configures the model for training.

        Args:
            optimizer: As in `keras.Model.compile`.
            loss: A negative log-likelihood, or a list or dict with one per
                output.
            loss_weights: As in `keras.Model.compile`; factors of the
                log-likelihoods of the outputs.
            metrics: As in `keras.Model.compile`.
            weighted_metrics: As in `keras.Model.compile`.
            mc_samples: Positive int. Samples per example and step.
            mc_objective: `"lower_bound"`, `"importance_weighted"` or
                `"tail_adaptive"`.
            mc_per: `"example"` or `"batch"` (under `tf.distribute`, the
                replica's part of the batch).
            mc_vectorized: Bool. `True` runs the samples as one batch of
                `mc_samples` times the rows, which is fast; `False` runs them
                one after another. Noise that a layer draws once for a whole
                batch (on its weights, or with `noise_shape=(1, ...)`) differs
                between samples only with `False`. `BatchNormalization` sees
                all samples at once with `True`, and updates its averages
                `mc_samples` times per step with `False`.
            **kwargs: Passed to `keras.Model.compile`.
        """
        check_positive_int(mc_samples, "mc_samples")
        check_choice(mc_objective, "mc_objective", tuple(OBJECTIVES))
        check_choice(mc_per, "mc_per", PER)
        if not isinstance(mc_vectorized, bool):
            raise invalid("mc_vectorized", mc_vectorized, "a bool")
        if mc_vectorized and mc_samples > 1:
            check_foldable(self)
        elif mc_samples > 1:
            check_repeatable(self)
        mc_loss = make_loss(
            outputs_of(self), loss, loss_weights, mc_objective, mc_per
        )
        # Without `loss`, because Keras' trackers would follow the plain loss.
        super().compile(
            optimizer,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            **kwargs,
        )
        self.loss = loss
        self.mc_samples = int(mc_samples)
        self.mc_objective = mc_objective
        self.mc_per = mc_per
        self.mc_vectorized = mc_vectorized
        self._mc_loss: MonteCarloLoss = mc_loss
        self._mc_loss_weights = loss_weights
        if not hasattr(self, "_mc_tracker"):
            self._mc_tracker = keras.metrics.Mean(name="mc_loss")
            self._nll = keras.metrics.Mean(name="nll")

    def train_step(self, data: Any) -> dict[str, Any]:
        """Takes one step of the optimizer, see `keras.Model.train_step`."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            sampled, penalty = self._sample(x, y, sample_weight)
            mc_loss = self._mc_loss.reduce(sampled, sample_weight)
            loss = self.optimizer.scale_loss(_per_replica(mc_loss + penalty))
        # Keras' metrics, too, are those before the step.
        y_pred = self(x, training=False)
        variables = self.trainable_weights
        if variables:
            gradients = tape.gradient(loss, variables)
            self.optimizer.apply_gradients(
                zip(gradients, variables, strict=True)
            )
        else:
            warnings.warn(
                "The model does not have any trainable weights.", stacklevel=2
            )
        return self._report(
            x, y, y_pred, sample_weight, mc_loss + penalty, mc_loss
        )

    def test_step(self, data: Any) -> dict[str, Any]:
        """Evaluates one batch, see `keras.Model.test_step`."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        y_pred = self(x, training=False)
        penalty = self._penalty()
        first_row = keras.ops.cast(self._mc_tracker.count, "int64")
        outputs = evaluation_samples(self, x, self.mc_samples, first_row)
        samples = self.mc_samples
        if outputs is None:  # without noise all samples are equal
            outputs, samples = y_pred, 1
        sampled = self._mc_loss.sampled(y, outputs, sample_weight, samples)
        mc_loss = self._mc_loss.reduce(sampled, sample_weight)
        return self._report(
            x, y, y_pred, sample_weight, mc_loss + penalty, mc_loss
        )

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Returns the loss of one sample with the penalties, as Keras does."""
        nll = self._plain_nll(y, y_pred, sample_weight)
        return _per_replica(nll + self._penalty())

    def get_compile_config(self) -> dict[str, Any]:
        """Returns the arguments of `compile`, serialized."""
        config: dict[str, Any] = super().get_compile_config()
        if not config:
            return config
        serialize = keras.saving.serialize_keras_object
        return {
            **config,
            "loss": serialize(self.loss),
            "loss_weights": serialize(self._mc_loss_weights),
            "mc_samples": self.mc_samples,
            "mc_objective": self.mc_objective,
            "mc_per": self.mc_per,
            "mc_vectorized": self.mc_vectorized,
        }

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles with the config that `get_compile_config` returned."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)

    def _sample(
        self, x: Any, y: Any, sample_weight: Any
    ) -> tuple[SampledLikelihood, Any]:
        """Returns the log-likelihoods of all samples, and the mean penalty."""
        samples = self.mc_samples
        if self.mc_vectorized:
            outputs = self(folded(x, samples), training=True)
            sampled = self._mc_loss.sampled(y, outputs, sample_weight, samples)
            return sampled, self._penalty()
        runs: list[SampledLikelihood] = []
        penalties = []
        for _ in range(samples):
            outputs = self(x, training=True)
            runs.append(self._mc_loss.sampled(y, outputs, sample_weight, 1))
            penalties.append(self._penalty())
        log_likelihood = keras.ops.concatenate(
            [run.log_likelihood for run in runs], axis=-1
        )
        return (
            SampledLikelihood(log_likelihood, runs[0].values),
            sum(penalties) / samples,
        )

    def _penalty(self) -> Any:
        """Returns the sum of all penalties of the last call."""
        total: Any = 0.0
        for penalty in self.losses:
            dtype = keras.backend.result_type(penalty.dtype, "float32")
            total += keras.ops.sum(keras.ops.cast(penalty, dtype))
        return total

    def _plain_nll(self, y: Any, y_pred: Any, sample_weight: Any) -> Any:
        """Returns Keras' loss, without penalties."""
        sampled = self._mc_loss.sampled(y, y_pred, sample_weight, 1)
        return self._mc_loss.reduce(sampled, sample_weight)

    def _report(
        self,
        x: Any,
        y: Any,
        y_pred: Any,
        sample_weight: Any,
        loss: Any,
        mc_loss: Any,
    ) -> dict[str, Any]:
        """Updates all metrics and returns their values."""
        rows = num_rows(x)
        nll = self._plain_nll(y, y_pred, sample_weight)
        tracker = next(m for m in self.metrics if m.name == "loss")
        tracker.update_state(loss, sample_weight=rows)
        self._mc_tracker.update_state(mc_loss, sample_weight=rows)
        self._nll.update_state(nll, sample_weight=rows)
        logs: dict[str, Any] = self.compute_metrics(
            x, y, y_pred, sample_weight=sample_weight
        )
        return logs


def _per_replica(loss: Any) -> Any:
    """Returns one replica's share of a loss; the shares sum to the loss."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    return loss if replicas == 1 else loss / replicas
