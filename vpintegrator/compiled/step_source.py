"""C++ of a step of classical methods, for one trajectory in each vector lane.

The formulas of the vector field, of its Jacobian matrix, or of the parts that a splitting moves,
become functions, which the step calls. Several blocks of
trajectories take each step side by side. Short formulas are inlined and their operations
interleaved, so that the processor need not wait for results. Long formulas are functions that run
for all blocks in turn, so that each is read from memory once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from vpintegrator.compiled.library import NotCompilable
from vpintegrator.compiled.program import InlineProgram, Program, scalar_function
from vpintegrator.compiled.scalar_graph import ScalarGraph
from vpintegrator.compiled.source import enumeration, header, prelude, translation_units
from vpintegrator.dynamics import System
from vpintegrator.dynamics.compositions import moves_of
from vpintegrator.dynamics.expressions.nodes import Function, Number, Symbol, Value, fold, size
from vpintegrator.dynamics.recording import Term
from vpintegrator.maps import (
    AdaptiveMethod,
    Boris,
    ClassicalMethod,
    ExplicitRungeKutta,
    GaussLegendre,
)
from vpintegrator.maps.boris import field_formulas, kick
from vpintegrator.maps.gauss_legendre import scaled_tableau
from vpintegrator.maps.splitting import Splitting

MOST_OPERATIONS = 500_000
_PLAIN = 16  # whole numbers up to which are part of the code
_LARGEST_MULTIPLIED = 32  # exponents up to which powers are products


_SHORT = 600  # operations of a step that is written out as a whole
_CACHED = 4_000  # values of several blocks that the second cache holds
_LARGEST_MATRIX = 256  # rows of a Newton matrix of all stages


@dataclass(frozen=True)
class StepSource:
    """C++ of a step.

    Attributes
    ----------
    units
        Parts of it, see ``iteration.h`` for what they define.
    parameters
        The numbers in the formulas.
    constants
        Number of constants that are computed from these.
    coefficients
        Function of the step h that returns the numbers passed as arguments, (number,).
    operations
        Number of sums, products, functions and the like in a step; for implicit methods about.
    """

    units: list[str]
    parameters: list[float]
    constants: int
    coefficients: Callable[[float], np.ndarray]
    operations: int


@dataclass(frozen=True)
class _Function:
    """C++ function of a step that evaluates formulas at the numbers in ``v``.

    Attributes
    ----------
    head
        Name and last argument, ``NAME(ARGUMENT``.
    nodes
        The formulas, by place.
    statement
        Use of a value, with ``{i}`` for its place and ``{x}`` for the value.
    calls
        Number of calls in the code of a step.
    """

    head: str
    nodes: Mapping[int, int]
    statement: str
    calls: int = 1


def obstacle(method: ClassicalMethod, system: System) -> str:
    """Return the reason why a ``method`` has no machine code for a ``system``, or nothing.

    The compiler, the length of formulas and their functions are not looked at: these are the
    messages of :class:`~vpintegrator.compiled.NotCompilable`.

    Examples
    --------
    >>> pendulum = vp.load_system("pendulum")
    >>> vp.compiled.obstacle(vp.rollout.find_method("dop853"), pendulum)
    "SciPy's solver chooses its steps"
    >>> vp.compiled.obstacle(vp.rollout.find_method("gauss-legendre-4"), pendulum)
    ''
    """
    if isinstance(method, AdaptiveMethod):
        return "SciPy's solver chooses its steps"
    if not isinstance(method, tuple(_WRITERS)):
        return "the method is written in Python"
    if not system.has_formulas:
        return "the system is a function of Python, without formulas"
    if isinstance(method, GaussLegendre):
        rows = len(method.weights) * system.dim
        if rows > _LARGEST_MATRIX:
            return f"the equations of its stages have {rows} unknowns, more than {_LARGEST_MATRIX}"
    return ""


def write_step_source(method: ClassicalMethod, system: System) -> StepSource:
    """Write the C++ of a step.

    Raises
    ------
    NotCompilable
        If there is an :func:`obstacle`, or the formulas are too long or hold a function without
        machine code.
    """
    if reason := obstacle(method, system):
        raise NotCompilable(reason)
    write = next(write for kind, write in _WRITERS.items() if isinstance(method, kind))
    return write(method, system)


def _runge_kutta(method: ExplicitRungeKutta, system: System) -> StepSource:
    count = len(method.weights)
    weights = list[float]()

    def combined(row: Sequence[float]) -> str:
        terms = []
        for j, weight in enumerate(row):
            if weight:
                terms.append(f"s[{len(weights)}] * w[g].k[{j}][i]")
                weights.append(weight)
        return f"({' + '.join(terms) or 'value{}'})"

    lines = ["EACH FOR_COMPONENTS w[g].v[i] = b[g].z[i];", "rates(b, w, c, 0);"]
    for stage, row in enumerate(method.stages, start=1):
        lines.append(f"EACH FOR_COMPONENTS w[g].v[i] = b[g].z[i] + {combined(row)};")
        lines.append(f"rates(b, w, c, {stage});")
    lines.append(f"EACH FOR_COMPONENTS w[g].d[i] = {combined(method.weights)};")
    step = _Step(system, _multiples(weights), _body(lines), stages=count)
    step.add_rates(count)
    return step.source(len(weights) * system.dim)


def _splitting(method: Splitting, system: System) -> StepSource:
    parts = [part.rows for part in method.parts(system)]
    field = system.equations.vector_field
    moves = moves_of(method.factors, len(parts))
    lines = ["EACH FOR_COMPONENTS w[g].v[i] = b[g].z[i], w[g].d[i] = value{};"]
    lines += [f"move_{part}(b, w, c, s[{k}]);" for k, (part, _) in enumerate(moves)]
    step = _Step(system, _multiples([factor for _, factor in moves]), _body(lines))
    move = "w[g].d[{i}] += s * ({x}); v[{i}] = b[g].z[{i}] + w[g].d[{i}];"
    for k, rows in enumerate(parts):
        calls = sum(part == k for part, _ in moves)
        step.add(f"move_{k}(real s", {i: field[i] for i in rows}, move, calls)
    return step.source()


def _boris(method: Boris, system: System) -> StepSource:
    dim = system.dim
    equations = system.equations
    positions, velocities = equations.halves
    algebra = equations.algebra
    half = len(positions)
    time = range(system.phase_dim, dim)
    lines = [
        "EACH FOR_COMPONENTS w[g].v[i] = b[g].z[i];",
        f"EACH w[g].v[{dim}] = value{{}} + s[0];",
    ]
    pairs = zip(positions, velocities, strict=True)
    lines += [f"EACH w[g].v[{i}] += (real)0.5 * s[0] * b[g].z[{k}];" for i, k in pairs]
    lines += [f"EACH w[g].v[{i}] += (real)0.5 * s[0];" for i in time]
    body = _body([*lines, "kick(b, w, c, 0);"])
    symbol = algebra.symbol("step")
    step = _Step(system, _multiples([1.0]), body, symbols=[*equations.symbols, symbol])
    h = Term(algebra, symbol)
    fields = np.array([[Term(algebra, value)] for value in field_formulas(system)])
    velocity = np.array([[Term(algebra, equations.symbols[k])] for k in velocities])
    change = kick(velocity, fields[:half], fields[half:], h)  # (component, 1)
    drift = h * velocity + (h / 2) * change
    moves = [*drift[:, 0], *change[:, 0], *(h for _ in time)]
    formulas = zip([*positions, *velocities, *time], moves, strict=True)
    step.add("kick(int", {i: term.value for i, term in formulas}, "w[g].d[{i}] = {x};")
    return step.source()


def _gauss_legendre(method: GaussLegendre, system: System) -> StepSource:
    stages = len(method.weights)
    dim = system.dim
    jacobian = system.equations.jacobian

    def coefficients(step: float) -> np.ndarray:
        matrix, weights = scaled_tableau(method.matrix, method.weights, step)
        return np.array([*matrix.ravel(), *weights, np.abs(matrix).max()])

    # a system without entries has an array all the same
    places = list(zip(*jacobian, strict=True)) or [(0,), (0,)]
    arrays = [
        f"static constexpr long {name}[] = {{{', '.join(map(str, numbers))}}};"
        for name, numbers in zip(("ROW", "COLUMN"), places, strict=True)
    ]
    step = _Step(system, coefficients, "", stages=stages, entries=len(jacobian))
    step.add_rates()
    step.add("jacobian(int stage", dict(enumerate(jacobian.values())), "w[g].j[stage][{i}] = {x};")
    # a round of the fixed-point iteration, and Newton's method with two matrices and six rounds
    field = step.work(0)
    slopes = step.work(1)
    rows = stages * dim
    round_ = stages * (field + len(jacobian)) + rows * (2 * stages + 5)
    newton = 6 * (round_ + rows**2) + 2 * (stages * slopes + 2 * rows**3)
    # one slow lane costs all lanes Newton's method
    contraction = 2.0 ** (-60 * round_ / (2 * newton))
    step.body = "\n".join(
        [*arrays, f"static constexpr real CONTRACTION = {contraction!r};", header("implicit.h")]
    )
    return replace(step.source(), operations=15 * round_)


_WRITERS: dict[type, Callable[[Any, System], StepSource]] = {
    ExplicitRungeKutta: _runge_kutta,
    Splitting: _splitting,
    Boris: _boris,
    GaussLegendre: _gauss_legendre,
}


def _multiples(weights: Sequence[float]) -> Callable[[float], np.ndarray]:
    return lambda step: step * np.array(weights)


def _body(lines: Sequence[str]) -> str:
    """Return the function ``step``, which computes the increments ``d``."""
    head = "static inline void step(block *b, work *w, const real *c, const real *s) {"
    return "\n".join([head, *[f"    {line}" for line in lines], "}"])


class _Step:
    """C++ of a step that is being written, from the graph of the formulas that it evaluates.

    Parameters
    ----------
    coefficients
        As in :class:`StepSource`.
    body
        The function ``step``, which calls those that are added.
    stages, entries
        Numbers of rates, and of entries of the Jacobian matrix at each stage, that are kept.
    symbols
        Symbols of the formulas, whose values are in ``v``; by default those of the system.

    Attributes
    ----------
    graph, parameters
        Graph of the formulas, and the values of its parameters.
    functions
        The functions so far.
    """

    def __init__(
        self,
        system: System,
        coefficients: Callable[[float], np.ndarray],
        body: str,
        *,
        stages: int = 1,
        entries: int = 0,
        symbols: Sequence[Symbol] = (),
    ) -> None:
        self.graph = ScalarGraph(MOST_OPERATIONS)
        self.body = body
        symbols = symbols or system.equations.symbols
        self._inputs = {symbol: self.graph.input(i) for i, symbol in enumerate(symbols)}
        self._system = system
        self._coefficients = coefficients
        self._stages = stages
        self._entries = entries
        self.functions: list[_Function] = []
        self.parameters: list[float] = []
        self._known: dict[float, int] = {}

    def add(self, head: str, values: Mapping[int, Value], statement: str, calls: int = 1) -> None:
        """Add a function of formulas, by place, see :class:`_Function`.

        Raises
        ------
        NotCompilable
            If the formulas are too long, or hold a function that is not known.
        """
        nodes = fold([*values.values()], self._inputs, self)
        self.functions.append(
            _Function(head, dict(zip(values, nodes, strict=True)), statement, calls)
        )

    def add_rates(self, calls: int = 1) -> None:
        """Add the function that keeps the rates of a stage."""
        field = dict(enumerate(self._system.equations.vector_field))
        self.add("rates(int stage", field, "w[g].k[stage][{i}] = {x};", calls)

    def work(self, k: int) -> int:
        """Return the number of operations of a function."""
        graph = self.graph
        nodes = [*self.functions[k].nodes.values()]
        return len(graph.needed(nodes, lambda n: not graph.varies[n])) + len(nodes)

    def source(self, more: int = 0) -> StepSource:
        """Return the source, of ``more`` operations than those of the functions."""
        graph = self.graph
        dim = self._system.dim
        given = {n: i for i, n in enumerate(self._inputs.values())}
        operations = more + sum(self.work(k) * f.calls for k, f in enumerate(self.functions))
        short = operations <= _SHORT
        constants: dict[int, int] = {}
        programs = [
            (InlineProgram if short else Program)(
                graph, [*f.nodes.values()], given, constants, slots=len(given), name=f"part_{k}"
            )
            for k, f in enumerate(self.functions)
        ]
        slots = max(program.slots for program in programs)
        rows = self._stages * dim
        numbers = rows + 7 * dim + slots
        most = 4
        if self._entries:  # rounds take as long as those of the slowest block
            numbers = numbers + self._stages * self._entries + 3 * rows**2
            most = 2
        sizes = {
            "DIM": dim,
            "SLOTS": slots,
            "STAGES": self._stages,
            "ENTRIES": self._entries,
            "BLOCKS": max(n for n in (1, 2, most) if n == 1 or n * numbers <= _CACHED),
            "CLOCK": -1 if self._system.explicit_time is None else self._system.explicit_time,
        }
        functions = [*map(_written, self.functions, programs)]  # they add constants
        frame = [
            scalar_function(graph, "compute_constants", list(constants)),
            "#define SHORT" * short,
            enumeration(**sizes),
            header("blocks.h"),
            *functions,
            self.body,
            header("iteration.h"),
        ]
        written = [part for program in programs for part in program.parts]
        units = translation_units(prelude("double", narrow=False), written, frame)
        return StepSource(units, self.parameters, len(constants), self._coefficients, operations)

    # the graph as a meaning of formulas

    def number(self, value: Number) -> int:
        """Return the node of a number."""
        if value == 0 or (isinstance(value, int) and size(value) <= _PLAIN):
            return self.graph.constant(float(value))
        if value < 0:
            return self.graph.negative(self.number(-value))
        number = float(value)
        if number not in self._known:
            self._known[number] = self.graph.parameter(len(self.parameters))
            self.parameters.append(number)
        return self._known[number]

    def sum(self, constant: Number, terms: list[tuple[int, Number]]) -> int:
        """Return the node of a sum; a factor that all terms have is taken out."""
        graph = self.graph
        common = size(terms[0][1])
        if constant or any(size(c) != common for _, c in terms):
            common = 1
        total = self.number(constant)
        for term, c in terms:
            part = graph.mul(self.number(1 if size(c) == common else size(c)), term)
            total = (graph.sub if c < 0 else graph.add)(total, part)
        return graph.mul(self.number(common), total)

    def product(self, factors: list[tuple[int, Number]]) -> int:
        """Return the node of a product; formulas that divide by the same share the division."""
        graph = self.graph
        product = one = graph.constant(1.0)
        for base, e in factors:
            power = self._raised(base, size(e))
            product = graph.mul(product, power if e > 0 else graph.div(one, power))
        return product

    def call(self, function: Function, *arguments: int) -> int:
        """Return the node of a function."""
        if function.machine is None:
            raise NotCompilable(f"there is no machine code for {function.name}")
        return function.machine(self.graph, *arguments)

    def _raised(self, base: int, exponent: Number) -> int:
        """Return a positive power: by squares and a root where that is possible."""
        graph = self.graph
        whole = int(exponent)
        rest = exponent - whole
        if whole > _LARGEST_MULTIPLIED or rest not in (0, Fraction(1, 2)):
            return graph.power(base, self.number(exponent))
        power = graph.power(base, graph.constant(whole))
        return graph.mul(power, graph.apply("sqrt", base)) if rest else power


def _written(function: _Function, program: Program) -> str:
    """Return the C++ of a function."""
    name, argument = function.head.split("(")
    inline = " __attribute__((always_inline))" if isinstance(program, InlineProgram) else ""
    statements = [
        function.statement.format(i=i, x=program.reference(n)) for i, n in function.nodes.items()
    ]
    return "\n".join(
        [
            f"static inline{inline} void {name}(block *b, work *w, const real *c, {argument}) {{",
            *[f"    EACH {{ value *v = w[g].v; {call} }}" for call in program.calls],
            "    EACH {",
            "        value *v = w[g].v;",
            *[f"        {statement}" for statement in statements],
            "    }",
            "}",
        ]
    )
