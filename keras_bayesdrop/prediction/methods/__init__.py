# SPDX-License-Identifier: Apache-2.0
"""The methods of prediction: what users choose, and the contract of runs.

`Sampling`, `Moments` and `RaoBlackwell` are plain frozen objects that import
neither TensorFlow nor Keras. Each starts a run of its own, which keeps the
contract of `base.py`. The runs live in `prediction/sampling` and
`prediction/closed_form`.
"""

from typing import Any

from keras_bayesdrop._core.choice import get_choice
from keras_bayesdrop.prediction.methods.base import Job as Job
from keras_bayesdrop.prediction.methods.base import Method as Method
from keras_bayesdrop.prediction.methods.base import Run as Run
from keras_bayesdrop.prediction.methods.base import Totals as Totals
from keras_bayesdrop.prediction.methods.moments import Moments as Moments
from keras_bayesdrop.prediction.methods.rao_blackwell import (
    RaoBlackwell as RaoBlackwell,
)
from keras_bayesdrop.prediction.methods.sampling import Sampled as Sampled
from keras_bayesdrop.prediction.methods.sampling import Sampling as Sampling

METHODS = (Sampling, Moments, RaoBlackwell)


def get(method: Any) -> Method:
    """Returns the method that an argument stands for."""
    return get_choice(method, "method", METHODS)
