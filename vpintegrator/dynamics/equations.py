"""The equations of a system as SymPy objects, read from the tables of a system file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import sympy

from vpintegrator.dynamics.expression import Scope, check_name, nearest, parse
from vpintegrator.errors import InputError

MAXIMUM_DIMENSION = 4096
_KEYS = {
    "title",
    "subject",
    "reference",
    "description",
    "state",
    "parameters",
    "hamiltonian",
    "vector_field",
    "measured",
    "invariants",
    "divergence_free",
    "reversing_symmetry",
    "initial_conditions",
    "defaults",
}


@dataclass(frozen=True)
class Parameter:
    """One number of the system: its symbol, and its value as an exact or closed expression."""

    symbol: sympy.Symbol
    value: sympy.Expr


@dataclass(frozen=True)
class Equations:
    """A system in symbols. States and parameters are symbols; ``values`` gives the parameters.

    Attributes
    ----------
    components
        Names of the state's components in order, ``z1`` or ``q[0]``.
    symbols
        Their SymPy symbols (``q_0`` for ``q[0]``).
    arrays
        For a state of arrays, the indices of each array's components.
    values
        The parameters' values: expressions without symbols.
    vector_field
        Right-hand sides of z' = f(z), in the order of the components; none where the file says
        ``measured = true``.
    hamiltonian
        H(q, p) where the system was given by one, else None.
    invariants
        Functions constant along every solution, by name.
    reversing_symmetries
        Linear involutions rho with f(rho z) = -rho f(z), as matrices of exact numbers.
    divergence_free
        What the file claims, or None when it claims nothing.
    """

    components: tuple[str, ...]
    symbols: tuple[sympy.Symbol, ...]
    arrays: dict[str, tuple[int, ...]]
    values: dict[sympy.Symbol, sympy.Expr]
    vector_field: tuple[sympy.Expr, ...]
    hamiltonian: sympy.Expr | None
    invariants: dict[str, sympy.Expr]
    reversing_symmetries: tuple[sympy.ImmutableMatrix, ...]
    divergence_free: bool | None
    scope: Scope = field(repr=False)

    @cached_property
    def divergence(self) -> sympy.Expr:
        """Sum of df_i/dz_i."""
        return sympy.Add(*(f.diff(z) for f, z in zip(self.vector_field, self.symbols, strict=True)))

    @cached_property
    def jacobian(self) -> dict[tuple[int, int], sympy.Expr]:
        """The entries df_i/dz_j that are not identically zero."""
        index = {symbol: j for j, symbol in enumerate(self.symbols)}
        entries = {}
        for i, component in enumerate(self.vector_field):
            for symbol in component.free_symbols & index.keys():
                derivative = component.diff(symbol)
                if derivative != 0:
                    entries[i, index[symbol]] = derivative
        return entries


def gradient(expression: sympy.Expr, symbols: Sequence[sympy.Symbol]) -> list[sympy.Expr]:
    """Derivatives of an expression with respect to symbols.

    A sum is differentiated term by term, each with respect to the symbols that it holds: the
    potential of a long chain has many terms of few symbols each.
    """
    parts: dict[sympy.Symbol, list[sympy.Expr]] = {symbol: [] for symbol in symbols}
    for term in _terms(expression, parts.keys()):
        for symbol in term.free_symbols & parts.keys():
            parts[symbol].append(term.diff(symbol))
    return [sympy.Add(*parts[symbol]) for symbol in symbols]


def _terms(expression: sympy.Expr, symbols: Set[sympy.Symbol]) -> Iterator[sympy.Expr]:
    """Terms of a sum, and of one that has a constant factor."""
    if expression.is_Add:
        for term in expression.args:
            yield from _terms(term, symbols)
        return
    if expression.is_Mul:
        moving = [factor for factor in expression.args if factor.free_symbols & symbols]
        if len(moving) == 1 and moving[0].is_Add:
            constant = sympy.Mul(*(f for f in expression.args if f is not moving[0]))
            for term in _terms(moving[0], symbols):
                yield constant * term
            return
    yield expression


def plain_values(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Values of parameters as Python's own numbers, texts and lists, which JSON can hold.

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
        What tomllib read.
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
    for key in table:
        if key not in _KEYS:
            raise InputError(f"{source}: unknown key '{key}'{nearest(key, _KEYS)}")
    parameters = _read_parameters(table.get("parameters", {}), source, overrides)
    values, integers = _known(parameters)
    components, symbols, arrays = _read_state(table, source, values, integers)
    for name, indices in arrays.items():
        values[name] = tuple(symbols[i] for i in indices)
    if not arrays:
        values |= dict(zip(components, symbols, strict=True))
    numbers = {p.symbol: float(p.value) for p in _flatten(parameters)}
    scope = Scope(values, integers, numbers)

    hamiltonian, vector_field = _read_vector_field(
        table, source, scope, components, symbols, arrays
    )
    invariants = {
        name: parse(text, scope, f"{source}, [invariants] {name}")
        for name, text in _table(table, "invariants", source).items()
    }
    if hamiltonian is not None and "energy" not in invariants:
        invariants = {"energy": hamiltonian, **invariants}
    claim = table.get("divergence_free")
    if claim is not None and not isinstance(claim, bool):
        raise InputError(f"{source}, divergence_free: expected true or false, found {claim!r}")
    equations = Equations(
        components=components,
        symbols=symbols,
        arrays=arrays,
        values={p.symbol: p.value for p in _flatten(parameters)},
        vector_field=vector_field,
        hamiltonian=hamiltonian,
        invariants=invariants,
        reversing_symmetries=_read_symmetries(table, source, scope, components, symbols, arrays),
        divergence_free=claim,
        scope=scope,
    )
    plain = {
        name: [_plain(p.value) for p in parameter]
        if isinstance(parameter, tuple)
        else _plain(parameter.value)
        for name, parameter in parameters.items()
    }
    return equations, plain


def _known(
    parameters: Mapping[str, Parameter | tuple[Parameter, ...]],
) -> tuple[dict[str, sympy.Expr | tuple[sympy.Expr, ...]], dict[str, int]]:
    """The parameters' symbols, and the values of those that are whole numbers."""
    values: dict[str, sympy.Expr | tuple[sympy.Expr, ...]] = {
        name: tuple(p.symbol for p in parameter)
        if isinstance(parameter, tuple)
        else parameter.symbol
        for name, parameter in parameters.items()
    }
    integers = {
        name: int(parameter.value)
        for name, parameter in parameters.items()
        if isinstance(parameter, Parameter) and parameter.value.is_Integer
    }
    return values, integers


