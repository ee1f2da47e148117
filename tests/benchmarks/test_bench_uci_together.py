# SPDX-License-Identifier: Apache-2.0
"""The UCI benchmark: the networks of several splits trained together."""

import itertools
import json
import sys
import threading

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from keras_bayesdrop.layers import MCDropout
from keras_bayesdrop.layers._gaussian import estimators
from keras_bayesdrop.losses import GaussianNLL
from keras_bayesdrop.training import MonteCarloModel
from tests.benchmarks.benchmark_scripts import regression
from tests.benchmarks.benchmark_scripts import save_uci_set
from tests.benchmarks.benchmark_scripts import script

bench_uci = script("bench_uci")
bayesian_loss = script("uci.bayesian_loss")
bayesian_network = script("uci.bayesian_network")
data = script("uci.data")
dropout_loss = script("uci.dropout_loss")
masks = script("uci.masks")
network = script("uci.network")
objectives = script("uci.objectives")
page = script("uci.page")
scores = script("uci.scores")
settings = script("uci.settings")
structured = script("uci.structured")
together = script("uci.together")

OBJECTIVES = ("lower_bound", "importance_weighted", "tail_adaptive")
STRUCTURES = ("ard", "add", "ard_add")
ROWS, SAMPLES, PRECISION = 6, 4, 3.0


def trainable(model):
    return [variable.numpy() for variable in model.trainable_variables]


def disturbed(model, seed):
    """Returns weights that are not as special as initial ones."""
    generator = np.random.default_rng(seed)
    return [
        value + 0.3 * generator.normal(size=value.shape)
        for value in trainable(model)
    ]


def member_losses(loss, models, x, y):
    """Returns losses and gradients of two members, and the noise."""
    keys = tf.constant([[1, 2], [3, 4]], tf.uint32)
    noise = loss.noise(
        lambda shape, site: masks.mask_words(shape, keys, tf.constant(5), site),
        ROWS,
    )
    weights = [
        tf.constant(np.stack(pair), tf.float32)
        for pair in zip(*models, strict=True)
    ]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        losses = loss(
            weights,
            tf.constant(np.stack([x, x + 1])),
            tf.constant(np.stack([y, y - 1])),
            tf.fill((2, ROWS), 1 / ROWS),
            tf.constant([PRECISION, 2 * PRECISION]),
            noise,
            100,
        )
    return losses.numpy(), tape.gradient(losses, weights), noise


def keras_loss(model, weights, objective, x, y, precision):
    """Returns the loss of `MonteCarloModel`, and its gradient."""
    for variable, value in zip(model.trainable_variables, weights, strict=True):
        variable.assign(value)
    sampled = MonteCarloModel.from_model(model)
    sampled.compile(
        # A step of this length takes the gradient off.
        keras.optimizers.SGD(1.0),
        GaussianNLL(precision),
        mc_samples=SAMPLES,
        mc_objective=objective,
        run_eagerly=True,
    )
    before = trainable(model)
    loss = sampled.train_on_batch(x, y, return_dict=True)["loss"]
    after = trainable(model)
    return float(loss), [a - b for a, b in zip(before, after, strict=True)]


def assert_same(ours, gradients, theirs, their_gradients):
    # Sums of a hundred terms in float32, in two orders; and a difference of
    # weights of about 1 is a multiple of 1e-7.
    np.testing.assert_allclose(ours, theirs, rtol=2e-5)
    for a, b in zip(gradients, their_gradients, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-5)


