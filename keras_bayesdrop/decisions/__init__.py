# SPDX-License-Identifier: Apache-2.0
"""What to do where a model is unsure: ask a person, a model, or for labels."""

from keras_bayesdrop.decisions.acquire import acquire as acquire
from keras_bayesdrop.decisions.acquisition import Acquisition as Acquisition
from keras_bayesdrop.decisions.cascade import Cascade as Cascade
from keras_bayesdrop.decisions.cascade_result import (
    CascadeResult as CascadeResult,
)
from keras_bayesdrop.decisions.deferral import Deferral as Deferral
from keras_bayesdrop.decisions.posterior_function import (
    PosteriorFunction as PosteriorFunction,
)
from keras_bayesdrop.decisions.thompson_sampler import (
    ThompsonSampler as ThompsonSampler,
)
