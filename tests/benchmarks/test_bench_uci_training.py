# SPDX-License-Identifier: Apache-2.0
"""The UCI benchmark: its stacked training and its masks."""

import keras
import numpy as np
import tensorflow as tf

from tests.benchmarks.benchmark_scripts import regression
from tests.benchmarks.benchmark_scripts import script

masks = script("uci.masks")
members = script("uci.members")


def seed(number=0):
    return np.random.SeedSequence(number)


def training(**changes):
    usual = {
        "widths": (3, 8, 1),
        "rates": (0.0,),
        "decays": (0.0,),
        "epochs": 5,
        "batch_size": 16,
        "learning_rate": 1e-2,
    }
    return members.Training(**{**usual, **changes})


class TestMembers:
    def test_without_dropout_each_is_what_fit_makes(self):
        # 37 rows: the last of the batches of 16 has 5.
        x, y = regression(37)
        decays = (0.05, 0.2)
        plan = training(
            widths=(3, 8, 6, 1),
            rates=(0.0,) * 2,
            decays=decays,
            shuffle=False,
        )
        initial = members.initial_weights(plan, np.random.default_rng(1))
        trained = members.train(plan, x, y, seed(), initial)
        for member, decay in enumerate(decays):
            l2 = keras.regularizers.L2(decay)
            model = keras.Sequential(
                [
                    keras.Input((3,)),
                    keras.layers.Dense(8, "relu", kernel_regularizer=l2),
                    keras.layers.Dense(6, "relu", kernel_regularizer=l2),
                    keras.layers.Dense(1, kernel_regularizer=l2),
                ]
            )
            model.set_weights([value[member] for value in initial])
            adam = keras.optimizers.Adam(1e-2)
            model.compile(adam, "mse", jit_compile=False)
            model.fit(x, y, 16, 5, shuffle=False, verbose=0)
            # 15 steps of at most 0.01 each; Adam magnifies the rounding of
            # small gradients, by which two orders of a sum differ.
            for ours, theirs in zip(
                trained[member], model.get_weights(), strict=True
            ):
                np.testing.assert_allclose(ours, theirs, atol=2e-5)

    def test_dropout_shrinks_a_linear_model_as_it_must(self):
        # For a linear model of orthonormal inputs the expected loss is
        #     mean((y - x w)^2) + rate / (1 - rate) * sum(w^2),
        # with its minimum at (1 - rate) times the least squares.
        rows = 512
        generator = np.random.default_rng(0)
        centred = generator.normal(size=(rows, 3))
        x = np.linalg.qr(centred - centred.mean(0))[0] * np.sqrt(rows)
        least_squares = np.array([[1.0], [-2.0], [0.5]])
        rates = (0.0, 0.25, 0.5)
        plan = training(
            widths=(3, 1),
            rates=rates,
            decays=(0.0,) * 3,
            epochs=3000,
            batch_size=rows,
            learning_rate=2e-3,
        )
        trained = members.train(
            plan,
            x.astype(np.float32),
            (x @ least_squares).astype(np.float32),
            seed(),
        )
        for rate, (kernel, bias) in zip(rates, trained, strict=True):
            # A step moves a weight by at most about 0.002 either way, and
            # the last thousand about the minimum are a walk that is drawn
            # back within some ten: 0.03 is far out, and a rate wrong by a
            # tenth is farther.
            np.testing.assert_allclose(
                kernel, (1 - rate) * least_squares, atol=0.03
            )
            np.testing.assert_allclose(bias, [0.0], atol=0.03)

    def test_a_member_does_not_see_the_others(self):
        x, y = regression(40)
        both = [
            members.train(
                training(rates=(0.1, other), decays=(0.01, other)), x, y, seed()
            )[0]
            for other in (0.0, 0.5)
        ]
        for first, second in zip(*both, strict=True):
            np.testing.assert_array_equal(first, second)

    def test_epochs_in_several_calls_are_the_same(self, monkeypatch):
        x, y = regression(40)
        plan = training(rates=(0.1,), shuffle=False)
        whole = members.train(plan, x, y, seed())
        # 48 numbers an epoch: calls of two epochs, the last one of one.
        monkeypatch.setattr(members, "_NUMBERS_AT_ONCE", 100)
        pieces = members.train(plan, x, y, seed())
        for first, second in zip(whole[0], pieces[0], strict=True):
            np.testing.assert_array_equal(first, second)

    def test_every_epoch_takes_every_row_once(self):
        plan = training(epochs=3)
        orders, count = next(
            members._orders(plan, 37, np.random.default_rng(0))
        )
        assert count == 9
        epochs = orders.numpy().reshape(3, 48)
        assert (epochs[:, 37:] == -1).all()
        for epoch in epochs:
            np.testing.assert_array_equal(np.sort(epoch[:37]), np.arange(37))
        assert (epochs[0] != epochs[1]).any()


class TestMasks:
    SHAPE = (4, 128, 50)

    def kept(self, step, site, rate=0.05):
        keys = tf.constant([123, 456], tf.uint32)
        words = masks.mask_words(self.SHAPE, keys, tf.constant(step), site)
        return words.numpy() >= rate * 2**32

    def test_rate_in_every_direction(self):
        dropped = ~np.stack([self.kept(step, 0) for step in range(40)])
        for axis in range(dropped.ndim):
            others = tuple(a for a in range(dropped.ndim) if a != axis)
            means = dropped.mean(others)
            error = np.sqrt(0.05 * 0.95 / (dropped.size / len(means)))
            # 5 standard errors: 3e-7 a mean, and there are 222.
            assert np.abs(means - 0.05).max() < 5 * error

    def test_steps_sites_and_neighbours_are_uncorrelated(self):
        steps = np.stack([self.kept(step, 0) for step in range(20)])
        sites = np.stack([self.kept(step, 1) for step in range(20)])
        pairs = {
            "steps": (steps[1:], steps[:-1]),
            "sites": (steps, sites),
            "members": (steps[:, 1:], steps[:, :-1]),
            "rows": (steps[:, :, 1:], steps[:, :, :-1]),
            "units": (steps[..., 1:], steps[..., :-1]),
        }
        for name, (a, b) in pairs.items():
            correlation = np.corrcoef(a.ravel(), b.ravel())[0, 1]
            # That of independent draws has standard deviation 1 / sqrt(n).
            assert abs(correlation) < 5 / np.sqrt(a.size), name

    def test_bits_are_even(self):
        keys = tf.constant([1, 2], tf.uint32)
        words = masks.mask_words((1 << 16,), keys, tf.constant(3), 0).numpy()
        ones = ((words[:, None] >> np.arange(32, dtype=np.uint32)) & 1).mean(0)
        # Standard deviation 0.5 / 256; 5 of them.
        assert np.abs(ones - 0.5).max() < 5 * 0.5 / 256
