# SPDX-License-Identifier: Apache-2.0
"""Layers as users write them, for the grammar of random models."""
