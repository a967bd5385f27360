"""Equations read from the tables of a system file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import count
from typing import Any, NoReturn

import numpy as np

from vpintegrator.dynamics.conjugate import canonical_order
from vpintegrator.dynamics.equations import Equations, Stage, hamiltonian_rates
from vpintegrator.dynamics.expressions.algebra import Algebra
from vpintegrator.dynamics.expressions.nodes import Expression, Number, Symbol, Value, size
from vpintegrator.dynamics.expressions.parsing import Scope, check_name, parse, readable
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
    "lagrangian": ("measured",),
}
_NUMBER = (str, int, float)
TEXTS = ("title", "subject", "reference", "description", "function")
_FORMULAS = ("parameters", "auxiliary", "vector_field", "invariants", "periodic")
_FURTHER = ("initial_conditions", "return_map", "defaults", "plot", "chart")
KEYS: dict[str, Any] = {  # kinds of values
    **dict.fromkeys((*TEXTS, "derivatives", "time"), str),
    **dict.fromkeys((*_FORMULAS, *_FURTHER), Mapping),
    **dict.fromkeys(("rounded", "measured", "divergence_free", "symplectic", "lagrangian"), bool),
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
        allowed = kinds[key] if isinstance(kinds[key], tuple) else (kinds[key],)
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            words = " or ".join(_WORDS[kind] for kind in allowed)
            text = printable(repr(value), 60)
            raise InputError(f"{where}, {key}: expected {words}, found {text}")


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
        if key in arrays:
            indices = arrays[key]
            texts = text if isinstance(text, list) else [text] * len(arrays[key])
        elif key in components:
            indices = (components.index(key),)
            texts = [text]
        else:
            known = [*arrays, *components]
            hint = nearest(key, known) or f" (it has: {', '.join(known[:12])})"
            raise InputError(f"{here}: the state has no component '{key}'{hint}")
        if len(texts) != len(indices):
            raise InputError(f"{here}: {len(texts)} expressions for {len(indices)} components")
        if key in arrays and ("i" in scope.values or "i" in scope.integers):
            raise InputError(f"{here}: 'i' is the component's index; rename the parameter 'i'")
        for i, (index, entry) in enumerate(zip(indices, texts, strict=True)):
            if index in result:
                raise InputError(f"{here}: component {components[index]} is given twice")
            local = {"i": i} if key in arrays else {}
            result[index] = parse(entry, replace(scope, integers={**scope.integers, **local}), here)
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
    declared = table.get("parameters", {})
    if unknown := [name for name in overrides if name not in declared]:
        hint = nearest(unknown[0], declared) or f" (it has: {', '.join(declared) or 'none'})"
        raise InputError(f"{source} has no parameter '{unknown[0]}'{hint}")
    definitions = {**declared, **overrides}
    scope = read_parameters(definitions, source)
    equations = read_state_and_formulas(table, source, scope, definitions)
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
    open_symbols = {name: scope.algebra.symbol(name) for name in symbols}
    for name, text in definitions.items():
        where = f"{source}, [parameters] {check_name(name, f'{source}, [parameters] {name}')}"
        if isinstance(text, Sequence) and not isinstance(text, str):
            values[name] = tuple(parse(entry, scope, where) for entry in text)
            continue
        value = values[name] = (
            open_symbols[name] if name in open_symbols else parse(text, scope, where)
        )
        if isinstance(value, int):
            integers[name] = value
    return scope


def _as_floats(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_floats(entry) for entry in value]
    return value if isinstance(value, int) else float(value)


def read_state_and_formulas(
    table: Mapping[str, Any], source: str, parameters: Scope, definitions: Mapping[str, Any]
) -> Equations:
    """Read everything after the parameters, given the values of their names."""
    return _Reader(table, source, parameters).equations(definitions)


def component_names(table: Mapping[str, Any], source: str) -> tuple[str, ...]:
    """Return the names of the components of a system file, of which no formula is read."""
    return _Reader(table, source, read_parameters(table.get("parameters", {}), source)).components


class _Reader:
    """Reader of a file's state and formulas.

    Parameters
    ----------
    table, source
        Table of the file, and its name for messages.
    parameters
        The parameters.
    """

    def __init__(self, table: Mapping[str, Any], source: str, parameters: Scope) -> None:
        self.table = table
        self.source = source
        self.parameters = parameters
        self.algebra = parameters.algebra
        self.time = table.get("time")
        for key, partners in _PARTNERS.items():
            if key in table and not any(partner in table for partner in partners):
                raise InputError(f"{source}: '{key}' goes with {' or '.join(partners)}")
        if self.time not in (None, "t"):  # a reserved name
            check_name(self.time, f"{source}, time")
        self.period: Value = 0  # of the time, if it has one
        if "period" in table:
            self.period = parse(table["period"], parameters, f"{source}, period")
            if not isinstance(self.period, Expression) and self.period <= 0:
                self._refuse("period", f"a period is a positive number, not {_shown(self.period)}")
        self.arrays: dict[str, tuple[int, ...]] = {}
        self.components = self._read_components()
        # without the time
        self.phase_components = self.components[: len(self.components) - (self.time is not None)]
        names = [name.replace("[", "_").replace("]", "") for name in self.components]
        taken = Counter([*parameters.values, *self.arrays, *names, *table.get("auxiliary", {})])
        if twice := next((name for name, count in taken.items() if count > 1), None):
            words = f"the name '{twice}' is used twice, or typeset as another; rename one"
            self._refuse("state", words)
        self.symbols = tuple(map(self.algebra.symbol, names))
        values = dict(parameters.values)
        for name, indices in self.arrays.items():
            values[name] = tuple(self.symbols[i] for i in indices)
        if not self.arrays:
            values |= dict(zip(self.components, self.symbols, strict=True))
        elif self.time is not None:
            values[self.time] = self.symbols[-1]
        self.scope = replace(parameters, values=values)

    def _refuse(self, key: str, words: str) -> NoReturn:
        raise InputError(f"{self.source}, {key}: {words}")

    def equations(self, definitions: Mapping[str, Any]) -> Equations:
        """Return the equations."""
        table = self.table
        where = f"{self.source}, [invariants]"
        values = dict(self.scope.values)
        self.scope = replace(self.scope, values=values)
        for name, text in table.get("auxiliary", {}).items():
            place = f"{self.source}, [auxiliary] {name}"
            values[check_name(name, place)] = parse(text, self.scope, place)
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
        where = f"{self.source}, {where}"
        return read_components(entries, where, self.scope, self.components, self.arrays)

    def _read_components(self) -> tuple[str, ...]:
        """Return the names of the components, and note the arrays."""
        state = self.table.get("state")
        where = f"{self.source}, state"
        scope = self.parameters
        components: list[str] = []
        if isinstance(state, Mapping):
            known = {key: scope.integers.get(key, entry) for key, entry in scope.values.items()}
            for name, length in state.items():
                check_name(name, where)
                count = parse(length, replace(scope, values=known), where)
                if not isinstance(count, int) or not 1 <= count <= MAXIMUM_DIMENSION:
                    self._refuse(
                        "state",
                        f"the length of '{name}' is {_shown(count)}, not a whole number between 1 "
                        f"and {MAXIMUM_DIMENSION}",
                    )
                self.arrays[name] = tuple(range(len(components), len(components) + count))
                components += [f"{name}[{i}]" for i in range(count)]
        elif isinstance(state, list) and all(isinstance(name, str) for name in state):
            components = [check_name(name, where) for name in state]
        if not components:
            names = 'state = ["q", "p"]'
            arrays = "state = {q = 2, p = 2}"
            self._refuse("state", f"expected names, as in {names}, or arrays, as in {arrays}")
        components += [] if self.time is None else [self.time]
        if len(components) > MAXIMUM_DIMENSION:
            self._refuse("state", f"more than {MAXIMUM_DIMENSION} components in all")
        return tuple(components)

    def _read_map(self) -> tuple[tuple[Stage, ...], int]:
        """Return the stages of a map, and how often they are applied in a step."""
        if "map" not in self.table:
            return (), 1
        entries = self.table["map"]
        entries = entries if isinstance(entries, list) else [entries]
        if not entries or not all(isinstance(entry, Mapping) and entry for entry in entries):
            words = 'write new values of components, as in q = "q + p", in a table [map] or in '
            self._refuse("[map]", f"{words}several [[map]] one after the other")
        places = ["[map]"] if len(entries) == 1 else (f"[[map]] {n}," for n in count(1))
        stages = tuple(map(self._read, entries, places))
        # parameters that are whole numbers mean these, even where others are left open
        known = replace(self.parameters, values=dict(self.parameters.integers))
        iterations = parse(self.table.get("iterations", 1), known, f"{self.source}, iterations")
        if not isinstance(iterations, int) or not 1 <= iterations <= _MOST_ITERATIONS:
            bounds = f"at least 1 and at most {_MOST_ITERATIONS}"
            words = f"expected a whole number of {bounds}, found {self.table['iterations']!r}"
            self._refuse("iterations", words)
        return stages, iterations

    def _read_order(self) -> tuple[int, ...]:
        """Return the order of positions and momenta, empty where they stand so.

        Raises
        ------
        InputError
            If the components are no positions and as many momenta, or their names contradict that.
        """
        names = self.phase_components
        declared = [key for key in ("hamiltonian", "symplectic") if self.table.get(key, False)]
        if not declared and ("map" not in self.table or len(names) % 2):
            return ()
        if len(names) % 2:
            words = "the state lists positions and then as many momenta, but it has"
            self._refuse(declared[0], f"{words} {len(names)} components")
        try:
            return canonical_order(names, f"{self.source}, state")
        except InputError:
            if declared:
                raise
            return ()

    def _read_vector_field(self, order: Sequence[int]) -> tuple[Value | None, tuple[Value, ...]]:
        """Return the Hamiltonian, if there is one, and the vector field."""
        table = self.table
        ways = ("hamiltonian", "vector_field", "map", "measured")
        given = [key for key in ways if table.get(key)]
        if len(given) != 1:
            raise InputError(
                f'{self.source}: give either hamiltonian = "..." or a table [vector_field] or '
                "[map], or measured = true where the equations are not known"
            )
        others = [key for key in ("symplectic", "divergence_free") if table.get(key)]
        if table.get("lagrangian") and others:
            words = "positions alone keep no structure of states; leave one of both out"
            self._refuse(f"lagrangian and {others[0]}", words)
        if given[0] in ("map", "measured"):
            return None, ()
        clock: tuple[Value, ...] = () if self.time is None else (1,)
        if given == ["hamiltonian"]:
            half = len(self.phase_components) // 2
            hamiltonian = parse(table["hamiltonian"], self.scope, f"{self.source}, hamiltonian")
            order = order or range(2 * half)
            halves = order[:half], order[half:]
            rates = hamiltonian_rates(hamiltonian, self.symbols, halves, self.algebra)
            return hamiltonian, (*rates, *clock)
        field = self._read(table["vector_field"], "[vector_field]")
        missing = [name for i, name in enumerate(self.phase_components) if i not in field]
        if missing:
            self._refuse("[vector_field]", f"no equation for {', '.join(missing[:6])}")
        if len(field) > len(self.phase_components):
            words = "this is the time, whose rate is 1; leave it out"
            self._refuse(f"[vector_field] {self.time}", words)
        return None, (*(field[i] for i in range(len(field))), *clock)

    def _read_symmetries(self) -> tuple[tuple[dict[int, Number], ...], ...]:
        column = {symbol: j for j, symbol in enumerate(self.symbols)}
        matrices = []
        for number, entry in enumerate(self.table.get("reversing_symmetry", []), start=1):
            where = f"[[reversing_symmetry]] {number}"
            if not isinstance(entry, Mapping):
                self._refuse(where, "write each as a table [[reversing_symmetry]]")
            images: dict[int, Value] = dict(enumerate(self.symbols))  # others are unchanged
            if self.time is not None:  # but for time, which goes back
                images[len(images) - 1] = self.algebra.scale(-1, self.symbols[-1])
            images |= self._read(entry, f"{where},")
            rows = [_linear(images[i], column, self.algebra) for i in range(len(images))]
            matrix = tuple(row for row in rows if row is not None)
            if len(matrix) < len(rows) or not _is_involution(matrix):
                words = "the map must be linear in the state, with constants, and applied twice"
                self._refuse(where, f"{words} give the state back")
            matrices.append(matrix)
        return tuple(matrices)

    def _read_periods(self) -> dict[int, Number]:
        periods = dict[int, Number]()
        if self.period and not isinstance(self.period, Expression):  # with parameters of no value
            periods[len(self.components) - 1] = self.period
        for i, period in self._read(self.table.get("periodic", {}), "[periodic]").items():
            if isinstance(period, Expression) or period < 0:
                words = "a period is a positive number, or 0 for a component of an array that is no"
                self._refuse(f"[periodic] {self.components[i]}", f"{words} angle")
            periods[i] = period
        return {i: period for i, period in periods.items() if period}


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
