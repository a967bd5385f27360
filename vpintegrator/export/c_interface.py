"""Public functions of exported C, and their documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vpintegrator.compiled.calling import REALS
from vpintegrator.export.c_program import LANES, CProgram, LanesProgram

if TYPE_CHECKING:
    from vpintegrator.models import Integrator


class Interface:
    """Public functions of an exported C file of one model."""

    def __init__(self, model: Integrator, prefix: str) -> None:
        self._prefix = prefix
        self.real = REALS[model.scale.numpy().dtype]
        self._window, self._new = model.window, model.prediction_window
        self._sizes: dict[str, Any] = {
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
        """Return the C source of the map and of its iteration."""
        kept, step = self._sizes["kept"], self._sizes["outputs"]
        moved = f"\n        memmove(v, v + {step}, {kept} * sizeof *v);" if kept else ""
        text = _FRAME.format(**self._sizes, moved=moved, slots=program.slots)
        return self._map(program, "map", {"next": outputs}) + text

    def jacobian(self, program: CProgram, outputs: Sequence[int], entries: Sequence[int]) -> str:
        """Return the C source of the map with its derivatives."""
        text = _JACOBIAN.format(**self._sizes, slots=program.slots)
        filled = {"next": outputs, "jacobian": entries}
        return self._map(program, "derivatives", filled) + text

    def many(self, program: LanesProgram, outputs: Sequence[int]) -> str:
        """Return the C source of the map of many trajectories and of its iteration."""
        step, kept = (LANES * self._sizes[name] for name in ("outputs", "kept"))
        moved = f"\n            memmove(v, v + {step}, {kept} * sizeof *v);" if kept else ""
        filled = [
            f"        next[l + {LANES * i}] = {program.reference(n)};"
            for i, n in enumerate(outputs)
        ]
        return _MANY.format(
            **self._sizes,
            lanes=LANES,
            moved=moved,
            slots=LANES * program.slots,
            wide=step,
            old=kept,
            steps="\n".join(f"    {call}" for call in program.calls),
            filled="\n".join(filled),
        )

    def _map(self, program: CProgram, name: str, filled: Mapping[str, Sequence[int]]) -> str:
        """Return a C function that reads a window from its workspace, and fills arrays."""
        arrays = ", ".join(f"{self.real} *{array}" for array in filled)
        lines = [f"static void {self._prefix}_{name}({self.real} *v, {arrays})", "{"]
        lines += [f"    {call}" for call in program.calls]
        for array, nodes in filled.items():
            lines += [f"    {array}[{i}] = {program.reference(n)};" for i, n in enumerate(nodes)]
        return "\n".join([*lines, "}"])

    def declarations(self, jacobian: bool, many: bool) -> str:
        """Return the C declarations for callers."""
        text = _DECLARED + _DECLARED_JACOBIAN * jacobian + _DECLARED_MANY * many
        return text.format(p=self._prefix, real=self.real)

    def usage(self, jacobian: bool, many: bool) -> list[str]:
        """Return instructions for calling the functions, a paragraph for each."""
        states = "the next state" if self._new == 1 else f"the next {self._new} states"
        past = "one" if self._window == 1 else f"last {self._window} in time"
        texts = [_STEPPED, _ITERATED]
        texts += [_DIFFERENTIATED] * jacobian + [_TOGETHER] * many + [_COMPILED]
        return [text.format(**self._sizes, states=states, past=past) for text in texts]


_DECLARED = """int {p}_dim(void);
int {p}_window(void);
int {p}_prediction_window(void);
void {p}_step(const {real} *window, {real} *next);
void {p}_rollout({real} *window, {real} *states, long calls);"""

_DECLARED_JACOBIAN = """
void {p}_step_jacobian(const {real} *window, {real} *next, {real} *jacobian);"""

_DECLARED_MANY = """
void {p}_rollout_many({real} *windows, {real} *states, long trajectories, long calls);"""

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
_TOGETHER = (
    "{p}_rollout_many(windows, states, trajectories, calls): the same of many trajectories, one "
    "after another in windows[trajectories][{inputs}] and states[trajectories][{outputs}*calls], "
    "several times faster than one by one."
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

# lanes of the last block without a trajectory repeat its first trajectory
_MANY = """static void {p}_map_many({real} *v, {real} *next)
{{
    int l;
{steps}
    for (l = 0; l < {lanes}; l++) {{
{filled}
    }}
}}

void {p}_rollout_many({real} *windows, {real} *states, long trajectories, long calls)
{{
    {real} v[{slots}] = {{0}}, y[{wide}];
    long first, call;
    for (first = 0; first < trajectories; first += {lanes}) {{
        const int count = trajectories - first < {lanes} ? (int)(trajectories - first) : {lanes};
        {real} *window = windows + first * {inputs};
        int i, l;
        for (l = 0; l < {lanes}; l++)
            for (i = 0; i < {inputs}; i++)
                v[i * {lanes} + l] = window[(l < count ? l : 0) * {inputs} + i];
        for (call = 0; call < calls; call++) {{
            {p}_map_many(v, y);{moved}
            memcpy(v + {old}, y, sizeof y);
            if (!states) continue;
            for (l = 0; l < count; l++)
                for (i = 0; i < {outputs}; i++)
                    states[((first + l) * calls + call) * {outputs} + i] = y[i * {lanes} + l];
        }}
        for (l = 0; l < count; l++)
            for (i = 0; i < {inputs}; i++) window[l * {inputs} + i] = v[i * {lanes} + l];
    }}
}}"""

_JACOBIAN = """

void {p}_step_jacobian(const {real} *window, {real} *next, {real} *jacobian)
{{
    {real} v[{slots}] = {{0}};
    memcpy(v, window, {inputs} * sizeof *v);
    {p}_derivatives(v, next, jacobian);
}}"""
