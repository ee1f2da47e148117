# SPDX-License-Identifier: Apache-2.0
"""Plans of small models, and the chains in them."""

import keras

from keras_bayesdrop.plan import ChainStep
from keras_bayesdrop.plan import build_plan

layers = keras.layers


def plan_of(*stack, shape=(6,), dtype=None, **kwargs):
    """Plans a Sequential model, its layers named a, b, c..."""
    for letter, layer in zip("abcdefghijklmnop", stack, strict=False):
        layer.name = letter
    inputs = keras.Input(shape, dtype=dtype)
    return build_plan(keras.Sequential([inputs, *stack]), **kwargs)


def chains_of(plan):
    return [step for step in plan.fusion.steps if isinstance(step, ChainStep)]


def members(chain):
    return "".join(step.path for step in chain.steps)


def reasons(plan):
    return {
        step.path: why
        for step, why in zip(plan.suffix, plan.fusion.why_not, strict=True)
        if why
    }


def dropout(rate=0.5, **kwargs):
    return layers.Dropout(rate, **kwargs)


def dense(units=6, activation=None, **kwargs):
    return layers.Dense(units, activation, **kwargs)
