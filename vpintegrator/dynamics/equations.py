"""The equations of a system as formulas, read from the tables of a system file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.dynamics.auxiliary import read_auxiliary
from vpintegrator.dynamics.clock import Clock, read_clock, refuse_time, require_time
from vpintegrator.dynamics.component_table import read_components
from vpintegrator.dynamics.expressions import (
    Algebra,
    Expression,
    Number,
    Scope,
    Sum,
    Symbol,
    Value,
    check_name,
    parse,
    readable,
    size,
    tidy,
)
from vpintegrator.dynamics.map_equations import Stage, read_map
from vpintegrator.dynamics.tables import read_tables
from vpintegrator.errors import InputError, nearest
from vpintegrator.storage.toml import check_keys

if TYPE_CHECKING:
    from vpintegrator.dynamics.section import ReturnSection

MAXIMUM_DIMENSION = 4096
_MOST_SYMMETRIES = 64
_MOST_INVARIANTS = 1000
_ROUNDING = Fraction(1, 10**100)
_KEYS = {
    "title",
    "subject",
    "reference",
    "description",
    "state",
    "time",
    "period",
    "parameters",
    "auxiliary",
    "tables",
    "rounded",
    "hamiltonian",
    "vector_field",
    "map",
    "iterations",
    "return_map",
    "measured",
    "function",
    "derivatives",
    "invariants",
    "divergence_free",
    "symplectic",
    "reversing_symmetry",
    "symmetry",
    "periodic",
    "initial_conditions",
    "defaults",
    "plot",
    "chart",
}
_MEANT = {
    "components": "state",
    "variables": "state",
    "equations": "vector_field",
    "ode": "vector_field",
    "rhs": "vector_field",
    "constants": "parameters",
    "name": "title",
    "energy": "hamiltonian",
    "discrete": "map",
}


@dataclass(frozen=True)
class Equations:
    """A system in formulas; its parameters are numbers in them, exact or of 120 digits.

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
    clock
        Number of the component that is the time, the last; None where nothing depends on time.
    stages
        Stages of a map, applied one after the other: new values of the components that each stage
        changes, by number.
    iterations
        Number of times that all stages are applied in one step.
    symplectic
        Declaration of the file for a map, or None without one.
    rounded
        Whether constants are rounded to doubles, and claims checked to their rounding only.
    returns
        Section of a return map, which has no formulas of its own.
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
    clock: int | None = None
    stages: tuple[Stage, ...] = ()
    iterations: int = 1
    symplectic: bool | None = None
    rounded: bool = False
    returns: ReturnSection | None = None

    @property
    def is_map(self) -> bool:
        """Whether they are of a map."""
        return bool(self.stages) or self.returns is not None

    @property
    def algebra(self) -> Algebra:
        """Algebra that builds the formulas."""
        return self.scope.algebra

    @cached_property
    def exact(self) -> Equations:
        """Equations with names for the parameters and for pi, as in handwriting."""
        algebra = Algebra(exact=True)
        values: dict[str, Value | tuple[Value, ...]] = {
            name: tuple(algebra.symbol(f"{name}_{i}", varies=False) for i in range(len(value)))
            if isinstance(value, tuple)
            else algebra.symbol(name, varies=False)
            for name, value in self.scope.values.items()
            if name in self.definitions
        }
        numeric = ("reversing_symmetry", "symmetry", "periodic", "period")
        table = {key: entry for key, entry in self.table.items() if key not in numeric}
        return read_state_and_formulas(
            table, self.source, values, dict(self.scope.integers), algebra, self.definitions
        )

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
        index = {symbol: j for j, symbol in enumerate(self.symbols)}
        self.algebra.allow_derivatives()
        return {
            (i, index[symbol]): slope
            for i, component in enumerate(self.vector_field)
            for symbol, slope in self.algebra.gradient(component).items()
            if symbol in index  # and no parameter that is left open
        }

    @cached_property
    def stage_slopes(self) -> tuple[dict[tuple[int, int], Value], ...]:
        """Nonzero derivatives of each stage of a map, by (row, column)."""
        index = {symbol: j for j, symbol in enumerate(self.symbols)}
        self.algebra.allow_derivatives()
        return tuple(
            {
                (i, index[symbol]): slope
                for i, value in stage.items()
                for symbol, slope in self.algebra.gradient(value).items()
                if symbol in index
            }
            for stage in self.stages
        )


