"""Program of a graph: C++ functions that compute its nodes one after another."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from vpintegrator.compiled.scalar_graph import BINARY, FUNCTIONS, ScalarGraph
from vpintegrator.runtime.interrupts import check_time

_PART = 400  # operations in a C++ function: compilers are slow on very long ones
_VECTORS = (".first", ".second", ".third", ".fourth")  # vectors of a value
_WIDEST = 16  # lanes of the widest vectors: groups of functions begin and end at multiples of it
# called from one source and defined in another, both of one library
_FUNCTION = '__attribute__((noinline, visibility("hidden"))) void'
# part of what calls it: where a call would cost as much as the work
_INLINE = "static inline __attribute__((always_inline)) void"
# operations that are neither arithmetic nor functions of one number
CALLED = {
    "maximum": "larger",
    "larger": "larger",
    "bound": "larger",
    "greater": "is_greater",
    "equal": "is_equal",
    "where": "pick",
    "absolute": "magnitude",
    "power": "power",
    "arc_tangent": "angle",
}


class Program:
    """Functions that compute some nodes from others.

    What depends on weights alone is read from an array of constants ``c``. The rest goes level by
    level: first all sums and products, then all functions of them at once, side by side in memory,
    then what needs these, and so on.

    Parameters
    ----------
    graph
        The graph.
    results
        Nodes to compute.
    given
        Slots in the workspace ``v`` of nodes that are there before.
    constants
        Places in ``c`` of nodes that do not vary; those met here for the first time are added.
    slots
        Slots of the workspace that are taken.
    kept
        Further nodes to compute, which stay in the workspace.
    sinks
        Statements with which nodes are delivered as soon as they are known, ``{}`` standing for
        their value.
    name, extra
        Prefix of the functions' names, and arguments that they take beside ``v`` and ``c``:
        declared and as passed on.
    narrow
        Whether the program is for one trajectory: groups of functions are vectors.
    unroll
        Unroll factor: number of vectors in a value, or 0 for one number or vector.

    Attributes
    ----------
    parts, calls
        The functions, and the calls of them in order.
    slots
        Slots of the workspace needed.
    slot
        Slots of nodes in the workspace; slots of kept nodes are still valid at the end.
    operations, functions
        Number of sums, products and the like, and of functions such as tanh.
    """

    _head = _FUNCTION
    _value = "value"

    def __init__(
        self,
        graph: ScalarGraph,
        results: Sequence[int],
        given: Mapping[int, int],
        constants: dict[int, int],
        *,
        slots: int,
        kept: Iterable[int] = (),
        sinks: Mapping[int, Sequence[str]] | None = None,
        name: str = "part",
        extra: tuple[str, str] = ("", ""),
        narrow: bool = False,
        unroll: int = 0,
    ) -> None:
        self._graph = graph
        self._nodes = graph.nodes
        self._results = [*results, *kept]
        self._given = given
        self._constants = constants
        self._sinks = sinks or {}
        # functions are computed between parts, and delivered at the end
        late = [n for n in self._sinks if graph.nodes[n][0] in FUNCTIONS and graph.varies[n]]
        self._results += [n for n in late if n not in given]
        self._name = name
        self._extra = extra
        self._narrow = narrow
        # what a node is called in a part, and where it is in a slot: each vector by its own name,
        # which compilers are done with in half the time that they need for pairs
        self._halves = [*zip("tuwx", _VECTORS, strict=True)][:unroll] if unroll else [("t", "")]
        self._type = "vector" if unroll else self._value
        self.slot = dict(given)
        self.slots = self._round(slots)
        self.parts: list[str] = []
        self.calls: list[str] = []
        self._needed = graph.needed(
            [*self._results, *self._sinks], lambda n: n in given or not graph.varies[n]
        )
        self.functions = sum(self._nodes[n][0] in FUNCTIONS for n in self._needed)
        self.operations = len(self._needed) - self.functions
        self._lay_out()
        for n, statements in self._sinks.items():
            if n in given or n in late or not graph.varies[n]:  # no part computes it
                value = self.reference(n)
                self.calls += [s.format(value) for s in statements]

    def reference(self, n: int) -> str:
        """Return the expression that reads a node after the functions ran; constants as vectors."""
        text = self._reference(n, frozenset(), ("", ""))
        return text if self._graph.varies[n] else self._filled("value", text)

    def _levels(self) -> dict[int, int]:
        """After how many rounds of functions a node comes."""
        level: dict[int, int] = {}
        for n in self._needed:
            before = max((level.get(a, 0) for a in self._graph.arguments(n)), default=0)
            level[n] = before + (self._nodes[n][0] in FUNCTIONS)
        return level

    def _lay_out(self) -> None:
        level = self._levels()
        work: dict[int, list[int]] = defaultdict(list)
        functions: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for n in self._needed:
            operation = self._nodes[n][0]
            if operation in FUNCTIONS:
                functions[level[n]][operation].append(n)
            else:
                work[level[n]].append(n)
        steps: list[list[int]] = []  # the parts, in order
        after: dict[int, list[tuple[str, list[int]]]] = {}  # functions called after a part
        waiting: dict[int, list[int]] = defaultdict(list)  # functions of a node
        for k in range(max(level.values(), default=0) + 1):
            nodes = work[k]
            # at least one, maybe empty part in each level: it fills the arguments in
            steps += [nodes[i : i + _PART] for i in range(0, max(len(nodes), 1), _PART)]
            after[len(steps) - 1] = list(functions[k + 1].items())
            for _, group in after[len(steps) - 1]:
                for n in group:
                    waiting[self._nodes[n][1]].append(n)
        part_of = {n: part for part, nodes in enumerate(steps) for n in nodes}
        self._place(steps, after, part_of)
        for part, nodes in enumerate(steps):
            check_time()
            late = [n for _, group in after.get(part, []) for n in group]
            self._write_part(part, nodes, waiting, late, part_of)
            for name, group in after.get(part, []):
                self.calls.append(self._applied(name, self.slot[group[0]], len(group)))

    def _place(
        self,
        steps: Sequence[Sequence[int]],
        after: Mapping[int, Sequence[tuple[str, list[int]]]],
        part_of: Mapping[int, int],
    ) -> None:
        """Give slots to functions and to what parts share, and again when they are free.

        The workspace stays in the fastest cache that way.
        """
        # a function reads its argument, if that is one itself, when it is late
        user = {n: p for p, groups in after.items() for _, group in groups for n in group}
        # a function's slot is needed when its argument is known
        born = {n: min(p, part_of.get(self._nodes[n][1], p)) for n, p in user.items()}
        user |= part_of
        last: dict[int, int] = {}
        for n in self._needed:
            for argument in self._graph.arguments(n):
                last[argument] = max(last.get(argument, -1), user[n])
        last |= dict.fromkeys(self._results, len(steps))
        arena = _Arena(self.slots)
        ending: dict[int, list[tuple[int, int]]] = defaultdict(list)
        starting: dict[int, list[list[int]]] = defaultdict(list)
        for groups in after.values():
            for _, group in groups:
                starting[min(born[n] for n in group)].append(group)
        for part, nodes in enumerate(steps):
            for group in starting[part]:
                size = self._round(len(group))
                first = arena.take_many(size, _WIDEST if self._narrow else 1)
                self.slot |= {n: first + i for i, n in enumerate(group)}
                ending[max(last.get(n, user[n]) for n in group)].append((first, size))
            for n in nodes:
                if last.get(n, -1) > part:
                    self.slot[n] = arena.take()
                    ending[last[n]].append((self.slot[n], 1))
            # the part itself still reads nodes that end here
            for first, size in ending[part]:
                arena.free(first, size)
        self.slots = self._round(arena.size)

    def _write_part(
        self,
        part: int,
        nodes: Sequence[int],
        waiting: Mapping[int, Sequence[int]],
        late: Sequence[int],
        computed: Mapping[int, int],
    ) -> None:
        """A function that computes some nodes.

        Each goes where others want it, and from there into the arguments of the functions ``late``
        that come next.
        """
        lines: list[str] = []
        local: set[int] = set()
        for n in nodes:
            operation, *arguments = self._nodes[n]
            places = [self.slot[other] for other in waiting.get(n, ())]
            places += [self.slot[n]] if n in self.slot else []
            for half in self._halves:
                terms = [self._reference(a, local, half) for a in arguments]
                if operation in CALLED:  # the sum makes a vector of a number
                    terms = [
                        term if self._graph.varies[a] else self._filled(self._type, term)
                        for a, term in zip(arguments, terms, strict=True)
                    ]
                text = self._expression(operation, terms)
                lines.append(f"    const {self._type} {half[0]}{n} = {text};")
                lines += [f"    v[{place}]{half[1]} = {half[0]}{n};" for place in places]
            local.add(n)
            lines += [f"    {sink.format(f't{n}')}" for sink in self._sinks.get(n, ())]
        for n in late:
            argument = self._nodes[n][1]
            if argument not in computed:  # an input, or itself a function
                # half by half: GCC 12 forgets that a function writes what it copies as a whole
                place = self.slot[n]
                old = self.slot[argument]
                lines += [f"    v[{place}]{of} = v[{old}]{of};" for _, of in self._halves]
        if lines:
            head, call = self._named(f"{self._name}_{part}")
            self.parts.append("\n".join([f"{head} {{", *lines, "}"]))
            self.calls.append(call)

    def _reference(self, n: int, local: set[int] | frozenset[int], half: tuple[str, str]) -> str:
        if n in local:
            return f"{half[0]}{n}"
        if self._graph.varies[n]:
            return f"v[{self.slot[n]}]{half[1]}"
        if self._nodes[n][0] == "constant":
            return self._literal(self._nodes[n][1])
        return f"c[{self._constants.setdefault(n, len(self._constants))}]"

    def _round(self, slots: int) -> int:
        return -(-slots // _WIDEST) * _WIDEST if self._narrow else slots

    # spelling, which depends on the language

    def _named(self, name: str) -> tuple[str, str]:
        """Return a function as it is declared and as it is called."""
        declared, passed = self._extra
        arguments = f"(value *__restrict v, const real *__restrict c{declared})"
        return f"{self._head} {name}{arguments}", f"{name}(v, c{passed});"

    def _applied(self, function: str, first: int, count: int) -> str:
        """Return a statement that applies a function to numbers, one slot after another."""
        return f"apply<{FUNCTIONS[function].source}>(v + {first}, {count});"

    def _expression(self, operation: str, terms: Sequence[str]) -> str:
        return expression(operation, terms)

    def _filled(self, kind: str, number: str) -> str:
        """Return a number for all trajectories."""
        return f"{kind}{{}} + {number}"

    def _literal(self, value: float) -> str:
        return _literal(value)


class InlineProgram(Program):
    """Program whose functions are inlined into their callers."""

    _head = _INLINE


def scalar_function(
    graph: ScalarGraph,
    name: str,
    results: Sequence[int] | Mapping[int, int],
    head: str = "static void",
) -> str:
    """Return a function ``name(p, c)`` that computes nodes of the weights ``p`` alone.

    They come in this order, or at the places given.
    """
    lines = [f"{head} {name}(const real *p, real *c) {{"]
    for n in graph.needed(results):
        operation, *arguments = graph.nodes[n]
        if operation == "constant":
            text = _literal(arguments[0])
        elif operation == "parameter":
            text = f"p[{arguments[0]}]"
        elif operation in FUNCTIONS:
            text = f"{FUNCTIONS[operation].source}(a{arguments[0]})"
        else:
            text = expression(operation, [f"a{a}" for a in arguments])
        lines.append(f"    const real a{n} = {text};")
    places = results if isinstance(results, Mapping) else {n: i for i, n in enumerate(results)}
    lines += [f"    c[{i}] = a{n};" for n, i in places.items()]
    return "\n".join([*lines, "}"])


def expression(operation: str, arguments: Sequence[str]) -> str:
    """Return the C++ of one operation that is no function of one number."""
    if operation in BINARY:
        return f" {BINARY[operation]} ".join(arguments)
    if operation == "negative":
        return f"-{arguments[0]}"
    if operation == "fixed":
        return arguments[0]
    return f"{CALLED[operation]}({', '.join(arguments)})"


def _literal(value: float) -> str:
    if math.isfinite(value):
        return f"(real){value!r}"
    limit = "quiet_NaN" if math.isnan(value) else "infinity"
    return f"({'-' * (value < 0)}std::numeric_limits<real>::{limit}())"


class _Arena:
    """Slots that are taken and given back; the first place that is large enough is taken."""

    def __init__(self, used: int) -> None:
        self.size = used
        self._free: list[int] = []  # a heap

    def take(self) -> int:
        """Return a free slot."""
        if self._free:
            return heapq.heappop(self._free)
        self.size += 1
        return self.size - 1

    def take_many(self, count: int, multiple: int) -> int:
        """Return the first of ``count`` free slots in a row, at a multiple."""
        free = set(self._free)
        for first in sorted(free):
            if first % multiple == 0 and free.issuperset(range(first, first + count)):
                break
        else:
            first = -(-self.size // multiple) * multiple
            free.update(range(self.size, first))
            self.size = first + count
        self._free = sorted(free.difference(range(first, first + count)))
        return first

    def free(self, first: int, count: int) -> None:
        """Give slots back."""
        for slot in range(first, first + count):
            heapq.heappush(self._free, slot)
