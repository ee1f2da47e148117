# SPDX-License-Identifier: Apache-2.0
"""The counter contract: every random number is a function of its place.

`philox` makes the words of a (seed, site, sample, row, unit) and turns words
into thresholds, uniform and normal numbers. `seeds` derives seeds from others.
Other rooms may use all functions. This room imports no other room.
"""
