# SPDX-License-Identifier: Apache-2.0
"""Losses that are negative log-likelihoods, and the likelihoods of losses.

`GaussianNLL`, `HeteroscedasticGaussianNLL` and `NoisyLogitsCrossentropy` are
normalised log-likelihoods in nats, to compile a model with. A `Likelihood`
tells layers and regularizers with a KL divergence the unit of the compiled
loss. The names below may be used from anywhere; layers and regularizers also
use `likelihood`, and plots and training use `objectives`. The room imports
`errors` and `_core`.
"""

from keras_bayesdrop.losses.gaussian_nll import GaussianNLL as GaussianNLL
from keras_bayesdrop.losses.heteroscedastic_gaussian_nll import (
    HeteroscedasticGaussianNLL as HeteroscedasticGaussianNLL,
)
from keras_bayesdrop.losses.likelihood import (
    GaussianLikelihood as GaussianLikelihood,
)
from keras_bayesdrop.losses.likelihood import Likelihood as Likelihood
from keras_bayesdrop.losses.likelihood import (
    LikelihoodInNats as LikelihoodInNats,
)
from keras_bayesdrop.losses.noisy_logits_crossentropy import (
    NoisyLogitsCrossentropy as NoisyLogitsCrossentropy,
)
