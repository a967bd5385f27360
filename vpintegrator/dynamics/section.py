"""Sections of return maps: the table ``[return_map]`` of a system file.

    [return_map]
    section = "q[0] = 0"        # or "t = 0": stroboscopic, of equations with a period in time
    direction = "up"            # of crossings: up (default) or down
    crossings = 1               # how many returns make one step
    energy = 0.1                # of a Hamiltonian flow

The states of the map are the remaining components of the flow. A stroboscopic map leaves out the
time. A section q[i] = c at an energy leaves out q[i], and p[i], which follows from H = energy and
the direction. For a Hamiltonian flow these coordinates are canonical: the return map preserves the
form dq dp exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vpintegrator.dynamics.claims import (
    TOLERANCE,
    Claim,
    ExactFormulas,
    TrialStates,
    exact_states,
    random_states,
)
from vpintegrator.dynamics.equations import Equations, ReturnSection
from vpintegrator.dynamics.expressions import Expression, Number, Symbol, Value, parse
from vpintegrator.dynamics.expressions.nodes import HIGH, high
from vpintegrator.dynamics.reading import check_table
from vpintegrator.errors import InputError

_KEYS: dict[str, Any] = {"section": str, "direction": str, "crossings": int}
_KEYS |= {"energy": (str, int, float), "initial_conditions": Mapping}
ENERGY = "energy"  # a parameter of return maps
_MOST_CROSSINGS = 10_000
SAMPLED = 6  # points at which a mirror symmetry is tried


def constant(flow: Equations, text: Any, where: str) -> Value:
    """Return a formula of the flow's parameters."""
    state = {*flow.arrays, *flow.components}
    known = {key: entry for key, entry in flow.scope.values.items() if key not in state}
    return parse(text, replace(flow.scope, values=known), where)


def read_section(
    flow: Equations, table: Mapping[str, Any], source: str, energy: Value | None
) -> ReturnSection:
    """Read the table ``[return_map]``.

    Parameters
    ----------
    flow
        The equations of the flow.
    table
        The table.
    source
        The file's name, for messages.
    energy
        A number, a symbol if the energy varies, or None.

    Raises
    ------
    InputError
        If the table is not understood, or does not fit the flow.
    """
    where = f"{source}, [return_map]"
    check_table(table, _KEYS, where)
    if not flow.vector_field:
        raise InputError(f"{where}: a return map is of differential equations, which are not given")
    component, value = _plane(flow, table.get("section"), where)
    direction, crossings = table.get("direction", "up"), table.get("crossings", 1)
    if direction not in ("up", "down") or not 1 <= crossings <= _MOST_CROSSINGS:
        raise InputError(
            f"{where}: the direction is 'up' or 'down', and crossings are a whole number from 1 to "
            f"{_MOST_CROSSINGS}, not {direction!r} and {crossings}"
        )
    _check_fit(flow, component, energy, "direction" in table, where)
    sign = 1 if direction == "up" else -1
    period = None
    if component == flow.explicit_time:
        period = constant(flow, flow.table["period"], f"{source}, period")
    section = ReturnSection(flow, component, value, sign, crossings, energy, where, period)
    _ = section.parabola
    return section


def _plane(flow: Equations, text: Any, where: str) -> tuple[int, Value]:
    """Return the component that a section fixes, and its value."""
    name, equals, value = (part.strip() for part in str(text).partition("="))
    if not isinstance(text, str) or not equals or name not in flow.components:
        raise InputError(
            f"{where} section: expected a component and its value, such as "
            f'"{flow.components[0]} = 0"; the components are {", ".join(flow.components[:12])}'
        )
    return flow.components.index(name), constant(flow, value, f"{where} section")


def _check_fit(
    flow: Equations, component: int, energy: Value | None, directed: bool, where: str
) -> None:
    """Refuse what does not make a map."""
    name, time = flow.components[component], flow.explicit_time
    if time is not None:
        if component != time or time not in flow.periods or directed or energy is not None:
            clock = flow.components[time]
            raise InputError(
                f"{where}: the equations depend on {clock}, so their map is stroboscopic: it needs "
                f'section = "{clock} = 0" and a period in {clock}, and has no direction or energy'
            )
        return
    if flow.hamiltonian is not None and component in flow.halves[1]:
        raise InputError(
            f"{where} section: {name} is a momentum; a section of a Hamiltonian flow fixes a "
            "position"
        )
    if (flow.hamiltonian is None) != (energy is None):
        raise InputError(
            f"{where} energy: states on the section of a Hamiltonian flow have an energy, as in "
            "energy = 0.1 (-p energy=0.1, or --vary energy=0.02:0.12 for a range); others have none"
        )


