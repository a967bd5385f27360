"""Constant folding of the weights of a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vpintegrator.compiled.scalar_graph import LEAVES, ScalarGraph
from vpintegrator.compiled.tracing import Trace


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
        elif operation in LEAVES:
            number[n] = getattr(new, operation)(*arguments)
        else:
            number[n] = new.again(operation, [number[a] for a in arguments])
    return replace(trace, graph=new, outputs=[number[n] for n in trace.outputs], weights=[])
