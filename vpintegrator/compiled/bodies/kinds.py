"""C++ source of the function of one cluster and of its derivatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vpintegrator.compiled.bodies.cluster_function import ClusterFunction
from vpintegrator.compiled.differentiation import adjoints
from vpintegrator.compiled.program import InlineProgram, Program, scalar_function
from vpintegrator.compiled.scalar_graph import ScalarGraph
from vpintegrator.compiled.source import enumeration

_INLINE = 400  # operations up to which a function is part of the loop


@dataclass(frozen=True)
class Kind:
    """C++ of the function of a cluster, see ``shears.h`` and ``adjoint.h``.

    Attributes
    ----------
    parts
        Functions that may be compiled by themselves.
    text
        A struct and what else it needs.
    constants
        Number of constants that are computed from the weights.
    forward, backward
        Number of operations for a cluster: of the gradient, and of derivatives by it back.
    functions
        Number of functions, such as tanh, in the gradient.
    """

    parts: list[str]
    text: str
    constants: int
    forward: int
    backward: int
    functions: int


def write_kind(function: ClusterFunction, number: int, derivatives: bool) -> Kind:
    """Write the C++ of a function of a cluster.

    Parameters
    ----------
    function
        The function; its graph is extended by derivatives.
    number
        Number of the kind.
    derivatives
        Whether they are wanted.
    """
    traced = function.trace
    graph, outputs, size = traced.graph, traced.outputs, function.size
    given = {graph.input(i): i for i in range(size)}
    writer = _Writer(graph, number, given)
    sinks = {f"y[{i}] = {{}};": n for i, n in enumerate(outputs)}
    writer.add("gradient", sinks, ["y"], "SLOTS")
    backward = 0
    if derivatives:
        wanted = [graph.parameter(i) for i in function.trained]
        inputs = [graph.input(i) for i in range(size)]
        seeds = [graph.input(size + i) for i in range(len(outputs))]
        back = adjoints(graph, zip(outputs, seeds, strict=True), [*inputs, *wanted])
        sinks = {f"x[{i}] += {{}};": n for i, n in enumerate(back[:size])}
        sinks |= {f"g[{i}] += {{}};": n for i, n in enumerate(back[size:])}
        own = {n: size + i for i, n in enumerate(seeds)}
        backward = writer.add("back", sinks, ["g", "x"], "BACK_SLOTS", own).operations
        sinks = {}
        for i, output in enumerate(outputs):
            of_one = adjoints(graph, [(output, graph.constant(1.0))], [*inputs, *wanted])
            sinks |= {f"h[{i * size + j}] = {{}};": n for j, n in enumerate(of_one[:size])}
            first = i * len(wanted)
            sinks |= {f"b[{first + j}] = {{}};": n for j, n in enumerate(of_one[size:])}
        writer.add("slopes", sinks, ["h", "b"], "SLOPE_SLOTS")
    numbers = {"SIZE": size, "OUTPUTS": len(outputs), "TRAINED": len(function.trained)}
    numbers |= writer.slots
    lines = [
        scalar_function(graph, f"constants_{number}", list(writer.constants)),
        *writer.inline,
        f"struct Kind{number} {{",
        enumeration(**numbers),
        f"    static void constants(const real *p, real *c) {{ constants_{number}(p, c); }}",
        *writer.calls,
        "};",
    ]
    gradient = writer.programs["gradient"]
    return Kind(
        writer.parts,
        "\n".join(lines),
        len(writer.constants),
        gradient.operations,
        backward,
        gradient.functions,
    )


def choice(count: int) -> str:
    """Return the function that calls some work with one of so many kinds."""
    cases = [f"        case {i}: work(Kind{i}()); break;" for i in range(count)]
    head = "template <class Work> static inline void of_kind(long kind, Work work) {"
    return "\n".join([head, "    switch (kind) {", *cases, "    }", "}"])


class _Writer:
    """Functions of one graph, with constants in common."""

    def __init__(self, graph: ScalarGraph, number: int, given: dict[int, int]) -> None:
        self._graph, self._number, self._given = graph, number, given
        self.constants: dict[int, int] = {}
        self.programs: dict[str, Program] = {}
        self.parts: list[str] = []
        self.inline: list[str] = []
        self.calls: list[str] = []
        self.slots: dict[str, int] = {}

    def add(
        self,
        name: str,
        sinks: Mapping[str, int],
        results: Sequence[str],
        slots: str,
        seeds: Mapping[int, int] | None = None,
    ) -> Program:
        """Return a function that stores nodes in arrays with the names ``results``."""
        given = {**self._given, **(seeds or {})}
        by_node: dict[int, list[str]] = {}
        for statement, n in sinks.items():
            if self._graph.value(n) != 0 or " = " in statement:
                by_node.setdefault(n, []).append(statement)
        declared = "".join(f", value *__restrict {array}" for array in results)
        wanted = self._graph.needed(by_node, lambda n: n in given)
        small = len(wanted) <= _INLINE
        program = (InlineProgram if small else Program)(
            self._graph,
            [],
            given,
            self.constants,
            slots=len(given),
            sinks=by_node,
            name=f"{name}_{self._number}",
            extra=(declared, "".join(f", {array}" for array in results)),
        )
        (self.inline if small else self.parts).extend(program.parts)
        self.slots[slots] = program.slots
        self.programs[name] = program
        head = f"    static inline void {name}"
        head += "(value *__restrict v, const real *__restrict c"
        self.calls += [f"{head}{declared}) {{", *(f"        {c}" for c in program.calls), "    }"]
        return program
