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
)
from vpintegrator.dynamics.equations import Equations, ReturnSection
from vpintegrator.dynamics.expressions.nodes import HIGH, Expression, Number, Symbol, Value, high
from vpintegrator.dynamics.expressions.parsing import Scope, parse
from vpintegrator.dynamics.reading import check_table
from vpintegrator.errors import InputError

_KEYS: dict[str, Any] = {"section": str, "direction": str, "crossings": int}
_KEYS |= {"energy": (str, int, float), "initial_conditions": Mapping}
ENERGY = "energy"  # a parameter of return maps
_MOST_CROSSINGS = 10_000
SAMPLED = 6  # points at which a mirror symmetry is tried


def parameter_scope(equations: Equations) -> Scope:
    """Return the scope of formulas of the parameters alone."""
    state = {*equations.arrays, *equations.components}
    known = {key: entry for key, entry in equations.scope.values.items() if key not in state}
    return replace(equations.scope, values=known)


def constant(flow: Equations, text: Any, where: str) -> Value:
    """Return a formula of the flow's parameters."""
    return parse(text, parameter_scope(flow), where)


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
    text = table.get("section", "")
    name, _, value_text = (part.strip() for part in text.partition("="))
    if name not in flow.components or not value_text:
        raise InputError(
            f"{where} section: expected a component and its value, such as "
            f'"{flow.components[0]} = 0"; the components are {", ".join(flow.components[:12])}'
        )
    component = flow.components.index(name)
    value = constant(flow, value_text, f"{where} section")
    direction = table.get("direction", "up")
    crossings = table.get("crossings", 1)
    if direction not in ("up", "down") or not 1 <= crossings <= _MOST_CROSSINGS:
        raise InputError(
            f"{where}: the direction is 'up' or 'down', and crossings are a whole number from 1 to "
            f"{_MOST_CROSSINGS}, not {direction!r} and {crossings}"
        )
    _check_fit(flow, component, energy, "direction" in table, where)
    period = None
    if component == flow.explicit_time:
        period = constant(flow, flow.table["period"], f"{source}, period")
    sign = 1 if direction == "up" else -1
    section = ReturnSection(flow, component, value, sign, crossings, energy, where, period)
    _ = section.parabola
    return section


def _check_fit(
    flow: Equations, component: int, energy: Value | None, directed: bool, where: str
) -> None:
    """Refuse what does not make a map."""
    name = flow.components[component]
    time = flow.explicit_time
    if time is not None:
        if component != time or time not in flow.periods or directed or energy is not None:
            clock = flow.components[time]
            raise InputError(
                f"{where}: the equations depend on {clock}, so their map is stroboscopic: it needs "
                f'section = "{clock} = 0" and a period in {clock}, and has no direction or energy'
            )
    elif flow.hamiltonian is not None and component in flow.halves[1]:
        raise InputError(
            f"{where} section: {name} is a momentum; a section of a Hamiltonian flow fixes a "
            "position"
        )
    elif (flow.hamiltonian is None) != (energy is None):
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
    e = section.flow
    kept = section.kept
    if like is None:
        trial = TrialStates(e, None if states is None else exact_states(states), most=SAMPLED)
        symmetries = [section_symmetry(section, rho, trial) for rho in e.reversing_symmetries]
        # symmetries may coincide
        rhos = tuple(
            rho for k, rho in enumerate(symmetries) if rho is not None and rho not in symmetries[:k]
        )
        names = [name for name in e.invariants if _is_inherited(section, name, trial)]
    else:
        rhos = like.reversing_symmetries
        names = [*like.invariants]
    components = [e.components[i] for i in kept]
    symbols = [e.symbols[i] for i in kept]
    order = [kept.index(i) for i in e.order if i in kept]
    fixed: dict[Symbol, Value] = {e.symbols[section.component]: section.value}
    if section.momentum is not None and section.conjugate is not None:
        fixed[e.symbols[section.conjugate]] = section.momentum
    values = zip(names, e.algebra.substitute([e.invariants[n] for n in names], fixed), strict=True)
    outer = parameter_scope(e)
    scope = replace(outer, values={**outer.values, **dict(zip(components, symbols, strict=True))})
    return replace(
        e,
        components=tuple(components),
        symbols=tuple(symbols),
        arrays={},
        vector_field=(),
        hamiltonian=None,
        invariants={name: value for name, value in values if isinstance(value, Expression)},
        reversing_symmetries=rhos,
        periods={k: e.periods[i] for k, i in enumerate(kept) if i in e.periods},
        divergence_free=None,
        scope=scope,
        explicit_time=None,
        returns=section,
        order=() if order == sorted(order) else tuple(order),
    )


def _is_inherited(section: ReturnSection, name: str, trial: TrialStates) -> bool:
    """Whether an invariant of the flow is one of the map that says more than the energy."""
    e = section.flow
    value = section.flow.invariants[name]
    if not section.stroboscopic:
        return section.energy is None or value is not e.hamiltonian
    formulas = ExactFormulas([value], e.symbols)
    later = trial.states.copy()
    later[:, -1] += high(e.periods[section.component])
    before = formulas(trial.states)[:, 0]
    after = formulas(later)[:, 0]
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
    i = section.component
    kept = section.kept
    value = section.value
    place = {old: new for new, old in enumerate(kept)}
    if {*rho[i]} != {i} or isinstance(value, Expression):
        return None
    if any(j not in place for old in kept for j in rho[old]):
        return None
    if section.stroboscopic:
        twice = 2 * high(value) / high(section.flow.periods[i])
        if abs(twice - HIGH.nint(twice)) > TOLERANCE:
            return None
    elif value != 0 if rho[i][i] == -1 else not _is_mirrored(section, value, trial):
        return None
    return tuple({place[j]: c for j, c in rho[old].items()} for old in kept)


def _is_mirrored(section: ReturnSection, value: Number, trial: TrialStates) -> bool:
    """Whether the mirror image in the section is a symmetry of the flow."""
    signs = np.ones(len(section.flow.symbols), dtype=int)
    signs[[k for k in (section.component, section.conjugate) if k is not None]] = -1
    images = trial.states * signs
    expected = trial.values * signs
    images[:, section.component] += 2 * high(value)
    claim = trial.compared(section.where, "", images, expected, trial.values)
    return trial.worst(claim) is None
