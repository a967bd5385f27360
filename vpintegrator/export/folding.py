"""Constant folding of the weights of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vpintegrator.compiled.functions import FUNCTIONS
from vpintegrator.compiled.scalar_graph import ScalarGraph
from vpintegrator.compiled.tracing import Trace

# methods of the graph by what nodes are called
_METHODS = {
    "abs": "absolute",
    "add": "add",
    "atan2": "arc_tangent",
    "bound": "bound",
    "div": "div",
    "equal": "equal",
    "fixed": "fixed",
    "greater": "greater",
    "larger": "larger",
    "max": "maximum",
    "mul": "mul",
    "neg": "negative",
    "pow": "power",
    "sub": "sub",
    "where": "where",
}


def folded(trace: Trace, values: np.ndarray) -> Trace:
    """Return the same map with all values that depend on weights alone computed as numbers.

    Weights that are zero or one drop out, and equal ones are found.

    Parameters
    ----------
    trace
        A map of windows.
    values
        The parameters of its graph. They are combined in float64, whatever they are.
    """
    old, new = trace.graph, ScalarGraph()
    number: dict[int, int] = {}
    for n in old.needed(trace.outputs):
        operation, *arguments = old.nodes[n]
        if operation == "parameter":
            number[n] = new.constant(float(values[arguments[0]]))
        elif operation in ("constant", "input"):
            number[n] = getattr(new, operation)(*arguments)
        else:
            number[n] = _again(new, operation, [number[a] for a in arguments])
    return replace(trace, graph=new, outputs=[number[n] for n in trace.outputs], weights=[])


def _again(graph: ScalarGraph, operation: str, arguments: Sequence[int]) -> int:
    """Add an operation to the new graph, simplified if possible."""
    if operation in FUNCTIONS:
        return graph.apply(operation, *arguments)
    return int(getattr(graph, _METHODS[operation])(*arguments))
