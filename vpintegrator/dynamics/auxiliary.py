"""Names for parts of formulas: the table ``[auxiliary]`` of a system file.

    [auxiliary]
    r = "sqrt(x**2 + y**2)"
    u = "exp(-r)/r"             # may name those before it

Every other formula of the file, of the vector field, the Hamiltonian, a map or an invariant, may
name them. The stages of a map see the values of the state before that stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vpintegrator.dynamics.expressions import Scope, check_name, parse
from vpintegrator.errors import InputError

_MOST = 20_000


def read_auxiliary(table: Mapping[str, Any], source: str, scope: Scope) -> Scope:
    """Return the scope with the names of the table ``[auxiliary]``, where there is one.

    Raises
    ------
    InputError
        If a name is taken, or an expression is not understood.
    """
    entries = table.get("auxiliary")
    if entries is None:
        return scope
    if not isinstance(entries, Mapping):
        raise InputError(f"{source}: 'auxiliary' must be a table, written [auxiliary]")
    if len(entries) > _MOST:
        raise InputError(f"{source}, [auxiliary]: more than the {_MOST} expressions allowed")
    values = dict(scope.values)
    found = replace(scope, values=values)
    for name, text in entries.items():
        where = f"{source}, [auxiliary] {name}"
        check_name(name, where)
        if name in values or name in scope.integers or name in scope.functions:
            raise InputError(f"{where}: the name '{name}' is used twice")
        values[name] = parse(text, found, where)
    return found
