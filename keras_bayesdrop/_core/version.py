# SPDX-License-Identifier: Apache-2.0
"""The version. A test keeps it equal to the one in `pyproject.toml`."""

__version__ = "0.1.0"
