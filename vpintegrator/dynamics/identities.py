"""Checks of the invariants, time reversal, angles and volume that a system file declares."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import Expression, Number, Symbol, Value
from vpintegrator.dynamics.expressions.constants import HIGH, high
from vpintegrator.dynamics.trial import (
    TOLERANCE,
    Formula,
    Point,
    Trial,
    place,
    random_points,
    shown,
)
from vpintegrator.errors import InputError

_STEP = HIGH.mpf(10) ** -30  # step of a central difference, whose error is the square of the step


def check_identities(trial: Trial, source: str) -> bool:
    """Check invariants, symmetries, periods and divergence; return whether the latter is zero.

    Raises
    ------
    InputError
        Naming the first claim that does not hold, and a point where it fails.
    """
    equations = trial.equations
    if not equations.vector_field:  # measured: what is said of it is believed
        _check_claimed_structure(equations, source)
        return bool(equations.divergence_free or equations.symplectic)
    _check_invariants(trial, source)
    for number, rho in enumerate(equations.reversing_symmetries, start=1):
        _check_symmetry(trial, rho, f"{source}, [[reversing_symmetry]] {number}")
    explicit_time = equations.explicit_time
    if angles := {i: high(p) for i, p in equations.periods.items() if i != explicit_time}:
        what = "where angles turn by their periods"
        _check_periods(trial, angles, f"{source}, [periodic]", what)
    if explicit_time in equations.periods:
        periods = {explicit_time: high(equations.periods[explicit_time])}
        _check_periods(trial, periods, f"{source}, period", "after whole periods")
    free = equations.hamiltonian is not None or _divergence_vanishes(trial, source)
    if equations.divergence_free is False and free:
        raise InputError(f"{source}, divergence_free: the file says false, but the divergence is 0")
    return free


def _check_claimed_structure(equations: Equations, source: str) -> None:
    """Check that the claims about measured states go together."""
    if not equations.symplectic:
        return
    if len(equations.symbols) % 2:
        raise InputError(
            f"{source}, symplectic: the state lists positions and then as many momenta, but it has "
            f"{len(equations.symbols)} components"
        )
    if equations.divergence_free is False:
        raise InputError(
            f"{source}, divergence_free: the file says false, but symplectic maps preserve volume"
        )


def vanishes(value: Value, symbols: Sequence[Symbol]) -> bool:
    """Whether a formula is zero wherever it has a value, as far as random points tell."""
    if not isinstance(value, Expression):
        return value == 0
    formula = Formula([value], symbols)
    found = [formula.at(point) for point in random_points(len(symbols))]
    known = [entry[0] for entry in found if entry is not None]
    # all digits but those that rounding may have taken, as the size of the terms is not known
    return bool(known) and all(abs(entry) <= TOLERANCE**2 for entry in known)


def _check_invariants(trial: Trial, source: str) -> None:
    """Whether they are constant along solutions."""
    # a Hamiltonian without time is constant by the antisymmetry of Hamilton's equations
    equations = trial.equations
    for name, invariant in equations.invariants.items():
        if invariant is not equations.hamiltonian or equations.explicit_time is not None:
            _check_invariant(trial, invariant, f"{source}, [invariants] {name}")


def _check_invariant(trial: Trial, invariant: Value, where: str) -> None:
    formula = Formula([invariant], trial.equations.symbols)
    judged = 0
    for point, rates in trial.points:
        speed = 1 + max(map(abs, rates))
        values = [
            formula.at([z + side * dz for z, dz in zip(point, rates, strict=True)])
            for side in (0, _STEP / speed, -_STEP / speed)
        ]
        if any(value is None for value in values):
            continue
        judged += 1
        value, ahead, behind = (entry[0] for entry in values if entry is not None)
        slope = (ahead - behind) / (2 * _STEP)
        if abs(slope) > trial.tolerance * (1 + abs(value)):
            raise InputError(
                f"{where}: this is not constant along solutions: its time derivative "
                f"{shown(slope * speed)} at {place(trial.equations, point)}"
            )
    trial.require(judged, where)


def _check_symmetry(trial: Trial, rho: Sequence[Mapping[int, Number]], where: str) -> None:
    """Whether f(rho z) = -rho f(z)."""
    entries = [[(j, high(c)) for j, c in row.items()] for row in rho]

    def moved(vector: Point) -> Point:
        return [HIGH.fsum(c * vector[j] for j, c in row) for row in entries]

    judged = 0
    for point, rates in trial.points:
        images = trial.field.at(moved(point))
        if images is None:
            continue
        judged += 1
        defects = [a + b for a, b in zip(images, moved(rates), strict=True)]
        if (defect := max(map(abs, defects))) > trial.tolerance * (1 + max(map(abs, rates))):
            raise InputError(
                f"{where}: this does not reverse the system, f(rho z) = -rho f(z) fails by "
                f"{shown(defect)} at {place(trial.equations, point)}"
            )
    trial.require(judged, where)


def _check_periods(trial: Trial, periods: Mapping[int, Any], where: str, what: str) -> None:
    """Whether f is the same after random numbers of turns of all angles."""
    generator = random.Random(20231219)
    judged = 0
    for point, rates in trial.points:
        turned = list(point)
        for i, period in periods.items():
            turned[i] += generator.randint(1, 1000) * period
        again = trial.field.at(turned)
        if again is None:
            continue
        judged += 1
        defect = max(abs(a - b) for a, b in zip(again, rates, strict=True))
        if defect > trial.tolerance * (1 + max(map(abs, rates))):
            raise InputError(
                f"{where}: the vector field changes by {shown(defect)} {what}, at "
                f"{place(trial.equations, point)}"
            )
    trial.require(judged, where)


def _divergence_vanishes(trial: Trial, source: str) -> bool:
    """Whether the divergence is zero; raises InputError where the file says so in vain."""
    slopes = [slope for slope in trial.equations.own_slopes if slope != 0]
    if not slopes:
        return True
    where = f"{source}, divergence_free"
    formula = Formula(slopes, trial.equations.symbols)
    judged = 0
    for point, _ in trial.points:
        if (values := formula.at(point)) is None:
            continue
        judged += 1
        # rounding is judged against the size of the terms that ought to cancel
        total, size = HIGH.fsum(values), HIGH.fsum(map(abs, values))
        if abs(total) > trial.tolerance * (1 + size):
            if trial.equations.divergence_free:
                raise InputError(
                    f"{where}: the divergence of the vector field is {shown(total)}, not "
                    f"zero, at {place(trial.equations, point)}"
                )
            return False
    trial.require(judged, where)
    return True
