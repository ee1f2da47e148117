# SPDX-License-Identifier: Apache-2.0
"""One function from the posterior for each episode."""

import random
from collections.abc import Iterator

import keras

from keras_bayesdrop._core import private_keras
from keras_bayesdrop._core.validate import check_int
from keras_bayesdrop._core.validate import check_model
from keras_bayesdrop.decisions.posterior_function import PosteriorFunction
from keras_bayesdrop.errors import NothingToSampleError
from keras_bayesdrop.graph.sites import LayerSelection
from keras_bayesdrop.graph.sites import select_sites
from keras_bayesdrop.graph.source import source_of
from keras_bayesdrop.graph.survey import find_sites
from keras_bayesdrop.random.philox import LAST_SAMPLE


class ThompsonSampler:
    """Hands out one function from the posterior per episode.

        f[e](x) = model(x; mask[e]),    action = argmax{ f[e](x)[a] : a }

    To act as if one function were the truth tries each action as often as it
    is believed to be the best: that explores where the model is unsure and
    nowhere else (Thompson sampling). Within an episode the function stays the
    same, so that a plan of several steps is consistent.

    The function of episode `e` is sample number `e` of
    `predict_with_uncertainty(model, x, seed=seed)`. Nothing is compiled for a
    new episode, and training in between needs no new sampler.

    A sampler is an endless iterator. It can be pickled, with its model; or
    go on elsewhere by `ThompsonSampler(model, seed=s.seed, episode=s.episode)`.

    Args:
        model: A built Keras model with dropout.
        seed: Any integer. By default drawn at random.
        episode: Number of the next episode. Defaults to `0`.
        layers: Which noise sites are active, as in `stochastic`.

    Example:
    ```python
    sampler = ThompsonSampler(model, seed=0)
    for x in contexts:
        action = sampler.sample()(x).argmax(axis=-1)
    ```

    References:
        - Thompson, 1933: On the likelihood that one unknown probability
          exceeds another. Biometrika 25.
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142), section
          5.3.
    """

    def __init__(
        self,
        model: keras.Model,
        seed: int | None = None,
        episode: int = 0,
        layers: LayerSelection = None,
    ) -> None:
        private_keras.require_tensorflow()
        check_model(model)
        model, layers = source_of(model, layers)
        sites = find_sites(model)
        chosen = select_sites(layers, sites)
        if not any(s.noise.active and s.path in chosen for s in sites):
            raise NothingToSampleError(
                f"Model `{model.name}` has no active noise: all functions "
                "would be the same. Expected at least one dropout layer with "
                "a rate above 0. Received: "
                f"{[layer.name for layer in model.layers]}"
            )
        self.model = model
        self.seed = (
            random.getrandbits(63) if seed is None else check_int(seed, "seed")
        )
        self.episode = check_int(episode, "episode", 0, LAST_SAMPLE)
        self.layers = layers

    def sample(self) -> PosteriorFunction:
        """Returns the function of the next episode."""
        function = PosteriorFunction(
            self.model, self.seed, self.episode, self.layers
        )
        self.episode += 1
        return function

    def __next__(self) -> PosteriorFunction:
        """The same as `sample`."""
        return self.sample()

    def __iter__(self) -> Iterator[PosteriorFunction]:
        """Iterates over episodes, without end."""
        return self

    def __repr__(self) -> str:
        """Short summary."""
        return (
            f"ThompsonSampler(model={self.model.name!r}, seed={self.seed}, "
            f"episode={self.episode})"
        )
