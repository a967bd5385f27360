"""C++ of a step of explicit methods, for one trajectory in each vector lane.

The formulas of the vector field, or of the parts that a splitting moves, become functions
(:mod:`vpintegrator.compiled.formulas`), which the step calls. Several blocks of trajectories take
each step side by side. Short formulas are inlined and their operations interleaved, so that the
processor need not wait for results. Long formulas are functions that run for all blocks in turn, so
that each is read from memory once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vpintegrator.compiled.formulas import FormulaGraph
from vpintegrator.compiled.program import InlineProgram, Program, scalar_function
from vpintegrator.compiled.source import header, prelude, translation_units
from vpintegrator.dynamics import System
from vpintegrator.maps.base import ClassicalMethod
from vpintegrator.maps.explicit import ExplicitRungeKutta
from vpintegrator.maps.splitting import Splitting, moves_of
from vpintegrator.native import NotCompilable

_SHORT = 600  # operations of a step that is written out as a whole
_CACHED = 4_000  # values of several blocks that the second cache holds


@dataclass(frozen=True)
class StepSource:
    """C++ of a step.

    Attributes
    ----------
    units
        Parts of it, see ``iteration.h`` for what they define.
    parameters
        The numbers in the formulas.
    constants
        Number of constants that are computed from these.
    weights
        Factors of the step h; the products are passed as arguments.
    operations
        Number of sums, products, functions and the like in a step.
    """

    units: list[str]
    parameters: list[float]
    constants: int
    weights: list[float]
    operations: int


def write_step_source(method: ClassicalMethod, system: System) -> StepSource:
    """Write the C++ of a step.

    Raises
    ------
    NotCompilable
        If the method is none whose step is a formula of the vector field, or the formulas are too
        long.
    """
    if isinstance(method, ExplicitRungeKutta):
        return _runge_kutta(method, system)
    if isinstance(method, Splitting):
        return _splitting(method, system)
    raise NotCompilable(f"{method.name} solves equations or is no formula of the vector field")


def _runge_kutta(method: ExplicitRungeKutta, system: System) -> StepSource:
    count, weights = len(method.weights), list[float]()

    def combined(row: Sequence[float]) -> str:
        terms = []
        for j, weight in enumerate(row):
            if weight:
                terms.append(f"s[{len(weights)}] * w[g].k[{j}][i]")
                weights.append(weight)
        return f"({' + '.join(terms) or 'value{}'})"

    lines = ["    EACH FOR_COMPONENTS w[g].v[i] = b[g].z[i];", "    rates_0(b, w, c, 0);"]
    for stage, row in enumerate(method.stages, start=1):
        lines.append(f"    EACH FOR_COMPONENTS w[g].v[i] = b[g].z[i] + {combined(row)};")
        lines.append(f"    rates_0(b, w, c, {stage});")
    lines.append(f"    EACH FOR_COMPONENTS w[g].d[i] = {combined(method.weights)};")
    return _assembled(system, [range(system.dim)], lines, weights, [0] * count, count)


def _splitting(method: Splitting, system: System) -> StepSource:
    parts = [part.rows for part in method.parts(system)]
    moves = moves_of(method.factors, len(parts))
    lines = ["    EACH FOR_COMPONENTS w[g].v[i] = b[g].z[i], w[g].d[i] = value{};"]
    lines += [f"    rates_{part}(b, w, c, s[{k}]);" for k, (part, _) in enumerate(moves)]
    return _assembled(
        system, parts, lines, [factor for _, factor in moves], [part for part, _ in moves], 0
    )


def _assembled(
    system: System,
    parts: Sequence[Sequence[int]],
    lines: Sequence[str],
    weights: list[float],
    calls: Sequence[int],
    stages: int,
) -> StepSource:
    """Return the sources of a step.

    Parameters
    ----------
    parts
        The components whose rates are computed at once.
    lines
        The body of the step, which calls ``rates_0`` and so on for the parts.
    weights
        Factors of the step h.
    calls
        The parts that a step calls, in order.
    stages
        Number of rates that are kept; 0 if each rate is used at once to move its components.
    """
    formulas = FormulaGraph(system.equations.symbols)
    graph, field = formulas.graph, system.equations.vector_field
    results = [formulas.add([field[i] for i in rows]) for rows in parts]
    given = {graph.input(i): i for i in range(system.dim)}
    work = [
        len(graph.needed(nodes, lambda n: not graph.varies[n])) + len(nodes) for nodes in results
    ]
    operations = sum(work[part] for part in calls) + (len(weights) * system.dim if stages else 0)
    short = operations <= _SHORT
    constants: dict[int, int] = {}
    programs = [
        (InlineProgram if short else Program)(
            graph, r, given, constants, slots=system.dim, name=f"part_{k}"
        )
        for k, r in enumerate(results)
    ]
    functions = [
        _rates(k, program, rows, nodes, stages > 0)
        for k, (program, rows, nodes) in enumerate(zip(programs, parts, results, strict=True))
    ]
    written = [part for program in programs for part in program.parts]
    slots = max(program.slots for program in programs)
    numbers = (max(stages, 1) + 7) * system.dim + slots
    blocks = max(n for n in (1, 2, 4) if n == 1 or n * numbers <= _CACHED)
    sizes = {"DIM": system.dim, "SLOTS": slots, "STAGES": max(stages, 1), "BLOCKS": blocks}
    sizes["CLOCK"] = -1 if system.explicit_time is None else system.explicit_time
    frame = [
        scalar_function(graph, "compute_constants", list(constants)),
        "#define SHORT" * short,
        f"enum : long {{{', '.join(f'{name} = {n}' for name, n in sizes.items())}}};",
        header("blocks.h"),
        *functions,
        "static inline void step(block *b, work *w, const real *c, const real *s) {",
        *lines,
        "}",
        header("iteration.h"),
    ]
    units = translation_units(prelude("double", narrow=False), written, frame)
    return StepSource(units, formulas.parameters, len(constants), weights, operations)


def _rates(k: int, program: Program, rows: Sequence[int], nodes: Sequence[int], kept: bool) -> str:
    """Return a C++ function that computes the rates of a part, and stores or applies them."""
    argument = "int stage" if kept else "real s"
    found = []
    for i, n in zip(rows, nodes, strict=True):
        rate = program.reference(n)
        if kept:
            found.append(f"        w[g].k[stage][{i}] = {rate};")
        else:
            found.append(f"        w[g].d[{i}] += s * ({rate});")
            found.append(f"        v[{i}] = b[g].z[{i}] + w[g].d[{i}];")
    calls = [f"    EACH {{ value *v = w[g].v; {call} }}" for call in program.calls]
    inline = " __attribute__((always_inline))" if isinstance(program, InlineProgram) else ""
    head = f"static inline{inline} void rates_{k}(block *b, work *w, const real *c, {argument}) {{"
    found = ["    EACH {", "        value *v = w[g].v;", *found, "    }", "}"]
    return "\n".join([head, *calls, *found])
