# SPDX-License-Identifier: Apache-2.0
"""The UCI benchmark: its protocol and its files."""

import dataclasses
import json
import sys

import numpy as np
import pytest
import scipy.special

from keras_bayesdrop.losses import GaussianLikelihood
from keras_bayesdrop.regularizers import DropoutL2
from tests.benchmarks.benchmark_scripts import regression
from tests.benchmarks.benchmark_scripts import save_uci_set
from tests.benchmarks.benchmark_scripts import script

bench_uci = script("bench_uci")
data = script("uci.data")
mc_dropout = script("uci.mc_dropout")
methods = script("uci.methods")
network = script("uci.network")
page = script("uci.page")
scores = script("uci.scores")
settings = script("uci.settings")


def seed(number=0):
    return np.random.SeedSequence(number)


def quick():
    return settings.Settings(
        epochs=8, samples=20, batch_size=128, hidden_layers=1
    )


class TestProtocol:
    def test_decay_by_hand(self):
        point = mc_dropout.Point(rate=0.1, tau=0.5)
        derived = mc_dropout.weight_decay(
            point, 3.0, 200, settings.Settings(decay="derived")
        )
        # The loss sees y / 3, so the precision is 9 times that of y.
        assert derived == pytest.approx(1e-4 / (0.9 * 200 * 0.5 * 9))
        released = mc_dropout.weight_decay(
            point, 3.0, 200, settings.Settings(decay="released")
        )
        assert released == pytest.approx(1e-4 * 0.9 / (2 * 200 * 0.5))

    def test_network_predicts_in_units_of_y(self):
        x, y = regression(50)
        part = data.Part(x * 5 + 2, y[:, 0] * 7 - 3)
        scaling = data.Scaling.of(part)
        model = network.network((3, 4, 1), 0.0)
        scaled = scaling.scaled_x(part.x)
        plain = model.predict(scaled, verbose=0)
        model.set_weights(network.in_units_of_y(model.get_weights(), scaling))
        np.testing.assert_allclose(
            model.predict(scaled, verbose=0),
            plain * np.std(part.y) + np.mean(part.y),
            rtol=1e-4,
        )

    def test_constant_feature_stays_finite(self):
        x, y = regression(50)
        x[:, 1] = 4.0
        scaling = data.Scaling.of(data.Part(x, y[:, 0]))
        assert (scaling.scaled_x(x)[:, 1] == 0).all()

    def test_chooses_the_best_on_the_last_fifth(self, uci, monkeypatch):
        seen = []
        fit_points = mc_dropout.fit_points

        def spy(points, part, *others):
            trained = fit_points(points, part, *others)
            seen.append((part, trained))
            return trained

        monkeypatch.setattr(mc_dropout, "fit_points", spy)
        part, _ = uci.split(0)
        chosen = quick()
        fitted = mc_dropout.fit(part, uci, chosen, seed())
        (first, grid), (whole, _) = seen
        rows = int(0.8 * len(part.y))
        np.testing.assert_array_equal(first.x, part.x[:rows])
        np.testing.assert_array_equal(whole.x, part.x)
        likelihoods = []
        for trained in grid:
            samples = trained.predict(part.x[rows:]).samples[..., 0]
            likelihoods.append(
                log_likelihood(samples, part.y[rows:], trained.tau)
            )
        best = grid[int(np.argmax(likelihoods))].chosen
        assert len(grid) == 4
        assert {**fitted.chosen, **best} == fitted.chosen
        assert fitted.chosen["validation_log_likelihood"] == pytest.approx(
            max(likelihoods), rel=1e-4
        )

    def test_training_uses_the_decay_of_the_library(self):
        decay = DropoutL2(0.05, 1e-2, 100, GaussianLikelihood(4.0)).weight_decay
        ours = mc_dropout.weight_decay(
            mc_dropout.Point(0.05, 1.0), 2.0, 100, settings.Settings()
        )
        assert ours == decay

    def test_scores_by_hand(self, uci):
        part, test = uci.split(1)
        fitted = mc_dropout.fit(part, uci, quick(), seed())
        prediction = fitted.predict(test.x)
        samples = prediction.samples[..., 0].astype(np.float64)  # [T, rows]
        result = scores.scores(prediction, test.y)
        assert result["rmse"] == pytest.approx(
            np.sqrt(np.mean((samples.mean(0) - test.y) ** 2)), rel=1e-5
        )
        assert result["log_likelihood"] == pytest.approx(
            log_likelihood(samples, test.y, fitted.tau), rel=1e-5
        )
        assert result["sample_absolute_error"] == pytest.approx(
            np.mean(np.abs(samples - test.y)), rel=1e-5
        )


