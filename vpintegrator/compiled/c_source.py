"""C99 of a model: its step with weights as literals, functions of numbers, documentation."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.compiled.library import REALS, NotCompilable
from vpintegrator.compiled.powers import simplest
from vpintegrator.compiled.program import CALLED, Program, expression
from vpintegrator.compiled.scalar_graph import FUNCTIONS, ScalarGraph, adjoints
from vpintegrator.compiled.tracing import LARGEST, Trace

_LIBRARY = {"magnitude": "fabs", "power": "pow", "angle": "atan2"}  # names in <math.h>


class CProgram(Program):
    """Functions of C99 that compute nodes of a graph without parameters.

    Parameters
    ----------
    graph
        The graph.
    results
        Nodes to compute.
    given
        Slots in the workspace ``v`` of nodes that are there before.
    real
        ``double`` or ``float``.
    prefix
        Prefix of all names.
    part
        Second prefix, of the names of the functions.

    Attributes
    ----------
    used
        Names of the functions that it calls.
    """

    def __init__(
        self,
        graph: ScalarGraph,
        results: Sequence[int],
        given: Mapping[int, int],
        *,
        real: str,
        prefix: str,
        part: str = "part",
    ) -> None:
        self._real = self._value = real
        self._prefix = prefix
        self.used: set[str] = set()
        super().__init__(
            graph, results, given, {}, slots=len(given), name=f"{prefix}_{part}", narrow=True
        )

    def _named(self, name: str) -> tuple[str, str]:
        return f"static void {name}({self._real} *v)", f"{name}(v);"

    def _applied(self, function: str, first: int, count: int) -> str:
        self.used.add(function)
        return f"{self._prefix}_{function}(v + {first}, {count});"

    def _expression(self, operation: str, terms: Sequence[str]) -> str:
        name = CALLED.get(operation)
        if name is None:
            return expression(operation, terms)
        if name in _LIBRARY:
            return f"{_LIBRARY[name]}{'f' * (self._real == 'float')}({', '.join(terms)})"
        self.used.add(name)
        return f"{self._prefix}_{name}({', '.join(terms)})"

    def _filled(self, kind: str, number: str) -> str:
        return number

    def _literal(self, value: float) -> str:
        return literal(value, self._real)


def literal(value: float, real: str) -> str:
    """Return a number in C with all digits."""
    with np.errstate(over="ignore"):
        number = np.float64(value) if real == "double" else np.float32(value)
    if np.isnan(number):
        return "NAN"
    if np.isinf(number):
        return "(-INFINITY)" if number < 0 else "INFINITY"
    text = f"{number!s}{'f' * (real == 'float')}"  # the shortest digits that identify the number
    return f"({text})" if number < 0 else text


# ln 2 in two parts, from where on tanh is one, and where exp begins and ends
_NUMBERS = {
    "double": (6.93147180369123816490e-01, 1.90821492927058770002e-10, 20.0, 708.0, 709.0),
    "float": (6.9314575195e-01, 1.4286067653e-06, 10.0, 87.0, 88.0),
}
_WHOLE = {"double": ("unsigned long long", "ULL"), "float": ("unsigned int", "U")}
_DEGREES = {"double": 13, "float": 7}  # up to which powers of exp go beyond rounding
_BLOCK = 8  # numbers side by side, a whole number of vectors of most machines
_OWN = {"double": ("exp", "tanh", "sin", "cos", "log"), "float": ("exp", "tanh")}
_SHARED = {"exp": "split_exp", "tanh": "split_exp", "sin": "circular", "cos": "circular"}
_OF_NUMBERS = ("larger", "is_greater", "is_equal", "pick")
_UP = int((2 - math.sqrt(2)) * 2**52)  # mantissas above sqrt(2) belong to the next power of two


@cache
def sections(name: str) -> dict[str, Template]:
    """Return the sections of a file of templates, which begin with lines ``//// NAME``."""
    text = files("vpintegrator.compiled").joinpath(name).read_text(encoding="utf-8")
    _, *parts = re.split(r"(?:^// .*\n)*^//// (.*)\n", text, flags=re.MULTILINE)
    return {
        title: Template(part.strip()) for title, part in zip(parts[::2], parts[1::2], strict=True)
    }


