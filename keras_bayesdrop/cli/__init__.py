# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of `keras-bayesdrop`.

The top-level module `keras_bayesdrop_command` parses the arguments before the
package is imported, and calls `command.run` with the options. Everything else
here is private: a file for `predict`, `bench` and the reports, and files that
read, check and write data. This room may import every other room; only the
command imports it.
"""
