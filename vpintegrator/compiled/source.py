"""C++ that iterates a model, and of its residuals and their derivatives, from a scalar graph."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING

from vpintegrator.compiled.program import Program, scalar_function
from vpintegrator.compiled.scalar_graph import COSTLY, ScalarGraph, adjoints, leads_to

if TYPE_CHECKING:
    from vpintegrator.compiled.tracing import Trace

_UNIT = 150_000  # characters; to begin with another takes the compiler half a second
_MOST_UNITS = 8


@dataclass(frozen=True)
class Source:
    """C++ of a model.

    Attributes
    ----------
    units
        Translation units, see ``translation_units``. They define ``lanes``, ``constants`` and
        ``run`` of ``rollout.h``, or ``sums``, ``gradient`` and ``jacobian`` of ``adjoint.h``.
    constants
        Number of constants that ``constants`` computes from the weights.
    operations, functions
        Number of sums, products and the like in a window, and of functions such as tanh.
    backward
        Number of operations in the backward pass.
    """

    units: list[str]
    constants: int
    operations: int
    functions: int
    backward: int = 0


def write_source(trace: Trace, sizes: tuple[int, int, int], real: str, unroll: int) -> Source:
    """Write the C++ that iterates a model.

    Parameters
    ----------
    trace
        The model's map of windows.
    sizes
        Sizes ``window``, ``prediction_window`` and ``dim`` of the model.
    real
        ``double`` or ``float``.
    unroll
        Unroll factor: number of vectors of trajectories in a value. 0 for one trajectory, with
        vectors of independent functions instead of lanes.
    """
    window, new, dim = sizes
    graph = trace.graph
    kept = (window - new) * dim
    narrow = not unroll
    outputs = trace.outputs[kept:]
    given = {graph.input(i): i for i in range(window * dim)}
    constants: dict[int, int] = {}
    program = Program(
        graph, outputs, given, constants, slots=len(given), narrow=narrow, unroll=unroll
    )
    frame = [
        scalar_function(graph, "compute_constants", list(constants)),
        _step_function(program, outputs),
        enumeration(INPUTS=len(given), OUTPUTS=new * dim, KEPT=kept, SLOTS=program.slots),
        header("constants.h"),
        header("rollout.h"),
    ]
    units = translation_units(prelude(real, narrow, unroll), program.parts, frame)
    return Source(units, len(constants), program.operations, program.functions)


def write_adjoint_source(
    trace: Trace, sizes: tuple[int, int, int], real: str, trained: list[int], chained: bool
) -> Source:
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
    graph = trace.graph
    outputs = trace.outputs[(window - new) * dim :]
    states = [graph.input(i) for i in range(window * dim)]
    seeds = [graph.input(window * dim + i) for i in range(new * dim)]
    wanted = [graph.parameter(i) for i in trained] + (states if chained else [])
    derivatives = adjoints(graph, zip(outputs, seeds, strict=True), wanted)
    kept = _kept(graph, outputs, seeds, derivatives)
    constants: dict[int, int] = {}
    given = {n: i for i, n in enumerate(states)}
    forward = Program(graph, outputs, given, constants, slots=len(given), kept=kept)
    given |= {n: forward.slot[n] for n in kept}
    given |= {n: forward.slots + i for i, n in enumerate(seeds)}
    count = len(trained)
    sinks = dict[int, list[str]]()
    for i, n in enumerate(derivatives):
        if graph.value(n) != 0:
            place = f"add_to(g + {i} * LANES, {{}});" if i < count else f"x[{i - count}] += {{}};"
            sinks.setdefault(n, []).append(place)
    slots = forward.slots + len(seeds)
    extra = (", real *__restrict g, value *__restrict x", ", g, x")
    backward = Program(
        graph, [], given, constants, slots=slots, sinks=sinks, name="back", extra=extra
    )
    numbers = {"INPUTS": len(states), "OUTPUTS": len(seeds), "SLOTS": backward.slots}
    frame = [
        scalar_function(graph, "compute_constants", list(constants)),
        _step_function(forward, outputs),
        "static void back(value *v, const real *c, real *g, value *x) {",
        *(f"    {call}" for call in backward.calls),
        "}",
        enumeration(**numbers, SEEDS=forward.slots, TRAINED=count),
        header("residuals.h"),
        header("adjoint.h"),
    ]
    parts = [*forward.parts, *backward.parts]
    return Source(
        translation_units(prelude(real, narrow=False), parts, frame),
        len(constants),
        forward.operations,
        forward.functions,
        backward.operations,
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


def prelude(real: str, narrow: bool, unroll: int = 0) -> str:
    """Return the beginning of every source."""
    defines = ["#define NARROW"] * narrow + [f"#define UNROLL {unroll}"] * bool(unroll)
    return "\n".join([f"typedef {real} real;", *defines, header("vectors.h")])


def header(name: str) -> str:
    """Return a common part of the sources, ``compiled/NAME`` or in a folder there."""
    return files("vpintegrator.compiled").joinpath(name).read_text(encoding="utf-8")


def translation_units(beginning: str, parts: list[str], frame: list[str]) -> list[str]:
    """Divide the functions of programs into sources that can be compiled at the same time.

    Parameters
    ----------
    beginning
        Beginning of every source.
    parts
        The functions.
    frame
        Code that calls the functions.
    """
    number = min(max(round(sum(map(len, parts)) / _UNIT), 1), _MOST_UNITS)
    edges = [k * len(parts) // number for k in range(number + 1)]
    shares = [parts[first:last] for first, last in pairwise(edges)]
    # the first source calls the functions of the others
    declared = [part[: part.index(" {")] + ";" for part in parts[edges[1] :]]
    whole = [[*declared, *shares[0], *frame], *shares[1:]]
    return ["\n".join([beginning, *lines]) for lines in whole]


def enumeration(**numbers: int) -> str:
    """Return numbers that the code knows when it is compiled."""
    return f"enum : long {{{', '.join(f'{name} = {n}' for name, n in numbers.items())}}};"


def _step_function(program: Program, outputs: list[int]) -> str:
    """Return the function that calls the parts of a program, and gives the new states."""
    lines = ["static void step(value *__restrict v, const real *__restrict c, value *y) {"]
    lines += [f"    {call}" for call in program.calls]
    lines += [f"    y[{i}] = {program.reference(n)};" for i, n in enumerate(outputs)]
    return "\n".join([*lines, "}"])