def section_equations(
    section: ReturnSection, like: Equations | None = None, states: np.ndarray | None = None
) -> Equations:
    """Return components, symmetries, angles and invariants of the map, without formulas for itself.

    Parameters
    ----------
    section
        Section of the map.
    like
        Equations with numbers for all parameters, if ``section`` leaves some open.
    states
        States (state, dim) of the flow at which symmetries are tried, by default random ones.
    """
    dim = len(section.flow.symbols)
    exact = random_states(dim, SAMPLED) if states is None else exact_states(states)
    trial = TrialStates(section.flow, exact)
    e, kept = section.flow, section.kept
    components, symbols = [e.components[i] for i in kept], [e.symbols[i] for i in kept]
    periods: dict[int, Number] = {k: e.periods[i] for k, i in enumerate(kept) if i in e.periods}
    open_ = e.reversing_symmetries if like is None else ()
    found = [rho for rho in (section_symmetry(section, r, trial) for r in open_) if rho is not None]
    rhos = [rho for k, rho in enumerate(found) if rho not in found[:k]]  # symmetries may coincide
    order = [kept.index(i) for i in e.order if i in kept]
    state = {*e.arrays, *e.components}
    values = {name: value for name, value in e.scope.values.items() if name not in state}
    values |= dict(zip(components, symbols, strict=True))
    return replace(
        e,
        components=tuple(components),
        symbols=tuple(symbols),
        arrays={},
        vector_field=(),
        hamiltonian=None,
        invariants=_invariants(section, like, trial),
        reversing_symmetries=tuple(rhos) if like is None else like.reversing_symmetries,
        periods=periods,
        divergence_free=None,
        scope=replace(e.scope, values=values),
        explicit_time=None,
        returns=section,
        order=() if order == sorted(order) else tuple(order),
    )


def _invariants(
    section: ReturnSection, like: Equations | None, trial: TrialStates
) -> dict[str, Value]:
    """Return the invariants of the flow as functions of the map's states, without the energy."""
    e, algebra = section.flow, section.flow.algebra
    fixed: dict[Symbol, Value] = {e.symbols[section.component]: section.value}
    if section.momentum is not None and section.conjugate is not None:
        fixed[e.symbols[section.conjugate]] = section.momentum
    found = {}
    for name, value in e.invariants.items():
        if section.energy is not None and value is e.hamiltonian:
            continue
        if like is not None and name not in like.invariants:
            continue
        if like is None and section.stroboscopic and not _is_periodic(section, value, trial):
            continue
        (found[name],) = algebra.substitute([value], fixed)
    return {name: value for name, value in found.items() if isinstance(value, Expression)}


def _is_periodic(section: ReturnSection, value: Value, trial: TrialStates) -> bool:
    """Whether a function has the period of the equations in time."""
    e = section.flow
    formulas, later = ExactFormulas([value], e.symbols), trial.states.copy()
    later[:, -1] += high(e.periods[section.component])
    before, after = formulas(trial.states)[:, 0], formulas(later)[:, 0]
    claim = Claim(section.where, "", after - before, 1 + np.abs(before), trial.tolerance)
    return trial.worst(claim) is None


def section_symmetry(
    section: ReturnSection, rho: tuple[dict[int, Number], ...], trial: TrialStates
) -> tuple[dict[int, Number], ...] | None:
    """Return the restriction of a reversing symmetry to the section, or None if there is none.

    A stroboscopic map inherits symmetries that reverse time about its phase. A symmetry that
    changes the sign of the section's component maps upward crossings to upward crossings. A
    symmetry that keeps the component does so together with the reflection in the section, if that
    is a symmetry.
    """
    e, i, kept = section.flow, section.component, section.kept
    place = {old: new for new, old in enumerate(kept)}
    if len(rho[i]) != 1 or i not in rho[i] or isinstance(section.value, Expression):
        return None
    if any(j not in place for old in kept for j in rho[old]):
        return None
    if section.stroboscopic:
        twice = 2 * high(section.value) / high(e.periods[i])
        if abs(twice - HIGH.nint(twice)) > TOLERANCE:
            return None
    elif rho[i][i] == -1:
        if section.value != 0:
            return None
    elif rho[i][i] != 1 or not _mirrored(section, trial):
        return None
    return tuple({place[j]: c for j, c in rho[old].items()} for old in kept)


def _mirrored(section: ReturnSection, trial: TrialStates) -> bool:
    """Whether the mirror image in the section is a symmetry of the flow."""
    if isinstance(section.value, Expression):
        return False
    i = section.component
    signs = np.array(
        [-1 if k in (i, section.conjugate) else 1 for k in range(len(section.flow.symbols))]
    )
    images, expected = trial.states * signs, trial.values * signs
    images[:, i] += 2 * high(section.value)
    claim = trial.compared(section.where, "", images, expected, trial.values)
    return trial.worst(claim) is None
