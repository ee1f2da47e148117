# SPDX-License-Identifier: Apache-2.0
"""How many rows and samples run at once: bounded, aligned, and complete."""

import os
from unittest import mock

import hypothesis
import hypothesis.strategies as st
import keras
import tensorflow as tf

from keras_bayesdrop.plan import build_plan
from keras_bayesdrop.prediction.sampling import geometry
from tests.helpers import TestCase


def _mlp(units=8):
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(units),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2),
        ]
    )


class GeometryTest(TestCase):
    def setUp(self):
        super().setUp()
        self.plan = build_plan(_mlp())

    @hypothesis.given(
        batch_size=st.none() | st.integers(1, 3000),
        num_rows=st.integers(1, 3000),
        num_samples=st.integers(2, 5000),
        shared=st.booleans(),
    )
    def test_steps_are_aligned_to_the_counter_blocks(
        self, batch_size, num_rows, num_samples, shared
    ):
        rows = num_rows if batch_size is None else min(num_rows, batch_size)
        chosen = geometry.choose_geometry(
            self.plan, self.plan.suffix, batch_size, rows, num_samples, shared
        )
        self.assertTrue(1 <= chosen.tile_rows <= rows)
        # Samples of a step lie in `num_blocks` blocks of 16 that begin with
        # the block of the first: it divides 16, or 16 divides it.
        self.assertTrue(16 % chosen.samples == 0 or chosen.samples % 16 == 0)
        self.assertEqual(chosen.num_blocks, -(-chosen.samples // 16))
        if batch_size is not None:
            # Memory contract: here everything is suffix, so that a step never
            # holds more than `batch_size` folded rows.
            used = min(chosen.samples, num_samples) * chosen.tile_rows
            self.assertLessEqual(used, batch_size)

    @hypothesis.given(
        num_rows=st.integers(1, 10**6),
        num_samples=st.integers(2, 10**6),
        shared=st.booleans(),
    )
    def test_the_number_of_samples_never_sets_the_memory(
        self, num_rows, num_samples, shared
    ):
        chosen = geometry.choose_geometry(
            self.plan,
            self.plan.suffix,
            64,
            min(64, num_rows),
            num_samples,
            shared,
        )
        self.assertLessEqual(
            min(chosen.samples, num_samples) * chosen.tile_rows, 64
        )
        self.assertLessEqual(chosen.num_blocks, 16)

    def test_large_batches_of_a_stream_are_cut(self):
        for shared in (False, True):
            chosen = geometry.choose_geometry(
                self.plan, self.plan.suffix, None, 10**6, 1000, shared
            )
            # 8 MB of the widest layer, in and out: 16 numbers of 4 bytes.
            entries = chosen.tile_rows * chosen.samples
            self.assertLessEqual(entries * 16 * 4, 8 * 2**20)
            self.assertGreaterEqual(entries, 1024)

    def test_whole_batch_of_shared_masks_is_one_tile(self):
        chosen = geometry.choose_geometry(
            self.plan, self.plan.suffix, 64, 64, 100, True
        )
        self.assertEqual(chosen.tile_rows, 64)
        self.assertEqual(chosen.samples, 1)

    def test_few_rows_take_many_samples(self):
        chosen = geometry.choose_geometry(
            self.plan, self.plan.suffix, 64, 1, 1000, True
        )
        self.assertEqual(chosen.samples, 64)

    def test_small_head_takes_more_samples_in_the_same_memory(self):
        backbone = keras.Sequential(
            [
                keras.Input((8, 8, 3)),
                keras.layers.Conv2D(64, 3, padding="same"),
                keras.layers.GlobalAveragePooling2D(),
                keras.layers.Dropout(0.5),
                keras.layers.Dense(2),
            ]
        )
        plan = build_plan(backbone)
        chosen = geometry.choose_geometry(plan, plan.suffix, 16, 16, 1000, True)
        # A row of the convolution is 8 * 8 * (3 + 64) = 4288 numbers, one of
        # the head at most 128.
        self.assertGreaterEqual(chosen.samples, 32)
        self.assertLessEqual(16 * chosen.samples * 128, 16 * 4288)

    def test_a_chain_takes_the_samples_that_its_outputs_leave_room_for(self):
        plan = build_plan(_mlp(100))
        (chain,) = plan.fusion.steps
        for shared in (False, True):
            chosen = geometry.choose_geometry(
                plan, [chain], 64, 64, 1000, shared
            )
            self.assertEqual(chosen.tile_rows, 64)
            # The widest layer holds 2 * 100 numbers a row, the outputs 2:
            # 50 times as many rows, some of them rounded away.
            self.assertEqual(chosen.samples, 96)

    def test_a_call_of_a_chain_is_short_enough_to_interrupt(self):
        plan = build_plan(_mlp(1 << 15))
        (chain,) = plan.fusion.steps
        work = 6 * (1 << 15)  # 4 inputs, 2 outputs
        for threads, most in ((1, 1 << 35), (2, 1 << 36)):
            with mock.patch.object(
                geometry, "worker_threads", return_value=threads
            ):
                chosen = geometry.choose_geometry(
                    plan, [chain], None, 10**6, 10**6, True
                )
            entries = chosen.tile_rows * chosen.samples
            self.assertLessEqual(entries * work, most)
            # At least half of what could be.
            self.assertGreaterEqual(
                entries * work, min(1 << 17, most // work) * work // 2
            )

    def test_a_call_of_a_wide_chain_grows_with_the_threads(self):
        wide = keras.Sequential(
            [
                keras.Input((4096,)),
                keras.layers.Dropout(0.5),
                keras.layers.Dense(4096, activation="relu"),
                keras.layers.Dropout(0.5),
                keras.layers.Dense(1000),
            ]
        )
        plan = build_plan(wide)
        (chain,) = plan.fusion.steps
        work = 4096 * 4096 + 4096 * 1000
        samples = {}
        for threads in (1, 2, 8, 64):
            with mock.patch.object(
                geometry, "worker_threads", return_value=threads
            ):
                chosen = geometry.choose_geometry(
                    plan, [chain], None, 256, 1000, True
                )
            self.assertEqual(chosen.tile_rows, 256)
            self.assertLessEqual(
                256 * chosen.samples * work, threads * (1 << 35)
            )
            samples[threads] = chosen.samples
        # 256 rows of 32 samples give 1000 outputs each: 32 MB, and no more.
        self.assertEqual(samples, {1: 4, 2: 8, 8: 32, 64: 32})

    def test_threads_are_those_of_tensorflow(self):
        self.assertEqual(
            geometry.worker_threads(),
            tf.config.threading.get_intra_op_parallelism_threads()
            or len(os.sched_getaffinity(0)),
        )
        with mock.patch.object(
            tf.config.threading,
            "get_intra_op_parallelism_threads",
            return_value=3,
        ):
            self.assertEqual(geometry.worker_threads(), 3)

    def test_batch_size_is_kept_and_else_chosen_by_the_model(self):
        self.assertEqual(geometry.rows_per_batch(self.plan, 7), 7)
        small = geometry.rows_per_batch(self.plan, None)
        large = geometry.rows_per_batch(build_plan(_mlp(100_000)), None)
        self.assertGreater(small, large)
        self.assertGreaterEqual(large, 1)
