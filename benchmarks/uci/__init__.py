# SPDX-License-Identifier: Apache-2.0
"""The parts of `bench_uci.py`, one idea a file."""
