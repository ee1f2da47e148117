# SPDX-License-Identifier: Apache-2.0
"""The counter contract: every random number is a function of its place."""
