# SPDX-License-Identifier: Apache-2.0
"""Chooses the formulas of a head: the one place that tells heads apart."""

from keras_bayesdrop.predictive import heads
from keras_bayesdrop.predictive.base import Quantities
from keras_bayesdrop.predictive.binary import BinaryQuantities
from keras_bayesdrop.predictive.classes import ClassQuantities
from keras_bayesdrop.predictive.classes import NoisyLogitQuantities
from keras_bayesdrop.predictive.heads import Binary
from keras_bayesdrop.predictive.heads import Classification
from keras_bayesdrop.predictive.heads import Head
from keras_bayesdrop.predictive.heads import Heteroscedastic
from keras_bayesdrop.predictive.heads import NoisyLogits
from keras_bayesdrop.predictive.heads import Regression
from keras_bayesdrop.predictive.regression import HeteroscedasticQuantities
from keras_bayesdrop.predictive.regression import RegressionQuantities

_QUANTITIES: dict[type[Head], type[Quantities]] = {
    Regression: RegressionQuantities,
    Heteroscedastic: HeteroscedasticQuantities,
    Classification: ClassQuantities,
    NoisyLogits: NoisyLogitQuantities,
    Binary: BinaryQuantities,
}


def quantities_of(head: Head | str) -> Quantities:
    """Returns the object that knows the formulas of a head.

    Args:
        head: A head, or the name of one.
    """
    known: Head = heads.get(head)
    return _QUANTITIES[type(known)](known)
