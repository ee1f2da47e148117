# SPDX-License-Identifier: Apache-2.0
"""Joins the parts of a Gaussian kernel to a Keras layer."""

import weakref
from typing import Any
from typing import ClassVar

import keras
import tensorflow as tf

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers._gaussian.estimators import Estimator
from keras_bayesdrop.layers._gaussian.estimators import draw_rows
from keras_bayesdrop.layers._gaussian.kernel_noise import KernelNoise
from keras_bayesdrop.layers._gaussian.structured_prior import StructuredPrior
from keras_bayesdrop.layers._gaussian.structured_prior import numpy_scales
from keras_bayesdrop.layers._gaussian.weights import GaussianWeights
from keras_bayesdrop.layers._gaussian.weightwise_prior import WeightwisePrior
from keras_bayesdrop.layers._kl_penalty import KLPenalty
from keras_bayesdrop.layers._operations import KernelOperation
from keras_bayesdrop.layers._operations import operation_of
from keras_bayesdrop.layers._operations import wide_dtype
from keras_bayesdrop.layers._parts import part_attribute
from keras_bayesdrop.layers.sources import ScaleSource
from keras_bayesdrop.layers.sources import SparseSource
from keras_bayesdrop.noise import Noise
from keras_bayesdrop.noise import WeightNoise
from keras_bayesdrop.noise import WeightNoiseSource
from keras_bayesdrop.priors import GroupScales

# Of structured layers: a standard deviation of 5%.
_INITIAL_LOG_VARIANCE = -6.0


class GaussianLayer(SparseSource, WeightNoiseSource):
    """The front of a Keras layer with a Gaussian kernel.

    It holds no computation: it makes the variables, and passes each call on
    to a part. A class puts it before `keras.layers.Dense` or a convolution,
    and its `__init__` calls `_compose`. The variables keep their dtype inside
    `call`; what is statistical is computed in float32 or better.

    Attributes:
        plain_class: Class of the Keras layer without noise.
        kl_penalty: What the layer adds to the loss.
        kl_weight: Scalar variable, the weight of that.
        kernel_noise: Parametrisation of the noise.
        kernel_prior: Prior of the kernel.
        output_sampler: Draws the outputs in training.
        log_noise: Variable: log sigma^2 if additive, log alpha otherwise.
    """

    plain_class: ClassVar[type[keras.layers.Layer]]
    # Of the Keras layer.
    name: str
    kernel: Any
    log_noise: Any

    num_train_examples = part_attribute("kl_penalty", "num_train_examples")
    likelihood = part_attribute("kl_penalty", "likelihood")
    parametrization = part_attribute("kernel_noise", "parametrization")
    noise_initializer = part_attribute("kernel_noise", "initializer")

    def _compose(
        self,
        num_train_examples: int,
        likelihood: Any,
        *,
        noise: KernelNoise,
        prior: WeightwisePrior | StructuredPrior,
        sampler: Estimator,
        seed: int | None,
    ) -> None:
        """Makes the penalty, and keeps the other parts of the layer."""
        self.kl_penalty = KLPenalty(
            self, self.penalty_nats, num_train_examples, likelihood
        )
        self.kl_weight = self.kl_penalty.weight
        self.kernel_noise = noise
        self.kernel_prior = prior
        self.output_sampler = sampler
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def add_weight(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a variable that is not cast to the compute dtype by itself."""
        kwargs["autocast"] = False
        return super().add_weight(*args, **kwargs)  # type: ignore[misc]

    def build(self, input_shape: Any) -> None:
        """Makes the variables of the layer, of its noise and of its prior."""
        super().build(input_shape)  # type: ignore[misc]
        self.log_noise = self.kernel_noise.add_variable(self)
        self.kernel_prior.build(self)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Draws the outputs in training, and uses the means otherwise."""
        if not training:
            return self.call_expected(inputs)
        return self.output_sampler.draw(
            self.operation, self.gaussian_weights, inputs, self.seed_generator
        )

    @property
    def operation(self) -> KernelOperation:
        """The layer as a function of its kernel."""
        return operation_of(self)

    @property
    def gaussian_weights(self) -> GaussianWeights:
        """The distribution of the kernel."""
        return GaussianWeights(
            self.kernel,
            self.log_noise,
            self.parametrization,
            self.kernel_prior.limits,
            wide_dtype(self),
        )

    def mean_kernel(self) -> Any:
        """Returns `theta`, the kernel of the mean network."""
        return self.gaussian_weights.mean()

    def log_alpha(self) -> Any:
        """Returns `log(sigma^2 / theta^2)`, which broadcasts to the kernel."""
        return self.gaussian_weights.log_alpha()

    def second_moments(self) -> Any:
        """Returns `theta^2 + sigma^2`, also where `theta` is zero."""
        return self.gaussian_weights.second_moments()

    def weight_variance(self) -> Any:
        """Returns `sigma^2` of each weight."""
        return self.gaussian_weights.variance()

    def sparsity(self, threshold: float = 3.0) -> float:
        """Returns the share of weights whose log alpha is above a threshold."""
        above = keras.ops.convert_to_numpy(self.log_alpha()) > threshold
        return float(above.mean())

    def kl_divergence(self) -> Any:
        """Returns KL(posterior || prior) in nats, without `kl_weight`."""
        return self.kernel_prior.kl(self.gaussian_weights)

    def penalty_nats(self) -> Any:
        """Returns what `kl_weight` weighs, in nats, a scalar.

        That is the KL divergence, minus the log-density of learned scales.
        """
        return self.kernel_prior.nats(self.gaussian_weights)

    def plain_layer(self) -> keras.layers.Layer:
        """Returns the Keras layer without noise, not built."""
        return self.plain_class.from_config(self.plain_class.get_config(self))

    def noise_site(self) -> tuple[Noise, None]:
        """Returns the noise of the weights."""
        text = f"Gaussian weights, {self.parametrization}"
        return WeightNoise(weakref.ref(self), text), None

    @property
    def weight_units(self) -> int:
        """The number of words that a draw of the weights takes."""
        return self.gaussian_weights.num_draws

    def call_expected(self, x: Any) -> Any:
        """Calls the layer with the mean of its weights."""
        return self.operation.apply(x, self.mean_kernel())

    def call_sampled(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Calls the layer with one draw of its weights."""
        return self.operation.apply(x, self.gaussian_weights.sample(words))

    def row_units(self, x: tf.Tensor) -> int | None:
        """Returns how many words a row takes, if no outputs share weights."""
        if not self.operation.independent_outputs(x):
            return None
        inputs, units = self.kernel.shape
        return int(inputs if self.gaussian_weights.correlated else units)

    def call_rows(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Draws the outputs of every row and sample on their own."""
        return draw_rows(self.operation, self.gaussian_weights, x, words)

    def enable_lora(self, *args: Any, **kwargs: Any) -> None:
        """Raises: the noise is that of the whole kernel."""
        raise BayesdropError(
            f"Layer `{self.name}` ({type(self).__name__}) cannot have low-rank "
            "updates of its kernel. Expected `lora_rank=None`. Received: a "
            "rank, or a call of `enable_lora`"
        )

    # Dense and convolutions store their kernel and bias, and nothing else.

    def save_own_variables(self, store: Any) -> None:
        """Stores all variables."""
        keras.layers.Layer.save_own_variables(self, store)

    def load_own_variables(self, store: Any) -> None:
        """Loads all variables."""
        keras.layers.Layer.load_own_variables(self, store)


class VariationalLayer(GaussianLayer):
    """A Gaussian layer whose prior treats weights as independent."""

    kernel_prior: WeightwisePrior

    alpha = part_attribute("kernel_noise", "alpha")
    prior = part_attribute("kernel_prior", "prior")
    log_alpha_limit = part_attribute("kernel_prior", "log_alpha_limit")
    train_threshold = part_attribute("output_sampler", "threshold")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),  # type: ignore[misc]
            **self.kl_penalty.get_config(),
            **self.kernel_noise.get_config(),
            **self.kernel_prior.get_config(),
            "train_threshold": self.train_threshold,
            "seed": self.seed,
        }


