"""C99 of a model: its public functions and their documentation, from ``interface.h``."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpintegrator.compiled.c_functions import sections, write_functions
from vpintegrator.compiled.c_program import LANES, CProgram, LanesProgram
from vpintegrator.compiled.differentiation import adjoints
from vpintegrator.compiled.library import REALS, NotCompilable
from vpintegrator.compiled.powers import simplest
from vpintegrator.compiled.tracing import LARGEST, Trace

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
    many: bool = False,
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
    many
        Whether there is one for many trajectories.
    about
        Facts for the comment at the beginning.

    Raises
    ------
    NotCompilable
        If the model uses operations that are not known, or is too large, or its derivatives are.
    """
    traced, _ = simplest(model, Trace.folded)
    graph, real = traced.graph, REALS[model.scale.numpy().dtype]
    window, new, dim = model.window, model.prediction_window, model.dim
    kept, count = (window - new) * dim, new * dim
    outputs, inputs = traced.outputs[kept:], [graph.input(i) for i in range(window * dim)]
    sizes: dict[str, Any] = {"p": prefix, "real": real, "dim": dim, "window": window, "new": new}
    sizes |= {"inputs": len(inputs), "outputs": count, "kept": kept}
    sizes["states"] = "the next state" if new == 1 else f"the next {new} states"
    sizes["past"] = "one" if window == 1 else f"last {window} in time"

    def filled(section: str, **more: Any) -> str:
        return sections("interface.h")[section].substitute(sizes, **more)

    def moved(lanes: int, indent: str) -> str:
        move = f"memmove(v, v + {lanes * count}, {lanes * kept} * sizeof *v);"
        return f"\n{indent}{move}" * bool(kept)

    def program(kind: type[CProgram], part: str, ends: Sequence[int]) -> CProgram:
        given = {n: i for i, n in enumerate(inputs)}
        return kind(graph, ends, given, real=real, prefix=prefix, part=part)

    step = program(CProgram, "part", outputs)
    programs, named = [step], [""]
    frame = [
        _map(step, f"{prefix}_map", real, {"next": outputs}),
        filled("frame", moved=moved(1, " " * 8), slots=step.slots),
    ]
    if jacobian:
        one = graph.constant(1.0)
        entries = [entry for n in outputs for entry in adjoints(graph, [(n, one)], inputs)]
        slopes = program(CProgram, "derivative", [*outputs, *entries])
        if slopes.operations > LARGEST:
            raise NotCompilable(f"its derivatives need more than {LARGEST:,} operations on numbers")
        arrays = {"next": outputs, "jacobian": entries}
        frame.append(_map(slopes, f"{prefix}_derivatives", real, arrays))
        frame.append(filled("jacobian", slots=slopes.slots))
        programs, named = [*programs, slopes], [*named, " jacobian"]
    if many:
        lanes = program(LanesProgram, "lanes", outputs)
        values = [f"next[l + {LANES * i}] = {lanes.reference(n)};" for i, n in enumerate(outputs)]
        lines = {
            "steps": "\n".join(f"    {call}" for call in lanes.calls),
            "filled": "\n".join(f"        {value}" for value in values),
            "moved": moved(LANES, " " * 12),
        }
        numbers = {"slots": LANES * lanes.slots, "wide": LANES * count, "old": LANES * kept}
        frame.append(filled("many", lanes=LANES, **lines, **numbers))
        programs, named = [*programs, lanes], [*named, " many"]
    declared = "\n".join(filled(f"declared{name}") for name in named)
    declared = (
        f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n{declared}\n\n#ifdef __cplusplus\n}}\n#endif'
    )
    usage = [f"usage{name}" for name in ["", " rollout", *named[1:], " compiler"]]
    texts = (
        _comment(about, map(filled, usage)),
        "#include <math.h>\n#include <string.h>",
        declared,
        write_functions({name for each in programs for name in each.used}, real, prefix, many),
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
