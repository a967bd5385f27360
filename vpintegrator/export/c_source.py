"""A model as one file of C99, its weights in it as numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpintegrator.compiled.calling import REALS
from vpintegrator.compiled.differentiation import adjoints
from vpintegrator.compiled.powers import in_powers
from vpintegrator.compiled.regrouping import operations, regrouped
from vpintegrator.compiled.scalar_graph import ScalarGraph
from vpintegrator.compiled.tracing import Trace, trace
from vpintegrator.export.c_functions import write_functions
from vpintegrator.export.c_program import CProgram
from vpintegrator.export.description import described
from vpintegrator.export.folding import folded

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_WIDTH = 96  # letters of a line of the comment


@dataclass(frozen=True)
class CSource:
    """A file of C.

    Attributes
    ----------
    text, header
        The file, and declarations of its functions.
    prefix
        What their names begin with.
    operations, functions
        Number of sums, products and the like in a step, and of functions such as tanh.
    """

    text: str
    header: str
    prefix: str
    operations: int
    functions: int


def write_c(model: Integrator, prefix: str = "vp", jacobian: bool = False) -> CSource:
    """A model as C, in the dtype that it has.

    Parameters
    ----------
    model
        On the CPU.
    prefix
        What names of all functions begin with.
    jacobian
        Whether there is a function for derivatives, too.

    Raises
    ------
    NotCompilable
        If the model uses operations that are not known, or is too large.
    """
    traced = _fewest_operations(model)
    writer = _Interface(model, prefix)
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
        programs.append(second)
        frame.append(writer.jacobian(second, outputs, entries))
    used = {name for each in programs for name in each.used}
    parts = [part for each in programs for part in each.parts]
    about = described(model)
    declared = _in_c_plus_plus(writer.declarations(jacobian))
    texts = (
        _comment(about, writer.usage(jacobian)),
        "#include <math.h>\n#include <string.h>",
        declared,
        write_functions(used, writer.real, prefix),
        *parts,
        *frame,
    )
    text = "\n\n".join(text for text in texts if text) + "\n"
    header = _header(about, declared, prefix)
    return CSource(text, header, prefix, program.operations, program.functions)


def _fewest_operations(model: Integrator) -> Trace:
    """The map of a model in the way that takes fewest operations, its weights folded."""
    plain = trace(model, frozen=True)
    values = plain.values(model)
    ways = (regrouped(plain), in_powers(plain, values))
    return min((folded(way, values) for way in ways if way is not None), key=operations)


def _derivatives(graph: ScalarGraph, outputs: Sequence[int], inputs: Sequence[int]) -> list[int]:
    """Those of each output by each input, row by row."""
    one = graph.constant(1.0)
    return [entry for n in outputs for entry in adjoints(graph, [(n, one)], inputs)]


class _Interface:
    """The functions of the file that others call, of one model."""

    def __init__(self, model: Integrator, prefix: str) -> None:
        self._prefix = prefix
        self.real = REALS[model.scale.numpy().dtype]
        self._window, self._dim = model.window, model.dim
        self._new = model.prediction_window
        self._sizes = {
            "p": prefix,
            "real": self.real,
            "dim": model.dim,
            "window": model.window,
            "new": model.prediction_window,
            "inputs": model.window * model.dim,
            "outputs": model.prediction_window * model.dim,
            "kept": (model.window - model.prediction_window) * model.dim,
        }

    def frame(self, program: CProgram, outputs: Sequence[int]) -> str:
        """The map, and what iterates it."""
        kept, step = self._sizes["kept"], self._sizes["outputs"]
        moved = f"\n        memmove(v, v + {step}, {kept} * sizeof *v);" if kept else ""
        text = _FRAME.format(**self._sizes, moved=moved, slots=program.slots)
        return self._map(program, "map", {"next": outputs}) + text

    def jacobian(self, program: CProgram, outputs: Sequence[int], entries: Sequence[int]) -> str:
        """The map with its derivatives."""
        text = _JACOBIAN.format(**self._sizes, slots=program.slots)
        filled = {"next": outputs, "jacobian": entries}
        return self._map(program, "derivatives", filled) + text

    def _map(self, program: CProgram, name: str, filled: Mapping[str, Sequence[int]]) -> str:
        """A function that reads a window from its workspace, and fills arrays."""
        arrays = ", ".join(f"{self.real} *{array}" for array in filled)
        lines = [f"static void {self._prefix}_{name}({self.real} *v, {arrays})", "{"]
        lines += [f"    {call}" for call in program.calls]
        for array, nodes in filled.items():
            lines += [f"    {array}[{i}] = {program.reference(n)};" for i, n in enumerate(nodes)]
        return "\n".join([*lines, "}"])

    def declarations(self, jacobian: bool) -> str:
        """What a caller needs to know."""
        text = _DECLARED + _DECLARED_JACOBIAN * jacobian
        return text.format(p=self._prefix, real=self.real)

    def usage(self, jacobian: bool) -> list[str]:
        """How the functions are called, a paragraph each."""
        states = "the next state" if self._new == 1 else f"the next {self._new} states"
        past = "one" if self._window == 1 else f"last {self._window} in time"
        texts = [_STEPPED, _ITERATED, _DIFFERENTIATED, _COMPILED]
        if not jacobian:
            texts.remove(_DIFFERENTIATED)
        return [text.format(**self._sizes, states=states, past=past) for text in texts]


_DECLARED = """int {p}_dim(void);
int {p}_window(void);
int {p}_prediction_window(void);
void {p}_step(const {real} *window, {real} *next);
void {p}_rollout({real} *window, {real} *states, long calls);"""

_DECLARED_JACOBIAN = """
void {p}_step_jacobian(const {real} *window, {real} *next, {real} *jacobian);"""

_STEPPED = (
    "{p}_step(window, next): {states}, {real} next[{outputs}], after the {past}, {real} "
    "window[{inputs}]. Arrays are by time, then component: window[{dim}*k + i] is component i of "
    "state k, the oldest first."
)
_ITERATED = (
    "{p}_rollout(window, states, calls): so many steps, one from the other. "
    "states[{outputs}*calls] may be NULL; the window is brought up to date."
)
_DIFFERENTIATED = (
    "{p}_step_jacobian(window, next, jacobian): also the derivatives, jacobian[{inputs}*i + j] "
    "that of next[i] by window[j]."
)
_COMPILED = (
    "Nothing is kept between calls: threads may call all of it at the same time. Compile with -O2 "
    "or more, with -march=native for the machine at hand, and without -ffast-math, which changes "
    "results."
)

_FRAME = """

