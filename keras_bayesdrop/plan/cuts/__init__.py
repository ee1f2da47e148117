# SPDX-License-Identifier: Apache-2.0
"""Parts of a plan that run without the channels that a sample drops.

`channels` describes which channels of a value a sample keeps, `find` finds the
parts, and `cut_step` is such a part, with what it costs. All of it is data:
`engines.cut` runs it.
"""