def write_functions(used: Iterable[str], real: str, prefix: str) -> str:
    """Return the C source of the functions named.

    Parameters
    ----------
    used
        Names of functions, of ``FUNCTIONS`` and of those of a few numbers.
    real
        ``double`` or ``float``.
    prefix
        Prefix of all names.
    """
    names = set(used)
    about = _format(real) | {"p": prefix, "P": prefix.upper()}
    vectorised = [name for name in _OWN[real] if name in names]

    def filled(section: str, **more: str) -> str:
        return sections("functions.h")[section].substitute(about, **more)

    def library(name: str) -> str:
        """Return a loop over the function of the C library."""
        return filled("library", name=name, called=f"{name}{'f' * (real == 'float')}(")

    sources = [filled(name) for name in _OF_NUMBERS if name in names]
    sources += [library(name) for name in FUNCTIONS if name in names and name not in vectorised]
    if vectorised:
        better = {"bits": filled("bits")}
        for name in vectorised:
            if shared := _SHARED.get(name):
                better[shared] = filled(shared)
            if shared == "circular":
                better[name] = filled("sin_or_cos", name=name, shift=str(int(name == "cos")))
            else:
                better[name] = filled(name)
        texts = ("\n\n".join(each) for each in (map(library, vectorised), better.values()))
        branches = "\n#else\n".join(texts)
        sources += [filled("widest"), f"{filled('plain')}\n{branches}\n#endif"]
    return "\n\n".join(sources)


def _format(real: str) -> dict[str, Any]:
    """Return the numbers of a format of floating-point numbers, by the names in the templates."""
    info = np.finfo(real if real == "double" else "single")
    (whole, suffix) = _WHOLE[real]
    names = ("ln2_high", "ln2_low", "tanh_is_one", "lowest", "highest")
    numbers = dict(zip(names, _NUMBERS[real], strict=True))
    numbers |= {"zero": 0.0, "one": 1.0, "two": 2.0, "log2e": 1.4426950408889634}
    # rounds to whole numbers when it is added and subtracted again
    numbers["rounding"] = 1.5 * 2.0**info.nmant
    return {name: literal(number, real) for name, number in numbers.items()} | {
        "real": real,
        "whole": whole,
        "sign": f"{1 << info.bits - 1:#x}{suffix}",
        "infinity": f"{(1 << info.bits - 1) - (1 << info.nmant):#x}{suffix}",
        "last": info.bits - 1,
        "mantissa": info.nmant,
        "bias": info.maxexp - 1,
        "block": _BLOCK,
        "up": _UP,
        "series": _series(2, _DEGREES[real] - 1, real),
    }


def _series(first: int, terms: int, real: str) -> str:
    """Return 1/first! + r/(first + 1)! + ... in C, by Estrin's scheme."""
    if terms == 1:
        return literal(1 / math.factorial(first), real)
    half = 8 if terms > 8 else 4 if terms > 4 else 2 if terms > 2 else 1
    power = "r" if half == 1 else f"r{half}"
    return f"({_series(first + half, terms - half, real)}) * {power} + {_series(first, half, real)}"


if TYPE_CHECKING:
    from vpintegrator.models import Model

_WIDTH = 96  # letters of a line of the comment


@dataclass(frozen=True)
class CSource:
    """A file of C.

    Attributes
    ----------
    text, header
        The file, and declarations of its functions.
    prefix
        Prefix of the names.
    operations, functions
        Number of sums, products and the like in a step, and of functions such as tanh.
    """

    text: str
    header: str
    prefix: str
    operations: int
    functions: int


