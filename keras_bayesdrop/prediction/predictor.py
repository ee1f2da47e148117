# SPDX-License-Identifier: Apache-2.0
"""A prediction with uncertainty that is prepared once and called often."""

import os
import time
from collections.abc import Sequence
from typing import Any

import keras

from keras_bayesdrop._core.renamed import refuse_old_keywords
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.prediction.methods import Method
from keras_bayesdrop.prediction.prepared import Prepared
from keras_bayesdrop.prediction.request import OLD_KEYWORDS
from keras_bayesdrop.prediction.request import Arguments


class Predictor:
    """Predicts with uncertainty, prepared once and called often.

        Predictor(model, T, ...)(x) = predict_with_uncertainty(model, x, T, ...)

    Both give the same numbers, bit for bit. A predictor checks its arguments,
    reads the model, plans, decides about heads and compiles once, so that a
    call with one row takes little longer than the network itself. It is meant
    for loops that ask for a few rows at a time: control, bandits, a server.

    - It sees new weights, and notices all changes of the model that
      `predict_with_uncertainty` notices: a rate, a layer, an activation,
      `compile`. The next call reads the model again.
    - Arrays and tensors of a shape that came before take the short way.
      Others, and streams, take the way of `predict_with_uncertainty`. The
      first call with a shape compiles.
    - Threads may share it.
    - It keeps its model alive. A pickle of it holds the model, and prepares
      again.
    - What `predict_with_uncertainty` warns of at each call (samples that
      repeat, noise out of reach, rows that influence each other), it warns of
      when it prepares. What depends on the numbers is checked at each call.

    Args:
        model: A built Keras model, or a list of them, an ensemble.
        num_samples: As in `predict_with_uncertainty`, like all that follow.
        batch_size: As there.
        seed: As there. By default each call draws a seed of its own.
        method: As there.
        head: As there.
        layers: As there. A predicate is asked when the model is read.
        quantiles: As there.
        return_samples: As there. A file is written anew by each call.
        first_row: As there.
        allow_hidden_noise: As there.

    Example:
    ```python
    predictor = keras_bayesdrop.Predictor(model, num_samples=50, seed=0)
    for row in x[:3]:
        p = predictor(row[None])
        p.mean, p.std
    predictor(x[:1], seed=1)  # other masks; compiles nothing
    ```

    References:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142).
    """

    @refuse_old_keywords(OLD_KEYWORDS)
    def __init__(
        self,
        model: keras.Model | Sequence[keras.Model],
        num_samples: int = 50,
        *,
        batch_size: int | None = None,
        seed: int | None = None,
        method: str | Method = "sampling",
        head: Any = "auto",
        layers: LayerSelection = None,
        quantiles: Sequence[float] | None = None,
        return_samples: bool | str | os.PathLike[str] = False,
        first_row: int = 0,
        allow_hidden_noise: bool = False,
    ) -> None:
        arguments = Arguments(
            num_samples=num_samples,
            batch_size=batch_size,
            seed=seed,
            method=method,
            head=head,
            layers=layers,
            quantiles=quantiles,
            return_samples=return_samples,
            first_row=first_row,
            allow_hidden_noise=allow_hidden_noise,
        )
        self.model = model
        self._prepared = Prepared(model, arguments)

    def __call__(
        self,
        x: Any,
        *,
        seed: int | None = None,
        first_row: int | None = None,
        verbose: str | int = 0,
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """Predicts all rows of `x`.

        Args:
            x: Whatever `model.predict` takes.
            seed: In place of the predictor's seed, for this call.
            first_row: In place of the predictor's first row, for this call.
            verbose: As in `predict_with_uncertainty`. Defaults to `0`.
            steps: As in `predict_with_uncertainty`.
            callbacks: As in `predict_with_uncertainty`.

        Returns:
            A `Predictive`, or a structure of them like the model's outputs.
        """
        began = time.perf_counter()
        plain = verbose == 0 and steps is None and callbacks is None
        if plain:
            result = self._prepared.repeat(x, began, seed, first_row)
            if result is not None:
                return result
        return self._prepared.predict(
            x,
            began,
            seed=seed,
            first_row=first_row,
            verbose=verbose,
            steps=steps,
            callbacks=callbacks,
            remember=plain,
        )

    def __repr__(self) -> str:
        """Short summary."""
        arguments = self._prepared.arguments
        members = keras.tree.flatten(self.model)
        return (
            f"Predictor(model={[each.name for each in members]}, "
            f"num_samples={arguments.num_samples}, seed={arguments.seed}, "
            f"method={arguments.chosen_method!r})"
        )
