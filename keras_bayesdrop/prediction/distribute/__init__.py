# SPDX-License-Identifier: Apache-2.0
"""Shares a prediction among the devices and workers of a strategy."""
