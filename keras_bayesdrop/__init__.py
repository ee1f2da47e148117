# SPDX-License-Identifier: Apache-2.0
"""Honest uncertainty for Keras models: one call, fast, reproducible."""

# Before TensorFlow is imported: if this process is the command, help and
# usage errors end it at once.
import keras_bayesdrop._command  # noqa: F401
from keras_bayesdrop import calibrate as calibrate
from keras_bayesdrop import callbacks as callbacks
from keras_bayesdrop import decisions as decisions
from keras_bayesdrop import errors as errors
from keras_bayesdrop import experimental as experimental
from keras_bayesdrop import layers as layers
from keras_bayesdrop import losses as losses
from keras_bayesdrop import metrics as metrics
from keras_bayesdrop import moments as moments
from keras_bayesdrop import noise as noise
from keras_bayesdrop import plots as plots
from keras_bayesdrop import priors as priors
from keras_bayesdrop import regularizers as regularizers
from keras_bayesdrop import serving as serving
from keras_bayesdrop import sparsity as sparsity
from keras_bayesdrop import theory as theory
from keras_bayesdrop import training as training
from keras_bayesdrop import weight_priors as weight_priors
from keras_bayesdrop._core.version import __version__ as __version__
from keras_bayesdrop.decisions import Cascade as Cascade
from keras_bayesdrop.decisions import ThompsonSampler as ThompsonSampler
from keras_bayesdrop.decisions import acquire as acquire
from keras_bayesdrop.diagnostics.consistency import consistency as consistency
from keras_bayesdrop.diagnostics.explanation import explain as explain
from keras_bayesdrop.diagnostics.information import info as info
from keras_bayesdrop.diagnostics.inspection import inspect as inspect
from keras_bayesdrop.diagnostics.relevance import relevance as relevance
from keras_bayesdrop.errors import BayesdropError as BayesdropError
from keras_bayesdrop.errors import BayesdropWarning as BayesdropWarning
from keras_bayesdrop.layers import ConcreteDropout as ConcreteDropout
from keras_bayesdrop.layers import MCAlphaDropout as MCAlphaDropout
from keras_bayesdrop.layers import MCDropout as MCDropout
from keras_bayesdrop.layers import MCGaussianDropout as MCGaussianDropout
from keras_bayesdrop.layers import MCSpatialDropout1D as MCSpatialDropout1D
from keras_bayesdrop.layers import MCSpatialDropout2D as MCSpatialDropout2D
from keras_bayesdrop.layers import MCSpatialDropout3D as MCSpatialDropout3D
from keras_bayesdrop.metrics import _keras_metrics  # noqa: F401
from keras_bayesdrop.prediction.api import (
    predict_with_uncertainty as predict_with_uncertainty,
)
from keras_bayesdrop.prediction.caching import clear_cache as clear_cache
from keras_bayesdrop.predictive import Predictive as Predictive
from keras_bayesdrop.regularizers import model_precision as model_precision
from keras_bayesdrop.serving import export_uncertainty as export_uncertainty
from keras_bayesdrop.sparsity import effective_depth as effective_depth
from keras_bayesdrop.sparsity import prune as prune
from keras_bayesdrop.sparsity import prune_depth as prune_depth
from keras_bayesdrop.sparsity import sparsity_report as sparsity_report
from keras_bayesdrop.sparsity import to_sparse_size as to_sparse_size
from keras_bayesdrop.views import deterministic as deterministic
from keras_bayesdrop.views import sample_function as sample_function
from keras_bayesdrop.views import stochastic as stochastic
