# SPDX-License-Identifier: Apache-2.0
"""Copies, cuts and rebuilds models."""
