# SPDX-License-Identifier: Apache-2.0
"""Decisions under uncertainty: deferral, cascades, active learning, bandits.

`Deferral` is the result of `Predictive.defer`, `Cascade` asks a slow model for
unsure rows, `acquire` chooses the rows to label, and `ThompsonSampler` samples
a function per episode. Users touch the names exported here; `Predictive.defer`
imports `_deferral` when it is called. The room imports `prediction`, `views`,
`engines`, `plan`, `metrics` and `predictive`, and rooms below these.
"""

from keras_bayesdrop.decisions._acquire import Acquisition as Acquisition
from keras_bayesdrop.decisions._acquire import acquire as acquire
from keras_bayesdrop.decisions._cascade import Cascade as Cascade
from keras_bayesdrop.decisions._cascade import CascadeResult as CascadeResult
from keras_bayesdrop.decisions._deferral import Deferral as Deferral
from keras_bayesdrop.decisions._thompson import (
    PosteriorFunction as PosteriorFunction,
)
from keras_bayesdrop.decisions._thompson import (
    ThompsonSampler as ThompsonSampler,
)
