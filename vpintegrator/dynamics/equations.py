"""The equations of a system: as formulas, with the section of a return map, and as functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain
from typing import Any

import numpy as np

from vpintegrator.arguments import as_numpy
from vpintegrator.dynamics.expressions.algebra import Algebra
from vpintegrator.dynamics.expressions.evaluation import (
    ComponentFunction,
    arithmetic,
    can_be_written,
    evaluator,
    vectorised,
    written,
)
from vpintegrator.dynamics.expressions.nodes import Call, Expression, Number, Symbol, Value, below
from vpintegrator.dynamics.expressions.parsing import Scope
from vpintegrator.errors import InputError

# functions that may vanish but in a part of the domain
_LOCAL = {"abs", "sign", "exp", "tanh", "sigmoid", "erf"}

FunctionMaker = Callable[[Sequence[Value], Sequence[Symbol], str], ComponentFunction]
Stage = Mapping[int, Value]  # new values by the number of the component


@dataclass(frozen=True)
class Equations:
    """A system in formulas; its parameters are numbers in them, exact or of 120 digits.

    Parameters that are left open are symbols, and arrays when the formulas are computed.

    Attributes
    ----------
    components
        Names of the state's components in order, ``z1`` or ``q[0]``.
    symbols
        Symbols of the components (``q_0`` for ``q[0]``).
    arrays
        Indices of each array's components, for a state of arrays.
    vector_field
        Right-hand sides of z' = f(z), in the order of the components; none where the file says
        ``measured = true``, and for maps.
    hamiltonian
        H(q, p), or H(q, p, t), where the system was given by one, else None.
    invariants
        Functions constant along every solution, by name.
    reversing_symmetries
        Linear involutions rho with f(rho z) = -rho f(z): rows of the matrices, each with its
        entries that are not zero by their columns.
    periods
        Periods of the components that are angles, by the number of the component.
    divergence_free
        Declaration of the file, or None without one.
    scope
        Meaning of the names, and the algebra of the formulas.
    source, table, definitions
        Name and tables of the file, and the parameters as written.
    explicit_time
        Number of the component that is the time, the last; None where nothing depends on time.
    stages
        Stages of a map, applied one after the other: new values of the components that each stage
        changes, by number.
    iterations
        Number of times that all stages are applied in one step.
    symplectic
        Declaration of the file for a map, or None without one.
    rounded
        Whether constants are rounded to doubles, so that checks allow for rounding.
    returns
        Section of a return map, which has no formulas of its own.
    open
        Symbols of the parameters that are left open.
    order
        Numbers of all positions, then of their momenta; empty where the state has this order, or
        has neither.
    """

    components: tuple[str, ...]
    symbols: tuple[Symbol, ...]
    arrays: dict[str, tuple[int, ...]]
    vector_field: tuple[Value, ...]
    hamiltonian: Value | None
    invariants: dict[str, Value]
    reversing_symmetries: tuple[tuple[dict[int, Number], ...], ...]
    periods: dict[int, Number]
    divergence_free: bool | None
    scope: Scope = field(repr=False)
    source: str = field(repr=False)
    table: Mapping[str, Any] = field(repr=False)
    definitions: Mapping[str, Any] = field(repr=False)
    explicit_time: int | None = None
    stages: tuple[Stage, ...] = ()
    iterations: int = 1
    symplectic: bool | None = None
    rounded: bool = False
    returns: ReturnSection | None = None
    open: tuple[Symbol, ...] = ()
    order: tuple[int, ...] = ()

    def without_formulas(self) -> Equations:
        """Return the names, symmetries and angles alone, as of measured states."""
        return replace(
            self,
            vector_field=(),
            hamiltonian=None,
            invariants={},
            table={},
            stages=(),
            iterations=1,
            returns=None,
            open=(),
        )

    @property
    def halves(self) -> tuple[list[int], list[int]]:
        """Numbers of the positions, and of their momenta in the same order.

        Of systems without a canonical form they are the two halves of the state, without the time.
        """
        moving = len(self.order) or len(self.symbols) - (self.explicit_time is not None)
        half = moving // 2
        order = list(self.order or range(2 * half))
        return order[:half], order[half : 2 * half]

    @property
    def is_map(self) -> bool:
        """Whether they are of a map."""
        return bool(self.stages) or self.returns is not None

    @property
    def arguments(self) -> tuple[Symbol, ...]:
        """Symbols of the state, and then those of the open parameters."""
        return (*self.symbols, *self.open)

    @property
    def algebra(self) -> Algebra:
        """Algebra that builds the formulas."""
        return self.scope.algebra

    @cached_property
    def nodes(self) -> list[Any]:
        """The nodes of all formulas."""
        stages = chain.from_iterable(stage.values() for stage in self.stages)
        return below([*self.vector_field, *stages, *self.invariants.values()])

    @cached_property
    def is_local(self) -> bool:
        """Whether a claim may hold at generic states and fail in a part of the domain."""
        calls = [node for node in self.nodes if isinstance(node, Call)]
        return self.rounded or any(call.function.name in _LOCAL for call in calls)

    @cached_property
    def field(self) -> StateFunction:
        """The vector field as a function of states (..., dim)."""
        return StateFunction(self, self.vector_field)

    @cached_property
    def own_slopes(self) -> tuple[Value, ...]:
        """df_i/dz_i for every component, whose sum is the divergence."""
        return tuple(self.jacobian.get((i, i), 0) for i in range(len(self.vector_field)))

    @cached_property
    def divergence(self) -> Value:
        """Sum of df_i/dz_i."""
        return self.algebra.add(*self.own_slopes)

    @cached_property
    def jacobian(self) -> dict[tuple[int, int], Value]:
        """The entries df_i/dz_j that are not identically zero."""
        return self._slopes(dict(enumerate(self.vector_field)))

    @cached_property
    def stage_slopes(self) -> tuple[dict[tuple[int, int], Value], ...]:
        """Nonzero derivatives of each stage of a map, by (row, column)."""
        return tuple(map(self._slopes, self.stages))

    def _slopes(self, values: Stage) -> dict[tuple[int, int], Value]:
        index = {symbol: j for j, symbol in enumerate(self.symbols)}
        self.algebra.allow_derivatives()
        return {
            (i, index[symbol]): slope
            for i, value in values.items()
            for symbol, slope in self.algebra.gradient(value).items()
            if symbol in index  # and no parameter that is left open
        }


def hamiltonian_rates(
    hamiltonian: Value, symbols: Sequence[Symbol], halves: Sequence[Sequence[int]], algebra: Algebra
) -> tuple[Value, ...]:
    """Return dH/dp and -dH/dq in the order of the components; ``halves`` are positions, momenta."""
    algebra.allow_derivatives()
    slopes = algebra.gradient(hamiltonian)
    rates = dict[int, Value]()
    for q, p in zip(*halves, strict=True):
        rates[q] = slopes.get(symbols[p], 0)
        rates[p] = algebra.scale(-1, slopes.get(symbols[q], 0))
    return tuple(rates[i] for i in sorted(rates))


@dataclass(frozen=True)
class ReturnSection:
    """Section of a return map, in formulas of the flow's symbols.

    Attributes
    ----------
    flow
        The equations of the flow.
    component
        Number of the fixed component; for a stroboscopic map, of the time.
    value
        Value of the fixed component on the section.
    sign
        1 for crossings upwards, -1 downwards.
    crossings
        Number of crossings in one step.
    energy
        Energy on the section of a Hamiltonian flow without explicit time, else None.
    where
        The file and the table, for messages.
    period
        Period of the equations in time, for a stroboscopic map.
    """

    flow: Equations
    component: int
    value: Value
    sign: int
    crossings: int
    energy: Value | None
    where: str
    period: Value | None = None

    @property
    def stroboscopic(self) -> bool:
        """Whether the section is a phase of the time."""
        return self.component == self.flow.explicit_time

    @property
    def conjugate(self) -> int | None:
        """Number of the momentum that follows from the energy."""
        if self.energy is None:
            return None
        positions, momenta = self.flow.halves
        return momenta[positions.index(self.component)]

    @property
    def kept(self) -> list[int]:
        """Numbers of the flow's components that are states of the map."""
        left = (self.component, self.conjugate)
        return [i for i in range(len(self.flow.symbols)) if i not in left]

    @property
    def dim(self) -> int:
        """Number of components of the map's states."""
        return len(self.kept)

    @property
    def is_canonical(self) -> bool:
        """Whether the states are (q, p) of a Hamiltonian flow."""
        return self.flow.hamiltonian is not None

    @cached_property
    def parabola(self) -> tuple[Value, Value, Value] | None:
        """a, b and c of H - energy = a p**2/2 + b p + c, p the momentum that follows."""
        if self.conjugate is None:
            return None
        e = self.flow
        algebra = self.flow.algebra
        p = e.symbols[self.conjugate]
        hamiltonian = e.hamiltonian
        assert hamiltonian is not None and self.energy is not None
        algebra.allow_derivatives()
        slope = algebra.gradient(hamiltonian).get(p, 0)
        curvature = algebra.gradient(slope).get(p, 0)
        if curvature == 0 or (isinstance(curvature, Expression) and curvature.depends & p.depends):
            words = "follows from the energy only where the Hamiltonian is quadratic in it"
            raise InputError(f"{self.where}: {e.components[self.conjugate]} {words}")
        fixed = {e.symbols[self.component]: self.value, p: 0}
        a, b, c = algebra.substitute([curvature, slope, hamiltonian], fixed)
        return a, b, algebra.subtract(c, self.energy)

    @cached_property
    def momentum(self) -> Value | None:
        """The momentum that follows, as a formula."""
        if self.parabola is None:
            return None
        (a, b, c) = self.parabola
        algebra = self.flow.algebra
        square = algebra.subtract(algebra.multiply(b, b), algebra.multiply(2, a, c))
        root = algebra.call("sqrt", square)
        return algebra.divide(algebra.subtract(algebra.scale(self.sign, root), b), a)

    @property
    def plane(self) -> str:
        """The section as it is written."""
        value = self.value
        text = "..." if isinstance(value, Expression) else f"{float(value):g}"
        return f"{self.flow.components[self.component]} = {text}"

    @property
    def words(self) -> str:
        """The section and its coordinates, in a sentence."""
        names = ", ".join(self.flow.components[i] for i in self.kept)
        way = f"period to period at {self.plane}"
        if not self.stroboscopic:
            direction = "upwards" if self.sign > 0 else "downwards"
            way = f"crossing to crossing at {self.plane} {direction}"
        several = "" if self.crossings == 1 else f", {self.crossings} in one step"
        kind = "canonical coordinates" if self.is_canonical else "coordinates"
        return f"from {way}{several}; {kind} ({names})"


