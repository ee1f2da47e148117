# SPDX-License-Identifier: Apache-2.0
"""Everything that the regressor and the classifier share.

The classes complete `keras.wrappers.SKLearnRegressor` and `SKLearnClassifier`.
Keras' own `fit`, `__sklearn_clone__` and `set_fit_request` are replaced:

- a clone lost `fit_kwargs` and the parameters of subclasses, so that a grid
  search trained for one epoch;
- arguments of one `fit` were kept for the next one;
- `warm_start` was ignored;
- requested metadata went to `score` instead of `fit`.
"""

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from sklearn.utils.validation import validate_data

from keras_bayesdrop._core.validate import invalid
from keras_bayesdrop.errors import BayesdropError
from keras_bayesdrop.errors import BayesdropWarning
from keras_bayesdrop.prediction.api import predict_with_uncertainty
from keras_bayesdrop.prediction.methods import Method
from keras_bayesdrop.predictive import Predictive
from keras_bayesdrop.sklearn._seeding import seed_of
from keras_bayesdrop.sklearn._seeding import seeded

# Parameters that are dicts, whose entries can be set one by one.
_DICTS = ("fit_kwargs", "model_kwargs")


def describe(shape: Sequence[int]) -> str:
    """Returns the shape of rows as text, for messages."""
    return f"({', '.join(['rows', *map(str, shape)])})"