class TestSameAsKeras:
    @pytest.mark.parametrize("structure", STRUCTURES)
    def test_bayesian_loss_and_gradient(self, structure, monkeypatch):
        x, y = regression(ROWS)
        structures = ("ard", structure, "ard")
        model = bayesian_network.bayesian_network((3, 8, 8, 1), structures, 100)
        loss = bayesian_loss.BayesianLoss((8, 8, 1), structures, SAMPLES)
        weights = [disturbed(model, 1), disturbed(model, 2)]
        ours, gradients, noise = member_losses(loss, weights, x, y)
        for member in range(2):
            draws = iter(
                [tf.reshape(n[member], (-1, n.shape[-1])) for n in noise]
            )
            monkeypatch.setattr(
                estimators, "draw_normal", lambda *_, d=draws: next(d)
            )
            theirs, their_gradients = keras_loss(
                model,
                weights[member],
                "lower_bound",
                x + member,
                y - member,
                PRECISION * (1 + member),
            )
            assert next(draws, None) is None
            mine = [gradient[member] for gradient in gradients]
            assert_same(ours[member], mine, theirs, their_gradients)

    @pytest.mark.parametrize("objective", OBJECTIVES)
    def test_dropout_loss_and_gradient(self, objective, monkeypatch):
        x, y = regression(ROWS)
        loss = dropout_loss.DropoutLoss(
            (3, 8, 5, 1), 0.3, objective, SAMPLES, length_scale=2.0
        )
        model = network.network((3, 8, 5, 1), 0.3, loss.regularizer(100))
        weights = [disturbed(model, 1), disturbed(model, 2)]
        ours, gradients, noise = member_losses(loss, weights, x, y)
        for member in range(2):
            kept = [tf.reshape(n[member], (-1, n.shape[-1])) for n in noise]
            assert {bool(k) for k in kept[0].numpy().ravel()} == {False, True}
            turns = iter(kept)

            def drop(self, inputs, training=None, turns=turns):
                if not training:  # for the metrics
                    return inputs
                return tf.where(next(turns), inputs / 0.7, 0.0)

            monkeypatch.setattr(MCDropout, "call", drop)
            theirs, their_gradients = keras_loss(
                model,
                weights[member],
                objective,
                x + member,
                y - member,
                PRECISION * (1 + member),
            )
            mine = [gradient[member] for gradient in gradients]
            assert_same(ours[member], mine, theirs, their_gradients)

    def test_without_dropout_training_is_fit(self):
        # 37 rows: the last of the batches of 16 has 5.
        loss = dropout_loss.DropoutLoss((3, 8, 1), 0.0, "lower_bound", 2, 0.5)
        model = network.network((3, 8, 1), 0.0, loss.regularizer(37))
        precisions = (2.0, 5.0)
        members = [
            together.Member(
                disturbed(model, number),
                *regression(37, number),
                precision,
                np.random.SeedSequence(number),
            )
            for number, precision in enumerate(precisions)
        ]
        schedule = together.Schedule(5, 16, 1e-2, shuffle=False)
        trained = together.train(loss, schedule, members)
        for member, ours in zip(members, trained, strict=True):
            model.set_weights(member.initial)
            model.compile(
                keras.optimizers.Adam(1e-2),
                GaussianNLL(member.precision),
                jit_compile=False,
            )
            model.fit(member.x, member.y, 16, 5, shuffle=False, verbose=0)
            # 15 steps of at most 0.01 each; Adam magnifies the rounding of
            # small gradients, by which two orders of a sum differ.
            for a, b in zip(ours, model.get_weights(), strict=True):
                np.testing.assert_allclose(a, b, atol=2e-5)

    def test_network_predicts_in_units_of_y(self):
        x, y = regression(50)
        part = data.Part(x * 5 + 2, y[:, 0] * 7 - 3)
        scaling = data.Scaling.of(part)
        model = bayesian_network.bayesian_network(
            (3, 8, 8, 1), ("ard", "add", "ard"), 50
        )
        weights = disturbed(model, 1)
        made = []
        for units in (
            weights,
            bayesian_network.in_units_of_y(weights, scaling),
        ):
            fitted = network.TrainedNetwork(
                model, units, scaling, 1.0, 30, 7, {}
            )
            made.append(fitted.predict(part.x).samples)
        assert np.std(made[0], axis=0).min() > 0
        np.testing.assert_allclose(
            made[1], made[0] * np.std(part.y) + np.mean(part.y), rtol=1e-3
        )


class TestNormal:
    def test_draws_are_normal(self):
        keys = tf.constant([[1, 2], [3, 4]], tf.uint32)
        sites = [
            bayesian_loss._normal(
                masks.mask_words((500, 100), keys, tf.constant(9), site)
            ).numpy()
            for site in range(2)
        ]
        draws = np.stack(sites)  # [sites, members, rows, units]
        for each in draws.reshape(4, -1):
            # The 1e-4 quantile of the distance for 50,000 draws: 0.01.
            assert scipy.stats.kstest(each, "norm").statistic < 0.01
        pairs = itertools.combinations(draws.reshape(4, -1), 2)
        for one, other in pairs:
            # That of independent draws has standard deviation 1 / sqrt(n).
            correlation = np.corrcoef(one, other)[0, 1]
            assert abs(correlation) < 5 / np.sqrt(one.size)

    def test_the_ends_are_finite(self):
        words = tf.constant([0, 2**32 - 1], tf.uint32)
        ends = bayesian_loss._normal(words).numpy()
        np.testing.assert_allclose(ends, [-5.29, 5.29], atol=0.01)


