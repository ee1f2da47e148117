# SPDX-License-Identifier: Apache-2.0
"""Decides how much of the noise is sampled before a closed form goes on."""

from typing import Any

from keras_bayesdrop._core import private_keras
from keras_bayesdrop.errors import PlanError
from keras_bayesdrop.graph.cache import facts
from keras_bayesdrop.graph.read import Graph
from keras_bayesdrop.moments.propagate import rules_of
from keras_bayesdrop.moments.propagate import without_rules
from keras_bayesdrop.plan import Plan
from keras_bayesdrop.plan import before_last_noise
from keras_bayesdrop.plan import plan_of_part
from keras_bayesdrop.plan import up_to
from keras_bayesdrop.plan import without_noise
from keras_bayesdrop.prediction.closed_form.limits import is_narrow
from keras_bayesdrop.prediction.closed_form.readout import ClosedFormReadout
from keras_bayesdrop.prediction.closed_form.readout import SampledPart
from keras_bayesdrop.prediction.closed_form.readout import remaining_nodes
from keras_bayesdrop.prediction.closed_form.run import MomentsRun
from keras_bayesdrop.prediction.methods.base import Job
from keras_bayesdrop.prediction.methods.base import Run
from keras_bayesdrop.prediction.methods.moments import Moments
from keras_bayesdrop.prediction.methods.rao_blackwell import RaoBlackwell
from keras_bayesdrop.prediction.methods.sampling import Sampled
from keras_bayesdrop.prediction.methods.sampling import Sampling
from keras_bayesdrop.prediction.sampling.run import SamplingRun
from keras_bayesdrop.predictive.heads import NoisyLogits


def start_moments(job: Job, method: Moments, fallback: Sampling | None) -> Run:
    """Starts a prediction by moments.

    Args:
        job: The prediction.
        method: The choices.
        fallback: How to sample up to layers without a rule, if at all.
    """
    graph = _open(job)
    nodes = without_noise(graph, job.plan)
    full = method.covariance == "full"
    if fallback is None:
        return _start(job, graph, nodes, frozenset(), full, "moments", None)
    missing = _nodes_without_rules(job.model, graph, job.plan, full)
    nodes |= up_to(graph, missing)
    return _start(job, graph, nodes, missing, full, "moments", fallback)


def start_rao_blackwell(job: Job, method: RaoBlackwell) -> Run:
    """Starts a prediction that samples all noise but the last site."""
    graph = _open(job)
    nodes = without_noise(graph, job.plan) | before_last_noise(graph, job.plan)
    full = method.covariance == "full"
    if method.covariance is None:
        full = is_narrow(graph, remaining_nodes(graph, nodes))
    missing = frozenset[int]()
    if method.fallback is not None:
        missing = _nodes_without_rules(job.model, graph, job.plan, full)
        nodes |= up_to(graph, missing)
    return _start(job, graph, nodes, missing, full, method.name, method)


def _open(job: Job) -> Graph:
    """Returns the graph of the model, or raises if it has none."""
    model, graph = job.model, job.surveyed.graph
    if graph is None or private_keras.graph_of(model) is None:
        raise PlanError(
            f"Model `{model.name}` computes in code of its own, which "
            "moments cannot be taken through. Expected a Functional or "
            "Sequential model, or method='sampling'. Received: "
            f"{type(model).__name__}"
        )
    for head in job.heads:
        if isinstance(head, NoisyLogits):
            raise PlanError(
                "The noise of logits has no closed form. Expected "
                f"method='sampling', which draws it. Received: head={head!r}"
            )
    job.plan.require_folding(allow_hidden_noise=True)
    return graph


def _start(
    job: Job,
    graph: Graph,
    nodes: frozenset[int],
    missing: frozenset[int],
    full: bool,
    name: str,
    choices: Sampled | None,
) -> Run:
    """Starts a run that samples some nodes, if they hold any noise.

    Args:
        job: The prediction.
        graph: The graph of its model.
        nodes: Indexes of the nodes to sample.
        missing: Those of them that have no rule.
        full: Whether to carry covariances between units through the rest.
        name: Name of the method in the result.
        choices: How to sample, if there is anything to sample.
    """
    plan = job.plan
    part = plan_of_part(plan, graph, nodes)
    if choices is None or not any(step.random for step in part.suffix):
        return MomentsRun(job, graph, full)
    for value in part.outputs:
        if value in plan.batchless | plan.entries:
            raise PlanError(
                f"Samples of model `{job.model.name}` meet its closed form at "
                "a value without a row for each example. Expected shape "
                "[batch, ...], or method='sampling'. Received: shape "
                f"{tuple(plan.specs[value].shape)}"
            )
    sampled = SampledPart(part, nodes, missing)
    readout = ClosedFormReadout(job, graph, sampled, full, name)
    return SamplingRun(job, choices, part, readout)


def _nodes_without_rules(
    model: Any, graph: Graph, plan: Plan, full: bool
) -> frozenset[int]:
    """Looks for nodes without a rule, once for plans like this one."""
    return facts.get(
        model,
        ("without rules", plan.signature, rules_of(graph), full),
        lambda: frozenset(without_rules(graph, plan.chosen, full)),
    )
