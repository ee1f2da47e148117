# SPDX-License-Identifier: Apache-2.0
"""The classifier: labels of any type, and probabilities of the samples."""

import keras
import numpy as np
import pytest
from sklearn.metrics import accuracy_score
from sklearn.metrics import get_scorer

import keras_bayesdrop as kbd
from keras_bayesdrop.sklearn import BayesdropClassifier
from tests.sklearn.networks import QUIET
from tests.sklearn.networks import blobs
from tests.sklearn.networks import classes

LABELS = {
    "words": ["wren", "owl", "gull"],
    "integers": [7, -2, 4],
    "two words": ["yes", "no"],
}


def classifier(form="one_hot", **options):
    return BayesdropClassifier(
        classes,
        model_kwargs={"form": form},
        fit_kwargs={**QUIET, "epochs": 15},
        num_samples=20,
        random_state=0,
        **options,
    )


@pytest.mark.parametrize(
    ("labels", "form"),
    [
        ("words", "one_hot"),
        ("integers", "sparse"),
        ("two words", "one_hot"),
        ("two words", "sparse"),
        ("two words", "single"),
    ],
)
def test_labels_come_back(labels, form):
    X, y = blobs(LABELS[labels])
    fitted = classifier(form).fit(X, y)
    assert fitted.classes_.tolist() == sorted(LABELS[labels])
    probabilities = fitted.predict_proba(X)
    assert probabilities.shape == (60, len(LABELS[labels]))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    predicted = fitted.predict(X)
    assert predicted.dtype == y.dtype
    np.testing.assert_array_equal(
        predicted, fitted.classes_[probabilities.argmax(axis=1)]
    )
    # Centres are 5.7 standard deviations apart: under 1 % of the points lie
    # on the wrong side.
    assert fitted.score(X, y) > 0.9
    assert fitted.score(X, y) == accuracy_score(y, predicted)


@pytest.mark.parametrize("form", ["one_hot", "single"])
def test_probabilities_are_means_over_the_samples(form):
    X, y = blobs(LABELS["two words"])
    fitted = classifier(form).fit(X, y)
    p = fitted.predict_with_uncertainty(X, return_samples=True)
    expected = kbd.predict_with_uncertainty(
        fitted.model_, X, 20, seed=0, verbose=0, return_samples=True
    )
    np.testing.assert_array_equal(p.samples, expected.samples)
    mean = expected.samples.astype(np.float64).mean(axis=0)
    if form == "single":
        mean = np.concatenate([1 - mean, mean], axis=1)
    assert np.ptp(expected.samples, axis=0).max() > 0.01
    # The model's float32, rounded in sums over samples and over classes.
    np.testing.assert_allclose(fitted.predict_proba(X), mean, atol=1e-6)


def test_logits():
    X, y = blobs(LABELS["words"])

    def network(X, y):
        model = classes(X, y, activation="linear")
        loss = keras.losses.CategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss)
        return model

    fitted = classifier(head=kbd.Classification(from_logits=True))
    fitted.set_params(model=network, model_kwargs=None).fit(X, y)
    samples = fitted.predict_with_uncertainty(X, return_samples=True).samples
    np.testing.assert_allclose(samples.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "labels"),
    [("neg_log_loss", "words"), ("roc_auc", "two words")],
)
def test_scorers_use_the_probabilities(name, labels):
    X, y = blobs(LABELS[labels])
    fitted = classifier().fit(X, y)
    scorer = get_scorer(name)
    probabilities = fitted.predict_proba(X)
    scores = probabilities if name == "neg_log_loss" else probabilities[:, 1]
    expected = scorer._sign * scorer._score_func(y, scores)
    np.testing.assert_allclose(scorer(fitted, X, y), expected, rtol=1e-12)


def test_has_no_decision_function():
    fitted = classifier().fit(*blobs(LABELS["words"]))
    assert not hasattr(fitted, "decision_function")
    with pytest.raises(AttributeError, match="use `predict_proba`"):
        _ = fitted.decision_function


def test_validation_data_are_encoded_as_the_targets():
    """Labels 1 and 2 would be classes 1 and 2 of a sparse loss."""
    X, y = blobs([1, 2])
    fitted = classifier("sparse").fit(X, y, validation_data=(X, y))
    # Evaluated after the epoch, without dropout, on the same rows.
    expected = fitted.model_.evaluate(X, y[:, None] - 1, verbose=0)
    loss = fitted.history_.history["val_loss"][-1]
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((np.ones((2, 3)), np.array([1, 9])), "1 unknown labels"),
        ((np.ones((2, 3)), np.eye(2)), r"shape \(2, 2\)"),
        ((np.ones((2, 3)), np.array([1])), "2 rows, 1 targets"),
        (np.ones((2, 3)), "Received: ndarray"),
        ((np.ones((2, 3)),), "Received: tuple"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_validation_data_are_refused(data, message):
    with pytest.raises(kbd.BayesdropError, match=message):
        classifier().fit(*blobs([1, 2]), validation_data=data)


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        (
            {"form": "single"},
            [1, 2, 3],
            r"Expected a softmax of shape \(rows, 3\). Received: "
            r"binary with shape \(rows, 1\)",
        ),
        (
            {"form": "labels", "activation": "sigmoid"},
            [1, 2],
            r"Expected a softmax of shape \(rows, 2\), or a sigmoid of shape "
            r"\(rows, 1\). Received: binary with shape \(rows, 2\)",
        ),
        ({}, [1], "Expected at least 2 different labels. Received: 1 class"),
    ],
)
def test_model_that_does_not_suit_the_labels_is_refused(
    options, labels, message
):
    estimator = BayesdropClassifier(classes, model_kwargs=options)
    with pytest.raises(kbd.BayesdropError, match=message):
        estimator.fit(*blobs(labels))
    assert not hasattr(estimator, "classes_")


def test_numbers_are_no_labels():
    X, y = blobs([1, 2])
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(X, y + 0.5 * X[:, 0])


def test_warm_start_needs_the_same_classes():
    X, y = blobs([1, 2])
    fitted = classifier(warm_start=True).fit(X, y)
    before = fitted.predict_proba(X)
    with pytest.raises(kbd.BayesdropError, match="2 labels, 1 of them new"):
        fitted.fit(X, np.where(y == 2, 3, y))
    assert fitted.classes_.tolist() == [1, 2]
    np.testing.assert_array_equal(fitted.predict_proba(X), before)
