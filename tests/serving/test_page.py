# SPDX-License-Identifier: Apache-2.0
"""The pages on serving and prediction match the code."""

from tests.docs.pages import run_page


def test_serving(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page("serving.md")
    assert set(names["answer"]) == {"mean", "std", "mutual_information"}
    assert names["part"]["mean"].shape == (5, 3)
    served = names["layer"](names["np"].ones((2, 4), "float32"))
    again = names["kbd"].predict_with_uncertainty(
        names["model"],
        names["np"].ones((2, 4), "float32"),
        seed=0,
        verbose=0,
    )
    names["np"].testing.assert_allclose(
        served["std"], again.std, rtol=1e-4, atol=1e-6
    )


def test_prediction():
    p = run_page("prediction.md")["p"]
    assert 16 == p.num_samples_used.min()
    assert 16 < p.num_samples_used.max() <= 400
