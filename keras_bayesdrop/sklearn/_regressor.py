# SPDX-License-Identifier: Apache-2.0
"""The regressor: numbers with standard deviations."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import validate_data

from keras_bayesdrop._core.arrays import Array
from keras_bayesdrop._core.arrays import Float64Array
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.sklearn._estimator import BayesdropEstimator
from keras_bayesdrop.sklearn._estimator import describe


class BayesdropRegressor(BayesdropEstimator, keras.wrappers.SKLearnRegressor):
    """A regressor of scikit-learn that says how sure it is.

    Trains a Keras model with noise in it, such as dropout. Predictions are
    the mean over `T` samples of the noise, with the standard deviation of an
    observation:

        predict(X)  = sum{ f(X; mask[t]) : t } / T
        std         = sqrt(epistemic + aleatoric)

    The aleatoric part is the one that the head knows: a noise precision, or
    learned noise. Without it `std` is that of the function alone.

    A fitted estimator predicts with the same masks in every call, so that its
    predictions do not change. It works in `Pipeline`, `GridSearchCV`,
    `cross_val_score` and `clone`, and it can be pickled.

    Args:
        model: A compiled `keras.Model`, of which every `fit` trains a copy
            with new weights; or a function that returns one, called as
            `model(X=X, y=y, **model_kwargs)`, where `y` is `[rows, outputs]`.
        warm_start: Whether `fit` continues with the weights of the last fit,
            and the first one with those of `model`.
        model_kwargs: Dict of arguments of the function `model`. A search sets
            one of them as `model_kwargs__units`.
        fit_kwargs: Dict of arguments of `model.fit`. A search sets one of
            them as `fit_kwargs__epochs`. Callbacks are copied for each fit.
        num_samples: Number `T` of samples.
        method: `"sampling"`, `"moments"`, `"rao_blackwell"`, or an object
            such as `Sampling(tolerance=0.05)`.
        head: `"auto"`, `"regression"`, `"heteroscedastic"`, or an object
            such as `Regression(noise_precision=4.0)`.
        batch_size: Bounds the memory of prediction, and does not change
            its result. `fit_kwargs` has the batch size of training.
        random_state: Int from 0 to 2^32 - 1, or a NumPy `RandomState`. Seeds
            weights, training and masks. The global generators of Python and
            NumPy are restored after `fit`, that of TensorFlow gets a new
            seed. `None` seeds nothing.

    Attributes:
        model_: The trained model.
        history_: The `History` that `model.fit` returned.
        seed_: The seed of the masks.
        n_features_in_: Number of features.

    Example:
    ```python
    def network(X, y, rate=0.1):
        model = keras.Sequential([
            keras.Input((X.shape[1],)),
            keras.layers.Dense(50, activation="relu"),
            keras.layers.Dropout(rate),
            keras.layers.Dense(y.shape[1]),
        ])
        model.compile("adam", "mse")
        return model

    regressor = keras_bayesdrop.sklearn.BayesdropRegressor(
        network, fit_kwargs={"epochs": 100, "verbose": 0}, random_state=0
    )
    regressor.fit(x_train, y_train)
    mean, std = regressor.predict(x_test, return_std=True)
    p = regressor.predict_with_uncertainty(x_test)
    p.interval(0.9)
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
    """

    def predict(
        self, X: Any, return_std: bool = False
    ) -> Float64Array | tuple[Float64Array, Float64Array]:
        """Predicts the mean, and its standard deviation if asked for.

        Args:
            X: Array-like `[rows, features]`.
            return_std: Whether to return the standard deviation too.

        Returns:
            The mean, `[rows]` or `[rows, outputs]` as the targets of `fit`;
            or a tuple of mean and standard deviation.
        """
        p = self.predict_with_uncertainty(X)
        mean = self._like_targets(p.mean)
        if not return_std:
            return mean
        return mean, self._like_targets(np.sqrt(p.total))

    def __sklearn_tags__(self) -> Any:
        """Tells scikit-learn that targets may have several columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _check_training_data(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True)
        self._target_shape = y.shape[1:]
        return X, y

    def _targets_of_builder(self, y: Any) -> npt.NDArray[Any]:
        if y.shape[1:] != self._target_shape:
            raise BayesdropError(
                "Targets do not have the shape of those of `fit`. Expected "
                f"{describe(self._target_shape)}. "
                f"Received: {describe(y.shape[1:])}"
            )
        columns = y[:, None] if y.ndim == 1 else y
        return columns.astype(keras.config.floatx())  # type: ignore[no-any-return]

    def _targets_of(self, model: Any, y: Any) -> npt.NDArray[Any]:
        return self._targets_of_builder(y)

    def _check_outputs(self, p: Predictive) -> None:
        columns = self._target_shape or (1,)
        numbers = p.head.observation == "number"
        if not numbers or p.mean.shape[1:] != columns:
            raise BayesdropError(
                "The model does not predict the targets. Expected numbers of "
                f"shape {describe(columns)}. Received: {p.task} with shape "
                f"{describe(p.mean.shape[1:])}"
            )

    def _like_targets(self, values: Array) -> Float64Array:
        shape = (len(values), *self._target_shape)
        return values.astype(np.float64).reshape(shape)
