# SPDX-License-Identifier: Apache-2.0
"""Predictions that take moments through the model, in whole or in part.

`start.py` decides how much of the noise has to be sampled. If none, `run.py`
predicts by moments alone; else `prediction/sampling` samples a part of the
model, and `readout.py` goes on in closed form. Imports `prediction/sampling`.
"""
