"""Sums in nested form: the same numbers, fewer operations."""

import numpy as np
import pytest
import torch

from vpintegrator.compiled.regrouping import regrouped
from vpintegrator.compiled.scalar_graph import ScalarGraph
from vpintegrator.compiled.tracing import Trace, trace
from vpintegrator.models import VolumePreservingFeedForward

from .conftest import BODY, build
from .test_differentiation import evaluate


@pytest.fixture
def graph():
    return ScalarGraph()


def counts(trace):
    """How many of each operation depend on the window."""
    graph, needed, waiting = trace.graph, set(), list(trace.outputs)
    while waiting:
        n = waiting.pop()
        if n not in needed:
            needed.add(n)
            waiting += graph.arguments(n)
    names = [graph.nodes[n][0] for n in needed if graph.varies[n]]
    return {name: names.count(name) for name in set(names) - {"input"}}


def outputs(trace, generator):
    """Values of the outputs at random leaves."""
    values = generator.normal(size=(2, 10_000))
    leaves = {
        node: torch.tensor(values[int(node[0] == "input"), node[1]])
        for node in trace.graph.nodes
        if node[0] in ("input", "parameter")
    }
    results = evaluate(trace.graph, leaves)
    return np.array([results[n] for n in trace.outputs])


def total(graph, terms):
    result = terms[0]
    for term in terms[1:]:
        result = graph.add(result, term)
    return result


def test_a_polynomial_is_nested(graph):
    x, y = graph.input(0), graph.input(1)
    a, b, c, d = map(graph.parameter, range(4))
    monomials = [x, graph.mul(x, x), graph.mul(x, y), graph.mul(graph.mul(x, x), y)]
    terms = [graph.mul(w, m) for w, m in zip((a, b, c, d), monomials, strict=True)]
    before = Trace(graph, [total(graph, terms)], [])
    after = regrouped(before)
    # x (a + x (b + d y) + c y)
    assert counts(after) == {"mul": 4, "add": 3}
    for seed in range(3):
        expected, found = (outputs(t, np.random.default_rng(seed)) for t in (before, after))
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_what_the_terms_are_added_to_is_rounded_once(graph):
    z, x, y = map(graph.input, range(3))
    a, b = graph.parameter(0), graph.parameter(1)
    product = graph.mul(graph.mul(x, y), a)
    sum_ = graph.sub(graph.sub(z, product), graph.mul(b, graph.mul(x, x)))
    after = regrouped(Trace(graph, [sum_], []))
    operation, first, second = after.graph.nodes[after.outputs[0]]
    assert operation == "sub"
    assert after.graph.nodes[first] == ("input", 0)
    assert after.graph.nodes[second][0] == "mul"


def test_sums_without_weights_keep_their_order(graph):
    x, y = graph.input(0), graph.input(1)
    big = graph.mul(graph.constant(1e16), x)
    compensated = graph.sub(graph.sub(graph.add(big, y), big), y)
    before = Trace(graph, [compensated], [])
    assert regrouped(before) is before


@pytest.mark.parametrize("name", ["vpff", "published", "polynomials"])
def test_models_give_the_same_numbers_with_no_more_operations(name):
    before = trace(build(name), frozen=True)
    after = regrouped(before)
    assert sum(counts(after).values()) <= sum(counts(before).values())
    expected, found = (outputs(t, np.random.default_rng(0)) for t in (before, after))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_a_step_of_the_rigid_body_takes_few_operations_and_no_division():
    """Twelve shears of six terms: with multiply-adds half as many instructions."""
    model = VolumePreservingFeedForward(
        dim=3, depth=2, functions="polynomial", degree=6, reversing_symmetries=BODY
    )
    model.set_normalisation(0.0, 0.6)
    found = counts(regrouped(trace(model, frozen=True)))
    assert "div" not in found
    assert sum(found.values()) <= 275
