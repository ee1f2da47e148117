# SPDX-License-Identifier: Apache-2.0
"""Estimators of scikit-learn whose predictions carry their uncertainty.

They need scikit-learn: `pip install keras-bayesdrop[sklearn]`. It is imported
when somebody asks for an estimator. `_estimator` holds what both estimators
share, `_seeding` makes a fit repeatable. Only the package's `__init__` imports
this room, which may import all rooms below it.
"""

from typing import TYPE_CHECKING

from keras_bayesdrop._core.lazy import lazy_module

if TYPE_CHECKING:
    from keras_bayesdrop.sklearn._classifier import (
        BayesdropClassifier as BayesdropClassifier,
    )
    from keras_bayesdrop.sklearn._regressor import (
        BayesdropRegressor as BayesdropRegressor,
    )
else:
    __getattr__, __dir__ = lazy_module(
        __name__,
        {
            "BayesdropClassifier": "keras_bayesdrop.sklearn._classifier",
            "BayesdropRegressor": "keras_bayesdrop.sklearn._regressor",
        },
        needs=("keras", "tensorflow", "sklearn"),
        install="keras-bayesdrop[sklearn]",
    )
