# SPDX-License-Identifier: Apache-2.0
"""Layers that drop in training and at prediction alike."""

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
