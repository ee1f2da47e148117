# SPDX-License-Identifier: Apache-2.0
"""Draws of samples that are folded into the batch axis."""

import numpy as np
import tensorflow as tf

from keras_bayesdrop.noise import Bernoulli
from keras_bayesdrop.noise.draws import Draws
from tests.helpers import TestCase

SEED = 20260729


class FoldTest(TestCase):
    def _draws(self, **changes):
        settings = {
            "seed": tf.constant(SEED, tf.uint64),
            "first_sample": 0,
            "num_samples": 3,
            "num_blocks": 1,
            "first_row": 0,
            "num_rows": 2,
            "shared": False,
            "balanced": False,
        }
        return Draws(**{**settings, **changes})

    def test_samples_of_a_row_lie_next_to_each_other(self):
        folded = self._draws().fold(tf.constant([[1.0], [2.0]]))
        self.assertAllEqual(folded[:, 0], [1, 1, 1, 2, 2, 2])

    def test_unfold_takes_it_back(self):
        draws = self._draws()
        folded = draws.fold(tf.constant([[1.0], [2.0]]))
        self.assertAllEqual(
            draws.unfold(folded)[:, :, 0], [[1, 1, 1], [2, 2, 2]]
        )

    def test_fold_takes_the_keras_mask_along(self):
        x = tf.constant([[1.0], [2.0]])
        x._keras_mask = tf.constant([[True], [False]])
        folded = self._draws().fold(x)
        self.assertAllEqual(folded._keras_mask[:, 0], [1, 1, 1, 0, 0, 0])

    def test_perturbing_a_folded_value_is_perturbing_it_unfolded(self):
        x = tf.constant(np.arange(1, 11, dtype=np.float32).reshape(2, 5))
        for shared in (False, True):
            for changes in ({}, {"first_sample": 15, "num_blocks": 2}):
                draws = self._draws(shared=shared, **changes)
                settings = (Bernoulli(0.5), None, 4)
                ahead = draws.perturb(
                    x, *settings, folded=False, whole_rows=True
                )
                behind = draws.perturb(
                    draws.fold(x), *settings, folded=True, whole_rows=True
                )
                unsure = draws.perturb(
                    draws.fold(x), *settings, folded=True, whole_rows=False
                )
                self.assertAllEqual(ahead, behind)
                self.assertAllEqual(ahead, unsure)

    def test_first_row_moves_independent_masks_only(self):
        x = tf.ones([4, 7])
        rows = {"num_rows": 2, "first_row": 2}
        for shared in (False, True):
            whole = self._draws(num_rows=4, shared=shared)
            part = self._draws(shared=shared, **rows)
            how = {"folded": False, "whole_rows": True}
            all_rows = whole.perturb(x, Bernoulli(0.5), None, 0, **how)
            last_two = part.perturb(x[2:], Bernoulli(0.5), None, 0, **how)
            self.assertAllEqual(all_rows[6:], last_two)
