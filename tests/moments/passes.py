# SPDX-License-Identifier: Apache-2.0
"""Propagates moments through a model, without a prediction."""

import tensorflow as tf

from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.moments.propagate import Pass


def pass_of(model, full, done=(), chosen=None):
    """Returns a pass with all noise sites on, or with the chosen ones."""
    surveyed = survey(model)
    if chosen is None:
        chosen = {site.path for site in surveyed.sites}
    return Pass(surveyed.graph, chosen, full, done)


def moments_of(model, x, full, chosen=None):
    """Returns mean, variance and, if full, covariance of the only output.

    Args:
        model: The model.
        x: Its input, or a list of inputs.
        full: Whether to carry covariances.
        chosen: Paths of the noise sites that are on, by default all.
    """
    run = pass_of(model, full, chosen=chosen)
    inputs = x if isinstance(x, list) else [x]
    known = dict(zip(run.graph.inputs, map(tf.constant, inputs), strict=True))
    (moments,) = run.run(known)
    (output,) = run.graph.outputs
    between = run.covariances.get(output, output) if full else None
    return moments.mean.numpy(), moments.spread().numpy(), between
