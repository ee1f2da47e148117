# SPDX-License-Identifier: Apache-2.0
"""Layers with noise on their weights, and models built from them.

An architecture is a function of a `Kit`. With the noisy kit it builds a model
to prune, with the plain kit the same model of Keras layers. `randomize` sets
the kernels of the latter to the kept weights: that is the expected result.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_bayesdrop.sparsity import PlainInside
from keras_bayesdrop.sparsity import SparseSource

THRESHOLD = 3.0


class _Noisy(SparseSource):
    """Adds a log alpha to a layer of Keras, and noise to its output."""

    plain: Any

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)  # type: ignore[misc]
        self.log_alphas = self.add_weight(  # type: ignore[attr-defined]
            shape=self.kernel.shape,  # type: ignore[attr-defined]
            initializer=keras.initializers.Constant(-5.0),
            name="log_alpha",
        )

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return super().call(inputs) + 100.0  # type: ignore[misc]

    def log_alpha(self) -> Any:
        return keras.ops.clip(self.log_alphas, -20.0, 20.0)

    def mean_kernel(self) -> Any:
        return keras.ops.convert_to_tensor(self.kernel)  # type: ignore

    def plain_layer(self) -> Any:
        return self.plain.from_config(self.get_config())  # type: ignore


class NoisyDense(_Noisy, keras.layers.Dense):
    plain = keras.layers.Dense


class NoisyConv1D(_Noisy, keras.layers.Conv1D):
    plain = keras.layers.Conv1D


class NoisyConv2D(_Noisy, keras.layers.Conv2D):
    plain = keras.layers.Conv2D


class NoisyWrapper(PlainInside, keras.layers.Wrapper):
    """A wrapper with a variable of its own."""

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self.rate = self.add_weight(shape=(), name="rate")

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return self.layer(inputs * 7.0)

    def plain_layers(self) -> list[Any]:
        return [self.layer]


class LearnedNoise(PlainInside, keras.layers.Layer):
    """Noise and nothing else, with a variable of its own."""

    def build(self, input_shape: Any) -> None:
        self.rate = self.add_weight(shape=(3,), name="rate")

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return inputs * 7.0

    def plain_layers(self) -> list[Any]:
        return []


class Kit:
    """The layers of an architecture."""

    def __init__(self, noisy: bool) -> None:
        self.noisy = noisy

    def _pick(self, noisy: Any, plain: Any) -> Any:
        return noisy if self.noisy else plain

    def dense(self, *args: Any, **kwargs: Any) -> Any:
        cls = self._pick(NoisyDense, keras.layers.Dense)
        return cls(*args, **kwargs)

    def conv1d(self, *args: Any, **kwargs: Any) -> Any:
        cls = self._pick(NoisyConv1D, keras.layers.Conv1D)
        return cls(*args, **kwargs)

    def conv2d(self, *args: Any, **kwargs: Any) -> Any:
        cls = self._pick(NoisyConv2D, keras.layers.Conv2D)
        return cls(*args, **kwargs)

    def wrapped(self, layer: Any, **kwargs: Any) -> Any:
        return NoisyWrapper(layer, **kwargs) if self.noisy else layer

    def noise(self, **kwargs: Any) -> Any:
        cls = self._pick(LearnedNoise, keras.layers.Identity)
        return cls(**kwargs)


Architecture = Callable[[Kit], Any]


def model_and_answer(
    architecture: Architecture, seed: int = 0, **settings: float
) -> tuple[Any, Any]:
    """Returns a model with noise, and the plain one that it should become."""
    model = architecture(Kit(noisy=True))
    answer = architecture(Kit(noisy=False))
    randomize(model, answer, seed, **settings)
    return model, answer


def randomize(
    model: Any,
    answer: Any,
    seed: int,
    weights: float = 0.3,
    units: float = 0.4,
    inputs: float = 0.3,
) -> None:
    """Gives two models random weights, zero in one where noise in the other.

    Args:
        model: The model with noise.
        answer: The same in layers of Keras.
        seed: Seed of all draws.
        weights: Share of single weights that become noise.
        units: Share of units that lose all incoming weights.
        inputs: Share of channels that lose all outgoing weights.
    """
    rng = np.random.default_rng(seed)
    ours, theirs = _weighted_layers(model), _weighted_layers(answer)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(mine, SparseSource):
            kernel = rng.normal(size=mine.kernel.shape)
            gone = rng.uniform(size=kernel.shape) < weights
            gone |= rng.uniform(size=kernel.shape[-1:]) < units
            gone |= rng.uniform(size=(*kernel.shape[-2:-1], 1)) < inputs
            if gone.all():
                gone.flat[0] = False
            mine.kernel.assign(kernel)
            # On both sides of the threshold, and on it.
            edge = rng.choice([THRESHOLD, -8.0, 2.9], size=kernel.shape)
            mine.log_alphas.assign(np.where(gone, THRESHOLD + 0.1, edge))
            other.kernel.assign(np.where(gone, 0.0, kernel))
            if mine.use_bias:
                bias = rng.normal(size=mine.bias.shape)
                mine.bias.assign(bias)
                other.bias.assign(bias)
            continue
        for a, b in zip(mine.weights, other.weights, strict=True):
            positive = "variance" in a.path
            value = rng.normal(size=a.shape)
            value = np.exp(value) if positive else value
            a.assign(value)
            b.assign(value)


def _weighted_layers(model: Any) -> list[Any]:
    """Returns layers with weights and without layers inside, each once."""
    layers: list[Any] = []
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            inside = _weighted_layers(layer)
        elif isinstance(layer, (NoisyWrapper, keras.layers.TimeDistributed)):
            inside = [layer.layer]
        elif isinstance(layer, LearnedNoise) or not layer.weights:
            continue
        else:
            inside = [layer]
        layers += [
            each for each in inside if all(each is not f for f in layers)
        ]
    return layers


def inputs_for(model: Any, rows: int = 6, seed: int = 1) -> Any:
    """Returns random inputs in the structure of a model's inputs."""
    rng = np.random.default_rng(seed)

    def draw(tensor: Any) -> Any:
        return rng.normal(size=(rows, *tensor.shape[1:])).astype("float32")

    row = isinstance(model, keras.Sequential)
    return keras.tree.map_structure(
        draw, model.inputs[0] if row else model.input
    )


def outputs(model: Any, x: Any) -> list[Any]:
    """Returns what a model predicts, as a list of arrays."""
    values = keras.tree.flatten(model(x))
    return [np.asarray(each, np.float64) for each in values]


def assert_same(model: Any, answer: Any, tolerance: float = 1e-5) -> None:
    """Asserts that two models predict the same, relative to its size."""
    x = inputs_for(answer)
    actual, expected = outputs(model, x), outputs(answer, x)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape
        scale = max(1.0, np.abs(other).max())
        assert np.abs(one - other).max() <= tolerance * scale


def looks_at_its_input(model: Any) -> bool:
    """Returns whether some output differs between examples."""
    values = outputs(model, inputs_for(model))
    return any(np.ptp(each, axis=0).max() > 1e-3 for each in values)


def units(model: Any) -> dict[str, int]:
    """Returns the number of units of every layer with a kernel."""
    return {
        layer.name: layer.kernel.shape[-1]
        for layer in model.layers
        if hasattr(layer, "kernel")
    }


def noisy_sequential(*middle: Any, units: int = 3) -> keras.Model:
    """Returns a built Sequential: a noisy layer, and further layers."""
    model = keras.Sequential(
        [keras.Input((4,), name="x"), NoisyDense(units, name="noisy"), *middle]
    )
    return model