class TestTogether:
    SCHEDULE = together.Schedule(3, 16, 1e-2)

    def members(self, count, rows=(37,)):
        model = network.network((3, 8, 1), 0.2)
        sizes = itertools.cycle(rows)
        return [
            together.Member(
                disturbed(model, number),
                *regression(next(sizes), number),
                2.0,
                np.random.SeedSequence(number),
            )
            for number in range(count)
        ]

    def loss(self):
        return dropout_loss.DropoutLoss(
            (3, 8, 1), 0.2, "importance_weighted", SAMPLES, 1.0
        )

    @pytest.mark.parametrize("rows", [(37,), (37, 52)])
    def test_a_member_does_not_depend_on_the_others(self, rows):
        members = self.members(5, rows)
        trained = together.train(self.loss(), self.SCHEDULE, members)
        alone = [
            together.train(self.loss(), self.SCHEDULE, [member])[0]
            for member in members[:2]
        ]
        for ours, theirs in zip(trained, alone, strict=False):
            for a, b in zip(ours, theirs, strict=True):
                # A program for another number of members may add in another
                # order; see above for what Adam makes of it in 12 steps.
                np.testing.assert_allclose(a, b, atol=2e-5)
        assert np.abs(trained[0][0] - trained[2][0]).max() > 0.1

    def test_epochs_in_several_calls_are_the_same(self, monkeypatch):
        schedule = together.Schedule(5, 16, 1e-2, shuffle=False)
        members = self.members(1)
        whole = together.train(self.loss(), schedule, members)
        # 3 steps an epoch: calls of two epochs, the last one of one.
        monkeypatch.setattr(together, "_STEPS_AT_ONCE", 7)
        pieces = together.train(self.loss(), schedule, members)
        for a, b in zip(whole[0], pieces[0], strict=True):
            np.testing.assert_array_equal(a, b)

    def test_every_epoch_takes_every_row_once(self):
        generators = [np.random.default_rng(seed) for seed in range(2)]
        orders, count = next(together._orders(self.SCHEDULE, 37, generators))
        assert count == 9
        epochs = orders.numpy().swapaxes(0, 1).reshape(2, 3, 48)
        assert (epochs[..., 37:] == -1).all()
        for epoch in epochs.reshape(-1, 48):
            np.testing.assert_array_equal(np.sort(epoch[:37]), np.arange(37))
        assert (epochs[0] != epochs[1]).any()
        assert (epochs[:, 0] != epochs[:, 1]).any()

    def test_a_failure_stops_the_others(self, monkeypatch):
        both = threading.Barrier(2, timeout=60)
        stopped = []

        def fails(loss, schedule, members, stop):
            if both.wait() == 0:
                raise KeyboardInterrupt
            stopped.append(stop.wait(60))
            return [[]] * len(members)

        monkeypatch.setattr(together, "_train_stack", fails)
        monkeypatch.setattr(together, "sched_getaffinity", lambda _: {0, 1})
        with pytest.raises(KeyboardInterrupt):
            together.train(self.loss(), self.SCHEDULE, self.members(4))
        assert stopped == [True]


@pytest.fixture
def folder(tmp_path):
    """A set in the published format, of 60 rows and 3 splits."""
    return save_uci_set(tmp_path / "sets")


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["bench_uci.py", *map(str, arguments)])
    return bench_uci.main()


def stored(folder):
    (path,) = folder.iterdir()
    return json.loads(path.read_text())["splits"]


class TestCommand:
    @pytest.mark.parametrize("method", ["tail_adaptive", "ard_add"])
    def test_goes_on_where_it_was_interrupted(
        self, method, folder, tmp_path, monkeypatch
    ):
        common = ("--data", folder, "--sets", "yacht", "--quick")
        common = (*common, "--methods", method, "--out")
        # As if the run had ended after its first split.
        first = tmp_path / "a"
        assert run(monkeypatch, *common, first, "--splits", 0) == 0
        kept = stored(first)["0"]
        assert run(monkeypatch, *common, first, "--splits", 0, 1) == 0
        assert stored(first)["0"] == kept
        assert run(monkeypatch, *common, tmp_path / "b", "--splits", 0, 1) == 0
        for split in "01":
            for name in scores.SCORES:
                assert stored(first)[split][name] == pytest.approx(
                    stored(tmp_path / "b")[split][name], rel=1e-4
                )

    def test_paper_stands_beside_its_own_statistic(self):
        score = {"mean": 0.5, "standard_error": 0.1}
        result = {
            **dict.fromkeys(scores.SCORES, score),
            "seconds": 1.0,
            "cpu_seconds": 2.0,
        }
        methods = ("mc_dropout", "tail_adaptive", "ard_add")
        results = {"yacht": dict.fromkeys(methods, result)}
        head, _, *rows = page.lines(results)
        names = [cell.strip() for cell in head.replace(r"\|", "").split("|")]
        cells = [[cell.strip() for cell in row.split("|")] for row in rows]
        columns = dict(zip(names, zip(*cells, strict=True), strict=False))
        printed = columns["printed as RMSE"]
        assert printed == ("", "0.612 ± 0.140", "0.604 ± 0.160")
        # By position: two columns have the same name.
        assert [row[4] for row in cells] == ["0.670 ± 0.050", "", ""]
        likelihoods = ["-1.250 ± 0.010", "-1.290 ± 0.110", ""]
        assert [row[6] for row in cells] == likelihoods