def is_tensor(state: object) -> bool:
    """Whether this is a torch tensor, found out without importing torch."""
    return type(state).__module__.partition(".")[0] == "torch" or hasattr(
        type(state), "__torch_function__"
    )


def as_array(state: Any) -> np.ndarray:
    """Return a floating-point (or complex) array of the state.

    Raises
    ------
    InputError
        If it is none of numbers.
    """
    try:
        array = as_numpy(state)
        return array if np.issubdtype(array.dtype, np.inexact) else array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"expected an array of numbers, not {type(state).__name__}") from None


def float_array(state: Any) -> np.ndarray:
    """Return doubles of an array or a tensor; raise InputError for complex numbers."""
    array = np.asarray(state.detach().cpu() if is_tensor(state) else state)
    if array.dtype.kind == "c":
        raise InputError("states of this system are real numbers, not complex ones")
    return array.astype(np.float64)


def as_given(values: np.ndarray, state: Any) -> Any:
    """Return values as a tensor where the state is one, else as they are."""
    return state.new_tensor(values) if is_tensor(state) else values


def stack_rows(values: Sequence[Any], like: Any, axis: int = 0) -> Any:
    """Stack values along a new axis, the first, each of the shape and kind of ``like``."""
    if not is_tensor(like):
        result = np.empty(
            (*like.shape, len(values)) if axis else (len(values), *like.shape), like.dtype
        )
        entries = np.moveaxis(result, axis, 0)
        for i, value in enumerate(values):
            entries[i] = value
        return result
    import torch

    if not values:
        return like.new_empty((*like.shape, 0)).movedim(-1, axis)
    rows = [v if isinstance(v, torch.Tensor) else torch.full_like(like, v) for v in values]
    if any(row.shape != like.shape for row in rows):
        rows = [row.expand(like.shape) for row in rows]
    return torch.stack(rows, axis)


