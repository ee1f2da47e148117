# SPDX-License-Identifier: Apache-2.0
"""Prints what CMake must know of TensorFlow, as one line of a CMake list.

Version, C++11 ABI flag, include folder, framework library, and alignment of
Eigen. TensorFlow is imported in full, for only so it says how it was compiled.
"""

import os

import tensorflow as tf

flags = dict(
    flag.removeprefix("-D").split("=", 1)
    for flag in tf.sysconfig.get_compile_flags()
    if flag.startswith("-D")
)
major = tf.__version__.split(".")[0]
library = f"libtensorflow_framework.so.{major}"
print(
    "kbd: "
    + ";".join(
        [
            tf.__version__,
            flags["_GLIBCXX_USE_CXX11_ABI"],
            tf.sysconfig.get_include(),
            os.path.join(tf.sysconfig.get_lib(), library),
            flags["EIGEN_MAX_ALIGN_BYTES"],
        ]
    )
)
