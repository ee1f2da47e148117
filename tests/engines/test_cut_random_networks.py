# SPDX-License-Identifier: Apache-2.0
"""Cut convolutions of random small networks, against the reference engine."""

import keras
import numpy as np
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_bayesdrop.engines import Reference
from keras_bayesdrop.engines.fused import Fused
from keras_bayesdrop.plan import CutStep
from keras_bayesdrop.plan import build_plan
from tests.engines.both_engines import assert_close
from tests.engines.both_engines import draws
from tests.engines.both_engines import run
from tests.engines.cut_models import moved

layers = keras.layers

ONE_VALUE = {
    "conv": lambda width: layers.Conv2D(width, 3, padding="same"),
    "relu conv": lambda width: layers.Conv2D(
        width, 2, padding="same", activation="relu"
    ),
    "pointwise": lambda width: layers.Conv2D(width, 1, use_bias=False),
    "depthwise": lambda width: layers.DepthwiseConv2D(3, padding="same"),
    "noise": lambda width: layers.SpatialDropout2D(width / 40),
    "entries": lambda width: layers.Dropout(0.3),
    "relu": lambda width: layers.ReLU(),
    "sigmoid": lambda width: layers.Activation("sigmoid"),
    "normalized": lambda width: layers.BatchNormalization(),
    "centered": lambda width: layers.LayerNormalization(),
    "pool": lambda width: layers.MaxPooling2D(2, 1, "same"),
}
TWO_VALUES = {
    "add": layers.Add,
    "multiply": layers.Multiply,
    "join": layers.Concatenate,
}
steps = st.lists(
    st.tuples(
        st.sampled_from([*ONE_VALUE, *TWO_VALUES, "noise", "conv"]),
        st.sampled_from([8, 20, 33]),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    min_size=3,
    max_size=12,
)


def grow(recipe):
    """Builds a network: each layer takes one or two of the last values."""
    inputs = keras.Input((4, 3, 20))
    values = [layers.SpatialDropout2D(0.5)(inputs)]
    for kind, width, one, other in recipe:
        x = values[-1 - one % len(values)]
        if kind in ONE_VALUE:
            values.append(ONE_VALUE[kind](width)(x))
            continue
        y = values[-1 - other % len(values)]
        if kind != "join" and x.shape[-1] != y.shape[-1]:
            y = layers.Conv2D(x.shape[-1], 1)(y)
        values.append(TWO_VALUES[kind]()([x, y]))
    return keras.Model(inputs, [values[-1], values[len(values) // 2]])


@settings(max_examples=25, deadline=None)
@given(recipe=steps, seed=st.integers(0, 2**32))
def test_random_networks(recipe, seed):
    model = moved(grow(recipe), seed)
    plan = build_plan(model)
    x = np.random.default_rng(seed).normal(size=(2, 4, 3, 20))
    drawn = draws(num_rows=2, shared=True)
    desired = run(Reference(), plan, x.astype("float32"), drawn)
    least_rows = CutStep.least_rows
    CutStep.least_rows = lambda self, thresholds: 0.0
    try:
        actual = run(Fused(None, ()), plan, x.astype("float32"), drawn)
    finally:
        CutStep.least_rows = least_rows
    # Sums of at most a few hundred products, some layers deep.
    assert_close(actual, desired, rtol=1e-4)