def zeros_like(state: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Return zeros of the kind of an array or a tensor, and of its shape unless one is given."""
    shape = state.shape if shape is None else shape
    return state.new_zeros(shape) if is_tensor(state) else np.zeros_like(state, shape=shape)


class StateFunction:
    """Formulas as a function of states (..., dim), made for a library when first called.

    Where parameters are left open, it is a function of their values (..., name), too.
    """

    def __init__(self, equations: Equations, expressions: Sequence[Value]) -> None:
        self._dim = len(equations.symbols)
        self._open = len(equations.open)
        self.made = cache(lambda library: vectorised(expressions, equations.arguments, library))

    def __call__(self, state: Any, parameters: Any = None) -> Any:
        """Return the values of the expressions, (..., expression); with parameters, in NumPy."""
        state = state if is_tensor(state) else as_array(state)
        given = as_array(() if parameters is None else parameters)
        if (*state.shape[-1:], *given.shape[-1:]) != (self._dim, self._open):
            raise InputError(
                f"a state of this system has {self._dim} components in its last dimension, and "
                f"{self._open} open parameters, but the arrays given have shapes "
                f"{tuple(state.shape)} and {given.shape}"
            )
        if is_tensor(state) and not self._open:
            return stack_rows(self.made("torch")(*state.unbind(-1)), state[..., 0], -1)
        state = np.asarray(state)
        shape = np.broadcast_shapes(state.shape[:-1], given.shape[:-1])
        columns = [*np.moveaxis(state, -1, 0), *np.moveaxis(given, -1, 0)]
        return stack_rows(self.made("numpy")(*columns), np.empty(shape, state.dtype), -1)

    def by_component(self, components: Any, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return the values of the expressions one by one, of components (dim, ...).

        ``parameters`` are the values of open parameters, one by one: all arrays, or all tensors.
        """
        if len(parameters) != self._open:
            raise InputError("parameters of this system are left open; their values are needed")
        library = "torch" if is_tensor(components) else "numpy"
        return self.made(library)(*components, *parameters)


class SparseFunction:
    """Formulas as a function of those components and open parameters that they depend on.

    It serves loops that move some components at a time: no others are handed over.
    """

    def __init__(self, equations: Equations, expressions: Sequence[Value]) -> None:
        symbols = {s for value in expressions for s in equations.algebra.symbols(value)}
        self._needed = [j for j, symbol in enumerate(equations.arguments) if symbol in symbols]
        arguments = [equations.arguments[j] for j in self._needed]
        self._made = cache(lambda library: vectorised(expressions, arguments, library))

    def __call__(self, components: Sequence[Any]) -> list[Any]:
        """Return the values one by one, of components and then open parameters (...) one by one."""
        library = "torch" if is_tensor(components[0]) else "numpy"
        return self._made(library)(*[components[j] for j in self._needed])


class ScalarFunction(StateFunction):
    """A scalar function of the state."""

    def __init__(self, equations: Equations, expression: Value, name: str) -> None:
        super().__init__(equations, [expression])
        self.expression = expression
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name}: a function of states (..., {self._dim})>"

    def __call__(self, state: Any, parameters: Any = None) -> Any:
        return super().__call__(state, parameters)[..., 0]