def write_c(
    model: Model,
    prefix: str = "vp",
    jacobian: bool = False,
    about: Sequence[str] = (),
) -> CSource:
    """Write a model as C, in the data type of the model.

    Parameters
    ----------
    model
        On the CPU.
    prefix
        Prefix of the names of all functions.
    jacobian
        Whether there is a function for derivatives, too.
    about
        Facts for the comment at the beginning.

    Raises
    ------
    NotCompilable
        If the model uses operations that are not known, or is too large, or its derivatives are.
    """
    traced, _ = simplest(model, Trace.folded)
    graph = traced.graph
    real = REALS[model.scale.numpy().dtype]
    window = model.window
    new = model.prediction_window
    dim = model.dim
    kept = (window - new) * dim
    count = new * dim
    outputs = traced.outputs[kept:]
    inputs = [graph.input(i) for i in range(window * dim)]
    sizes: dict[str, Any] = {"p": prefix, "real": real, "dim": dim, "window": window, "new": new}
    sizes |= {"inputs": len(inputs), "outputs": count, "kept": kept}
    sizes["states"] = "the next state" if new == 1 else f"the next {new} states"
    sizes["past"] = "one" if window == 1 else f"last {window} in time"

    def filled(section: str, **more: Any) -> str:
        return sections("interface.h")[section].substitute(sizes, **more)

    def program(part: str, ends: Sequence[int]) -> CProgram:
        given = {n: i for i, n in enumerate(inputs)}
        return CProgram(graph, ends, given, real=real, prefix=prefix, part=part)

    step = program("part", outputs)
    programs = [step]
    named = [""]
    moved = f"\n        memmove(v, v + {count}, {kept} * sizeof *v);" * bool(kept)
    frame = [
        _map(step, f"{prefix}_map", real, {"next": outputs}),
        filled("frame", moved=moved, slots=step.slots),
    ]
    if jacobian:
        one = graph.constant(1.0)
        entries = [entry for n in outputs for entry in adjoints(graph, [(n, one)], inputs)]
        slopes = program("derivative", [*outputs, *entries])
        if slopes.operations > LARGEST:
            raise NotCompilable(f"its derivatives need more than {LARGEST:,} operations on numbers")
        arrays = {"next": outputs, "jacobian": entries}
        frame.append(_map(slopes, f"{prefix}_derivatives", real, arrays))
        frame.append(filled("jacobian", slots=slopes.slots))
        programs = [*programs, slopes]
        named = [*named, " jacobian"]
    declared = "\n".join(filled(f"declared{name}") for name in named)
    declared = (
        f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n{declared}\n\n#ifdef __cplusplus\n}}\n#endif'
    )
    usage = [f"usage{name}" for name in ["", " rollout", *named[1:], " compiler"]]
    texts = (
        _comment(about, map(filled, usage)),
        "#include <math.h>\n#include <string.h>",
        declared,
        write_functions({name for each in programs for name in each.used}, real, prefix),
        *(part for each in programs for part in each.parts),
        *frame,
    )
    guard = f"{prefix.upper()}_STEP_H"
    header = f"#ifndef {guard}\n#define {guard}\n\n{declared}\n\n#endif\n"
    return CSource(
        text="\n\n".join(filter(None, texts)) + "\n",
        header=f"{_comment(about, ())}\n\n{header}",
        prefix=prefix,
        operations=step.operations,
        functions=step.functions,
    )


def _map(program: CProgram, name: str, real: str, filled: Mapping[str, Sequence[int]]) -> str:
    """Return a C function that reads a window from its workspace, and fills arrays."""
    arrays = ", ".join(f"{real} *{array}" for array in filled)
    lines = [f"static void {name}({real} *v, {arrays})", "{"]
    lines += [f"    {call}" for call in program.calls]
    for array, nodes in filled.items():
        lines += [f"    {array}[{i}] = {program.reference(n)};" for i, n in enumerate(nodes)]
    return "\n".join([*lines, "}"])


def _comment(about: Iterable[str], usage: Iterable[str]) -> str:
    """Return texts from an untrusted file as a C comment that nothing in them can end."""
    lines: list[str] = []
    for text in about:
        lines += textwrap.wrap(_harmless(text), _WIDTH, subsequent_indent="    ") or [""]
    for text in usage:
        lines += ["", *textwrap.wrap(_harmless(text), _WIDTH)]
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in lines), " */"])


def _harmless(text: str) -> str:
    """Return text whose characters are safe in comments of all compilers."""
    plain = "".join(c if " " <= c <= "~" and c != "\\" else "?" for c in text)
    return plain.replace("?" * 2, "? ?").replace("*/", "* /").replace("/*", "/ *")
