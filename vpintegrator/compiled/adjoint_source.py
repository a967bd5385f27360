"""C++ source of residuals and their derivatives, from a graph of scalar operations."""

from __future__ import annotations

from dataclasses import dataclass

from vpintegrator.compiled.differentiation import adjoints, leads_to
from vpintegrator.compiled.program import Program, scalar_function
from vpintegrator.compiled.scalar_graph import COSTLY, ScalarGraph
from vpintegrator.compiled.source import header, kernel, step_function, translation_units
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
    found = differentiated(trace, sizes, trained, chained)
    constants: dict[int, int] = {}
    forward, backward = found.programs(
        constants,
        extra=(", real *__restrict g, value *__restrict x", ", g, x"),
        sink="add_to(g + {} * LANES, {{}});",
    )
    frame = [
        scalar_function(trace.graph, "compute_constants", list(constants)),
        step_function(forward, found.outputs),
        "static void back(value *v, const real *c, real *g, value *x) {",
        *(f"    {call}" for call in backward.calls),
        "}",
        "enum : long {"
        f"INPUTS = {len(found.states)}, OUTPUTS = {len(found.seeds)}, SLOTS = {backward.slots}, "
        f"SEEDS = {forward.slots}, TRAINED = {len(trained)}"
        "};",
        header("residuals.h"),
        header("adjoint.h"),
    ]
    return AdjointSource(
        translation_units(kernel(real, narrow=False), [*forward.parts, *backward.parts], frame),
        constants=len(constants),
        forward=forward.operations,
        backward=backward.operations,
        functions=forward.functions,
    )


@dataclass(frozen=True)
class Differentiated:
    """A map of windows and its derivatives, as nodes of its graph.

    Attributes
    ----------
    graph
        The graph.
    outputs, states
        The new states and the window.
    seeds
        Derivatives by the new states.
    derivatives
        Derivatives by the trained weights and, for chained predictions, by the window.
    kept
        Forward values that the backward pass needs.
    trained
        Number of trained weights.
    """

    graph: ScalarGraph
    outputs: list[int]
    states: list[int]
    seeds: list[int]
    derivatives: list[int]
    kept: list[int]
    trained: int

    def programs(
        self,
        constants: dict[int, int],
        *,
        extra: tuple[str, str],
        sink: str,
        every: bool = False,
        kind: type[Program] = Program,
    ) -> tuple[Program, Program]:
        """Return the programs there and back, in one workspace, with constants in common.

        Parameters
        ----------
        constants, extra
            Constants of both, and further arguments of the way back, see ``Program``.
        sink
            The statement that takes a derivative by a weight, ``{}`` standing for the number of
            the weight, ``{{}}`` for the value. Those by the window are added to ``x``.
        every
            Whether derivatives by weights that are always zero are taken, too.
        kind
            Class of the programs.
        """
        given = {n: i for i, n in enumerate(self.states)}
        forward = kind(self.graph, self.outputs, given, constants, slots=len(given), kept=self.kept)
        given |= {n: forward.slot[n] for n in self.kept}
        given |= {n: forward.slots + i for i, n in enumerate(self.seeds)}
        sinks: dict[int, list[str]] = {}
        for i, n in enumerate(self.derivatives):
            state = i - self.trained
            if (every and state < 0) or self.graph.value(n) != 0:
                text = f"x[{state}] += {{}};" if state >= 0 else sink.format(i)
                sinks.setdefault(n, []).append(text)
        backward = kind(
            self.graph,
            [],
            given,
            constants,
            slots=forward.slots + len(self.seeds),
            sinks=sinks,
            name="back",
            extra=extra,
        )
        return forward, backward


def differentiated(
    trace: Trace, sizes: tuple[int, int, int], trained: list[int], chained: bool
) -> Differentiated:
    """Extend the graph of a map by its derivatives; see ``write_adjoint_source``."""
    window, new, dim = sizes
    graph = trace.graph
    outputs = trace.outputs[(window - new) * dim :]
    states = [graph.input(i) for i in range(window * dim)]
    seeds = [graph.input(window * dim + i) for i in range(new * dim)]
    wanted = [graph.parameter(i) for i in trained] + (states if chained else [])
    found = adjoints(graph, zip(outputs, seeds, strict=True), wanted)
    kept = _kept(graph, outputs, seeds, found)
    return Differentiated(graph, outputs, states, seeds, found, kept, len(trained))


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