class MatrixFunction(StateFunction):
    """A square matrix of formulas, given by its entries that are not identically zero."""

    def __init__(self, equations: Equations, entries: dict[tuple[int, int], Value]) -> None:
        super().__init__(equations, list(entries.values()))
        self._places = tuple(np.array(list(entries), int).reshape(-1, 2).T)

    def __call__(self, state: Any, parameters: Any = None) -> Any:
        """Return matrices (..., dim, dim)."""
        entries = super().__call__(state, parameters)
        result = zeros_like(entries, (*entries.shape[:-1], self._dim, self._dim))
        result[(..., *self._places)] = entries
        return result

    def matrices_by_component(self, components: Any, parameters: Sequence[Any] = ()) -> Any:
        """Return matrices (dim, dim, ...) of components (dim, ...)."""
        values = self.by_component(components, parameters)
        result = zeros_like(components, (self._dim, *components.shape))
        if is_tensor(components):
            result[self._places] = stack_rows(values, components[0])
        else:  # without a copy
            for row, column, value in zip(*self._places, values, strict=True):
                result[row, column] = value
        return result


class DoubleFormulas:
    """Expressions as a function of rows (row, symbol) of doubles, not compiled."""

    def __init__(self, expressions: Sequence[Value], symbols: Sequence[Symbol]) -> None:
        self._count = len(expressions)
        self._function: ComponentFunction = evaluator(expressions, symbols, arithmetic("numpy"))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return values (row, expression); not finite where there are none."""
        values = np.empty((len(rows), self._count))
        with np.errstate(all="ignore"):
            for column, value in zip(values.T, self._function(*rows.T), strict=True):
                column[:] = value
        return values


class FormulaDomain:
    """Domain of formulas: the states at which all of them are finite.

    Parameters
    ----------
    equations
        Equations, perhaps with open parameters.
    formulas
        Formulas of their symbols.
    """

    def __init__(self, equations: Equations, formulas: Sequence[Value]) -> None:
        self.equations = equations
        self.formulas = list(formulas)

    @classmethod
    def of_motion(cls, equations: Equations) -> FormulaDomain:
        """Return the domain of the vector field and the Hamiltonian, or of the first stage."""
        first = list(equations.stages[0].values()) if equations.stages else []
        energy = [] if equations.hamiltonian is None else [equations.hamiltonian]
        return cls(equations, [*energy, *equations.vector_field, *first])

    def outside(self, states: np.ndarray, parameters: np.ndarray | None = None) -> np.ndarray:
        """Return whether states (state, dim) are outside, of values of parameters (state, name)."""
        rows = states if parameters is None else np.hstack([states, parameters])
        values = DoubleFormulas(self.formulas, self.equations.arguments)(rows)
        return ~np.isfinite(values).all(axis=1)

    def reason(self, state: np.ndarray, parameters: np.ndarray | None = None) -> str:
        """Return the innermost formula without a value at a state (dim,), and the state."""
        e = self.equations
        numbers = [*state, *(() if parameters is None else parameters)]
        names = {s: s.name for s in e.arguments} | dict(zip(e.symbols, e.components, strict=True))
        nodes = below(self.formulas)
        row = np.array([numbers], dtype=np.float64)
        values = DoubleFormulas(nodes, e.arguments)(row)[0]
        node = nodes[np.flatnonzero(~np.isfinite(values))[0]]  # parts come first
        used = [k for k, s in enumerate(e.arguments) if node.depends & s.depends][:4]
        told = ", ".join(f"{names[e.arguments[k]]} = {numbers[k]:.6g}" for k in used)
        text = written(node, names) if can_be_written(node) else "a long formula"
        return f"{told} is outside of the domain of {text}"