class BayesdropEstimator:
    """Mixin of the estimators; the other base is a wrapper of Keras."""

    model: Any
    warm_start: bool
    model_kwargs: dict[str, Any] | None
    fit_kwargs: dict[str, Any] | None
    _metadata_request: Any

    def __init__(
        self,
        model: Any,
        warm_start: bool = False,
        model_kwargs: dict[str, Any] | None = None,
        fit_kwargs: dict[str, Any] | None = None,
        num_samples: int = 50,
        method: str | Method = "sampling",
        head: Any = "auto",
        batch_size: int | None = None,
        random_state: Any = None,
    ) -> None:
        # `super()` is the wrapper of Keras.
        super().__init__(model, warm_start, model_kwargs, fit_kwargs)  # type: ignore[call-arg]
        self.num_samples = num_samples
        self.method = method
        self.head = head
        self.batch_size = batch_size
        self.random_state = random_state

    # Parameters.

    def __sklearn_clone__(self) -> Any:
        """Returns an estimator with the same parameters that is not fitted.

        `fit` trains a copy of a model that was passed as `model`, so clones
        share that model.
        """
        shared = isinstance(self.model, keras.Model)
        original = copy.copy(self)
        if shared:
            original.model = None
        clone = BaseEstimator.__sklearn_clone__(original)
        if shared:
            clone.model = self.model
        return clone

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the parameters.

        Args:
            deep: Whether entries of `fit_kwargs` and `model_kwargs` are
                listed too, as `fit_kwargs__epochs`.
        """
        params: dict[str, Any] = super().get_params(deep)  # type: ignore[misc]
        if deep:
            for name in _DICTS:
                # `fit` refuses anything else.
                if isinstance(params[name], dict):
                    for key, value in params[name].items():
                        params[f"{name}__{key}"] = value
        return params

    def set_params(self, **params: Any) -> Any:
        """Sets parameters, or single entries of those that are dicts.

        Args:
            **params: Parameters of the constructor; `fit_kwargs__epochs=5`
                sets one entry, and keeps the others.
        """
        entries: dict[str, dict[str, Any]] = {name: {} for name in _DICTS}
        for name in list(params):
            parent, _, key = name.partition("__")
            if parent in entries and key:
                entries[parent][key] = params.pop(name)
        super().set_params(**params)  # type: ignore[misc]
        for name, changes in entries.items():
            if changes:
                # A new dict: another estimator may hold the old one.
                setattr(self, name, {**self._dict(name), **changes})
        return self

    def _dict(self, name: str) -> dict[str, Any]:
        """Returns a parameter that is a dict, or `None` for an empty one."""
        value = getattr(self, name)
        if value is not None and not isinstance(value, dict):
            raise invalid(name, value, "a dict or `None`")
        return value or {}

    def set_fit_request(self, **requests: Any) -> Any:
        """Requests metadata for `fit`, such as `sample_weight=True`.

        Args:
            **requests: `True`, `False`, `None` or an alias for each name, as
                in scikit-learn's metadata routing.
        """
        routing = self.get_metadata_routing()  # type: ignore[attr-defined]
        # Keras' method refuses if routing is off. What it sets is replaced.
        super().set_fit_request(**requests)  # type: ignore[misc]
        for name, alias in requests.items():
            routing.fit.add_request(param=name, alias=alias)
        self._metadata_request = routing
        return self

    # Training.

    @property
    def epoch_(self) -> int:
        """The number of epochs that the last fit trained."""
        history = getattr(self, "history_", None)
        return 0 if history is None else len(history.epoch)

    def fit(self, X: Any, y: Any, **kwargs: Any) -> Any:
        """Trains the model.

        Before training, one row is predicted with uncertainty. So a model
        without noise, a wrong option or a wrong shape is an error at once.
        If anything fails, a previous fit stays as it was; only the weights
        that `warm_start` continues keep what was trained so far.

        Args:
            X: Array-like `[rows, features]`.
            y: Array-like `[rows]`; for a regressor also `[rows, outputs]`.
            **kwargs: Passed to `model.fit`. They take precedence over
                `fit_kwargs`, for this call only. The targets of a tuple
                `validation_data` are treated as `y`.

        Returns:
            The estimator.
        """
        before = dict(vars(self))
        try:
            X, y = self._check_training_data(X, y)
            seed = seed_of(self.random_state)
            with seeded(None if self.random_state is None else seed):
                model = self._model_to_train(X, self._targets_of_builder(y))
                self._try_out(model, X[:1], seed)
                arguments = self._arguments_of_fit(model, kwargs)
                self.history_ = model.fit(
                    X, self._targets_of(model, y), **arguments
                )
            self.model_ = model
            self.seed_ = seed
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _model_to_train(self, X: Any, y: Any) -> Any:
        """Returns a compiled model: a new one, or the last one's."""
        if self.warm_start and hasattr(self, "model_"):
            return self.model_
        if isinstance(self.model, keras.Model):
            model = keras.models.clone_model(self.model)
            if self.model.compiled and not model.compiled:
                # Old versions of Keras clone the layers alone.
                model.compile_from_config(self.model.get_compile_config())
            if self.warm_start:
                model.set_weights(self.model.get_weights())
        elif callable(self.model):
            model = self.model(X=X, y=y, **self._dict("model_kwargs"))
        else:
            raise invalid(
                "model",
                self.model,
                "a `keras.Model` or a function that returns one",
            )
        if not isinstance(model, keras.Model):
            raise BayesdropError(
                "The function `model` returned something else. Expected a "
                f"compiled `keras.Model`. Received: {type(model).__name__}"
            )
        loss, optimizer = (
            getattr(model, name, None) for name in ("loss", "optimizer")
        )
        if not (model.compiled and loss and optimizer):
            raise BayesdropError(
                f"Model `{model.name}` cannot be trained. Expected a model "
                "compiled with an optimizer and a loss. Received: "
                f"optimizer={optimizer!r}, loss={loss!r}"
            )
        return model

    def _try_out(self, model: Any, row: Any, seed: int) -> None:
        """Predicts a row; raises unless the outputs suit the targets."""
        if not model.built:
            model(row)
        with warnings.catch_warnings():
            # Warnings about the values belong to the trained model.
            warnings.simplefilter("ignore", BayesdropWarning)
            p = self._predict(model, row, seed)
        if not isinstance(p, Predictive):
            raise BayesdropError(
                f"Model `{model.name}` has several outputs. Expected one "
                f"output. Received: {len(keras.tree.flatten(p))}"
            )
        self._check_outputs(p)

    def _arguments_of_fit(
        self, model: Any, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """Returns the keyword arguments of `model.fit`."""
        arguments = dict(self._dict("fit_kwargs"))
        if "callbacks" in arguments:
            # A callback remembers a fit; a parameter must not change.
            arguments["callbacks"] = copy.deepcopy(arguments["callbacks"])
        arguments.update(kwargs)
        data = arguments.get("validation_data")
        if data is not None:
            arguments["validation_data"] = self._validation_data(model, data)
        return arguments

    def _validation_data(self, model: Any, data: Any) -> tuple[Any, ...]:
        """Treats validation data as training data."""
        if not isinstance(data, (tuple, list)) or len(data) not in (2, 3):
            raise BayesdropError(
                "Invalid value for argument `validation_data`. Expected "
                "(X, y) or (X, y, sample_weight), whose targets are encoded "
                f"as those of `fit`. Received: {type(data).__name__}"
            )
        X = validate_data(self, data[0], reset=False)
        y = np.asarray(data[1])
        if len(y) != len(X):
            raise BayesdropError(
                "`validation_data` does not fit together. Expected as many "
                f"targets as rows. Received: {len(X)} rows, {len(y)} targets"
            )
        return X, self._targets_of(model, y), *data[2:]

    # Prediction.

    def predict_with_uncertainty(
        self,
        X: Any,
        *,
        quantiles: Sequence[float] | None = None,
        return_samples: Any = False,
    ) -> Predictive:
        """Predicts with the trained model and says how sure it is.

        It is `keras_bayesdrop.predict_with_uncertainty` of `model_`, with the
        parameters of the estimator and the seed `seed_`.

        Args:
            X: Array-like `[rows, features]`.
            quantiles: Levels in `[0, 1]` to estimate.
            return_samples: Whether to keep all samples, or the path of a
                `.npy` file to write them to.

        Returns:
            A `Predictive`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        p: Predictive = self._predict(
            self.model_,
            X,
            self.seed_,
            quantiles=quantiles,
            return_samples=return_samples,
        )
        return p

    def _predict(self, model: Any, X: Any, seed: int, **options: Any) -> Any:
        return predict_with_uncertainty(
            model,
            X,
            self.num_samples,
            batch_size=self.batch_size,
            seed=seed,
            method=self.method,
            head=self.head,
            verbose=0,
            **options,
        )

    # Targets: the part of each estimator.

    def _check_training_data(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Checks `X` and `y`, and learns what the targets look like."""
        raise NotImplementedError

    def _targets_of_builder(self, y: Any) -> npt.NDArray[Any]:
        """Returns the targets `[rows, outputs]` for the function `model`."""
        raise NotImplementedError

    def _targets_of(self, model: Any, y: Any) -> npt.NDArray[Any]:
        """Returns the targets in the form that the model's loss takes."""
        raise NotImplementedError

    def _check_outputs(self, p: Predictive) -> None:
        """Raises unless a prediction of one row suits the targets."""
        raise NotImplementedError
