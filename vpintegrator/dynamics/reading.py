"""Equations read from the tables of a system file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from vpintegrator.dynamics.conjugate import canonical_order
from vpintegrator.dynamics.equations import Equations, Stage
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
from vpintegrator.errors import InputError, nearest
from vpintegrator.storage.toml import check_keys

_MOST_AUXILIARY = 20_000
_MOST_STAGES = 1000
_MOST_ITERATIONS = 10**6
_OF_FLOWS = ("hamiltonian", "vector_field", "measured", "time", "period", "chart")
_OF_MAPS = ("iterations", "symplectic")


def table_of(table: Mapping[str, Any], key: str, source: str) -> Mapping[str, Any]:
    """Return a table in a table, empty where there is none.

    Raises
    ------
    InputError
        If it is something else.
    """
    value = table.get(key, {})
    if not isinstance(value, Mapping):
        raise InputError(f"{source}: '{key}' must be a table, written [{key}]")
    return value


def read_components(
    entries: Mapping[str, Any],
    where: str,
    scope: Scope,
    components: tuple[str, ...],
    arrays: Mapping[str, tuple[int, ...]],
) -> dict[int, Value]:
    """Read one expression for each component.

    A scalar is given as ``z1 = "..."``, an array as ``q = "...i..."`` or as a list of expressions.

    Returns
    -------
    dict
        Expressions by the number of the component, for those that are named.

    Raises
    ------
    InputError
        For a component that the state does not have, or that is given twice.
    """
    found: dict[int, Value] = {}
    for key, text in entries.items():
        here = f"{where} {key}"
        new: dict[int, Value] = {}
        if key in arrays:
            indices = arrays[key]
            if isinstance(text, list):
                if len(text) != len(indices):
                    raise InputError(
                        f"{here}: {len(text)} expressions for {len(indices)} components"
                    )
                texts = text
            else:
                texts = [text] * len(indices)
            if "i" in scope.values or "i" in scope.integers:
                raise InputError(f"{here}: 'i' is the component's index; rename the parameter 'i'")
            for i, (index, entry) in enumerate(zip(indices, texts, strict=True)):
                local = replace(scope, integers={**scope.integers, "i": i})
                new[index] = parse(entry, local, here)
        elif key in components:
            new[components.index(key)] = parse(text, scope, here)
        else:
            known = [*arrays, *components]
            raise InputError(
                f"{here}: the state has no component '{key}'"
                f"{nearest(key, known) or ' (it has: ' + ', '.join(known[:12]) + ')'}"
            )
        for index, expression in new.items():
            if index in found:
                raise InputError(f"{here}: component {components[index]} is given twice")
            found[index] = expression
    return found


def read_auxiliary(table: Mapping[str, Any], source: str, scope: Scope) -> Scope:
    """Return the scope with the names of the table ``[auxiliary]``, where there is one.

    Raises
    ------
    InputError
        If a name is taken, or an expression is not understood.
    """
    entries = table_of(table, "auxiliary", source)
    if len(entries) > (most := _MOST_AUXILIARY):
        raise InputError(f"{source}, [auxiliary]: more than the {most} expressions allowed")
    values = dict(scope.values)
    found = replace(scope, values=values)
    for name, text in entries.items():
        where = f"{source}, [auxiliary] {name}"
        check_name(name, where)
        if name in values or name in scope.integers:
            raise InputError(f"{where}: the name '{name}' is used twice")
        values[name] = parse(text, found, where)
    return found


def read_map(
    table: Mapping[str, Any],
    source: str,
    scope: Scope,
    components: tuple[str, ...],
    arrays: Mapping[str, tuple[int, ...]],
) -> tuple[tuple[Stage, ...], int]:
    """The stages of a map, and how often they are applied in a step; none where there is no map.

    Parameters
    ----------
    table
        Table of the file, as tomllib returns it.
    source
        The file's name, for messages.
    scope, components, arrays
        Meaning of the names, and components of the state.

    Raises
    ------
    InputError
        If the tables are not understood, or the file says something beside that goes with flows.
    """
    if "map" not in table:
        for name in _OF_MAPS:
            if name in table and not (name == "symplectic" and "measured" in table):
                raise InputError(f"{source}: '{name}' goes with a table [map]")
        return (), 1
    if (key := next((key for key in _OF_FLOWS if key in table), None)) is not None:
        raise InputError(f"{source}: '{key}' goes with differential equations, not with a [map]")
    given = table["map"]
    entries = given if isinstance(given, list) else [given]
    if not entries or not all(isinstance(entry, Mapping) and entry for entry in entries):
        raise InputError(
            f'{source}, [map]: write new values of components, as in q = "q + p", in a table [map] '
            "or in several [[map]] one after the other"
        )
    if len(entries) > _MOST_STAGES:
        raise InputError(f"{source}, [[map]]: more than the {_MOST_STAGES} stages allowed")
    stages = []
    for number, entry in enumerate(entries, start=1):
        where = f"{source}, [map]" if len(entries) == 1 else f"{source}, [[map]] {number},"
        stages.append(read_components(entry, where, scope, components, arrays))
    return tuple(stages), _iterations(table, source, scope)


def _iterations(table: Mapping[str, Any], source: str, scope: Scope) -> int:
    where = f"{source}, iterations"
    # parameters that are whole numbers mean these, even where others are left open
    known: dict[str, Any] = dict(scope.integers)
    count = parse(table.get("iterations", 1), Scope(known, scope.integers, scope.algebra), where)
    if isinstance(count, Expression) or count != int(count) or not 1 <= count <= _MOST_ITERATIONS:
        raise InputError(
            f"{where}: expected a whole number of at least 1 and at most {_MOST_ITERATIONS}, found "
            f"{table['iterations']!r}"
        )
    return int(count)


@dataclass(frozen=True)
class ExplicitTime:
    """The time as a component of the state.

    Attributes
    ----------
    name
        Name of the time in expressions.
    period
        Period of the equations in time, or None.
    """

    name: str
    period: Number | None


def read_explicit_time(table: Mapping[str, Any], source: str, scope: Scope) -> ExplicitTime | None:
    """Return the explicit time of a system file; None where its equations do not depend on time.

    Parameters
    ----------
    table
        Table of the file, as tomllib returns it.
    source
        The file's name, for messages.
    scope
        The parameters.

    Raises
    ------
    InputError
        If the name is none or taken, or the period is none.
    """
    name, where = table.get("time"), f"{source}, period"
    if name is None:
        if "period" in table:
            raise InputError(
                f'{where}: this is the period of equations in time; name that, as in time = "t" '
                "(periods of angles stand in the table [periodic])"
            )
        return None
    if not isinstance(name, str):
        raise InputError(f'{source}, time: expected a name, as in time = "t", found {name!r}')
    if name != "t":  # a reserved name
        check_name(name, f"{source}, time")
    if name in scope.values or name in scope.integers:
        raise InputError(
            f"{source}, time: the name '{name}' is that of a parameter; choose another"
        )
    if "period" not in table:
        return ExplicitTime(name, None)
    refuse_time(table["period"], name, where)
    period = parse(table["period"], scope, where)
    if isinstance(period, Expression):  # parameters have names here, and no values
        return ExplicitTime(name, None)
    if period <= 0:
        raise InputError(f"{where}: a period is a positive number, not {float(period):g}")
    return ExplicitTime(name, period)


def refuse_time(text: Any, name: str | None, where: str) -> None:
    """Raise InputError where what has to be a constant holds the time."""
    if name is not None and name in _names(text):
        raise InputError(f"{where}: this must be a constant, but depends on the time {name}")


def require_time(table: Mapping[str, Any], source: str) -> None:
    """Raise InputError where a file names a time that its equations do not hold.

    Names are looked for, not derivatives: an amplitude of zero is no mistake.
    """
    name = table.get("time")
    if name is None or "measured" in table:
        return
    tables = (table.get(key, {}) for key in ("vector_field", "auxiliary"))
    texts = [
        text for entries in tables if isinstance(entries, Mapping) for text in entries.values()
    ]
    if not any(name in _names(text) for text in (table.get("hamiltonian", ""), *texts)):
        raise InputError(f"{source}, time: the equations do not depend on {name}; leave 'time' out")


def _names(text: Any) -> set[str]:
    """Return the names in a formula, or in those of a list."""
    if isinstance(text, list):
        return set().union(*map(_names, text))
    return {*re.findall(r"\b[A-Za-z]\w*", text)} if isinstance(text, str) else set()


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
    parameters, scope = _read_parameters(table, source, overrides)
    definitions = {**table.get("parameters", {}), **overrides}
    equations = read_state_and_formulas(table, source, scope, definitions)
    require_time(table, source)
    return equations, {name: _plain(value) for name, value in parameters.items()}


class StateNames(NamedTuple):
    """Components of the state.

    Attributes
    ----------
    components, symbols
        Names of the components in order, and their symbols.
    arrays
        Indices of the components of each array.
    explicit_time
        The time as the last component; None where nothing depends on it.
    """

    components: tuple[str, ...]
    symbols: tuple[Symbol, ...]
    arrays: dict[str, tuple[int, ...]]
    explicit_time: ExplicitTime | None


def read_state_and_formulas(
    table: Mapping[str, Any], source: str, parameters: Scope, definitions: Mapping[str, Any]
) -> Equations:
    """Read everything after the parameters, given the values of their names."""
    state = _read_state(table, source, parameters)
    components, symbols, arrays, explicit_time = state
    values = dict(parameters.values)
    for name, indices in arrays.items():
        values[name] = tuple(symbols[i] for i in indices)
    if not arrays:
        values |= dict(zip(components, symbols, strict=True))
    elif explicit_time is not None:
        values[explicit_time.name] = symbols[-1]
    scope = Scope(values, parameters.integers, parameters.algebra)
    scope = read_auxiliary(table, source, scope)
    invariants = {
        readable(name, f"{source}, [invariants]"): parse(
            text, scope, f"{source}, [invariants] {name}"
        )
        for name, text in table_of(table, "invariants", source).items()
    }
    stages, iterations = read_map(table, source, scope, components, arrays)
    order = _read_order(table, source, state)
    hamiltonian, vector_field = _read_vector_field(table, source, scope, state, order)
    if len(invariants) > _MOST_INVARIANTS:
        raise InputError(
            f"{source}: {len(invariants)} invariants are more than the {_MOST_INVARIANTS} allowed"
        )
    if hamiltonian is not None and explicit_time is None and "energy" not in invariants:
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
        reversing_symmetries=_read_symmetries(table, source, scope, state),
        periods=_read_periods(table, source, scope, state),
        divergence_free=table.get("divergence_free"),
        scope=scope,
        source=source,
        table=table,
        definitions=definitions,
        explicit_time=None if explicit_time is None else len(components) - 1,
        stages=stages,
        iterations=iterations,
        symplectic=table.get("symplectic"),
        rounded=table.get("rounded", False),
        order=order,
    )


Parameter = Number | tuple[Number, ...]


def _plain(value: Parameter) -> int | float | list[int | float]:
    if isinstance(value, tuple):
        return [entry if isinstance(entry, int) else float(entry) for entry in value]
    return value if isinstance(value, int) else float(value)


def _read_parameters(
    file: Mapping[str, Any], source: str, overrides: Mapping[str, Any]
) -> tuple[dict[str, Parameter], Scope]:
    """Return the values of the parameters, and the scope of their names."""
    table = table_of(file, "parameters", source)
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
    scope = Scope(known_values, integers, Algebra())
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
    return parameters, scope


def _constant(text: Any, scope: Scope, where: str) -> Number:
    value = parse(text, scope, where)
    assert not isinstance(value, Expression)  # the value holds no variables
    return value


def _shown(value: Value) -> str:
    return "a formula" if isinstance(value, Expression) else f"{float(value):g}"


def _read_state(table: Mapping[str, Any], source: str, scope: Scope) -> StateNames:
    explicit_time, where = read_explicit_time(table, source, scope), f"{source}, state"
    parameters, integers = scope.values, scope.integers
    state = table.get("state")
    if state is None:
        raise InputError(f'{source}: the key \'state\' is missing, as in state = ["q", "p"]')
    components: list[str] = []
    arrays: dict[str, tuple[int, ...]] = {}
    if isinstance(state, Mapping):
        for name, length in state.items():
            check_name(name, where)
            known = {key: integers.get(key, entry) for key, entry in parameters.items()}
            count = parse(length, Scope(known, integers, scope.algebra), where)
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
    if explicit_time is not None:
        if explicit_time.name in uses:
            raise InputError(
                f"{where}: leave '{explicit_time.name}' out, the time is the last component "
                "by itself"
            )
        components.append(explicit_time.name)
    if not 1 <= len(components) <= MAXIMUM_DIMENSION:
        raise InputError(f"{where}: {len(components)} components, not 1 to {MAXIMUM_DIMENSION}")
    names = [c.replace("[", "_").replace("]", "") for c in components]
    if len(set(names)) < len(names) or set(names) & set(parameters):
        raise InputError(
            f"{where}: two names would be typeset alike; rename one of {', '.join(components[:12])}"
        )
    symbols = tuple(scope.algebra.symbol(name) for name in names)
    return StateNames(tuple(components), symbols, arrays, explicit_time)


def _read_order(table: Mapping[str, Any], source: str, state: StateNames) -> tuple[int, ...]:
    """Return the order of positions and momenta, empty where they stand so.

    Raises
    ------
    InputError
        If the components are no positions and as many momenta, or their names contradict that.
    """
    names = state.components[: len(state.components) - (state.explicit_time is not None)]
    declared = [key for key in ("hamiltonian", "symplectic") if table.get(key, False) is not False]
    if not declared and ("map" not in table or len(names) % 2):
        return ()
    if declared and len(names) % 2:
        raise InputError(
            f"{source}, {declared[0]}: the state lists positions and then as many momenta, but it "
            f"has {len(names)} components"
        )
    try:
        return canonical_order(names, f"{source}, state")
    except InputError:
        if declared:
            raise
        return ()


def _read_vector_field(
    table: Mapping[str, Any],
    source: str,
    scope: Scope,
    state: StateNames,
    order: Sequence[int],
) -> tuple[Value | None, tuple[Value, ...]]:
    components, symbols, arrays, explicit_time = state
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
    ticking: tuple[Value, ...] = () if explicit_time is None else (1,)
    if "hamiltonian" in table:
        half = (len(symbols) - len(ticking)) // 2
        hamiltonian = parse(table["hamiltonian"], scope, f"{source}, hamiltonian")
        algebra = scope.algebra
        algebra.allow_derivatives()
        slopes = algebra.gradient(hamiltonian)
        order = order or range(2 * half)
        rates: dict[int, Value] = {}
        for q, p in zip(order[:half], order[half:], strict=True):
            rates[q] = slopes.get(symbols[p], 0)
            rates[p] = algebra.scale(-1, slopes.get(symbols[q], 0))
        return hamiltonian, (*(rates[i] for i in range(2 * half)), *ticking)
    where = f"{source}, [vector_field]"
    entries = table_of(table, "vector_field", source)
    found = read_components(entries, where, scope, components, arrays)
    if explicit_time is not None and len(components) - 1 in found:
        raise InputError(
            f"{where} {explicit_time.name}: this is the time, whose rate is 1; leave it out"
        )
    names = components[: len(components) - len(ticking)]
    missing = [name for i, name in enumerate(names) if i not in found]
    if missing:
        raise InputError(f"{where}: no equation for {', '.join(missing[:6])}")
    return None, (*(found[i] for i in range(len(names))), *ticking)


def _read_symmetries(
    table: Mapping[str, Any], source: str, scope: Scope, state: StateNames
) -> tuple[tuple[dict[int, Number], ...], ...]:
    components, symbols, arrays, explicit_time = state
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
        if explicit_time is not None:  # but for time, which goes back
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
    table: Mapping[str, Any], source: str, scope: Scope, state: StateNames
) -> dict[int, Number]:
    components, _, arrays, explicit_time = state
    where = f"{source}, [periodic]"
    entries = table_of(table, "periodic", source)
    periods: dict[int, Number] = {}
    if explicit_time is not None:
        if explicit_time.name in entries:
            raise InputError(
                f"{where} {explicit_time.name}: the period of equations in time is given by the "
                "key 'period', outside of this table"
            )
        for name, text in entries.items():
            refuse_time(text, explicit_time.name, f"{where} {name}")
        if explicit_time.period is not None:
            periods[len(components) - 1] = explicit_time.period
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
