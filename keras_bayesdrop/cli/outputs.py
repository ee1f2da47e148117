# SPDX-License-Identifier: Apache-2.0
"""The outputs of a model by name, and the files they go to."""

from keras_bayesdrop.prediction.sampling.output_files import by_name as by_name
from keras_bayesdrop.prediction.sampling.output_files import (
    files_of as files_of,
)
