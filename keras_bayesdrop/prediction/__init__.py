# SPDX-License-Identifier: Apache-2.0
"""Predicts with a model, from the call to the result.

`api.py` takes the call, `request.py` checks it, `detection.py` finds the heads
(by the rule of `decision.py`), `reading.py` reads outputs as they say,
`driver.py` hands out batches, and a method of `methods/` starts the run that
predicts them. `sampling/` draws and collects samples, `closed_form/` propagates
moments, `distribute/` shares the work among devices and workers.

Other rooms may use `api`, `methods`, `detection`, `model_checks`, `input_data`,
`driver`, and from `sampling` the programs, geometry and accumulation. This room
may import every room from `errors` to `views`.
"""
