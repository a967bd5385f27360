"""Equations read from the tables of a system file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from vpintegrator.dynamics.conjugate import canonical_order
from vpintegrator.dynamics.equations import Equations, Stage, hamiltonian_rates
from vpintegrator.dynamics.expressions import (
    Algebra,
    Expression,
    Number,
    Scope,
    Symbol,
    Value,
    check_name,
    parse,
    readable,
    size,
)
from vpintegrator.errors import InputError, nearest, printable
from vpintegrator.storage.toml import check_keys

MAXIMUM_DIMENSION = 4096
_MOST_ITERATIONS = 10**6
_ROUNDING = Fraction(1, 10**100)
_PARTNERS = {  # keys of which one is there with each key
    **dict.fromkeys(("time", "chart"), ("hamiltonian", "vector_field", "measured")),
    "period": ("time",),
    "iterations": ("map",),
    "symplectic": ("map", "measured"),
}
_NUMBER = (str, int, float)
TEXTS = ("title", "subject", "reference", "description", "function")
_FORMULAS = ("parameters", "auxiliary", "vector_field", "invariants", "periodic")
_FURTHER = ("initial_conditions", "return_map", "defaults", "plot", "chart")
KEYS: dict[str, Any] = {  # kinds of values
    **dict.fromkeys((*TEXTS, "derivatives", "time"), str),
    **dict.fromkeys((*_FORMULAS, *_FURTHER), Mapping),
    **dict.fromkeys(("rounded", "measured", "divergence_free", "symplectic"), bool),
    **dict.fromkeys(("period", "hamiltonian", "iterations"), _NUMBER),
    "state": (Mapping, list),
    "map": (Mapping, list),
    "reversing_symmetry": list,
}
_WORDS = {
    str: "text in quotes",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    Mapping: "a table",
}


def check_table(table: Mapping[str, Any], kinds: Mapping[str, Any], where: str) -> None:
    """Raise InputError for a key of a table that is not known, or a value of another kind.

    Parameters
    ----------
    table, where
        The table, and its place for messages.
    kinds
        Kind of the value of each key, one of those in ``_WORDS``, or several.
    """
    check_keys(table, kinds, where)
    for key, value in table.items():
        own = kinds[key] if isinstance(kinds[key], tuple) else (kinds[key],)
        if not isinstance(value, own) or (isinstance(value, bool) and bool not in own):
            words = " or ".join(_WORDS[kind] for kind in own)
            found = printable(repr(value), 60)
            raise InputError(f"{where}, {key}: expected {words}, found {found}")


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
    result: dict[int, Value] = {}
    for key, text in entries.items():
        here = f"{where} {key}"
        if key not in arrays and key not in components:
            known = [*arrays, *components]
            hint = nearest(key, known) or f" (it has: {', '.join(known[:12])})"
            raise InputError(f"{here}: the state has no component '{key}'{hint}")
        indices = arrays[key] if key in arrays else (components.index(key),)
        texts = text if isinstance(text, list) and key in arrays else [text] * len(indices)
        if len(texts) != len(indices):
            raise InputError(f"{here}: {len(texts)} expressions for {len(indices)} components")
        if key in arrays and ("i" in scope.values or "i" in scope.integers):
            raise InputError(f"{here}: 'i' is the component's index; rename the parameter 'i'")
        for i, (index, entry) in enumerate(zip(indices, texts, strict=True)):
            if index in result:
                raise InputError(f"{here}: component {components[index]} is given twice")
            local = {"i": i} if key in arrays else {}
            own = replace(scope, integers={**scope.integers, **local})
            result[index] = parse(entry, own, here)
    return result


def plain_value(value: Any, where: str) -> Any:
    """Return a value as Python's own numbers, texts, lists and tables, which TOML and JSON hold.

    Raises
    ------
    InputError
        For anything else.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain_value(entry, f"{where}, {key}") for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(entry, where) for entry in value]
    if not isinstance(value, str | int | float) or value in (np.inf, -np.inf) or value != value:
        raise InputError(
            f"{where}: expected a finite number, a list of numbers or an expression in quotes, "
            f"found {printable(repr(value), 60)}"
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
    own = table.get("parameters", {})
    for name in overrides:
        if name not in own:
            hint = nearest(name, own) or f" (it has: {', '.join(own) or 'none'})"
            raise InputError(f"{source} has no parameter '{name}'{hint}")
    definitions = {**own, **overrides}
    scope = read_parameters(definitions, source)
    equations = read_state_and_formulas(table, source, scope, definitions)
    time, parts = table.get("time"), ("vector_field", "auxiliary", "hamiltonian")
    # names are looked for, not derivatives: an amplitude of zero is no mistake
    written = str([table.get(key) for key in parts])
    if time and not table.get("measured") and not re.search(rf"\b{time}\b", written):
        raise InputError(f"{source}, time: the equations do not depend on {time}; leave 'time' out")
    return equations, {name: _as_floats(scope.values[name]) for name in definitions}


def read_parameters(
    definitions: Mapping[str, Any], source: str, symbols: Sequence[str] = ()
) -> Scope:
    """Return the scope of parameters, some of which are symbols instead of their values.

    A parameter may be computed from those before it, as in I3 = "2/3*I1".
    """
    values: dict[str, Value | tuple[Value, ...]] = {}
    integers: dict[str, int] = {}
    scope = Scope(values, integers, Algebra())
    own = {name: scope.algebra.symbol(name) for name in symbols}
    for name, text in definitions.items():
        where = f"{source}, [parameters] {name}"
        check_name(name, where)
        if isinstance(text, Sequence) and not isinstance(text, str):
            values[name] = tuple(parse(entry, scope, where) for entry in text)
            continue
        value = values[name] = own[name] if name in own else parse(text, scope, where)
        if isinstance(value, int):
            integers[name] = value
    return scope


def _as_floats(value: Any) -> int | float | list[int | float]:
    if isinstance(value, tuple):
        return [entry if isinstance(entry, int) else float(entry) for entry in value]
    return value if isinstance(value, int) else float(value)


def read_state_and_formulas(
    table: Mapping[str, Any], source: str, parameters: Scope, definitions: Mapping[str, Any]
) -> Equations:
    """Read everything after the parameters, given the values of their names."""
    return _Reader(table, source, parameters).equations(definitions)


class _Reader:
    """Reader of a file's state and formulas.

    Parameters
    ----------
    table, source
        Table of the file, and its name for messages.
    scope
        The parameters.
    """

    def __init__(self, table: Mapping[str, Any], source: str, scope: Scope) -> None:
        self.table, self.source, self.algebra = table, source, scope.algebra
        for key, partners in _PARTNERS.items():
            if key in table and not any(partner in table for partner in partners):
                raise InputError(f"{source}: '{key}' goes with {' or '.join(partners)}")
        self.arrays: dict[str, tuple[int, ...]] = {}
        self.time, self.period = self._read_time(scope)
        self.components = self._read_components(scope)
        names = [name.replace("[", "_").replace("]", "") for name in self.components]
        taken = Counter([*scope.values, *self.arrays, *names])
        if twice := next((name for name, count in taken.items() if count > 1), None):
            raise InputError(
                f"{source}, state: the name '{twice}' is used twice, or typeset as another; "
                "rename one"
            )
        self.symbols = tuple(map(self.algebra.symbol, names))
        values = dict(scope.values)
        for name, indices in self.arrays.items():
            values[name] = tuple(self.symbols[i] for i in indices)
        if not self.arrays:
            values |= dict(zip(self.components, self.symbols, strict=True))
        elif self.time is not None:
            values[self.time] = self.symbols[-1]
        self.parameters, self.scope = scope, replace(scope, values=values)
        for name, text in table.get("auxiliary", {}).items():
            where = f"{source}, [auxiliary] {name}"
            if check_name(name, where) in values or name in scope.integers:
                raise InputError(f"{where}: the name '{name}' is used twice")
            values[name] = parse(text, self.scope, where)

    @property
    def phase_components(self) -> tuple[str, ...]:
        """Components without the time."""
        return self.components[: len(self.components) - (self.time is not None)]

    def equations(self, definitions: Mapping[str, Any]) -> Equations:
        """Return the equations."""
        table, where = self.table, f"{self.source}, [invariants]"
        invariants = {
            readable(name, where): parse(text, self.scope, f"{where} {name}")
            for name, text in table.get("invariants", {}).items()
        }
        stages, iterations = self._read_map()
        order = self._read_order()
        hamiltonian, vector_field = self._read_vector_field(order)
        if hamiltonian is not None and self.time is None and "energy" not in invariants:
            invariants = {"energy": hamiltonian, **invariants}
        return Equations(
            components=self.components,
            symbols=self.symbols,
            arrays=self.arrays,
            vector_field=vector_field,
            hamiltonian=hamiltonian,
            invariants=invariants,
            reversing_symmetries=self._read_symmetries(),
            periods=self._read_periods(),
            divergence_free=table.get("divergence_free"),
            scope=self.scope,
            source=self.source,
            table=table,
            definitions=definitions,
            explicit_time=None if self.time is None else len(self.components) - 1,
            stages=stages,
            iterations=iterations,
            symplectic=table.get("symplectic"),
            rounded=table.get("rounded", False),
            order=order,
        )

    def _read(self, entries: Mapping[str, Any], where: str) -> dict[int, Value]:
        return read_components(entries, where, self.scope, self.components, self.arrays)

    def _read_time(self, scope: Scope) -> tuple[str | None, Number | None]:
        """Return the name of the time and the period; None where nothing depends on it."""
        name, where = self.table.get("time"), f"{self.source}, period"
        if name is None:
            return None, None
        if name != "t":  # a reserved name
            check_name(name, f"{self.source}, time")
        period = parse(self.table["period"], scope, where) if "period" in self.table else None
        if period is None or isinstance(period, Expression):  # of parameters without values
            return name, None
        if period <= 0:
            raise InputError(f"{where}: a period is a positive number, not {float(period):g}")
        return name, period

    def _read_components(self, scope: Scope) -> tuple[str, ...]:
        """Return the names of the components, and note the arrays."""
        state, where = self.table.get("state"), f"{self.source}, state"
        components: list[str] = []
        if isinstance(state, Mapping):
            for name, length in state.items():
                check_name(name, where)
                known = {key: scope.integers.get(key, entry) for key, entry in scope.values.items()}
                count = parse(length, replace(scope, values=known), where)
                if not isinstance(count, int) or not 1 <= count <= MAXIMUM_DIMENSION:
                    raise InputError(
                        f"{where}: the length of '{name}' is {_shown(count)}, not a whole number "
                        f"between 1 and {MAXIMUM_DIMENSION}"
                    )
                self.arrays[name] = tuple(range(len(components), len(components) + count))
                components += [f"{name}[{i}]" for i in range(count)]
        elif isinstance(state, list) and all(isinstance(name, str) for name in state):
            components = [check_name(name, where) for name in state]
        if not components:
            raise InputError(
                f'{where}: expected names, as in state = ["q", "p"], or arrays, as in '
                "state = {q = 2, p = 2}"
            )
        components += [] if self.time is None else [self.time]
        if len(components) > MAXIMUM_DIMENSION:
            raise InputError(f"{where}: more than {MAXIMUM_DIMENSION} components in all")
        return tuple(components)

    def _read_map(self) -> tuple[tuple[Stage, ...], int]:
        """Return the stages of a map, and how often they are applied in a step."""
        table, source = self.table, self.source
        if "map" not in table:
            return (), 1
        entries = table["map"] if isinstance(table["map"], list) else [table["map"]]
        if not entries or not all(isinstance(entry, Mapping) and entry for entry in entries):
            raise InputError(
                f'{source}, [map]: write new values of components, as in q = "q + p", in a table '
                "[map] or in several [[map]] one after the other"
            )
        single = len(entries) == 1
        stages = [
            self._read(entry, f"{source}, [map]" if single else f"{source}, [[map]] {number},")
            for number, entry in enumerate(entries, start=1)
        ]
        # parameters that are whole numbers mean these, even where others are left open
        known = replace(self.parameters, values=dict(self.parameters.integers))
        count = parse(table.get("iterations", 1), known, f"{source}, iterations")
        if not isinstance(count, int) or not 1 <= count <= _MOST_ITERATIONS:
            raise InputError(
                f"{source}, iterations: expected a whole number of at least 1 and at most "
                f"{_MOST_ITERATIONS}, found {table['iterations']!r}"
            )
        return tuple(stages), count

    def _read_order(self) -> tuple[int, ...]:
        """Return the order of positions and momenta, empty where they stand so.

        Raises
        ------
        InputError
            If the components are no positions and as many momenta, or their names contradict that.
        """
        names, table = self.phase_components, self.table
        declared = [key for key in ("hamiltonian", "symplectic") if table.get(key, False)]
        if not declared and ("map" not in table or len(names) % 2):
            return ()
        if declared and len(names) % 2:
            raise InputError(
                f"{self.source}, {declared[0]}: the state lists positions and then as many "
                f"momenta, but it has {len(names)} components"
            )
        try:
            return canonical_order(names, f"{self.source}, state")
        except InputError:
            if declared:
                raise
            return ()

    def _read_vector_field(self, order: Sequence[int]) -> tuple[Value | None, tuple[Value, ...]]:
        """Return the Hamiltonian, if there is one, and the vector field."""
        table, source = self.table, self.source
        given = [
            key for key in ("hamiltonian", "vector_field", "map", "measured") if table.get(key)
        ]
        if len(given) != 1:
            raise InputError(
                f'{source}: give either hamiltonian = "..." or a table [vector_field] or [map], or '
                "measured = true where the equations are not known"
            )
        if given[0] in ("map", "measured"):
            return None, ()
        clock: tuple[Value, ...] = () if self.time is None else (1,)
        if given == ["hamiltonian"]:
            half = len(self.phase_components) // 2
            hamiltonian = parse(table["hamiltonian"], self.scope, f"{source}, hamiltonian")
            order = order or range(2 * half)
            halves = order[:half], order[half:]
            rates = hamiltonian_rates(hamiltonian, self.symbols, halves, self.algebra)
            return hamiltonian, (*rates, *clock)
        where = f"{source}, [vector_field]"
        field = self._read(table["vector_field"], where)
        if self.time is not None and len(self.components) - 1 in field:
            raise InputError(
                f"{where} {self.time}: this is the time, whose rate is 1; leave it out"
            )
        missing = [name for i, name in enumerate(self.phase_components) if i not in field]
        if missing:
            raise InputError(f"{where}: no equation for {', '.join(missing[:6])}")
        return None, (*(field[i] for i in range(len(field))), *clock)

    def _read_symmetries(self) -> tuple[tuple[dict[int, Number], ...], ...]:
        column = {symbol: j for j, symbol in enumerate(self.symbols)}
        matrices = []
        for number, entry in enumerate(self.table.get("reversing_symmetry", []), start=1):
            where = f"{self.source}, [[reversing_symmetry]] {number}"
            if not isinstance(entry, Mapping):
                raise InputError(f"{where}: write each as a table [[reversing_symmetry]]")
            images: dict[int, Value] = dict(enumerate(self.symbols))  # others are unchanged
            if self.time is not None:  # but for time, which goes back
                images[len(images) - 1] = self.algebra.scale(-1, self.symbols[-1])
            images |= self._read(entry, f"{where},")
            rows = [_linear(images[i], column, self.algebra) for i in range(len(images))]
            matrix = tuple(row for row in rows if row is not None)
            if len(matrix) < len(rows) or not _is_involution(matrix):
                raise InputError(
                    f"{where}: the map must be linear in the state, with constants, and applied "
                    "twice give the state back"
                )
            matrices.append(matrix)
        return tuple(matrices)

    def _read_periods(self) -> dict[int, Number]:
        where, entries = f"{self.source}, [periodic]", self.table.get("periodic", {})
        periods: dict[int, Number] = {}
        if self.period is not None:
            periods[len(self.components) - 1] = self.period
        for i, period in self._read(entries, where).items():
            if isinstance(period, Expression) or period < 0:
                raise InputError(
                    f"{where} {self.components[i]}: a period is a positive number, or 0 for a "
                    f"component of an array that is no angle, not {_shown(period)}"
                )
            periods |= {i: period} if period else {}
        return periods


def _shown(value: Value) -> str:
    return "a formula" if isinstance(value, Expression) else f"{float(value):g}"


def _linear(
    value: Value, column: Mapping[Symbol, int], algebra: Algebra
) -> dict[int, Number] | None:
    """Coefficients of a linear function by the number of the component, None for any other."""
    slopes = algebra.gradient(value)
    row = {symbol: c for symbol, c in slopes.items() if not isinstance(c, Expression)}
    rest = algebra.combine([(value, 1), *((symbol, -c) for symbol, c in row.items())])
    return {column[symbol]: c for symbol, c in row.items()} if rest == 0 else None


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
