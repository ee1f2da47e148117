# SPDX-License-Identifier: Apache-2.0
"""Hand-made dropout, spelled in every way that users write it.

Bodies are written out, since the spelling is what a search for noise may miss.
"""

import functools
from typing import Any

import keras
from keras.random import dropout as imported_dropout
from keras.src import backend
from keras.src.backend.tensorflow.random import dropout as captured_dropout

layers = keras.layers
ops = keras.ops


class Rated(layers.Layer):
    """Holds a rate, and a seed generator of its own if asked to."""

    def __init__(self, rate: float, seeded: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.seed = keras.random.SeedGenerator() if seeded else None
        self.supports_masking = True


class ByModule(Rated):
    def call(self, x, training=None):
        if training:
            return keras.random.dropout(x, self.rate, seed=self.seed)
        return x


class ByImportedName(Rated):
    def call(self, x, training=False):
        return imported_dropout(x, self.rate, seed=self.seed) if training else x


class ByAttribute(Rated):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fn = keras.random.dropout

    def call(self, x, training=None):
        return self.fn(x, self.rate, seed=self.seed) if training else x


class ByGetattr(Rated):
    def call(self, x, training=None):
        draw = getattr(keras.random, "drop" + "out")
        return draw(x, self.rate, seed=self.seed) if training else x


class ByPartial(Rated):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fn = functools.partial(
            keras.random.dropout, rate=self.rate, seed=self.seed
        )

    def call(self, x, training=None):
        return self.fn(x) if training else x


class _Helper:
    def __init__(self, rate: float, seed: Any) -> None:
        self.rate, self.seed = rate, seed

    def disturb(self, x: Any) -> Any:
        return keras.random.dropout(x, self.rate, seed=self.seed)


class ByHelper(Rated):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.helper = _Helper(self.rate, self.seed)

    def call(self, x, training=None):
        return self.helper.disturb(x) if training else x


class ByImportInside(Rated):
    def call(self, x, training=None):
        from keras.random import dropout as drop

        return drop(x, self.rate, seed=self.seed) if training else x


class ByMethod(Rated):
    def call(self, x, training=None):
        return self.disturb(x) if training else x

    def disturb(self, x):
        return keras.random.dropout(x, self.rate, seed=self.seed)


class ByClosure(Rated):
    def call(self, x, training=None):
        def disturb(x):
            return keras.random.dropout(x, self.rate, seed=self.seed)

        return disturb(x) if training else x


class BySuper(ByModule):
    def call(self, x, training=None):
        return super().call(x, training=training)


class ByBackend(Rated):
    def call(self, x, training=None):
        if training and self.rate > 0:
            return backend.random.dropout(x, self.rate, seed=self.seed)
        return x


class ByNoiseShape(Rated):
    """One mask for all places of a row."""

    def call(self, x, training=None):
        if not training:
            return x
        shape = (ops.shape(x)[0], *[1] * (len(x.shape) - 2), x.shape[-1])
        return keras.random.dropout(
            x, self.rate, noise_shape=shape, seed=self.seed
        )


class OwnDropout(layers.Dropout):
    """A Dropout whose `call` was written anew."""

    def call(self, inputs, training=False):
        if training and self.rate > 0:
            kept = keras.random.dropout(
                inputs, self.rate, seed=self.seed_generator
            )
            return kept + 0.0 * inputs
        return inputs


SPELLINGS = {
    cls.__name__: cls
    for cls in (
        ByModule,
        ByImportedName,
        ByAttribute,
        ByGetattr,
        ByPartial,
        ByHelper,
        ByImportInside,
        ByMethod,
        ByClosure,
        BySuper,
        ByBackend,
        ByNoiseShape,
    )
}


class ByCapturedFunction(Rated):
    """Took the backend's own function before anything could replace it."""

    def call(self, x, training=None):
        return captured_dropout(x, self.rate, seed=self.seed) if training else x


class ByFixedSeed(Rated):
    """The same mask at every call: no noise at all."""

    def call(self, x, training=None):
        return keras.random.dropout(x, self.rate, seed=5) if training else x
