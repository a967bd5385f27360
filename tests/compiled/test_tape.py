"""Tapes: maps of very many operations give the states that PyTorch gives, and NumPy."""

import ctypes

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.compiled import CompiledModel
from vpintegrator.compiled import model as compiled_model
from vpintegrator.compiled.library import Compilation, pointer
from vpintegrator.compiled.scalar_graph import FUNCTIONS, ScalarGraph
from vpintegrator.compiled.tape import Tape

from .conftest import MODELS, assert_same_map, build, windows

INPUTS = 3
NEW = 2
COUNT = 11


@pytest.mark.parametrize("count", [1, COUNT])
@pytest.mark.parametrize("name", MODELS)
def test_equal_to_rounding(monkeypatch, name, count):
    monkeypatch.setattr(compiled_model, "_CODE", 0)
    model = build(name)
    machine = CompiledModel(model, count)
    assert "tape" in machine.source.units[0]
    assert_same_map(machine, model, windows(model, count))


@pytest.mark.parametrize("name", ["vpt", "transformer"])
def test_single_precision(monkeypatch, name):
    monkeypatch.setattr(compiled_model, "_CODE", 0)
    model = build(name, torch.float32)
    assert_same_map(CompiledModel(model, COUNT), model, windows(model, COUNT), rounding=5e-5)


def test_a_long_window_of_attention():
    torch.manual_seed(1)
    model = vp.models.VolumePreservingMultiheadTransformer(
        dim=4, window=16, prediction_window=1, depth=1, width=4
    )
    machine = CompiledModel(model, 2)
    assert "tape" in machine.source.units[0]
    assert_same_map(machine, model, windows(model, 2), calls=20)


def test_values_share_slots():
    graph = ScalarGraph()
    node = x = graph.input(0)
    for _ in range(50):
        node = graph.apply("sin", graph.add(node, x))
    tape = Tape(graph, [node], [x])
    assert tape.slots == 2
    assert (tape.operations, tape.functions) == (50, 50)


OPERATIONS = {
    **dict.fromkeys(("absolute", "negative", "fixed"), 1),
    **dict.fromkeys(("add", "sub", "mul", "div", "maximum", "larger", "bound"), 2),
    **dict.fromkeys(("greater", "equal", "arc_tangent"), 2),
}
# in the domains of all of them
BOUNDED = ("tanh", "sin", "cos", "atan", "erf", "exp", "expm1", "sinh", "cosh")


@st.composite
def graphs(draw):
    """A graph, and the nodes of its outputs."""
    graph = ScalarGraph()
    nodes = [graph.input(i) for i in range(INPUTS)]
    nodes += [graph.constant(draw(st.sampled_from([0.5, -1.5, 3.0]))) for _ in range(2)]
    names = st.sampled_from([*OPERATIONS, *BOUNDED, "where", "sums"])
    for _ in range(draw(st.integers(1, 25))):
        name = draw(names)
        some = [nodes[draw(st.integers(0, len(nodes) - 1))] for _ in range(3)]
        if name == "sums":
            node = graph.sub(graph.mul(some[0], some[1]), graph.mul(some[1], some[2]))
        elif name == "where":
            node = graph.where(graph.greater(some[0], graph.constant(0.25)), some[1], some[2])
        elif name in BOUNDED:
            node = graph.apply(name, graph.apply("tanh", some[0]))
        else:
            node = getattr(graph, name)(*some[: OPERATIONS[name]])
        nodes.append(node)
    return graph, [draw(st.sampled_from(nodes)) for _ in range(NEW - 1)] + [nodes[-1]]


def followed(tape, start):
    """The states that one step gives from windows (trajectory, INPUTS)."""
    library = Compilation(tape.source((INPUTS, NEW, 1), "double", False).units).library()
    data = np.array([tape.code.ctypes.data, tape.numbers.ctypes.data], dtype=np.uintp)
    states = np.empty((len(start), NEW))
    library.run(
        pointer(start.copy()),
        pointer(states),
        pointer(data),
        *map(ctypes.c_long, (len(start), 1, 1)),
    )
    return states


def by_numpy(graph, outputs, start):
    """The same by NumPy, one node after the other."""
    operations = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "negative": np.negative,
        "fixed": np.positive,
        "absolute": np.abs,
        "arc_tangent": np.arctan2,
        "where": lambda c, a, b: np.where(c != 0, a, b),
        "greater": lambda a, b: np.where(a > b, 1.0, 0.0),
        "equal": lambda a, b: np.where(a == b, 1.0, 0.0),
        **dict.fromkeys(("maximum", "larger", "bound"), np.maximum),
        **{name: np.vectorize(each.value) for name, each in FUNCTIONS.items()},
    }
    values = []
    for name, *arguments in graph.nodes:
        if name == "input":
            values.append(start[:, arguments[0]])
        elif name == "constant":
            values.append(np.full(len(start), arguments[0]))
        else:
            values.append(operations[name](*(values[a] for a in arguments)))
    return np.stack([values[n] for n in outputs], axis=1)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_any_graph(drawn):
    graph, outputs = drawn
    start = np.random.default_rng(0).normal(size=(COUNT, INPUTS))
    with np.errstate(all="ignore"):
        expected = by_numpy(graph, outputs, start)
        # where rounding decides a comparison, or grows, nothing is said
        again = by_numpy(graph, outputs, start * (1 + 1e-13))
        calm = np.isfinite(expected) & (abs(again - expected) <= 1e-9 * (1 + abs(expected)))
        found = followed(Tape(graph, outputs, [graph.input(i) for i in range(INPUTS)]), start)
        close = abs(found - expected) <= 1e-9 * (1 + abs(expected))
    assert close[calm].all()