def log_likelihood(samples, y, tau):
    """Returns that of a mixture of normals, as the published code has it."""
    logs = scipy.special.logsumexp(-0.5 * tau * (y - samples) ** 2, axis=0)
    return np.mean(
        logs - np.log(len(samples)) + 0.5 * np.log(tau / (2 * np.pi))
    )


@pytest.fixture
def folder(tmp_path):
    """A set in the published format, of 60 rows and 3 splits."""
    return save_uci_set(tmp_path / "sets")


@pytest.fixture
def uci(folder):
    return data.load(folder, "yacht")


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["bench_uci.py", *map(str, arguments)])
    return bench_uci.main()


class TestCommand:
    def test_quick(self, folder, tmp_path, monkeypatch, capsys):
        out = tmp_path / "out"
        common = ("--data", folder, "--sets", "yacht", "--quick", "--out", out)
        assert run(monkeypatch, *common) == 0
        (state,) = out.iterdir()
        splits = json.loads(state.read_text())["splits"]
        assert sorted(splits) == ["0", "1"]
        for split in splits.values():
            assert np.isfinite([split[name] for name in scores.SCORES]).all()
            assert split["chosen"]["rate"] in (0.05, 0.2)
        assert "| yacht | mc_dropout, " in capsys.readouterr().out

    def test_every_method_runs(self, folder, tmp_path, monkeypatch):
        common = ("--data", folder, "--sets", "yacht", "--quick", "--splits")
        common = (*common, 0, "--out", tmp_path / "out", "--methods")
        assert run(monkeypatch, *common, *methods.METHODS) == 0
        assert len(list((tmp_path / "out").iterdir())) == len(methods.METHODS)

    def test_goes_on_where_it_was_interrupted(
        self, folder, tmp_path, monkeypatch
    ):
        calls = []
        known = methods.METHODS["mc_dropout"]

        def fails_at_second(parts, *others):
            (part,) = parts
            calls.append(part.y[0])
            if len(calls) == 2:
                raise KeyboardInterrupt
            return known.fit(parts, *others)

        failing = dataclasses.replace(known, fit=fails_at_second)
        monkeypatch.setitem(methods.METHODS, "mc_dropout", failing)
        common = ("--data", folder, "--sets", "yacht", "--quick", "--out")
        with pytest.raises(KeyboardInterrupt):
            run(monkeypatch, *common, tmp_path / "a")
        assert run(monkeypatch, *common, tmp_path / "a") == 0
        # The first split once, the second one twice.
        assert len(calls) == 3
        assert calls[1] == calls[2] != calls[0]
        # And the results are those of a run that was not interrupted.
        assert run(monkeypatch, *common, tmp_path / "b") == 0
        results = [
            json.loads(next((tmp_path / name).iterdir()).read_text())["splits"]
            for name in "ab"
        ]
        for split in "01":
            for name in scores.SCORES:
                assert results[0][split][name] == results[1][split][name]

    def test_other_settings_do_not_mix(self, folder, tmp_path, monkeypatch):
        common = ("--data", folder, "--sets", "yacht", "--quick", "--splits")
        common = (*common, 2, "--out", tmp_path / "out")
        assert run(monkeypatch, *common) == 0
        assert run(monkeypatch, *common, "--decay", "released") == 0
        assert len(list((tmp_path / "out").iterdir())) == 2

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "Expected the folder of the UCI sets as `--data <folder>`"),
            (("--data", "nowhere"), "nowhere, which is not a folder"),
            (("--data", "."), "Expected `yacht.npz` in `--data`"),
        ],
    )
    def test_says_what_is_missing(
        self, arguments, message, tmp_path, monkeypatch, capsys
    ):
        monkeypatch.chdir(tmp_path)
        assert run(monkeypatch, *arguments, "--sets", "yacht") == 2
        assert message in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []


def test_other_seeds_and_epochs_stand_beside_what_was_published():
    score = {"mean": 0.1, "standard_error": 0.01}
    run = {
        **{name: score for name in ("rmse", "log_likelihood")},
        "sample_absolute_error": score,
        "seconds": 1.0,
        "cpu_seconds": 1.0,
    }
    _, _, whole, short, other = page.lines(
        {
            "kin8nm": {
                "ard": run,
                "ard, epochs=450, seed=2": run,
                "ard, hidden_layers=3": run,
            }
        }
    )
    assert "| 0.0660 ± 0.0100 |" in whole
    assert short == whole.replace("| ard |", "| ard, epochs=450, seed=2 |")
    assert "0.0660" not in other


def test_page_is_up_to_date():
    assert page.write_or_check(check=True) == 0
