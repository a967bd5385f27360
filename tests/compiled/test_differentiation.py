"""Adjoints of random scalar graphs against PyTorch's."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vpintegrator.compiled.scalar_graph import ScalarGraph, adjoints

UNARY = ("negative", "tanh", "exp", "log1p", "sqrt", "sin", "cos", "erf")
BINARY = ("add", "sub", "mul", "div", "maximum")
INPUTS, WEIGHTS = 2, 3


@st.composite
def graphs(draw):
    """A graph, some of its nodes as results, and values for its leaves."""
    graph = ScalarGraph()
    nodes = [graph.input(i) for i in range(INPUTS)] + [graph.parameter(i) for i in range(WEIGHTS)]
    nodes.append(graph.constant(draw(st.sampled_from([0.0, 0.5, -1.0, 3.0]))))
    for _ in range(draw(st.integers(1, 25))):
        operation = draw(st.sampled_from(UNARY + BINARY))
        a, b = draw(st.sampled_from(nodes)), draw(st.sampled_from(nodes))
        positive = graph.add(graph.constant(1.5), graph.apply("sin", b))
        if operation == "div":
            nodes.append(graph.div(a, positive))
        elif operation in ("sqrt", "log1p"):
            nodes.append(graph.apply(operation, positive))
        elif operation == "exp":
            nodes.append(graph.apply("exp", graph.apply("tanh", a)))
        elif operation in BINARY:
            nodes.append(getattr(graph, operation)(a, b))
        else:
            nodes.append(
                graph.negative(a) if operation == "negative" else graph.apply(operation, a)
            )
    results = [draw(st.sampled_from(nodes)) for _ in range(draw(st.integers(1, 3)))]
    numbers = st.floats(-2, 2, allow_subnormal=False).filter(lambda x: abs(x) > 1e-3)
    return graph, results, [draw(numbers) for _ in range(INPUTS + WEIGHTS + len(results))]


def evaluate(graph, leaves):
    """Every node as a tensor; ``leaves`` by node."""
    values = []
    for node in graph.nodes:
        operation, *arguments = node
        if node in leaves:
            values.append(leaves[node])
        elif operation == "constant":
            values.append(torch.tensor(arguments[0], dtype=torch.float64))
        else:
            values.append(getattr(torch, operation)(*(values[a] for a in arguments)).double())
    return values


@given(graphs())
def test_against_autograd(case):
    graph, results, numbers = case
    leaves = {("input", i): numbers[i] for i in range(INPUTS)}
    leaves |= {("parameter", i): numbers[INPUTS + i] for i in range(WEIGHTS)}
    leaves = {k: torch.tensor(v, dtype=torch.float64).requires_grad_() for k, v in leaves.items()}
    weights = numbers[INPUTS + WEIGHTS :]
    values = evaluate(graph, leaves)
    total = sum(w * values[n] for w, n in zip(weights, results, strict=True))
    if not torch.isfinite(total) or abs(total) > 1e6:
        return
    leads = [leaves[node] for node in leaves]
    expected = (
        torch.autograd.grad(total, leads, allow_unused=True, materialize_grads=True)
        if total.requires_grad
        else [torch.zeros(()) for _ in leads]
    )
    count = len(graph.nodes)
    seeds = [graph.input(INPUTS + i) for i in range(len(results))]
    wanted = [graph.input(i) for i in range(INPUTS)] + [graph.parameter(i) for i in range(WEIGHTS)]
    found = adjoints(graph, zip(results, seeds, strict=True), wanted)
    leaves |= {
        ("input", INPUTS + i): torch.tensor(w, dtype=torch.float64) for i, w in enumerate(weights)
    }
    with torch.no_grad():
        values = evaluate(graph, leaves)
    # the largest number on the way says how much rounding there may be
    size = max([1.0, *(abs(v.item()) for v in values)])
    if size > 1e8 or ties(graph, values[:count]):
        return
    for n, e in zip(found, expected, strict=True):
        assert float(values[n]) == pytest.approx(float(e), rel=1e-9, abs=1e-12 * size)


def ties(graph, values):
    """Whether a maximum is taken of equal numbers, where derivatives are a convention."""
    nodes = graph.nodes[: len(values)]
    return any(n[0] == "maximum" and values[n[1]] == values[n[2]] for n in nodes)
