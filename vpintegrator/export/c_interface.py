"""Public functions of exported C, and their documentation, from ``interface.h``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vpintegrator.compiled.calling import REALS
from vpintegrator.export.c_functions import sections
from vpintegrator.export.c_program import LANES, CProgram, LanesProgram

if TYPE_CHECKING:
    from vpintegrator.models import Model


class Interface:
    """Public functions of an exported C file of one model."""

    def __init__(self, model: Model, prefix: str) -> None:
        window, new, dim = model.window, model.prediction_window, model.dim
        self.real = REALS[model.scale.numpy().dtype]
        self._sizes: dict[str, Any] = {
            "p": prefix,
            "real": self.real,
            "dim": dim,
            "window": window,
            "new": new,
            "inputs": window * dim,
            "outputs": new * dim,
            "kept": (window - new) * dim,
            "states": "the next state" if new == 1 else f"the next {new} states",
            "past": "one" if window == 1 else f"last {window} in time",
        }

    def frame(self, program: CProgram, outputs: Sequence[int]) -> str:
        """Return the C source of the map and of its iteration."""
        kept, step = self._sizes["kept"], self._sizes["outputs"]
        moved = f"\n        memmove(v, v + {step}, {kept} * sizeof *v);" if kept else ""
        text = self._filled("frame", moved=moved, slots=program.slots)
        return f"{self._map(program, 'map', {'next': outputs})}\n\n{text}"

    def jacobian(self, program: CProgram, outputs: Sequence[int], entries: Sequence[int]) -> str:
        """Return the C source of the map with its derivatives."""
        filled = {"next": outputs, "jacobian": entries}
        text = self._filled("jacobian", slots=program.slots)
        return f"{self._map(program, 'derivatives', filled)}\n\n{text}"

    def many(self, program: LanesProgram, outputs: Sequence[int]) -> str:
        """Return the C source of the map of many trajectories and of its iteration."""
        step, kept = (LANES * self._sizes[name] for name in ("outputs", "kept"))
        moved = f"\n            memmove(v, v + {step}, {kept} * sizeof *v);" if kept else ""
        filled = [
            f"        next[l + {LANES * i}] = {program.reference(n)};"
            for i, n in enumerate(outputs)
        ]
        return self._filled(
            "many",
            lanes=LANES,
            moved=moved,
            slots=LANES * program.slots,
            wide=step,
            old=kept,
            steps="\n".join(f"    {call}" for call in program.calls),
            filled="\n".join(filled),
        )

    def declarations(self, jacobian: bool, many: bool) -> str:
        """Return the C declarations for callers."""
        names = ["declared", *["declared jacobian"] * jacobian, *["declared many"] * many]
        return "\n".join(map(self._filled, names))

    def usage(self, jacobian: bool, many: bool) -> list[str]:
        """Return instructions for calling the functions, a paragraph for each."""
        names = ["usage", "usage rollout", *["usage jacobian"] * jacobian, *["usage many"] * many]
        return [self._filled(name) for name in [*names, "usage compiler"]]

    def _map(self, program: CProgram, name: str, filled: Mapping[str, Sequence[int]]) -> str:
        """Return a C function that reads a window from its workspace, and fills arrays."""
        arrays = ", ".join(f"{self.real} *{array}" for array in filled)
        lines = [f"static void {self._sizes['p']}_{name}({self.real} *v, {arrays})", "{"]
        lines += [f"    {call}" for call in program.calls]
        for array, nodes in filled.items():
            lines += [f"    {array}[{i}] = {program.reference(n)};" for i, n in enumerate(nodes)]
        return "\n".join([*lines, "}"])

    def _filled(self, section: str, **more: Any) -> str:
        return sections("interface.h")[section].substitute(self._sizes, **more)