def _flatten(parameters: Mapping[str, Parameter | tuple[Parameter, ...]]) -> list[Parameter]:
    return [
        single
        for parameter in parameters.values()
        for single in (parameter if isinstance(parameter, tuple) else (parameter,))
    ]


def _plain(value: sympy.Expr) -> int | float:
    return int(value) if value.is_Integer else float(value)


def _table(table: Mapping[str, Any], key: str, source: str) -> Mapping[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, Mapping):
        raise InputError(f"{source}: '{key}' must be a table, written [{key}]")
    return value


def _read_parameters(
    table: Any, source: str, overrides: Mapping[str, Any]
) -> dict[str, Parameter | tuple[Parameter, ...]]:
    if not isinstance(table, Mapping):
        raise InputError(f"{source}: 'parameters' must be a table, written [parameters]")
    for name in overrides:
        if name not in table:
            known = ", ".join(table) or "none"
            raise InputError(
                f"{source} has no parameter '{name}'{nearest(name, table) or f' (it has: {known})'}"
            )
    parameters: dict[str, Parameter | tuple[Parameter, ...]] = {}
    known_values: dict[str, sympy.Expr | tuple[sympy.Expr, ...]] = {}
    for name, default in table.items():
        where = f"{source}, [parameters] {name}"
        check_name(name, where)
        text = overrides.get(name, default)
        # a parameter may be computed from those before it, as in I3 = "2/3"
        scope = Scope(
            known_values,
            {k: int(v) for k, v in known_values.items() if isinstance(v, sympy.Integer)},
        )
        if isinstance(text, Sequence) and not isinstance(text, str):
            entries = tuple(
                Parameter(sympy.Symbol(f"{name}_{i}", real=True), _constant(entry, scope, where))
                for i, entry in enumerate(text)
            )
            parameters[name] = entries
            known_values[name] = tuple(p.value for p in entries)
        else:
            single = Parameter(sympy.Symbol(name, real=True), _constant(text, scope, where))
            parameters[name] = single
            known_values[name] = single.value
    return parameters


def _constant(text: Any, scope: Scope, where: str) -> sympy.Expr:
    value = parse(text, scope, where)
    if not value.is_finite or not value.is_real:
        raise InputError(f"{where}: the value {value} is not a finite real number")
    return value


