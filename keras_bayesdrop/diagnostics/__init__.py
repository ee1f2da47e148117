# SPDX-License-Identifier: Apache-2.0
"""Reports about a model and the installation."""
