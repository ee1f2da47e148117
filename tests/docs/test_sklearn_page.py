# SPDX-License-Identifier: Apache-2.0
"""The page on scikit-learn."""

import numpy as np

from tests.docs.pages import blocks_of

BLOCKS = blocks_of("sklearn.md")


def test_blocks_that_need_scikit_learn_alone():
    names = {}
    for number, block in enumerate(BLOCKS):
        exec(block, names)
        if number == 0:
            lower, upper = names["lower"][:, 0], names["upper"][:, 0]
            held_out = names["y"][400:]
            inside = np.mean((lower <= held_out) & (held_out <= upper))
            # The noise is known: 200 rows, 4 standard errors are 0.085, and
            # the fit adds some error of its own.
            assert 0.8 < inside <= 1
    assert len(BLOCKS) == 3
    results = names["search"].cv_results_
    likelihoods = results["mean_test_score"]
    assert likelihoods[0] > likelihoods[1]
    assert list(names["best"].values()) == [0.02]
    assert names["search"].best_estimator_[-1].epoch_ == 30
    assert names["std"].shape == (200,)
    # Always the most frequent class: 1 / 3.
    assert np.min(names["scores"]) > 0.8
    np.testing.assert_allclose(names["probabilities"].sum(axis=1), 1)
    assert len(set(names["unsure"])) == 5
