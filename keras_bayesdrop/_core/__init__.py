# SPDX-License-Identifier: Apache-2.0
"""Helpers of every room.

Checks of arguments, arrays, tables and reports, lazy names, files, memory, the
op library, and everything that is used of Keras without being documented. Every
room may use every public name of every module here. This room imports `errors`
only. `lazy`, `validate`, `arrays`, `table`, `files`, `limits` and `memory` need
no Keras.
"""
