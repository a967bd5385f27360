"""From a graph of scalar operations to C++."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from vpintegrator.compiled.scalar_graph import BINARY, FUNCTIONS, LEAVES, ScalarGraph
from vpintegrator.compiled.tracing import Trace

_PART = 400  # operations in a C++ function: compilers are slow on very long ones
_WIDEST = 16  # lanes of the widest vectors: groups of functions begin and end at multiples of it
_NAMES = {
    "tanh": "hyperbolic_tangent",
    "exp": "exponential",
    "log1p": "logarithm_1p",
    "sqrt": "square_root",
    "sin": "sine",
    "cos": "cosine",
    "erf": "error_function",
}


@dataclass(frozen=True)
class Source:
    """C++ of a model.

    Attributes
    ----------
    text
        It defines ``lanes``, ``constants`` and ``run``, see the end of this file.
    constants
        Number of constants that ``constants`` computes from the weights.
    """

    text: str
    constants: int


def write_source(trace: Trace, sizes: tuple[int, int, int], real: str, narrow: bool) -> Source:
    """Write the C++ that iterates a model.

    Parameters
    ----------
    trace
        The model's map of windows.
    sizes
        Its ``window``, ``prediction_window`` and ``dim``.
    real
        ``double`` or ``float``.
    narrow
        For one trajectory: no lanes, but vectors of independent functions.
    """
    window, new, dim = sizes
    outputs = trace.outputs[(window - new) * dim :]
    program = _Program(trace.graph, outputs, window * dim, narrow)
    kernel = files("vpintegrator.compiled").joinpath("kernel.h").read_text(encoding="utf-8")
    return Source(
        "\n".join(
            [
                f"typedef {real} real;",
                *(["#define NARROW"] if narrow else []),
                kernel,
                program.prologue(),
                *program.parts,
                program.window_function(),
                _FRAME.format(
                    inputs=window * dim,
                    outputs=new * dim,
                    kept=(window - new) * dim,
                    slots=program.slots,
                ),
            ]
        ),
        len(program.constants),
    )


class _Program:
    """A graph laid out for the machine.

    What depends on weights alone is computed once, before the loop. The rest goes level by level:
    first all sums and products, then all functions of them at once, side by side in memory, then
    what needs these, and so on.
    """

    def __init__(
        self, graph: ScalarGraph, outputs: Sequence[int], inputs: int, narrow: bool
    ) -> None:
        self._nodes, self._outputs = graph.nodes, outputs
        self._narrow = narrow
        self._needed = self._reachable()
        self._levels()
        self.constants = {n: i for i, n in enumerate(self._hoisted())}
        # slots in the workspace: the window, then functions, then what several parts share
        self._slot = {n: graph.nodes[n][1] for n in self._needed if graph.nodes[n][0] == "input"}
        self.slots = self._round(inputs)
        self.parts: list[str] = []
        self._calls: list[str] = []
        self._lay_out()

    def prologue(self) -> str:
        """The function that computes what depends on the weights alone."""
        lines = ["static void compute_constants(const real *p, real *c) {"]
        for n in self._needed:
            if self._varies[n] or self._nodes[n][0] == "constant":
                continue
            operation, *arguments = self._nodes[n]
            if operation == "parameter":
                text = f"p[{arguments[0]}]"
            else:
                name = "fmax" if operation == "max" else operation  # numbers here, not vectors
                text = self._expression(name, [self._fixed(a) for a in arguments])
            lines.append(f"    const real a{n} = {text};")
            if n in self.constants:
                lines.append(f"    c[{self.constants[n]}] = a{n};")
        return "\n".join([*lines, "}"])

    def window_function(self) -> str:
        """The function that calls the parts, and gives the new states."""
        lines = ["static void step(value *__restrict v, const real *__restrict c, value *y) {"]
        lines += [f"    {call}" for call in self._calls]
        for i, n in enumerate(self._outputs):
            # a constant output is spread over the lanes by the sum
            text = self._reference(n, frozenset())
            lines.append(f"    y[{i}] = {text if self._varies[n] else 'value{} + ' + text};")
        return "\n".join([*lines, "}"])

    def _reachable(self) -> list[int]:
        found: set[int] = set()
        waiting = list(self._outputs)
        while waiting:
            n = waiting.pop()
            if n not in found:
                found.add(n)
                waiting += self._arguments(n)
        return sorted(found)  # the order of making: arguments come first

    def _arguments(self, n: int) -> Sequence[int]:
        operation, *arguments = self._nodes[n]
        return () if operation in LEAVES else arguments

    def _levels(self) -> None:
        """Which nodes vary with the window, and after how many rounds of functions they come."""
        self._varies: dict[int, bool] = {}
        self._level: dict[int, int] = {}
        for n in self._needed:
            arguments = self._arguments(n)
            varies = self._nodes[n][0] == "input" or any(self._varies[a] for a in arguments)
            level = max((self._level[a] for a in arguments), default=0)
            self._varies[n] = varies
            self._level[n] = level + (varies and self._nodes[n][0] in FUNCTIONS)

    def _hoisted(self) -> list[int]:
        """Nodes that do not vary but are used where something does, in order."""
        used = set(self._outputs)
        for n in self._needed:
            if self._varies[n]:
                used.update(self._arguments(n))
        return [n for n in sorted(used) if not self._varies[n] and self._nodes[n][0] != "constant"]

    def _lay_out(self) -> None:
        work: dict[int, list[int]] = defaultdict(list)
        functions: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for n in self._needed:
            operation = self._nodes[n][0]
            if not self._varies[n] or operation == "input":
                continue
            if operation in FUNCTIONS:
                functions[self._level[n]][operation].append(n)
            else:
                work[self._level[n]].append(n)
        steps: list[list[int]] = []  # the parts, in order
        after: dict[int, list[tuple[str, list[int]]]] = {}  # functions called after a part
        waiting: dict[int, list[int]] = defaultdict(list)  # functions of a node
        for level in range(max(self._level.values(), default=0) + 1):
            nodes = work[level]
            # at least one, maybe empty part in each level: it fills the arguments in
            steps += [nodes[k : k + _PART] for k in range(0, max(len(nodes), 1), _PART)]
            after[len(steps) - 1] = [(name, group) for name, group in functions[level + 1].items()]
            for _, group in after[len(steps) - 1]:
                for n in group:
                    waiting[self._nodes[n][1]].append(n)
        part_of = {n: part for part, nodes in enumerate(steps) for n in nodes}
        self._place(steps, after, part_of)
        for part, nodes in enumerate(steps):
            late = [n for _, group in after.get(part, []) for n in group]
            self._write_part(part, nodes, waiting, late, set(part_of))
            for name, group in after.get(part, []):
                first = self._slot[group[0]]
                self._calls.append(f"apply<{_NAMES[name]}>(v + {first}, {len(group)});")

    def _place(
        self,
        steps: Sequence[Sequence[int]],
        after: dict[int, list[tuple[str, list[int]]]],
        part_of: dict[int, int],
    ) -> None:
        """Give slots to functions and to what parts share, and again when they are free.

        The workspace stays in the fastest cache that way.
        """
        born = dict(part_of)  # a function's slot is needed when its argument is known
        for part, groups in after.items():
            for _, group in groups:
                for n in group:
                    born[n] = min(part, born.get(self._nodes[n][1], part))
        end = len(steps)
        last: dict[int, int] = {}
        for n in self._needed:
            if n in part_of:
                user = part_of[n]
            elif n in born:  # a function reads its argument, if that is one itself, when it is late
                user = next(p for p, groups in after.items() if any(n in g for _, g in groups))
            else:
                continue
            for argument in self._arguments(n):
                last[argument] = max(last.get(argument, -1), user)
        last |= dict.fromkeys(self._outputs, end)
        arena = _Arena(self.slots)
        ending: dict[int, list[tuple[int, int]]] = defaultdict(list)
        starting: dict[int, list[list[int]]] = defaultdict(list)
        for groups in after.values():
            for _, group in groups:
                starting[min(born[n] for n in group)].append(group)
        for part, nodes in enumerate(steps):
            for group in starting[part]:
                size = self._round(len(group))
                first = arena.take(size, _WIDEST if self._narrow else 1)
                self._slot |= {n: first + i for i, n in enumerate(group)}
                ending[max(last[n] for n in group)].append((first, size))
            for n in nodes:
                if last.get(n, -1) > part:
                    self._slot[n] = arena.take(1, 1)
                    ending[last[n]].append((self._slot[n], 1))
            # what ends here is still read by the part itself
            for first, size in ending[part]:
                arena.free(first, size)
        self.slots = arena.size

    def _write_part(
        self,
        part: int,
        nodes: Sequence[int],
        waiting: dict[int, list[int]],
        late: Sequence[int],
        computed: set[int],
    ) -> None:
        """A function that computes some nodes.

        Each goes where others want it, and from there into the arguments of the functions ``late``
        that come next.
        """
        lines: list[str] = []
        local: set[int] = set()
        for n in nodes:
            operation, *arguments = self._nodes[n]
            text = self._expression(operation, [self._reference(a, local) for a in arguments])
            lines.append(f"    const value t{n} = {text};")
            local.add(n)
            places = [self._slot[other] for other in waiting[n]]
            places += [self._slot[n]] if n in self._slot else []
            lines += [f"    v[{place}] = t{n};" for place in places]
        for n in late:
            argument = self._nodes[n][1]
            if argument not in computed:  # an input, or itself a function
                lines.append(f"    v[{self._slot[n]}] = v[{self._slot[argument]}];")
        if lines:
            head = f"static __attribute__((noinline)) void part_{part}"
            arguments_ = "(value *__restrict v, const real *__restrict c)"
            self.parts.append("\n".join([f"{head}{arguments_} {{", *lines, "}"]))
            self._calls.append(f"part_{part}(v, c);")

    def _reference(self, n: int, local: set[int] | frozenset[int]) -> str:
        if n in local:
            return f"t{n}"
        if self._nodes[n][0] == "constant":
            return self._fixed(n)
        return f"v[{self._slot[n]}]" if self._varies[n] else f"c[{self.constants[n]}]"

    def _fixed(self, n: int) -> str:
        node = self._nodes[n]
        return f"(real){node[1]!r}" if node[0] == "constant" else f"a{n}"

    @staticmethod
    def _expression(operation: str, arguments: Sequence[str]) -> str:
        if operation in BINARY:
            return f" {BINARY[operation]} ".join(arguments)
        if operation == "neg":
            return f"-{arguments[0]}"
        if operation == "max":
            # the sum makes a vector of a number
            return f"larger({', '.join(f'value{{}} + {a}' for a in arguments)})"
        # of weights alone: other functions are applied in groups
        return f"std::{operation}({', '.join(arguments)})"

    def _round(self, slots: int) -> int:
        return -(-slots // _WIDEST) * _WIDEST if self._narrow else slots


class _Arena:
    """Slots that are taken and given back; the first place that is large enough is taken."""

    def __init__(self, used: int) -> None:
        self._taken = [True] * used

    @property
    def size(self) -> int:
        """Slots in all."""
        return len(self._taken)

    def take(self, count: int, multiple: int) -> int:
        """The first of ``count`` free slots in a row, at a multiple."""
        first = 0
        while any(self._taken[first : first + count]):
            first += multiple
        self._taken += [False] * (first + count - len(self._taken))
        self._taken[first : first + count] = [True] * count
        return first

    def free(self, first: int, count: int) -> None:
        """Give slots back."""
        self._taken[first : first + count] = [False] * count


# windows and states as (trajectory, time, component), the layout of the package; a block is as many
# trajectories as a vector has lanes
_FRAME = """
extern "C" int lanes() {{ return sizeof(value) / sizeof(real); }}

extern "C" void constants(const real *parameters, real *c) {{ compute_constants(parameters, c); }}

extern "C" void run(real *windows, real *states, const real *c, long trajectories, long calls) {{
    const long width = sizeof(value) / sizeof(real);
    for (long first = 0; first < trajectories; first += width) {{
        const long count = trajectories - first < width ? trajectories - first : width;
        value v[{slots}] = {{}};
        value y[{outputs}];
        for (int i = 0; i < {inputs}; i++)
            for (long k = 0; k < count; k++)
                ((real *)(v + i))[k] = windows[(first + k) * {inputs} + i];
        for (long call = 0; call < calls; call++) {{
            step(v, c, y);
            memmove(v, v + {outputs}, {kept} * sizeof(value));
            memcpy(v + {kept}, y, sizeof y);
            for (long k = 0; k < count; k++)
                for (int i = 0; i < {outputs}; i++)
                    states[((first + k) * calls + call) * {outputs} + i] = ((real *)(y + i))[k];
        }}
        for (int i = 0; i < {inputs}; i++)
            for (long k = 0; k < count; k++)
                windows[(first + k) * {inputs} + i] = ((real *)(v + i))[k];
    }}
}}
"""
