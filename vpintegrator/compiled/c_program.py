"""Translation of a graph of scalar operations to C99 functions, with weights as literals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vpintegrator.compiled.program import CALLED, Program, expression
from vpintegrator.compiled.scalar_graph import ScalarGraph

LANES = 16  # two vectors of the widest: one is worked on while the other waits
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


class LanesProgram(CProgram):
    """C program for ``LANES`` trajectories at once, with adjacent numbers in each slot.

    A part is a loop over them, of a fixed length and without branches, of which compilers make
    vectors.
    """

    def reference(self, n: int) -> str:
        return _in_lane(super().reference(n))

    def _write_part(self, *arguments: Any) -> None:
        first = len(self.parts)
        super()._write_part(*arguments)
        for k in range(first, len(self.parts)):
            head, _, body = self.parts[k].removesuffix("\n}").partition("\n")
            loop = f"    for (l = 0; l < {LANES}; l++) {{\n{_in_lane(body)}\n    }}"
            self.parts[k] = f"{self._prefix.upper()}_WIDEST\n{head}\n    int l;\n{loop}\n}}"

    def _applied(self, function: str, first: int, count: int) -> str:
        return super()._applied(function, LANES * first, LANES * count)


def _in_lane(text: str) -> str:
    """Replace the slots of one trajectory by those of a lane."""
    return re.sub(r"v\[(\d+)\]", lambda slot: f"v[l + {LANES * int(slot[1])}]", text)


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
