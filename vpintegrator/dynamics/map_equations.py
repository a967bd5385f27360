"""Maps by formula: the key ``iterations`` and the tables ``[map]`` of a system file.

    iterations = 8              # of all stages in one step; by default 1

    [[map]]                     # one stage after the other, each of its values assigned at once
    p = "p + K*sin(q)"

    [[map]]
    q = "q + p"

A map of one stage is a table ``[map]``. Components that a stage does not name stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vpintegrator.dynamics.component_table import read_components
from vpintegrator.dynamics.expressions import Expression, Scope, Value, parse
from vpintegrator.errors import InputError

_MOST_STAGES = 1000
_MOST_ITERATIONS = 10**6
_OF_FLOWS = ("hamiltonian", "vector_field", "measured", "time", "period", "chart", "symmetry")
_OF_MAPS = ("iterations", "symplectic")

Stage = Mapping[int, Value]  # new values by the number of the component


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
