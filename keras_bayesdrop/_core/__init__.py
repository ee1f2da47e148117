# SPDX-License-Identifier: Apache-2.0
"""Helpers that every room may use: checks, arrays, files, private Keras API."""
