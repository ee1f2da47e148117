# SPDX-License-Identifier: Apache-2.0
"""Takes moments through a model, outside of any prediction."""

import tensorflow as tf

from keras_bayesdrop.graph.survey import survey
from keras_bayesdrop.moments.propagate import Pass


def pass_of(model, full, done=(), chosen=None):
    """A pass with all noise sites on, or with those that are chosen."""
    surveyed = survey(model)
    if chosen is None:
        chosen = {site.path for site in surveyed.sites}
    return Pass(surveyed.graph, chosen, full, done)


def moments_of(model, x, full, chosen=None):
    """Mean, variance and, if full, covariance of the only output.

    Args:
        model: The model.
        x: Its input, or a list of inputs.
        full: Whether to carry covariances.
        chosen: Paths of the noise sites that are on, by default all.
    """
    run = pass_of(model, full, chosen=chosen)
    inputs = x if isinstance(x, list) else [x]
    known = dict(zip(run.graph.inputs, map(tf.constant, inputs), strict=True))
    (found,) = run.run(known)
    (output,) = run.graph.outputs
    between = run.joint.get(output, output) if full else None
    return found.mean.numpy(), found.spread().numpy(), between