int {p}_dim(void) {{ return {dim}; }}

int {p}_window(void) {{ return {window}; }}

int {p}_prediction_window(void) {{ return {new}; }}

void {p}_step(const {real} *window, {real} *next)
{{
    {real} v[{slots}] = {{0}}, y[{outputs}];
    memcpy(v, window, {inputs} * sizeof *v);
    {p}_map(v, y);
    memcpy(next, y, sizeof y);
}}

void {p}_rollout({real} *window, {real} *states, long calls)
{{
    {real} v[{slots}] = {{0}}, y[{outputs}];
    long call;
    memcpy(v, window, {inputs} * sizeof *v);
    for (call = 0; call < calls; call++) {{
        {p}_map(v, y);{moved}
        memcpy(v + {kept}, y, sizeof y);
        if (states) memcpy(states + call * {outputs}, y, sizeof y);
    }}
    memcpy(window, v, {inputs} * sizeof *v);
}}"""

_JACOBIAN = """

void {p}_step_jacobian(const {real} *window, {real} *next, {real} *jacobian)
{{
    {real} v[{slots}] = {{0}};
    memcpy(v, window, {inputs} * sizeof *v);
    {p}_derivatives(v, next, jacobian);
}}"""


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
    """Texts as a comment that nothing in them can end; they may come from a file of a stranger."""
    lines: list[str] = []
    for text in about:
        lines += textwrap.wrap(_harmless(text), _WIDTH, subsequent_indent="    ") or [""]
    for text in usage:
        lines += ["", *textwrap.wrap(_harmless(text), _WIDTH)]
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in lines), " */"])


def _harmless(text: str) -> str:
    """Letters that all compilers read in comments, and neither end one nor begin one."""
    plain = "".join(c if " " <= c <= "~" and c != "\\" else "?" for c in text)
    return plain.replace("?" * 2, "? ?").replace("*/", "* /").replace("/*", "/ *")
