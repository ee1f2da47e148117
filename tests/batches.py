# SPDX-License-Identifier: Apache-2.0
"""A `PyDataset` of arrays with labels."""

import keras


class Batches(keras.utils.PyDataset):
    """Batches `(x, y)` of so many rows."""

    def __init__(self, x, y, size):
        super().__init__()
        self.x, self.y, self.size = x, y, size

    def __len__(self):
        return -(-len(self.x) // self.size)

    def __getitem__(self, index):
        part = slice(index * self.size, (index + 1) * self.size)
        return self.x[part], self.y[part]
