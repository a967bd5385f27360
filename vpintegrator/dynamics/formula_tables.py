"""Tables of a system file that hold formulas: components, auxiliary names, maps, and the time.

A table such as ``[vector_field]`` gives an expression for each component, or for arrays of them.

    [auxiliary]
    r = "sqrt(x**2 + y**2)"
    u = "exp(-r)/r"             # may name those before it

Every other formula of the file, of the vector field, the Hamiltonian, a map or an invariant, may
name them. The stages of a map see the values of the state before that stage.

    iterations = 8              # of all stages of a map in one step; by default 1

    [[map]]                     # one stage after the other, each of its values assigned at once
    p = "p + K*sin(q)"

    [[map]]
    q = "q + p"

A map of one stage is a table ``[map]``. Components that a stage does not name stay as they are.

    time = "t"                  # expressions may hold t
    period = "2*pi/omega"       # where the equations are periodic in time

The time becomes a component of the state, its last, with t' = 1: in the extended phase space every
system is autonomous, and whatever is right for those is right for it. Where there is a period it is
an angle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vpintegrator.dynamics.equations import Stage
from vpintegrator.dynamics.expressions import Expression, Number, Scope, Value, check_name, parse
from vpintegrator.errors import InputError, nearest

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
