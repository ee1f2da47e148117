# SPDX-License-Identifier: Apache-2.0
"""A prior of a kernel with scales of rows, or of the whole matrix.

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
from keras_bayesdrop.layers._gaussian.weights import GaussianWeights
from keras_bayesdrop.priors import GroupScales
from keras_bayesdrop.priors import ScalePrior
from keras_bayesdrop.priors import get
from keras_bayesdrop.priors import structured_scales
from keras_bayesdrop.priors._joint_scales import check_joint_optimum
from keras_bayesdrop.priors.structures import STRUCTURES
from keras_bayesdrop.priors.structures import check_structure

PLACES = ("inline", "variable")
# Added to second moments: a scale must have a finite logarithm.
_LEAST_MOMENT = 1e-30


class StructuredPrior:
    """The prior of one kernel, and its scales.

    Args:
        structure: As in `BayesianDense`.
        scale_prior: As in `BayesianDense`.
        sigma0: As in `BayesianDense`.
        scales: As in `BayesianDense`.

    Attributes:
        limits: `None`: nothing limits log alpha.
        row_prior: Prior of the row scales, if there are any.
        matrix_prior: Prior of the matrix scale, if there is one.
        row_scales: Variable `xi` of shape `[rows]`, if there is one.
        matrix_scale: Scalar variable `tau`, if there is one.
    """

    limits = None
    row_scales: Any = None
    matrix_scale: Any = None

    def __init__(
        self, structure: Any, scale_prior: Any, sigma0: float, scales: str
    ) -> None:
        self.structure = _check_structure_name(structure)
        self.row_prior, self.matrix_prior = _check_priors(
            scale_prior, self.structure
        )
        self.sigma0 = check_positive(sigma0, "sigma0")
        self.scales = check_choice(scales, "scales", PLACES)
        if self.structure is None and self.in_variables:
            raise invalid("scales", scales, "'inline' with structure=None")
        self._groups = 1

    @property
    def in_variables(self) -> bool:
        """True if variables hold the scales."""
        return self.scales == "variable"

    def build(self, layer: Any) -> None:
        """Adds the variables of the scales to a layer that has a kernel."""
        kernel = layer.kernel
        self._groups = getattr(layer, "groups", 1)
        rows = kernel.shape[-2] * self._groups
        if self.row_prior is not None and self.matrix_prior is not None:
            columns = math.prod(kernel.shape) // rows
            check_joint_optimum(
                self.row_prior, self.matrix_prior, rows, columns
            )
        if not self.in_variables:
            return
        options = {
            "initializer": "ones",
            "trainable": False,
            "dtype": keras.backend.result_type(layer.compute_dtype, "float32"),
        }
        if self.row_prior is not None:
            self.row_scales = layer.add_weight(
                name="row_scales", shape=(rows,), **options
            )
        if self.matrix_prior is not None:
            self.matrix_scale = layer.add_weight(
                name="matrix_scale", shape=(), **options
            )

    def kl(self, weights: GaussianWeights) -> Any:
        """Returns KL(posterior || prior at its scales) in nats, a scalar."""
        return self._kl_at(self.current_scales(weights), weights)

    def nats(self, weights: GaussianWeights) -> Any:
        """Returns the KL, minus the log-density of the scales."""
        scales = self.current_scales(weights)
        kl = self._kl_at(scales, weights)
        if scales is None:
            return kl
        return kl - scales.log_prob(self.row_prior, self.matrix_prior)

    def current_scales(self, weights: GaussianWeights) -> GroupScales | None:
        """Returns the scales of the prior as tensors, if it has any."""
        if self.structure is None:
            return None
        if not self.in_variables:
            return self._best_scales(weights)
        return GroupScales(
            *(
                None if part is None else keras.ops.convert_to_tensor(part)
                for part in (self.row_scales, self.matrix_scale)
            )
        )

    def update_scales(self, weights: GaussianWeights) -> None:
        """Assigns the best scales for the weights to the variables."""
        best = self._best_scales(weights)
        if self.row_scales is not None:
            self.row_scales.assign(best.rows)
        if self.matrix_scale is not None:
            self.matrix_scale.assign(best.matrix)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that the layer's constructor has for it."""
        priors = [
            keras.saving.serialize_keras_object(prior)
            for prior in (self.row_prior, self.matrix_prior)
            if prior is not None
        ]
        return {
            "structure": self.structure,
            "scale_prior": priors
            if len(priors) == 2
            else (priors or [None])[0],
            "sigma0": self.sigma0,
            "scales": self.scales,
        }

    def _kl_at(
        self, scales: GroupScales | None, weights: GaussianWeights
    ) -> Any:
        log_prior = keras.ops.convert_to_tensor(
            2.0 * math.log(self.sigma0), weights.dtype
        )
        if scales is not None:
            log_prior = log_prior + keras.ops.log(scales.variance)
        mean = self._by_rows(weights.mean())
        log_ratio = self._by_rows(weights.log_variance()) - log_prior
        terms = keras.ops.square(mean) * keras.ops.exp(-log_prior)
        terms = terms + keras.ops.expm1(log_ratio) - log_ratio
        return 0.5 * keras.ops.sum(terms)

    def _best_scales(self, weights: GaussianWeights) -> GroupScales:
        """Returns the scales that the posterior is most likely under."""
        assert self.structure is not None
        moments = self._by_rows(weights.second_moments()) / self.sigma0**2
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
        groups = self._groups
        values = keras.ops.reshape(
            values, (-1, rows, groups, columns // groups)
        )
        values = keras.ops.transpose(values, (2, 1, 0, 3))
        return keras.ops.reshape(values, (groups * rows, -1))


def numpy_scales(scales: GroupScales | None) -> GroupScales:
    """Returns scales as NumPy arrays, `None` for those that are not there."""
    parts = scales or GroupScales(None, None)
    return GroupScales(
        *(
            None if part is None else keras.ops.convert_to_numpy(part)
            for part in parts
        )
    )


def _check_structure_name(structure: Any) -> str | None:
    """Returns the structure, with an underscore."""
    if structure is None:
        return None
    if structure == "ard-add":
        return "ard_add"
    if not isinstance(structure, str) or structure not in STRUCTURES:
        options = ", ".join(repr(name) for name in STRUCTURES)
        raise invalid("structure", structure, f"{options} or `None`")
    return structure


def _check_priors(
    scale_prior: Any, structure: str | None
) -> tuple[ScalePrior | None, ScalePrior | None]:
    """Returns the priors of the row scales and of the matrix scale."""
    name = "scale_prior"
    if structure is None:
        if scale_prior is not None:
            raise invalid(name, scale_prior, "`None` with structure=None")
        return None, None
    identifiers = scale_prior
    if not isinstance(scale_prior, (list, tuple)):
        identifiers = (scale_prior,) * sum(STRUCTURES[structure])
    elif structure != "ard_add" or len(scale_prior) != 2:
        raise invalid(
            name,
            scale_prior,
            "a prior; or two, of rows and of the matrix, with "
            "structure='ard_add'",
        )
    priors = [
        get("inverse_gamma" if each is None else each, of="scales", name=name)
        for each in identifiers
    ]
    row, matrix = STRUCTURES[structure]
    return check_structure(
        structure, priors[0] if row else None, priors[-1] if matrix else None
    )
