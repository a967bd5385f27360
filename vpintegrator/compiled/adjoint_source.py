"""C++ source of residuals and their derivatives, from a graph of scalar operations."""

from __future__ import annotations

from dataclasses import dataclass

from vpintegrator.compiled.differentiation import adjoints, leads_to
from vpintegrator.compiled.program import Program, scalar_function
from vpintegrator.compiled.scalar_graph import COSTLY, ScalarGraph
from vpintegrator.compiled.source import (
    enumeration,
    header,
    prelude,
    step_function,
    translation_units,
)
from vpintegrator.compiled.tracing import Trace


@dataclass(frozen=True)
class AdjointSource:
    """C++ of a model's residuals and their derivatives.

    Attributes
    ----------
    units
        Translation units, see ``source.translation_units``. They define ``lanes``, ``constants``,
        ``sums``, ``gradient`` and ``jacobian``, see ``adjoint.h``.
    constants
        Number of constants that ``constants`` computes from the weights.
    forward, backward
        Numbers of operations for a window in the forward and in the backward pass.
    functions
        Number of functions, such as tanh, in the forward pass.
    """

    units: list[str]
    constants: int
    forward: int
    backward: int
    functions: int


def write_adjoint_source(
    trace: Trace, sizes: tuple[int, int, int], real: str, trained: list[int], chained: bool
) -> AdjointSource:
    """Write the C++ of a model's residuals and their derivatives.

    Parameters
    ----------
    trace
        The model's map of windows; its graph is extended.
    sizes
        Sizes ``window``, ``prediction_window`` and ``dim`` of the model.
    real
        ``double`` or ``float``.
    trained
        Indices of the weights that are trained.
    chained
        Whether predictions are made from predictions, so that derivatives with respect to windows
        are needed too.

    Raises
    ------
    NotCompilable
        If there are too many operations.
    """
    window, new, dim = sizes
    graph, count = trace.graph, len(trained)
    outputs = trace.outputs[(window - new) * dim :]
    states = [graph.input(i) for i in range(window * dim)]
    seeds = [graph.input(window * dim + i) for i in range(new * dim)]
    wanted = [graph.parameter(i) for i in trained] + (states if chained else [])
    found = adjoints(graph, zip(outputs, seeds, strict=True), wanted)
    kept = _kept(graph, outputs, seeds, found)
    constants: dict[int, int] = {}
    given = {n: i for i, n in enumerate(states)}
    forward = Program(graph, outputs, given, constants, slots=len(given), kept=kept)
    given |= {n: forward.slot[n] for n in kept}
    given |= {n: forward.slots + i for i, n in enumerate(seeds)}
    sinks: dict[int, list[str]] = {}
    for i, n in enumerate(found):
        if graph.value(n) != 0:
            place = f"add_to(g + {i} * LANES, {{}});" if i < count else f"x[{i - count}] += {{}};"
            sinks.setdefault(n, []).append(place)
    backward = Program(
        graph,
        [],
        given,
        constants,
        slots=forward.slots + len(seeds),
        sinks=sinks,
        name="back",
        extra=(", real *__restrict g, value *__restrict x", ", g, x"),
    )
    frame = [
        scalar_function(graph, "compute_constants", list(constants)),
        step_function(forward, outputs),
        "static void back(value *v, const real *c, real *g, value *x) {",
        *(f"    {call}" for call in backward.calls),
        "}",
        enumeration(
            INPUTS=len(states),
            OUTPUTS=len(seeds),
            SLOTS=backward.slots,
            SEEDS=forward.slots,
            TRAINED=count,
        ),
        header("residuals.h"),
        header("adjoint.h"),
    ]
    return AdjointSource(
        translation_units(prelude(real, narrow=False), [*forward.parts, *backward.parts], frame),
        constants=len(constants),
        forward=forward.operations,
        backward=backward.operations,
        functions=forward.functions,
    )


def _kept(
    graph: ScalarGraph, outputs: list[int], seeds: list[int], derivatives: list[int]
) -> list[int]:
    """Return the forward values that the backward pass needs.

    The backward pass computes sums and products that only it needs. The forward pass computes
    functions and divisions, because a Jacobian repeats the backward pass for every row.
    """
    before = set(graph.needed(outputs))
    backward = leads_to(graph, seeds)

    def read(n: int) -> bool:
        return not backward[n] and (n in before or graph.nodes[n][0] in COSTLY)

    passed = graph.needed(derivatives, lambda n: read(n) or not graph.varies[n])
    ends = {*derivatives, *(a for n in passed for a in graph.arguments(n))}
    return sorted(n for n in ends if graph.varies[n] and read(n) and graph.nodes[n][0] != "input")
