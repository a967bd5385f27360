"""Export of a model as one file of C99, with weights as literals."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpintegrator.compiled.differentiation import adjoints
from vpintegrator.compiled.folding import folded
from vpintegrator.compiled.powers import simplest
from vpintegrator.compiled.scalar_graph import ScalarGraph
from vpintegrator.compiled.tracing import LARGEST
from vpintegrator.export.c_functions import write_functions
from vpintegrator.export.c_interface import Interface
from vpintegrator.export.c_program import CProgram, LanesProgram
from vpintegrator.export.description import described
from vpintegrator.native import NotCompilable

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
    many
        Whether there is a function for many trajectories.
    operations, functions
        Number of sums, products and the like in a step, and of functions such as tanh.
    """

    text: str
    header: str
    prefix: str
    many: bool
    operations: int
    functions: int


def write_c(
    model: Model, prefix: str = "vp", jacobian: bool = False, many: bool = False
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
    many
        Whether there is one for many trajectories.

    Raises
    ------
    NotCompilable
        If the model uses operations that are not known, or is too large, or its derivatives are.
    """
    traced, _ = simplest(model, folded)
    writer = Interface(model, prefix)
    window, new, dim = model.window, model.prediction_window, model.dim
    outputs = traced.outputs[(window - new) * dim :]
    given = {traced.graph.input(i): i for i in range(window * dim)}
    program = CProgram(traced.graph, outputs, given, real=writer.real, prefix=prefix)
    programs, frame = [program], [writer.frame(program, outputs)]
    if jacobian:
        entries = _derivatives(traced.graph, outputs, list(given))
        ends = [*outputs, *entries]
        second = CProgram(
            traced.graph, ends, given, real=writer.real, prefix=prefix, part="derivative"
        )
        if second.operations > LARGEST:
            raise NotCompilable(f"its derivatives need more than {LARGEST:,} operations on numbers")
        programs.append(second)
        frame.append(writer.jacobian(second, outputs, entries))
    if many:
        third = LanesProgram(
            traced.graph, outputs, given, real=writer.real, prefix=prefix, part="lanes"
        )
        programs.append(third)
        frame.append(writer.many(third, outputs))
    used = {name for each in programs for name in each.used}
    parts = [part for each in programs for part in each.parts]
    about = described(model)
    declared = _in_c_plus_plus(writer.declarations(jacobian, many))
    texts = (
        _comment(about, writer.usage(jacobian, many)),
        "#include <math.h>\n#include <string.h>",
        declared,
        write_functions(used, writer.real, prefix, many),
        *parts,
        *frame,
    )
    text = "\n\n".join(text for text in texts if text) + "\n"
    header = _header(about, declared, prefix)
    return CSource(text, header, prefix, many, program.operations, program.functions)


def _derivatives(graph: ScalarGraph, outputs: Sequence[int], inputs: Sequence[int]) -> list[int]:
    """Return the derivatives of each output by each input, row by row."""
    one = graph.constant(1.0)
    return [entry for n in outputs for entry in adjoints(graph, [(n, one)], inputs)]


def _in_c_plus_plus(declarations: str) -> str:
    return (
        '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
        f"{declarations}\n\n#ifdef __cplusplus\n}}\n#endif"
    )


def _header(about: Sequence[str], declared: str, prefix: str) -> str:
    guard = f"{prefix.upper()}_STEP_H"
    head = f"#ifndef {guard}\n#define {guard}"
    return f"{_comment(about, [])}\n\n{head}\n\n{declared}\n\n#endif\n"


def _comment(about: Sequence[str], usage: Sequence[str]) -> str:
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