class StructuredLayer(GaussianLayer, ScaleSource):
    """A Gaussian layer whose prior learns scales of its rows or matrix."""

    kernel_prior: StructuredPrior

    structure = part_attribute("kernel_prior", "structure")
    row_prior = part_attribute("kernel_prior", "row_prior")
    matrix_prior = part_attribute("kernel_prior", "matrix_prior")
    row_scales = part_attribute("kernel_prior", "row_scales")
    matrix_scale = part_attribute("kernel_prior", "matrix_scale")
    sigma0 = part_attribute("kernel_prior", "sigma0")
    scales = part_attribute("kernel_prior", "scales")
    estimator = part_attribute("output_sampler", "name")

    @staticmethod
    def _structured_noise(initializer: Any) -> KernelNoise:
        """Returns additive noise with the initializer or its default."""
        if initializer is None:
            initializer = keras.initializers.Constant(_INITIAL_LOG_VARIANCE)
        return KernelNoise(initializer=initializer)

    @property
    def scales_in_variables(self) -> bool:
        """True if the layer holds its scales in variables."""
        return self.kernel_prior.in_variables

    def learned_scales(self) -> GroupScales:
        """Returns the scales that the prior has now.

        A scale is the prior standard deviation of the weights of a row, or of
        all weights, in units of `sigma0`.

        Returns:
            A named tuple of NumPy arrays: `rows`, of shape `[rows]`, and
            `matrix`, a scalar; `None` for what the structure does not have.
        """
        scales = self.kernel_prior.current_scales(self.gaussian_weights)
        return numpy_scales(scales)

    def update_scales(self) -> None:
        """Assigns the best scales for the posterior: the M-step.

        Raises:
            BayesdropError: If the layer holds no scales in variables.
        """
        prior = self.kernel_prior
        if not prior.in_variables:
            raise BayesdropError(
                f"Layer `{self.name}` ({type(self).__name__}) has no scales "
                "to update. Expected scales='variable'. Received: "
                f"scales={prior.scales!r}, structure={prior.structure!r}"
            )
        prior.update_scales(self.gaussian_weights)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        noise = self.kernel_noise.get_config()
        return {
            **super().get_config(),  # type: ignore[misc]
            **self.kl_penalty.get_config(),
            **self.kernel_prior.get_config(),
            "estimator": self.estimator,
            "noise_initializer": noise["noise_initializer"],
            "seed": self.seed,
        }
