# SPDX-License-Identifier: Apache-2.0
"""Reads a model: its graph, its noise, and what it draws when traced."""
