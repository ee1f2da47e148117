# SPDX-License-Identifier: Apache-2.0
"""Settings and first samples of predictions, for the tests of this folder."""

import keras_bayesdrop as kbd
from tests.helpers import flat


def settings(**kwargs):
    return {"num_samples": 8, "seed": 1, "verbose": 0, **kwargs}


def first_sample(model, x):
    p = kbd.predict_with_uncertainty(
        model, x, **flat(**settings(return_samples=True))
    )
    return p.samples[0]
