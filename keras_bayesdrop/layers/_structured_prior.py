# SPDX-License-Identifier: Apache-2.0
"""Gaussian kernels whose prior has scales of rows, or of the whole matrix.

    q(w) = N(theta, sigma^2)
    p(w | scales) = N(0, V),    V[r] = sigma0^2 * xi[r]^2 * tau^2

The loss has `KL(q || p) - log p(scales)`, at scales that are held fixed: its
gradient is that of the E-step of variational EM. The M-step is in closed form.
"""

import math
from typing import Any

import keras

from keras_bayesdrop._core.validate import check_choice
from keras_bayesdrop._core.validate import check_positive
from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.layers._posterior import PosteriorKernel
from keras_bayesdrop.layers._scale_priors import check_priors
from keras_bayesdrop.layers._scale_priors import check_structure_name
from keras_bayesdrop.layers.sources import ScaleSource
from keras_bayesdrop.priors import GroupScales
from keras_bayesdrop.priors import structured_scales
from keras_bayesdrop.priors._joint_scales import check_joint_optimum

PLACES = ("inline", "variable")
# Added to second moments: a scale must have a finite logarithm.
_LEAST_MOMENT = 1e-30


class StructuredPrior(PosteriorKernel, ScaleSource):
    """Mixin of a layer of Keras: the prior of its kernel, and its scales.

    Attributes:
        row_scales: Variable `xi` of shape `[rows]`, if there is one.
        matrix_scale: Scalar variable `tau`, if there is one.
    """

    # Groups of a convolution, each with input channels of its own.
    groups: int = 1
    row_scales: Any = None
    matrix_scale: Any = None

    def _init_prior(
        self, structure: Any, scale_prior: Any, sigma0: float, scales: str
    ) -> None:
        """Checks and keeps the arguments; see `BayesianDense` for them."""
        self.structure = check_structure_name(structure)
        self.row_prior, self.matrix_prior = check_priors(
            scale_prior, self.structure
        )
        self.sigma0 = check_positive(sigma0, "sigma0")
        self.scales = check_choice(scales, "scales", PLACES)
        if self.structure is None and self.scales_in_variables:
            raise invalid("scales", scales, "'inline' with structure=None")

    def build(self, input_shape: Any) -> None:
        """Makes the variables of the layer, and those of its scales."""
        super().build(input_shape)
        rows = self.kernel.shape[-2] * self.groups
        if self.row_prior is not None and self.matrix_prior is not None:
            columns = math.prod(self.kernel.shape) // rows
            check_joint_optimum(
                self.row_prior, self.matrix_prior, rows, columns
            )
        if not self.scales_in_variables:
            return
        if self.row_prior is not None:
            self.row_scales = self._make_scales("row_scales", (rows,))
        if self.matrix_prior is not None:
            self.matrix_scale = self._make_scales("matrix_scale", ())

    @property
    def scales_in_variables(self) -> bool:
        """Whether the layer holds its scales in variables."""
        return self.scales == "variable"

    def learned_scales(self) -> GroupScales:
        """Returns the scales that the prior has now.

        A scale is the prior standard deviation of the weights of a row, or of
        all weights, in units of `sigma0`.

        Returns:
            A named tuple of NumPy arrays: `rows`, of shape `[rows]`, and
            `matrix`, a scalar; `None` for what the structure does not have.
        """
        found = self._prior_scales() or GroupScales(None, None)
        return GroupScales(
            *(
                None if part is None else keras.ops.convert_to_numpy(part)
                for part in found
            )
        )

    def update_scales(self) -> None:
        """Assigns the best scales for the posterior: the M-step.

        Raises:
            BayesdropError: If the layer holds no scales in variables.
        """
        if not self.scales_in_variables:
            raise BayesdropError(
                f"Layer `{self.name}` ({type(self).__name__}) has no scales "
                "to update. Expected scales='variable'. Received: "
                f"scales={self.scales!r}, structure={self.structure!r}"
            )
        best = self._best_scales()
        if self.row_scales is not None:
            self.row_scales.assign(best.rows)
        if self.matrix_scale is not None:
            self.matrix_scale.assign(best.matrix)

    def kl_divergence(self) -> Any:
        """Returns KL(posterior || prior at its scales) in nats, a scalar."""
        return self._kl_at(self._prior_scales())

    def _nats(self) -> Any:
        """Returns the KL, minus the log-density of the scales."""
        scales = self._prior_scales()
        kl = self._kl_at(scales)
        if scales is None:
            return kl
        return kl - scales.log_prob(self.row_prior, self.matrix_prior)

    def _prior_config(self) -> dict[str, Any]:
        """Returns the arguments of `_init_prior`."""
        given = [
            keras.saving.serialize_keras_object(prior)
            for prior in (self.row_prior, self.matrix_prior)
            if prior is not None
        ]
        return {
            "structure": self.structure,
            "scale_prior": given if len(given) == 2 else (given or [None])[0],
            "sigma0": self.sigma0,
            "scales": self.scales,
        }

    def _kl_at(self, scales: GroupScales | None) -> Any:
        log_prior = keras.ops.convert_to_tensor(
            2.0 * math.log(self.sigma0), self._wide
        )
        if scales is not None:
            log_prior = log_prior + keras.ops.log(scales.variance)
        mean = self._by_rows(self.mean_kernel())
        log_ratio = self._by_rows(self._log_variance()) - log_prior
        terms = keras.ops.square(mean) * keras.ops.exp(-log_prior)
        terms = terms + keras.ops.expm1(log_ratio) - log_ratio
        return 0.5 * keras.ops.sum(terms)

    def _prior_scales(self) -> GroupScales | None:
        """Returns the scales of the prior as tensors, if it has any."""
        if self.structure is None:
            return None
        if not self.scales_in_variables:
            return self._best_scales()
        return GroupScales(
            *(
                None if part is None else keras.ops.convert_to_tensor(part)
                for part in (self.row_scales, self.matrix_scale)
            )
        )

    def _best_scales(self) -> GroupScales:
        """Returns the scales that the posterior is most likely under."""
        assert self.structure is not None
        moments = self._by_rows(self.second_moments()) / self.sigma0**2
        moments = moments + _LEAST_MOMENT
        return structured_scales(
            self.structure, moments, self.row_prior, self.matrix_prior
        )

    def _by_rows(self, values: Any) -> Any:
        """Brings values of the kernel's shape to [rows, columns].

        A row is an input unit or channel. In a convolution with groups an
        input channel has weights for the filters of its group only.
        """
        rows, columns = values.shape[-2:]
        groups = self.groups
        values = keras.ops.reshape(
            values, (-1, rows, groups, columns // groups)
        )
        values = keras.ops.transpose(values, (2, 1, 0, 3))
        return keras.ops.reshape(values, (groups * rows, -1))

    def _make_scales(self, name: str, shape: tuple[int, ...]) -> Any:
        return self.add_weight(
            name=name,
            shape=shape,
            initializer="ones",
            trainable=False,
            dtype=self._wide,
        )
