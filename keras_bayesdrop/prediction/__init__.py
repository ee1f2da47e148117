# SPDX-License-Identifier: Apache-2.0
"""Predicts with a model: from the call to the result."""
