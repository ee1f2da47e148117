# SPDX-License-Identifier: Apache-2.0
"""The result of a prediction, in NumPy alone.

`Predictive` is the container: its fields and rows are in `result` and `rows`,
its file in `saved` and `file`, its noise in `noise`, and its derived quantities
in `derived`. `heads` says what an output means, `select` chooses the formulas
of a head (`regression`, `classes`, `binary`), and `quantities` holds each
formula once, for NumPy and TensorFlow.

`observations` judges a prediction by the kind of its observations, `outputs`
selects rows and outputs, `table` decides the columns of a table, and
`sample_noise` gives the noise of each sample. Outside, use the names below,
`heads`, `select.quantities_of`, `quantities`, `labels`, `mixture`, `quantiles`,
`samples`, and the four modules before. The room imports `errors` and `_core`,
and neither TensorFlow nor Keras; `Predictive.plot` and `Predictive.defer`
import `plots` and `decisions` when they are called.
"""

from keras_bayesdrop.predictive.heads import Binary as Binary
from keras_bayesdrop.predictive.heads import Classification as Classification
from keras_bayesdrop.predictive.heads import Head as Head
from keras_bayesdrop.predictive.heads import Heteroscedastic as Heteroscedastic
from keras_bayesdrop.predictive.heads import NoisyLogits as NoisyLogits
from keras_bayesdrop.predictive.heads import Regression as Regression
from keras_bayesdrop.predictive.result import Predictive as Predictive
from keras_bayesdrop.predictive.rows import ROW_AXES as ROW_AXES
from keras_bayesdrop.predictive.stats import ChainWork as ChainWork
from keras_bayesdrop.predictive.stats import EngineStep as EngineStep
from keras_bayesdrop.predictive.stats import Stats as Stats
