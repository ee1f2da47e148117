# SPDX-License-Identifier: Apache-2.0
"""Draws samples of a model, and collects their statistics.

`run.py` is the run; it cuts batches into tiles (`tiles.py`), draws their
samples in passes (`passes.py`, `drawer.py`, `programs.py`) and reads them
(`readout.py`, `collect.py`). `geometry.py` chooses rows and samples of a step,
`tolerance.py` stops rows early.
"""
