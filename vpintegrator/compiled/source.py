"""C++ source that iterates a model, from a graph of scalar operations."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING

from vpintegrator.compiled.program import Program, scalar_function

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
        Parts of it, see ``translation_units``. They define ``lanes``, ``constants`` and ``run``,
        see the end of this file.
    constants
        Number of constants that ``constants`` computes from the weights.
    operations, functions
        Number of sums, products and the like in a window, and of functions such as tanh.
    """

    units: list[str]
    constants: int
    operations: int
    functions: int


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
    narrow = not unroll
    window, new, dim = sizes
    outputs = trace.outputs[(window - new) * dim :]
    given = {trace.graph.input(i): i for i in range(window * dim)}
    constants: dict[int, int] = {}
    program = Program(
        trace.graph,
        outputs,
        given,
        constants,
        slots=len(given),
        narrow=narrow,
        unroll=unroll,
    )
    frame = [
        scalar_function(trace.graph, "compute_constants", list(constants)),
        step_function(program, outputs),
        enumeration(
            INPUTS=window * dim,
            OUTPUTS=new * dim,
            KEPT=(window - new) * dim,
            SLOTS=program.slots,
        ),
        header("rollout.h"),
    ]
    units = translation_units(prelude(real, narrow, unroll), program.parts, frame)
    return Source(units, len(constants), program.operations, program.functions)


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


def step_function(program: Program, outputs: list[int]) -> str:
    """Return the function that calls the parts of a program, and gives the new states."""
    lines = ["static void step(value *__restrict v, const real *__restrict c, value *y) {"]
    lines += [f"    {call}" for call in program.calls]
    lines += [f"    y[{i}] = {program.reference(n)};" for i, n in enumerate(outputs)]
    return "\n".join([*lines, "}"])
