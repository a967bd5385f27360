"""Maps of very many operations as a tape: a list of operations that compiled loops follow.

A compiler needs most of a minute for the code of some 30,000 operations. A tape is data: it is
written in seconds, and one small library follows every tape of windows of one size. Sums take in
the products that they alone use, and values share slots, so that most of them stay in the nearest
caches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from vpintegrator.compiled.program import CALLED
from vpintegrator.compiled.scalar_graph import FUNCTIONS, ScalarGraph
from vpintegrator.compiled.source import Source, enumeration, header, prelude
from vpintegrator.runtime.interrupts import check_time

_ADDED = ("add", "sub", "negative", "fixed")
_SUMS = (*_ADDED, "mul")
_OF_ONE = ("absolute", *FUNCTIONS)
_OTHERS = {**{name: each.source for name, each in FUNCTIONS.items()}, **CALLED, "div": "quotient"}
_NAMES = ("end", "sum", *dict.fromkeys(_OTHERS.values()))
_CODES = {name: code for code, name in enumerate(_NAMES)}
_CHECKED = 4096  # operations between two looks at the time
_ROUNDED = 64  # slots are a multiple of it, so that like tapes share a library


class _Operation(NamedTuple):
    """An operation that gives a value.

    Attributes
    ----------
    node
        The node of its value.
    name
        Its name in ``tape.h``.
    sizes
        Numbers of terms of a sum: added, subtracted, a number times a value, products added and
        subtracted. Empty for other operations.
    arguments
        Nodes in the order of the code. ``-1 - place`` is a place among the numbers.
    """

    node: int
    name: str
    sizes: tuple[int, ...]
    arguments: list[int]


class Tape:
    """The operations of a map, in the order in which they are done.

    Parameters
    ----------
    graph
        The graph of the map, without parameters.
    outputs
        Nodes of the new states.
    inputs
        Nodes of the window; they are in the first slots.

    Attributes
    ----------
    code : (number,)
        The groups of operations, see ``tape.h``.
    numbers : (number,)
        Constants to which the code points.
    slots
        Values that are kept at a time.
    operations, functions
        Number of values that are computed, and of functions such as tanh among them.
    """

    def __init__(self, graph: ScalarGraph, outputs: Sequence[int], inputs: Sequence[int]) -> None:
        self._graph = graph
        self._places = {0.0: 0}
        operations = [*self._operations(outputs)]
        self.functions = sum(graph.nodes[own.node][0] in FUNCTIONS for own in operations)
        self.operations = len(operations) - self.functions
        slot = _slots(operations, outputs, inputs)
        self.slots = max(slot.values(), default=0) + 1
        code = list[int]()
        for (name, sizes), each in groupby(operations, lambda own: (own.name, own.sizes)):
            group = [*each]
            code += [_CODES[name], len(group), *sizes]
            for own in group:
                code.append(slot[own.node])
                code += [slot[a] if a >= 0 else -1 - a for a in own.arguments]
        code += [_CODES["end"], 0, *(slot[n] for n in outputs)]
        self.code = np.array(code, dtype=np.int32)
        self.numbers = np.array([*self._places])

    def source(self, sizes: tuple[int, int, int], real: str, narrow: bool) -> Source:
        """Return the C++ that follows tapes of this size, see ``write_source``.

        It has one vector of trajectories in a value, or one trajectory if it is ``narrow``.
        """
        window, new, dim = sizes
        codes = enumeration(**{f"do_{name}": code for name, code in _CODES.items()})
        places = {
            "INPUTS": window * dim,
            "OUTPUTS": new * dim,
            "KEPT": (window - new) * dim,
            "SLOTS": -(-self.slots // _ROUNDED) * _ROUNDED,
        }
        lines = [prelude(real, narrow), codes, enumeration(**places), _cases()]
        unit = "\n".join([*lines, header("tape.h"), header("rollout.h")])
        return Source([unit], len(self.numbers), self.operations, self.functions)

    def _operations(self, outputs: Sequence[int]) -> Iterator[_Operation]:
        """Yield the operations that give values, arguments first."""
        graph = self._graph
        needed = graph.needed(outputs)
        users = Counter(a for n in needed for a in graph.arguments(n))
        users.update(outputs)
        # constants and products that only sums need are parts of these
        values = {a for n in needed if graph.nodes[n][0] not in _SUMS for a in graph.arguments(n)}
        values.update(outputs)
        inside = {
            a
            for n in needed
            if graph.nodes[n][0] in _ADDED
            for a in graph.arguments(n)
            if users[a] == 1 and graph.nodes[a][0] in _SUMS
        }
        for count, n in enumerate(needed):
            if count % _CHECKED == 0:
                check_time()
            operation = graph.nodes[n][0]
            if n in inside or operation == "input":
                continue
            if operation in _SUMS or (operation == "constant" and n in values):
                yield self._sum(n, inside)
            elif operation != "constant":
                yield _Operation(n, _OTHERS[operation], (), [*graph.arguments(n)])

    def _sum(self, node: int, inside: set[int]) -> _Operation:
        """Return a sum with all terms that have no values of their own."""
        graph = self._graph
        constant = 0.0
        terms: dict[bool, list[int]] = {True: [], False: []}
        scaled = list[int]()
        products: dict[bool, list[int]] = {True: [], False: []}
        waiting = [(node, True)]
        while waiting:
            n, positive = waiting.pop()
            operation, *arguments = graph.nodes[n]
            value = graph.value(n)
            if value is not None:
                constant += value if positive else -value
            elif n != node and n not in inside:
                terms[positive].append(n)
            elif operation == "mul":
                numbers = [graph.value(a) for a in arguments]
                factor = next((each for each in numbers if each is not None), None)
                if factor is None:
                    products[positive] += arguments
                else:
                    variable = arguments[numbers.index(None)]
                    scaled += [-1 - self._place(factor if positive else -factor), variable]
            else:
                waiting.append((arguments[0], positive ^ (operation == "negative")))
                waiting += [(a, positive ^ (operation == "sub")) for a in arguments[1:]]
        kinds = (terms[True], terms[False], scaled, products[True], products[False])
        numbers_in = (1, 1, 2, 2, 2)
        sizes = tuple(len(each) // n for each, n in zip(kinds, numbers_in, strict=True))
        flat = [a for each in kinds for a in each]
        return _Operation(node, "sum", sizes, [-1 - self._place(constant), *flat])

    def _place(self, number: float) -> int:
        return self._places.setdefault(number, len(self._places))


def _slots(
    operations: Sequence[_Operation], outputs: Sequence[int], inputs: Sequence[int]
) -> dict[int, int]:
    """Return the slots of nodes; those of values that are needed no more are taken again."""
    last = {a: count for count, own in enumerate(operations) for a in own.arguments if a >= 0}
    last.update(dict.fromkeys([*outputs, *inputs], len(operations)))
    slot = {n: i for i, n in enumerate(inputs)}
    free = list[int]()
    size = len(slot)
    for count, own in enumerate(operations):
        free += [slot[a] for a in {*own.arguments} if a >= 0 and last[a] == count]
        if not free:
            free.append(size)
            size += 1
        slot[own.node] = free.pop()  # the one that was used last
    return slot


def _cases() -> str:
    """Return the list of operations that are no sums, by their numbers of arguments."""
    counts = dict.fromkeys(_OTHERS, "two") | dict.fromkeys(_OF_ONE, "one") | {"where": "three"}
    cases = {name: counts[operation] for operation, name in _OTHERS.items()}
    written = " ".join(f"{count}({name})" for name, count in cases.items())
    return f"#define FUNCTIONS(one, two, three) {written}"
