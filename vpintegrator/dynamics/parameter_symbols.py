"""Equations with symbols in the place of parameters that vary.

A system has numbers for its parameters. Where one calculation is to serve many values of them, each
trajectory its own, they are symbols instead, and arrays when formulas are computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import Algebra, Scope, Value, parse
from vpintegrator.dynamics.reading import read_state_and_formulas
from vpintegrator.dynamics.section import ENERGY, constant, read_section, section_equations

_NUMERIC = ("reversing_symmetry", "periodic")  # tables of numbers only


def open_equations(equations: Equations, names: Sequence[str]) -> Equations:
    """Return the equations with some parameters left open.

    Parameters that the file computes from those follow them, as in ``I3 = "2/3*I1"``. Symmetries
    and periods stay those of the given equations.

    Parameters
    ----------
    equations
        Equations with numbers for all parameters, not of a return map.
    names
        Names of the parameters in the order of the symbols ``open``.
    """
    algebra = Algebra()
    symbols = {name: algebra.symbol(name) for name in names}
    values: dict[str, Value | tuple[Value, ...]] = {}
    integers: dict[str, int] = {}
    scope = Scope(values, integers, algebra)
    for name, text in equations.definitions.items():
        where = f"{equations.source}, [parameters] {name}"
        if isinstance(text, Sequence) and not isinstance(text, str):
            values[name] = tuple(parse(entry, scope, where) for entry in text)
            continue
        value = values[name] = symbols[name] if name in symbols else parse(text, scope, where)
        if isinstance(value, int):
            integers[name] = value
    return replace(
        _read_again(equations, scope, _NUMERIC),
        table=equations.table,
        reversing_symmetries=equations.reversing_symmetries,
        periods=equations.periods,
        open=tuple(symbols.values()),
    )


def open_section(
    equations: Equations,
    flow: Equations,
    table: Mapping[str, Any],
    energy: Any,
    names: Sequence[str],
) -> Equations:
    """Return the equations of a return map with some parameters left open, maybe the energy.

    Parameters
    ----------
    equations
        Equations of the return map with numbers for all parameters.
    flow
        Equations of the flow, with the parameters but the energy left open.
    table
        The table ``[return_map]``.
    energy
        The energy as written; None where there is none.
    names
        Names of the parameters in the order of the symbols ``open``.
    """
    symbols = {symbol.name: symbol for symbol in flow.open}
    level: Value | None = None
    if ENERGY in names:
        level = symbols[ENERGY] = flow.algebra.symbol(ENERGY)
    elif energy is not None:
        level = constant(flow, energy, f"{flow.source}, [return_map] {ENERGY}")
    found = section_equations(read_section(flow, table, flow.source, level), like=equations)
    return replace(found, open=tuple(symbols[name] for name in names))


def _read_again(equations: Equations, scope: Scope, without: Sequence[str]) -> Equations:
    table = {key: entry for key, entry in equations.table.items() if key not in without}
    return read_state_and_formulas(table, equations.source, scope, equations.definitions)
