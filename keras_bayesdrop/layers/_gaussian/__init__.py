# SPDX-License-Identifier: Apache-2.0
"""Parts of layers whose kernel has a Gaussian distribution.

`weights` is the distribution, `kernel_noise`
holds its learned parameters, `estimators` draws outputs in training,
`weightwise_prior`, `structured_prior` and `block_prior` are priors with their
KL divergence. `layer` joins them to a Keras layer. Only `layers` imports these
modules, and `moments`, which recognises a `GaussianLayer`.
"""
