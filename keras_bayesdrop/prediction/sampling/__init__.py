# SPDX-License-Identifier: Apache-2.0
"""The parts of a prediction by sampling."""
