# SPDX-License-Identifier: Apache-2.0
"""A residual block that the model can do without."""

from typing import Any

import keras

from keras_bayesdrop._core.export import export
from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers import _residual
from keras_bayesdrop.layers._dropout.noise import noise_config
from keras_bayesdrop.layers._dropout.scale_noise import ScaleNoise
from keras_bayesdrop.layers._gaussian.block_prior import BlockPrior
from keras_bayesdrop.layers._kl_penalty import KLPenalty
from keras_bayesdrop.layers._parts import part_attribute
from keras_bayesdrop.layers.sources import ResidualSource
from keras_bayesdrop.layers.sources import ScaleSource
from keras_bayesdrop.losses.likelihood import refuse_loss_keywords
from keras_bayesdrop.noise import Multiplicative
from keras_bayesdrop.priors import GroupScales

MODES = ("em", "noise")
NOISE_PLACES = ("branch", "input")


@export("keras_bayesdrop.layers.ADDResidual")
class ADDResidual(keras.layers.Layer, ResidualSource, ScaleSource):
    """Layers beside a shortcut, with a scale `tau` of their weights.

    A prior under which all weights of a block shrink together finds out how
    many blocks a model needs, since the shortcut takes over where a block
    does nothing: automatic depth determination.

    With `mode="em"` the scale is learned, each step at its optimum for the
    weights of that step, which has a closed form:

        y = x + block(x)
        w ~ N(0, sigma0^2 * tau^2),    tau ~ scale_prior

    for every weight `w` of the block's kernels. The penalty is `kl_weight`
    times that of `regularizers.ADD` for all of them as one. In the paper a
    block is one kernel, and `tau` the same as a factor of its input. With two,
    a scale of the first alone would go to 0 and the second make up for it,
    with the same outputs and a density that grows for ever. Kernels are the
    variables that Keras names so: biases have no part in it. A normalization
    after a kernel undoes its scale; put it before.

    With `mode="noise"` the scale is drawn, one number an example:

        y = x + tau / c * block(x)    noise_on="branch"
        y = x + block(tau / c * x)    noise_on="input"

    with `c` the normalizer of the noise, by which `tau / c` has mean 1.
    Bernoulli noise on the branch is stochastic depth,

        y = x + keep / (1 - rate) * block(x),    keep ~ Bernoulli(1 - rate)

    whose mean is `x + block(x)`. Noise on the input is the prior above in its
    expanded form: weights `w ~ N(0, sigma0^2)` times a scale. The noise is on
    in training, and `predict_with_uncertainty` draws it from counters: with
    `masks="shared"` a sample is one network. Elsewhere (`predict`,
    `evaluate`, a plain call) it is off.

    `keras_bayesdrop.sparsity.effective_depth` shows the learned scales, and
    `prune_depth` makes a plain model without the blocks of no use.

    Args:
        block: A layer, or a list of layers that are called in a row, with
            names of their own.
        scale_prior: For `mode="em"`: `"half_cauchy"` or `"log_uniform"`,
            which can shrink a block to nothing, `"inverse_gamma"`, which
            cannot, or a `keras_bayesdrop.priors.ScalePrior`. `None` if layers
            inside have a scale, such as `BayesianDense(structure="add")`.
        num_train_examples: Positive int. Number of training examples; `None`
            without a `scale_prior`.
        mode: `"em"` or `"noise"`. Defaults to `"em"`.
        projection: What the shortcut does: `None` for nothing, `"dense"` for
            a `Dense` layer without bias over the last axis, `"auto"` for such
            a layer if the block changes the shape, or a layer. It has no part
            in the prior. Defaults to `None`.
        sigma0: Positive float. Unit of the scale. Defaults to `1.0`.
        epsilon: Positive float, at least 1e-12. Standard deviation that each
            weight is taken to have about its value, as in `regularizers.ARD`.
            Defaults to `1e-4`.
        scales: `"inline"`, or `"variable"` to hold the scale in a variable, 1
            to begin with, which only `update_scales` changes. Defaults to
            `"inline"`.
        rate: Float, for `mode="noise"` and noise that has a rate.
        noise: For `mode="noise"`, as in `MCDropout`: a name or an instance of
            `keras_bayesdrop.noise`. Defaults to `"bernoulli"` there.
        noise_on: `"branch"` or `"input"`. Defaults to `"branch"`.
        likelihood: The likelihood that the model's loss stands for: `"nll"`
            for a negative log-likelihood in nats, such as cross-entropy,
            `keras_bayesdrop.losses.GaussianLikelihood(noise_precision)` for a
            squared error, or another `keras_bayesdrop.losses.Likelihood`.
            Defaults to `"nll"`.
        seed: Optional int. Makes the noise of training reproducible.
        **kwargs: Passed to `keras.layers.Layer`, e.g. `name` and `dtype`.

    Call arguments:
        inputs: Tensor, as the block takes it.
        training: Bool or `None`. Whether the noise is on.

    Attributes:
        kl_weight: Scalar variable, 1 to begin with, not trained, if there is
            a `scale_prior`; else `None`. `KLAnnealing` moves it.

    Raises:
        BayesdropError: In `build`, if the block changes the shape and
            `projection=None`, or if it has no kernel for the prior, or no
            prior.

    Example:
    ```python
    def block():
        return keras_bayesdrop.layers.ADDResidual(
            keras.layers.Dense(50, activation="relu", use_bias=False),
            scale_prior="half_cauchy",
            num_train_examples=len(x),
        )

    model = keras.Sequential(
        [keras.layers.Dense(50)]
        + [block() for _ in range(8)]
        + [keras.layers.Dense(10, activation="softmax")]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, epochs=100)
    print(keras_bayesdrop.sparsity.effective_depth(model))
    ```

    References:
        - [Nalisnick et al., 2019](https://arxiv.org/abs/1810.04045), eq. 12
          and 13.
        - [Huang et al., 2016](https://arxiv.org/abs/1603.09382), stochastic
          depth.
    """

    num_train_examples = part_attribute("kl_penalty", "num_train_examples")
    likelihood = part_attribute("kl_penalty", "likelihood")
    sigma0 = part_attribute("block_prior", "sigma0")
    epsilon = part_attribute("block_prior", "epsilon")
    scales = part_attribute("block_prior", "scales")
    scale = part_attribute("block_prior", "scale")
    matrix_prior = part_attribute("block_prior", "scale_prior")

    def __init__(
        self,
        block: Any,
        scale_prior: Any = None,
        num_train_examples: int | None = None,
        *,
        mode: str = "em",
        projection: Any = None,
        sigma0: float = 1.0,
        epsilon: float = 1e-4,
        scales: str = "inline",
        rate: float | None = None,
        noise: str | Multiplicative | None = None,
        noise_on: str = "branch",
        likelihood: Any = "nll",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_loss_keywords(kwargs)
        super().__init__(**kwargs)
        self.block = _residual.check_block(block)
        self.mode = check_choice(mode, "mode", MODES)
        self.noise_on = check_choice(noise_on, "noise_on", NOISE_PLACES)
        self.seed = seed
        self.noise = None
        unused: dict[str, Any] = {"rate": rate, "noise": noise}
        if mode == "noise":
            unused = {"scale_prior": scale_prior}
            self.noise = ScaleNoise(
                rate,
                "bernoulli" if noise is None else noise,
                seed=seed,
                name=_residual.NOISE,
                dtype=self.dtype_policy,
            )
        for name, value in unused.items():
            if value is not None:
                raise invalid(name, value, f"`None` with mode={mode!r}")
        self.block_prior = BlockPrior(scale_prior, sigma0, epsilon, scales)
        self.kl_penalty = self.kl_weight = None
        if scale_prior is not None:
            self.kl_penalty = KLPenalty(
                self,
                self.kl_divergence,
                num_train_examples,
                likelihood,
            )
            self.kl_weight = self.kl_penalty.weight
        else:
            _check_defaults(
                num_train_examples=(num_train_examples, None),
                scales=(scales, "inline"),
                likelihood=(likelihood, "nll"),
            )
        shortcut = _residual.check_projection(projection)
        named = isinstance(shortcut, str)
        self.projection = shortcut if named else None
        self.shortcut = None if named else shortcut
        self.add = keras.layers.Add(name=_residual.ADD, dtype=self.dtype_policy)
        rows = (*self.block, *filter(None, [self.shortcut]))
        self.supports_masking = all(layer.supports_masking for layer in rows)

    def build(self, input_shape: Any) -> None:
        """Makes the variables of all layers, and of the scale."""
        _, branch, _ = self.residual_layers()
        # Called with symbols, as `keras.Sequential` builds its layers.
        inputs = keras.KerasTensor(
            (None, *input_shape[1:]), dtype=self.compute_dtype
        )
        outputs = inputs
        for layer in branch:
            outputs = layer(outputs)
        self.shortcut = _residual.shortcut_layer(
            self.projection or self.shortcut,
            inputs,
            outputs,
            policy=self.dtype_policy,
            name=self.name,
        )
        self.add.build([outputs.shape, outputs.shape])
        if self.mode == "em":
            self.block_prior.build(self)
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Adds the block to the shortcut, in training with noise."""
        shortcut, branch, add = self.residual_layers()
        ends = []
        for row in (shortcut, branch):
            x = inputs
            for layer in row:
                x = layer(x)
            ends.append(x)
        return add(ends)

    def residual_layers(self) -> tuple[list[Any], list[Any], Any]:
        """Returns the layers of the shortcut, of the branch, and the sum."""
        branch = list(self.block)
        if self.noise is not None:
            place = len(branch) if self.noise_on == "branch" else 0
            branch.insert(place, self.noise)
        shortcut = [] if self.shortcut is None else [self.shortcut]
        return shortcut, branch, self.add

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the output of the block."""
        outputs = keras.KerasTensor(input_shape, dtype=self.compute_dtype)
        for layer in self.block:
            outputs = layer.compute_output_spec(outputs)
        return outputs.shape

    @property
    def scales_in_variables(self) -> bool:
        """True if the layer holds its scale in a variable."""
        return self.block_prior.in_variables

    def learned_scales(self) -> GroupScales:
        """Returns the scale that the prior has now.

        Returns:
            A named tuple with the scale `tau` as `matrix`, a NumPy scalar in
            units of `sigma0`, or `None` if there is no `scale_prior`; and
            `None` as `rows`.
        """
        if self.matrix_prior is None:
            return GroupScales(None, None)
        scale = keras.ops.sqrt(self.block_prior.variance(self.block))
        return GroupScales(None, keras.ops.convert_to_numpy(scale))

    def update_scales(self) -> None:
        """Assigns the best scale for the weights: the M-step.

        Raises:
            BayesdropError: If the layer holds no scale in a variable.
        """
        if self.matrix_prior is None or not self.scales_in_variables:
            raise BayesdropError(
                f"Layer `{self.name}` ({type(self).__name__}) has no scale to "
                "update. Expected a `scale_prior`, and scales='variable'. "
                f"Received: scales={self.block_prior.scales!r}"
            )
        self.block_prior.update_scale(self.block)

    def kl_divergence(self) -> Any:
        """Returns minus the log-density of the weights in nats, a scalar.

        Up to a constant, that is the KL of weights without a posterior.
        """
        return self.block_prior.block_nats(self.block)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        serialize = keras.saving.serialize_keras_object
        noise, penalty = self.noise, self.kl_penalty
        return {
            **super().get_config(),
            **({} if penalty is None else penalty.get_config()),
            **self.block_prior.get_config(),
            "block": [serialize(layer) for layer in self.block],
            "mode": self.mode,
            "projection": self.projection or serialize(self.shortcut),
            "rate": None if noise is None else noise.rate,
            "noise": None if noise is None else noise_config(noise.noise),
            "noise_on": self.noise_on,
            "seed": self.seed,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> "ADDResidual":
        """Makes the layer of a config, and the layers inside."""

        def revive(each: Any) -> Any:
            return keras.saving.deserialize_keras_object(
                each, custom_objects=custom_objects
            )

        projection = config["projection"]
        if isinstance(projection, dict):
            projection = revive(projection)
        block = [revive(each) for each in config["block"]]
        return cls(**{**config, "block": block, "projection": projection})


def _check_defaults(**arguments: tuple[Any, Any]) -> None:
    """Raises if an argument that needs a prior is not at its default."""
    for name, (value, default) in arguments.items():
        if value != default:
            raise invalid(name, value, f"{default!r} without `scale_prior`")
