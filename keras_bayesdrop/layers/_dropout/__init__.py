# SPDX-License-Identifier: Apache-2.0
"""Parts of layers that multiply units or weights by noise.

`noise` checks the arguments `rate` and `noise` and applies noise to inputs,
`dropped_kernel` says which weights a dropped input multiplies, `concrete_noise`
learns its rate, `scale_noise` draws one number an example, and
`noisy_weights` puts noise on every weight. Only `layers` imports these
modules, and `moments` and `training`, which recognise a `NoisyWeightsLayer`.
"""
