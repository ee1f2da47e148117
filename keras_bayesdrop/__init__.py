# SPDX-License-Identifier: Apache-2.0
"""Honest uncertainty for Keras models: one call, fast, reproducible.

Names are imported when somebody asks for them. Where Keras and TensorFlow are
installed, importing the package also registers its layers and other classes
with Keras, so that a saved model loads. Where they are not, `Predictive`,
`metrics`, `calibrate` and `plots` still work; any other name raises an
`ImportError` that says what to install.
"""

from typing import TYPE_CHECKING

from keras_bayesdrop._core.lazy import import_if_installed
from keras_bayesdrop._core.lazy import lazy_module
from keras_bayesdrop._core.version import __version__ as __version__

if TYPE_CHECKING:
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
    from keras_bayesdrop import sklearn as sklearn
    from keras_bayesdrop import sparsity as sparsity
    from keras_bayesdrop import theory as theory
    from keras_bayesdrop import training as training
    from keras_bayesdrop.decisions import Cascade as Cascade
    from keras_bayesdrop.decisions import ThompsonSampler as ThompsonSampler
    from keras_bayesdrop.decisions import acquire as acquire
    from keras_bayesdrop.diagnostics.consistency_report import (
        consistency as consistency,
    )
    from keras_bayesdrop.diagnostics.evaluation import (
        evaluate_with_uncertainty as evaluate_with_uncertainty,
    )
    from keras_bayesdrop.diagnostics.evaluation_report import (
        Evaluation as Evaluation,
    )
    from keras_bayesdrop.diagnostics.explanation import explain as explain
    from keras_bayesdrop.diagnostics.information import info as info
    from keras_bayesdrop.diagnostics.inspection import inspect as inspect
    from keras_bayesdrop.diagnostics.relevance_report import (
        relevance as relevance,
    )
    from keras_bayesdrop.errors import BayesdropError as BayesdropError
    from keras_bayesdrop.errors import BayesdropWarning as BayesdropWarning
    from keras_bayesdrop.layers import ConcreteDropout as ConcreteDropout
    from keras_bayesdrop.layers import MCAlphaDropout as MCAlphaDropout
    from keras_bayesdrop.layers import MCDropout as MCDropout
    from keras_bayesdrop.layers import MCGaussianDropout as MCGaussianDropout
    from keras_bayesdrop.layers import MCSpatialDropout1D as MCSpatialDropout1D
    from keras_bayesdrop.layers import MCSpatialDropout2D as MCSpatialDropout2D
    from keras_bayesdrop.layers import MCSpatialDropout3D as MCSpatialDropout3D
    from keras_bayesdrop.prediction.api import (
        predict_with_uncertainty as predict_with_uncertainty,
    )
    from keras_bayesdrop.prediction.caching import clear_cache as clear_cache
    from keras_bayesdrop.prediction.methods import Moments as Moments
    from keras_bayesdrop.prediction.methods import RaoBlackwell as RaoBlackwell
    from keras_bayesdrop.prediction.methods import Sampling as Sampling
    from keras_bayesdrop.prediction.predictor import Predictor as Predictor
    from keras_bayesdrop.predictive import Binary as Binary
    from keras_bayesdrop.predictive import Classification as Classification
    from keras_bayesdrop.predictive import Heteroscedastic as Heteroscedastic
    from keras_bayesdrop.predictive import NoisyLogits as NoisyLogits
    from keras_bayesdrop.predictive import Predictive as Predictive
    from keras_bayesdrop.predictive import Regression as Regression
    from keras_bayesdrop.predictive import Stats as Stats
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
else:
    __getattr__, __dir__ = lazy_module(
        __name__,
        {
            "calibrate": "keras_bayesdrop.calibrate",
            "callbacks": "keras_bayesdrop.callbacks",
            "decisions": "keras_bayesdrop.decisions",
            "errors": "keras_bayesdrop.errors",
            "experimental": "keras_bayesdrop.experimental",
            "layers": "keras_bayesdrop.layers",
            "losses": "keras_bayesdrop.losses",
            "metrics": "keras_bayesdrop.metrics",
            "moments": "keras_bayesdrop.moments",
            "noise": "keras_bayesdrop.noise",
            "plots": "keras_bayesdrop.plots",
            "priors": "keras_bayesdrop.priors",
            "regularizers": "keras_bayesdrop.regularizers",
            "serving": "keras_bayesdrop.serving",
            "sklearn": "keras_bayesdrop.sklearn",
            "sparsity": "keras_bayesdrop.sparsity",
            "theory": "keras_bayesdrop.theory",
            "training": "keras_bayesdrop.training",
            "Cascade": "keras_bayesdrop.decisions",
            "ThompsonSampler": "keras_bayesdrop.decisions",
            "acquire": "keras_bayesdrop.decisions",
            "consistency": "keras_bayesdrop.diagnostics.consistency_report",
            "evaluate_with_uncertainty": (
                "keras_bayesdrop.diagnostics.evaluation"
            ),
            "Evaluation": "keras_bayesdrop.diagnostics.evaluation_report",
            "explain": "keras_bayesdrop.diagnostics.explanation",
            "info": "keras_bayesdrop.diagnostics.information",
            "inspect": "keras_bayesdrop.diagnostics.inspection",
            "relevance": "keras_bayesdrop.diagnostics.relevance_report",
            "BayesdropError": "keras_bayesdrop.errors",
            "BayesdropWarning": "keras_bayesdrop.errors",
            "ConcreteDropout": "keras_bayesdrop.layers",
            "MCAlphaDropout": "keras_bayesdrop.layers",
            "MCDropout": "keras_bayesdrop.layers",
            "MCGaussianDropout": "keras_bayesdrop.layers",
            "MCSpatialDropout1D": "keras_bayesdrop.layers",
            "MCSpatialDropout2D": "keras_bayesdrop.layers",
            "MCSpatialDropout3D": "keras_bayesdrop.layers",
            "predict_with_uncertainty": "keras_bayesdrop.prediction.api",
            "clear_cache": "keras_bayesdrop.prediction.caching",
            "Moments": "keras_bayesdrop.prediction.methods",
            "RaoBlackwell": "keras_bayesdrop.prediction.methods",
            "Sampling": "keras_bayesdrop.prediction.methods",
            "Predictor": "keras_bayesdrop.prediction.predictor",
            "Binary": "keras_bayesdrop.predictive",
            "Classification": "keras_bayesdrop.predictive",
            "Heteroscedastic": "keras_bayesdrop.predictive",
            "NoisyLogits": "keras_bayesdrop.predictive",
            "Predictive": "keras_bayesdrop.predictive",
            "Regression": "keras_bayesdrop.predictive",
            "Stats": "keras_bayesdrop.predictive",
            "model_precision": "keras_bayesdrop.regularizers",
            "export_uncertainty": "keras_bayesdrop.serving",
            "effective_depth": "keras_bayesdrop.sparsity",
            "prune": "keras_bayesdrop.sparsity",
            "prune_depth": "keras_bayesdrop.sparsity",
            "sparsity_report": "keras_bayesdrop.sparsity",
            "to_sparse_size": "keras_bayesdrop.sparsity",
            "deterministic": "keras_bayesdrop.views",
            "sample_function": "keras_bayesdrop.views",
            "stochastic": "keras_bayesdrop.views",
        },
        needs=("keras", "tensorflow"),
    )

# Keras looks the classes of a saved model up in its registry, and imports no
# other package to find them. These modules hold every class that a saved model
# can name; a test compares them with the uses of `export`.
import_if_installed(
    "keras_bayesdrop.experimental",
    "keras_bayesdrop.layers",
    "keras_bayesdrop.losses",
    "keras_bayesdrop.priors",
    "keras_bayesdrop.regularizers",
    "keras_bayesdrop.metrics._keras_metrics",
    "keras_bayesdrop.training",
    "keras_bayesdrop.views",
    needs=("keras", "tensorflow"),
)
