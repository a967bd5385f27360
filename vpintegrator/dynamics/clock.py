"""Equations that depend on time: the keys ``time`` and ``period`` of a system file.

    time = "t"                  # expressions may hold t
    period = "2*pi/omega"       # where the equations are periodic in time

The time becomes a component of the state, its last, with t' = 1: in the extended phase space every
system is autonomous, and whatever is right for those is right for it. Where there is a period it is
an angle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vpintegrator.dynamics.expressions import Expression, Number, Scope, check_name, parse
from vpintegrator.errors import InputError


@dataclass(frozen=True)
class Clock:
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


def read_clock(table: Mapping[str, Any], source: str, scope: Scope) -> Clock | None:
    """Return the clock of a system file; None where its equations do not depend on time.

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
        return Clock(name, None)
    refuse_time(table["period"], name, where)
    period = parse(table["period"], scope, where)
    if isinstance(period, Expression):  # parameters have names here, and no values
        return Clock(name, None)
    if period <= 0:
        raise InputError(f"{where}: a period is a positive number, not {float(period):g}")
    return Clock(name, period)


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