def _read_state(
    table: Mapping[str, Any],
    source: str,
    parameters: Mapping[str, Any],
    integers: Mapping[str, int],
) -> tuple[tuple[str, ...], tuple[sympy.Symbol, ...], dict[str, tuple[int, ...]]]:
    where = f"{source}, state"
    state = table.get("state")
    if state is None:
        raise InputError(f'{source}: the key \'state\' is missing, as in state = ["q", "p"]')
    components: list[str] = []
    arrays: dict[str, tuple[int, ...]] = {}
    if isinstance(state, Mapping):
        for name, length in state.items():
            check_name(name, where)
            # a parameter that is no whole number stays a symbol, which is refused below
            known = {key: entry for key, entry in parameters.items() if key not in integers}
            count = parse(length, Scope(known, integers), where)
            if not count.is_Integer or not 1 <= count <= MAXIMUM_DIMENSION:
                raise InputError(
                    f"{where}: the length of '{name}' is {count}, not a whole number between "
                    f"1 and {MAXIMUM_DIMENSION}"
                )
            arrays[name] = tuple(range(len(components), len(components) + int(count)))
            components += [f"{name}[{i}]" for i in range(int(count))]
    elif isinstance(state, list) and state and all(isinstance(name, str) for name in state):
        components = [check_name(name, where) for name in state]
    else:
        raise InputError(
            f'{where}: expected names, as in ["z1", "z2"], or arrays, as in {{q = 2, p = 2}}'
        )
    names = list(arrays) or components
    for name in names:
        if names.count(name) > 1 or name in parameters:
            raise InputError(f"{where}: the name '{name}' is used twice")
    if not 1 <= len(components) <= MAXIMUM_DIMENSION:
        raise InputError(f"{where}: {len(components)} components, not 1 to {MAXIMUM_DIMENSION}")
    symbols = tuple(
        sympy.Symbol(c.replace("[", "_").replace("]", ""), real=True) for c in components
    )
    taken = {str(symbol) for symbol in symbols} & set(parameters)
    if len(set(symbols)) < len(symbols) or taken:
        raise InputError(f"{where}: two names would be typeset alike; rename one of {components}")
    return tuple(components), symbols, arrays


def read_components(
    entries: Mapping[str, Any],
    where: str,
    scope: Scope,
    components: tuple[str, ...],
    arrays: Mapping[str, tuple[int, ...]],
) -> dict[int, sympy.Expr]:
    """One expression a component: ``z1 = "..."``; for arrays ``q = "...i..."`` or a list.

    Returns
    -------
    dict
        Expressions by the number of the component, for those that are named.

    Raises
    ------
    InputError
        For a component that the state does not have, or that is given twice.
    """
    found: dict[int, sympy.Expr] = {}
    for key, text in entries.items():
        here = f"{where} {key}"
        new: dict[int, sympy.Expr] = {}
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
                local = Scope(scope.values, {**scope.integers, "i": i}, scope.numbers)
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


def _read_vector_field(
    table: Mapping[str, Any],
    source: str,
    scope: Scope,
    components: tuple[str, ...],
    symbols: tuple[sympy.Symbol, ...],
    arrays: Mapping[str, tuple[int, ...]],
) -> tuple[sympy.Expr | None, tuple[sympy.Expr, ...]]:
    if (measured := table.get("measured", False)) is not False:
        if measured is not True or "hamiltonian" in table or "vector_field" in table:
            raise InputError(
                f"{source}, measured: write measured = true where the equations are not known, "
                "with neither hamiltonian nor [vector_field]"
            )
        return None, ()
    if ("hamiltonian" in table) == ("vector_field" in table):
        raise InputError(
            f'{source}: give either hamiltonian = "..." or a table [vector_field]'
            + (", not both" if "hamiltonian" in table else "")
        )
    if "hamiltonian" in table:
        if len(symbols) % 2:
            raise InputError(
                f"{source}, hamiltonian: the state must list the positions and then as many "
                f"momenta, but it has {len(symbols)} components"
            )
        hamiltonian = parse(table["hamiltonian"], scope, f"{source}, hamiltonian")
        half = len(symbols) // 2
        slopes = gradient(hamiltonian, symbols)
        return hamiltonian, (*slopes[half:], *(-slope for slope in slopes[:half]))
    where = f"{source}, [vector_field]"
    entries = _table(table, "vector_field", source)
    found = read_components(entries, where, scope, components, arrays)
    missing = [name for i, name in enumerate(components) if i not in found]
    if missing:
        raise InputError(f"{where}: no equation for {', '.join(missing[:6])}")
    return None, tuple(found[i] for i in range(len(components)))


def _read_symmetries(
    table: Mapping[str, Any],
    source: str,
    scope: Scope,
    components: tuple[str, ...],
    symbols: tuple[sympy.Symbol, ...],
    arrays: Mapping[str, tuple[int, ...]],
) -> tuple[sympy.ImmutableMatrix, ...]:
    entries = table.get("reversing_symmetry", [])
    if not isinstance(entries, list):
        raise InputError(f"{source}: write each reversing symmetry as [[reversing_symmetry]]")
    matrices = []
    for number, entry in enumerate(entries, start=1):
        where = f"{source}, [[reversing_symmetry]] {number},"
        images = dict(enumerate(symbols))  # a component that is not named stays as it is
        images |= read_components(entry, where, scope, components, arrays)
        matrix = sympy.Matrix(
            [[images[i].diff(symbol) for symbol in symbols] for i in range(len(symbols))]
        )
        linear = all(
            sympy.expand(images[i] - sum(matrix[i, j] * s for j, s in enumerate(symbols))) == 0
            for i in range(len(symbols))
        )
        if not linear or matrix.free_symbols:
            raise InputError(f"{where[:-1]}: the map must be linear in the state, with constants")
        if matrix * matrix != sympy.eye(len(symbols)):
            raise InputError(f"{where[:-1]}: applied twice, the map must give the state back")
        matrices.append(sympy.ImmutableMatrix(matrix))
    return tuple(matrices)
