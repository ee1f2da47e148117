# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
import pytest
import scipy.stats
from absl.testing import parameterized

from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.losses import GaussianNLL
from tests.helpers import TestCase


def targets(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


class GaussianNLLTest(TestCase):
    @parameterized.parameters(0.01, 1.0, 2500.0)
    def test_is_the_normal_density(self, precision):
        y, f = targets(7, 3), targets(7, 3, seed=1)
        want = scipy.stats.norm.logpdf(y, f, precision**-0.5).sum(axis=-1)
        # float32: each of the 3 terms has a relative error of about 1e-7.
        loss = GaussianNLL(precision)
        self.assertAllClose(loss.log_prob(y, f), want, rtol=1e-6, atol=1e-6)
        self.assertAllClose(loss(y, f), -want.mean(), rtol=1e-6)

    def test_sequences_keep_their_time_axis(self):
        y, f = targets(2, 5, 3), targets(2, 5, 3, seed=1)
        want = scipy.stats.norm.logpdf(y, f).sum(axis=-1)
        self.assertAllClose(GaussianNLL(1.0).log_prob(y, f), want, rtol=1e-5)

    def test_targets_are_not_broadcast(self):
        y, f = targets(6), targets(6, seed=1)
        want = scipy.stats.norm.logpdf(y, f)
        loss = GaussianNLL(1.0)
        for a, b in ((y, f[:, None]), (y[:, None], f), (y, f)):
            self.assertAllClose(loss.log_prob(a, b), want, rtol=1e-5)
        for a, b in (((6,), (6, 3)), ((1, 3), (6, 3)), ((6, 2, 3), (6, 3))):
            with pytest.raises(BayesdropError, match="do not fit"):
                loss.log_prob(np.zeros(a), np.zeros(b))

    def test_sample_weights_and_reductions(self):
        y, f = targets(4, 2), targets(4, 2, seed=1)
        each = -scipy.stats.norm.logpdf(y, f, 0.5).sum(axis=-1)
        weights = np.array([1.0, 0.0, 2.0, 0.5])
        self.assertAllClose(
            GaussianNLL(4.0)(y, f, sample_weight=weights),
            (weights * each).sum() / 4,
            rtol=1e-6,
        )
        total = GaussianNLL(4.0, reduction="sum")(y, f)
        self.assertAllClose(total, each.sum(), rtol=1e-6)
        none = GaussianNLL(4.0, reduction=None)(y, f)
        self.assertAllClose(none, each, rtol=1e-6)

    @parameterized.parameters("float16", "bfloat16", "mixed_float16")
    def test_computes_in_float32_or_better(self, dtype):
        """In float16 the square of 300 is infinite."""
        y, f = np.array([[300.0]]), keras.ops.zeros((1, 1), "float16")
        for policy in (dtype, keras.dtype_policies.DTypePolicy(dtype)):
            loss = GaussianNLL(1.0, dtype=policy)
            self.assertEqual(loss.dtype, "float32")
            # The square is exact in float32, as is half of it.
            self.assertAllClose(loss(y, f), 45000.9189385, rtol=1e-6)
        self.assertEqual(GaussianNLL(1.0, dtype="float64").dtype, "float64")

    def test_extreme_scales_do_not_overflow(self):
        loss = GaussianNLL(1e-30)
        want = scipy.stats.norm.logpdf(1e25, 0.0, 1e15)
        got = loss.log_prob(np.array([[1e25]], "float32"), np.zeros((1, 1)))
        self.assertAllClose(got, [want], rtol=1e-5)

    def test_config(self):
        loss = GaussianNLL(3.0, reduction="sum", name="mine", dtype="float64")
        again = keras.saving.deserialize_keras_object(
            keras.saving.serialize_keras_object(loss)
        )
        self.assertIsInstance(again, GaussianNLL)
        self.assertEqual(again.get_config(), loss.get_config())
        self.assertEqual(again.noise_precision, 3.0)
        self.assertEqual((again.reduction, again.dtype), ("sum", "float64"))

    @parameterized.parameters(0.0, -1.0, float("inf"), "1", None, True)
    def test_bad_precision(self, precision):
        with pytest.raises(BayesdropError, match="`noise_precision`"):
            GaussianNLL(precision)
