# SPDX-License-Identifier: Apache-2.0
"""The classifier: probabilities averaged over samples."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.sklearn._estimator import BayesdropEstimator
from keras_bayesdrop.sklearn._estimator import describe


class BayesdropClassifier(BayesdropEstimator, keras.wrappers.SKLearnClassifier):
    """A classifier of scikit-learn that says how sure it is.

    Trains a Keras model with noise in it, such as dropout. Probabilities are
    means over `T` samples of the noise:

        predict_proba(X) = sum{ f(X; mask[t]) : t } / T

    The model has one probability or logit per class. For two classes it may
    have a single one, that of the second class. Labels may be of any type.
    The model sees them as its loss needs them: as integers for a sparse loss
    or a single output, else one-hot.

    A fitted estimator predicts with the same masks in every call, so that its
    predictions do not change. It works in `Pipeline`, `GridSearchCV`,
    `cross_val_score` and `clone`, and it can be pickled.

    Args:
        model: As in `BayesdropRegressor`. A function gets one-hot labels
            `[rows, classes]` as `y`.
        warm_start: As in `BayesdropRegressor`.
        model_kwargs: As in `BayesdropRegressor`.
        fit_kwargs: As in `BayesdropRegressor`.
        num_samples: Number `T` of samples.
        method: `"sampling"`, `"moments"`, `"rao_blackwell"`, or an object
            such as `Sampling(tolerance=0.05)`.
        head: `"auto"`, `"classification"`, `"binary"`, or an object such as
            `Classification(from_logits=True)`.
        batch_size: As in `BayesdropRegressor`.
        random_state: As in `BayesdropRegressor`.

    Attributes:
        classes_: The labels, sorted: the order of all probabilities.
        model_: The trained model.
        history_: The `History` that `model.fit` returned.
        seed_: The seed of the masks.
        n_features_in_: Number of features.

    Example:
    ```python
    def network(X, y):
        model = keras.Sequential([
            keras.Input((X.shape[1],)),
            keras.layers.Dense(50, activation="relu"),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(y.shape[1], activation="softmax"),
        ])
        model.compile("adam", "categorical_crossentropy")
        return model

    classifier = keras_bayesdrop.sklearn.BayesdropClassifier(
        network, fit_kwargs={"epochs": 100, "verbose": 0}, random_state=0
    )
    classifier.fit(x, y)
    classifier.predict(x_test), classifier.predict_proba(x_test)
    p = classifier.predict_with_uncertainty(x_test)
    p.mutual_information
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
    """

    classes_: npt.NDArray[Any]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predicts the likeliest label of each row.

        Args:
            X: Array-like `[rows, features]`.

        Returns:
            Labels `[rows]`.
        """
        likeliest = np.argmax(self.predict_proba(X), axis=1)
        labels: npt.NDArray[Any] = self.classes_[likeliest]
        return labels

    def predict_proba(self, X: Any) -> Float64Array:
        """Predicts probabilities: means over the samples.

        Args:
            X: Array-like `[rows, features]`.

        Returns:
            Array `[rows, classes]`, in the order of `classes_`.
        """
        mean = self.predict_with_uncertainty(X).mean.astype(np.float64)
        if mean.shape[1] == 1:
            return np.concatenate([1 - mean, mean], axis=1)
        # The sum is one but for the rounding of the model's float32.
        return mean / np.sum(mean, axis=1, keepdims=True)  # type: ignore[no-any-return]

    @property
    def decision_function(self) -> Any:
        """Absent: scorers use `predict_proba`.

        Keras' method returns the outputs without noise, which are not those
        of `predict`.
        """
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute "
            "'decision_function'; use `predict_proba`"
        )

    def _check_training_data(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        classes = np.unique(y)
        if len(classes) < 2:
            raise BayesdropError(
                "A classifier needs several classes. Expected at least 2 "
                f"different labels. Received: {len(classes)} class"
            )
        continues = self.warm_start and hasattr(self, "classes_")
        if continues and not np.array_equal(classes, self.classes_):
            raise BayesdropError(
                "A warm start needs the same classes. Expected the "
                f"{len(self.classes_)} labels of the last fit. Received: "
                f"{len(classes)} labels, "
                f"{len(np.setdiff1d(classes, self.classes_))} of them new"
            )
        self.classes_ = classes
        return X, y

    def _numbers_of(self, y: Any) -> npt.NDArray[Any]:
        """Returns the place of each label in `classes_`."""
        unknown = np.setdiff1d(y, self.classes_)
        if y.ndim != 1 or len(unknown):
            raise BayesdropError(
                "Targets are not labels of `fit`. Expected one label a row, "
                f"of {len(self.classes_)} classes. Received: shape {y.shape}, "
                f"{len(unknown)} unknown labels"
            )
        numbers: npt.NDArray[Any] = np.searchsorted(self.classes_, y)
        return numbers

    def _targets_of_builder(self, y: Any) -> npt.NDArray[Any]:
        one_hot = np.eye(len(self.classes_), dtype=keras.config.floatx())
        targets: npt.NDArray[Any] = one_hot[self._numbers_of(y)]
        return targets

    def _targets_of(self, model: Any, y: Any) -> npt.NDArray[Any]:
        if self._has_one_output or _takes_integers(model):
            return self._numbers_of(y)[:, None]
        return self._targets_of_builder(y)

    def _check_outputs(self, p: Predictive) -> None:
        classes = len(self.classes_)
        shapes = {"class": (classes,)}
        expected = f"a softmax of shape {describe((classes,))}"
        if classes == 2:
            shapes["label"] = (1,)
            expected += f", or a sigmoid of shape {describe((1,))}"
        if shapes.get(p.head.observation) != p.mean.shape[1:]:
            raise BayesdropError(
                f"The model does not predict {classes} classes. Expected "
                f"{expected}. Received: {p.task} with shape "
                f"{describe(p.mean.shape[1:])}"
            )
        self._has_one_output = p.mean.shape[1:] == (1,)


def _takes_integers(model: Any) -> bool:
    """Returns whether the loss of a model takes classes as integers."""
    losses = keras.tree.flatten(model.loss)
    names = [
        loss
        if isinstance(loss, str)
        else getattr(loss, "__name__", type(loss).__name__)
        for loss in losses
    ]
    return any("sparse" in name.lower() for name in names)