def plain_values(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return values of parameters as Python's own numbers, texts and lists, which JSON can hold.

    Raises
    ------
    InputError
        For anything else, such as an array of two dimensions.
    """
    return {name: _plain_value(value, f"{source}, {name}") for name, value in values.items()}


def _plain_value(value: Any, where: str) -> Any:
    if isinstance(value, np.ndarray):
        if value.ndim > 1:
            raise InputError(
                f"{where}: a parameter is a number or a list of numbers, not an array of shape "
                f"{value.shape}"
            )
        value = value.tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        entries = [_plain_value(entry, where) for entry in value]
        if any(isinstance(entry, list) for entry in entries):
            raise InputError(f"{where}: a parameter is a number or a list of numbers, not of lists")
        return entries
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(
            f"{where}: expected a number, a list of numbers or an expression in quotes, found "
            f"{value!r}"
        )
    return value


def read_equations(
    table: Mapping[str, Any], source: str, overrides: Mapping[str, Any]
) -> tuple[Equations, dict[str, Any]]:
    """Translate the tables of a system file.

    Parameters
    ----------
    table
        Table of the file, as tomllib returns it.
    source
        The file's name, for messages.
    overrides
        Parameter values that replace those of the file.

    Returns
    -------
    equations, parameters
        The second holds the parameters' values as plain numbers or lists.

    Raises
    ------
    InputError
        Naming the file, the key and, inside an expression, the column.
    """
    check_keys(table, _KEYS, source, _MEANT)
    algebra = Algebra()
    parameters = _read_parameters(table, source, overrides, algebra)
    values: dict[str, Value | tuple[Value, ...]] = dict(parameters)
    definitions = {**table.get("parameters", {}), **overrides}
    integers = {name: value for name, value in parameters.items() if isinstance(value, int)}
    equations = read_state_and_formulas(table, source, values, integers, algebra, definitions)
    require_time(table, source)
    return equations, {name: _plain(value) for name, value in parameters.items()}


def read_state_and_formulas(
    table: Mapping[str, Any],
    source: str,
    values: dict[str, Value | tuple[Value, ...]],
    integers: dict[str, int],
    algebra: Algebra,
    definitions: Mapping[str, Any],
) -> Equations:
    """Read everything after the parameters, given the values of the names."""
    clock = read_clock(table, source, Scope(values, integers, algebra))
    components, symbols, arrays = _read_state(table, source, values, integers, algebra, clock)
    for name, indices in arrays.items():
        values[name] = tuple(symbols[i] for i in indices)
    if not arrays:
        values |= dict(zip(components, symbols, strict=True))
    elif clock is not None:
        values[clock.name] = symbols[-1]
    functions = read_tables(table, source, {*values})
    scope = read_auxiliary(table, source, Scope(values, integers, algebra, functions))
    invariants = {
        readable(name, f"{source}, [invariants]"): parse(
            text, scope, f"{source}, [invariants] {name}"
        )
        for name, text in _table(table, "invariants", source).items()
    }
    stages, iterations = read_map(table, source, scope, components, arrays)
    hamiltonian, vector_field = _read_vector_field(
        table, source, scope, components, symbols, arrays, clock
    )
    if len(invariants) > _MOST_INVARIANTS:
        raise InputError(
            f"{source}: {len(invariants)} invariants are more than the {_MOST_INVARIANTS} allowed"
        )
    if hamiltonian is not None and clock is None and "energy" not in invariants:
        invariants = {"energy": hamiltonian, **invariants}
    for key in ("divergence_free", "symplectic", "rounded"):
        if not isinstance(table.get(key, False), bool):
            raise InputError(f"{source}, {key}: expected true or false, found {table[key]!r}")
    return Equations(
        components=components,
        symbols=symbols,
        arrays=arrays,
        vector_field=vector_field,
        hamiltonian=hamiltonian,
        invariants=invariants,
        reversing_symmetries=_read_symmetries(
            table, source, scope, components, symbols, arrays, clock
        ),
        periods=_read_periods(table, source, scope, components, arrays, clock),
        divergence_free=table.get("divergence_free"),
        scope=scope,
        source=source,
        table=table,
        definitions=definitions,
        clock=None if clock is None else len(components) - 1,
        stages=stages,
        iterations=iterations,
        symplectic=table.get("symplectic"),
        rounded=table.get("rounded", False),
    )


Parameter = Number | tuple[Number, ...]


def _plain(value: Parameter) -> int | float | list[int | float]:
    if isinstance(value, tuple):
        return [entry if isinstance(entry, int) else float(entry) for entry in value]
    return value if isinstance(value, int) else float(value)


def _table(table: Mapping[str, Any], key: str, source: str) -> Mapping[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, Mapping):
        raise InputError(f"{source}: '{key}' must be a table, written [{key}]")
    return value


def _read_parameters(
    file: Mapping[str, Any], source: str, overrides: Mapping[str, Any], algebra: Algebra
) -> dict[str, Parameter]:
    table = file.get("parameters", {})
    if not isinstance(table, Mapping):
        raise InputError(f"{source}: 'parameters' must be a table, written [parameters]")
    for name in overrides:
        if name not in table:
            known = ", ".join(table) or "none"
            raise InputError(
                f"{source} has no parameter '{name}'{nearest(name, table) or f' (it has: {known})'}"
            )
    parameters: dict[str, Parameter] = {}
    known_values: dict[str, Value | tuple[Value, ...]] = {}
    integers: dict[str, int] = {}
    # a parameter may be computed from those before it, as in I3 = "2/3"
    scope = Scope(known_values, integers, algebra)
    for name, default in table.items():
        where = f"{source}, [parameters] {name}"
        check_name(name, where)
        text = overrides.get(name, default)
        if name != file.get("time"):  # the time has a message of its own
            refuse_time(text, file.get("time"), where)
        if isinstance(text, Sequence) and not isinstance(text, str):
            parameters[name] = tuple(_constant(entry, scope, where) for entry in text)
        else:
            parameters[name] = value = _constant(text, scope, where)
            if isinstance(value, int):
                integers[name] = value
        known_values[name] = parameters[name]
    return parameters


def _constant(text: Any, scope: Scope, where: str) -> Number:
    value = parse(text, scope, where)
    assert not isinstance(value, Expression)  # the value holds no variables
    return value


def _shown(value: Value) -> str:
    return "a formula" if isinstance(value, Expression) else f"{float(value):g}"


def _read_state(
    table: Mapping[str, Any],
    source: str,
    parameters: Mapping[str, Any],
    integers: Mapping[str, int],
    algebra: Algebra,
    clock: Clock | None,
) -> tuple[tuple[str, ...], tuple[Symbol, ...], dict[str, tuple[int, ...]]]:
    where = f"{source}, state"
    state = table.get("state")
    if state is None:
        raise InputError(f'{source}: the key \'state\' is missing, as in state = ["q", "p"]')
    components: list[str] = []
    arrays: dict[str, tuple[int, ...]] = {}
    if isinstance(state, Mapping):
        for name, length in state.items():
            check_name(name, where)
            known = {key: integers.get(key, entry) for key, entry in parameters.items()}
            count = parse(length, Scope(known, integers, algebra), where)
            if not isinstance(count, int) or not 1 <= count <= MAXIMUM_DIMENSION:
                found = count if isinstance(count, int) else _shown(count)
                raise InputError(
                    f"{where}: the length of '{name}' is {found}, not a whole number between "
                    f"1 and {MAXIMUM_DIMENSION}"
                )
            if len(components) + count > MAXIMUM_DIMENSION:
                raise InputError(f"{where}: more than {MAXIMUM_DIMENSION} components in all")
            arrays[name] = tuple(range(len(components), len(components) + count))
            components += [f"{name}[{i}]" for i in range(count)]
    elif isinstance(state, list) and state and all(isinstance(name, str) for name in state):
        components = [check_name(name, where) for name in state]
    else:
        raise InputError(
            f'{where}: expected names, as in ["z1", "z2"], or arrays, as in {{q = 2, p = 2}}'
        )
    uses = Counter(list(arrays) or components)
    for name, count in uses.items():
        if count > 1 or name in parameters:
            raise InputError(f"{where}: the name '{name}' is used twice")
    if clock is not None:
        if clock.name in uses:
            raise InputError(
                f"{where}: leave '{clock.name}' out, the time is the last component by itself"
            )
        components.append(clock.name)
    if not 1 <= len(components) <= MAXIMUM_DIMENSION:
        raise InputError(f"{where}: {len(components)} components, not 1 to {MAXIMUM_DIMENSION}")
    names = [c.replace("[", "_").replace("]", "") for c in components]
    if len(set(names)) < len(names) or set(names) & set(parameters):
        raise InputError(
            f"{where}: two names would be typeset alike; rename one of {', '.join(components[:12])}"
        )
    symbols = tuple(algebra.symbol(name) for name in names)
    return tuple(components), symbols, arrays


def _read_vector_field(
    table: Mapping[str, Any],
    source: str,
    scope: Scope,
    components: tuple[str, ...],
    symbols: tuple[Symbol, ...],
    arrays: Mapping[str, tuple[int, ...]],
    clock: Clock | None,
) -> tuple[Value | None, tuple[Value, ...]]:
    if (measured := table.get("measured", False)) is not False:
        if measured is not True or "hamiltonian" in table or "vector_field" in table:
            raise InputError(
                f"{source}, measured: write measured = true where the equations are not known, "
                "with neither hamiltonian nor [vector_field]"
            )
        return None, ()
    if "map" in table:
        return None, ()
    if ("hamiltonian" in table) == ("vector_field" in table):
        raise InputError(
            f'{source}: give either hamiltonian = "..." or a table [vector_field] or [map]'
            + (", not both" if "hamiltonian" in table else "")
        )
    ticking: tuple[Value, ...] = () if clock is None else (1,)
    if "hamiltonian" in table:
        half, odd = divmod(len(symbols) - len(ticking), 2)
        if odd:
            raise InputError(
                f"{source}, hamiltonian: the state must list the positions and then as many "
                f"momenta, but it has {len(symbols) - len(ticking)} components"
            )
        hamiltonian = parse(table["hamiltonian"], scope, f"{source}, hamiltonian")
        algebra = scope.algebra
        algebra.allow_derivatives()
        slopes = algebra.gradient(hamiltonian)
        field = [slopes.get(symbol, 0) for symbol in symbols[: 2 * half]]
        forces = (algebra.scale(-1, slope) for slope in field[:half])
        return hamiltonian, (*field[half:], *forces, *ticking)
    where = f"{source}, [vector_field]"
    entries = _table(table, "vector_field", source)
    found = read_components(entries, where, scope, components, arrays)
    if clock is not None and len(components) - 1 in found:
        raise InputError(f"{where} {clock.name}: this is the time, whose rate is 1; leave it out")
    names = components[: len(components) - len(ticking)]
    missing = [name for i, name in enumerate(names) if i not in found]
    if missing:
        raise InputError(f"{where}: no equation for {', '.join(missing[:6])}")
    return None, (*(found[i] for i in range(len(names))), *ticking)


def _read_symmetries(
    table: Mapping[str, Any],
    source: str,
    scope: Scope,
    components: tuple[str, ...],
    symbols: tuple[Symbol, ...],
    arrays: Mapping[str, tuple[int, ...]],
    clock: Clock | None,
) -> tuple[tuple[dict[int, Number], ...], ...]:
    entries = table.get("reversing_symmetry", [])
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise InputError(f"{source}: write each reversing symmetry as [[reversing_symmetry]]")
    if len(entries) > _MOST_SYMMETRIES:
        raise InputError(
            f"{source}: {len(entries)} reversing symmetries are more than the {_MOST_SYMMETRIES} "
            "allowed"
        )
    column = {symbol: j for j, symbol in enumerate(symbols)}
    matrices = []
    for number, entry in enumerate(entries, start=1):
        where = f"{source}, [[reversing_symmetry]] {number},"
        images: dict[int, Value] = dict(enumerate(symbols))  # other components are unchanged
        if clock is not None:  # but for time, which goes back
            images[len(symbols) - 1] = scope.algebra.scale(-1, symbols[-1])
        images |= read_components(entry, where, scope, components, arrays)
        rows = [_linear(images[i], column, scope.algebra) for i in range(len(symbols))]
        matrix = [row for row in rows if row is not None]
        if len(matrix) < len(rows):
            raise InputError(f"{where[:-1]}: the map must be linear in the state, with constants")
        if not _is_involution(matrix):
            raise InputError(f"{where[:-1]}: applied twice, the map must give the state back")
        matrices.append(tuple(matrix))
    return tuple(matrices)


def _read_periods(
    table: Mapping[str, Any],
    source: str,
    scope: Scope,
    components: tuple[str, ...],
    arrays: Mapping[str, tuple[int, ...]],
    clock: Clock | None,
) -> dict[int, Number]:
    where = f"{source}, [periodic]"
    entries = _table(table, "periodic", source)
    periods: dict[int, Number] = {}
    if clock is not None:
        if clock.name in entries:
            raise InputError(
                f"{where} {clock.name}: the period of equations in time is given by the key "
                "'period', outside of this table"
            )
        for name, text in entries.items():
            refuse_time(text, clock.name, f"{where} {name}")
        if clock.period is not None:
            periods[len(components) - 1] = clock.period
    for i, period in read_components(entries, where, scope, components, arrays).items():
        if isinstance(period, Expression) or period < 0:
            raise InputError(
                f"{where} {components[i]}: a period is a positive number, or 0 for a component of "
                f"an array that is no angle, not {_shown(period)}"
            )
        if period:
            periods[i] = period
    return periods


def _linear(
    value: Value, column: Mapping[Symbol, int], algebra: Algebra
) -> dict[int, Number] | None:
    """Coefficients of a linear function by the number of the component, None for any other."""
    row: dict[int, Number] = {}
    stack: list[tuple[Value, Number]] = [(value, 1)]
    while stack:
        part, factor = stack.pop()
        match part:
            case Symbol():
                row[column[part]] = tidy(row.get(column[part], 0) + factor)
            case Sum(constant=0, terms=terms):
                algebra.spend(len(terms))
                stack.extend((term, tidy(factor * c)) for term, c in terms)
            case int(0):
                pass
            case _:
                return None
    return {j: c for j, c in row.items() if c}


def _is_involution(matrix: Sequence[Mapping[int, Number]]) -> bool:
    """Whether a matrix is its own inverse, but for the rounding of irrational numbers."""
    for i, row in enumerate(matrix):
        square: dict[int, Number] = {i: -1}
        for j, c in row.items():
            for k, d in matrix[j].items():
                square[k] = square.get(k, 0) + c * d
        if any(size(entry) > _ROUNDING for entry in square.values()):
            return False
    return True
