# SPDX-License-Identifier: Apache-2.0
"""Layers with noise on their units or weights, fixed or learned.

A file holds one public layer, or twins such as `Conv1D` and `Conv2D`. A layer
is a Keras layer that owns parts and passes calls on to them; it does not
inherit its behaviour:

    _operations     a dense or convolutional layer as a function of its kernel
    _random         uniform and normal numbers, words and signs for training
    _kl_penalty     `KLPenalty`: weighs a KL divergence for the loss
    _parts          shows an argument that a part holds as a layer's attribute
    _residual       the block of `ADDResidual` and its shortcut
    _gaussian/      `GaussianWeights` (the distribution of a kernel),
                    `KernelNoise` (its learned variable), estimators of training
                    (local reparametrisation, row factors, flipout), priors with
                    their KL (`WeightwisePrior`, `StructuredPrior`,
                    `BlockPrior`), and `GaussianLayer`, which joins them
    _dropout/       noise on inputs, learned rates, noise on every weight

The layer owns all variables and the seed generator, so that names, order and
paths of saved variables do not depend on the parts. Parts hold settings, check
them when they are made, and return their share of the config. `GaussianWeights`
and operations are values, made of the layer's variables for each call.

    VariationalDense = GaussianLayer before keras.layers.Dense, with
        KernelNoise(parametrization, alpha), WeightwisePrior(prior),
        Local(train_threshold) or RowFactors(), KLPenalty(N, likelihood)
    BayesianDense = the same with StructuredPrior(structure, scale_prior) and
        Flipout() or Local()

Other rooms use the public layers, and recognise layers by the small protocols
in `sources` and in `noise`; `moments` and `training` also by `GaussianLayer`
and `NoisyWeightsLayer`. This room imports `errors`, `_core`, `random`, `noise`,
`priors`, `losses` and `regularizers`.
"""

from keras_bayesdrop.layers.add_residual import ADDResidual as ADDResidual
from keras_bayesdrop.layers.bayesian_conv import (
    BayesianConv2D as BayesianConv2D,
)
from keras_bayesdrop.layers.bayesian_dense import BayesianDense as BayesianDense
from keras_bayesdrop.layers.concrete_dropout import (
    ConcreteDropout as ConcreteDropout,
)
from keras_bayesdrop.layers.drop_connect import (
    DropConnectConv2D as DropConnectConv2D,
)
from keras_bayesdrop.layers.drop_connect import (
    DropConnectDense as DropConnectDense,
)
from keras_bayesdrop.layers.marginalized_dropout_dense import (
    MarginalizedDropoutDense as MarginalizedDropoutDense,
)
from keras_bayesdrop.layers.masksembles import Masksembles as Masksembles
from keras_bayesdrop.layers.mc_alpha_dropout import (
    MCAlphaDropout as MCAlphaDropout,
)
from keras_bayesdrop.layers.mc_dropout import MCDropout as MCDropout
from keras_bayesdrop.layers.mc_gaussian_dropout import (
    MCGaussianDropout as MCGaussianDropout,
)
from keras_bayesdrop.layers.mc_spatial_dropout import (
    MCSpatialDropout1D as MCSpatialDropout1D,
)
from keras_bayesdrop.layers.mc_spatial_dropout import (
    MCSpatialDropout2D as MCSpatialDropout2D,
)
from keras_bayesdrop.layers.mc_spatial_dropout import (
    MCSpatialDropout3D as MCSpatialDropout3D,
)
from keras_bayesdrop.layers.variational_conv import (
    VariationalConv1D as VariationalConv1D,
)
from keras_bayesdrop.layers.variational_conv import (
    VariationalConv2D as VariationalConv2D,
)
from keras_bayesdrop.layers.variational_dense import (
    VariationalDense as VariationalDense,
)
from keras_bayesdrop.layers.variational_dropout import (
    VariationalDropout as VariationalDropout,
)
