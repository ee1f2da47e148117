# SPDX-License-Identifier: Apache-2.0
"""Propagates mean and variance through a network in one pass, without samples.

`propagate` walks a graph and applies a rule to each layer. `rules/` holds the
rules of Keras' layers, `noise` and `weights` those of noise, `covariance` what
units have in common, `cases` and `case_segments` the exact treatment of noise
on few units. Users touch the names exported here, to add rules of their own;
`prediction` also uses `propagate`, `case_segments`, `covariance` and `entropy`,
and `theory` uses `normal` and `conversion`. The room imports `noise`, `layers`,
`graph` and `plan`, and rooms below these.
"""

from keras_bayesdrop.moments import rules as _rules
from keras_bayesdrop.moments.outcome import Factor as Factor
from keras_bayesdrop.moments.outcome import Matrix as Matrix
from keras_bayesdrop.moments.outcome import MeanVariance as MeanVariance
from keras_bayesdrop.moments.outcome import Outcome as Outcome
from keras_bayesdrop.moments.registry import register_rule as register_rule

del _rules
