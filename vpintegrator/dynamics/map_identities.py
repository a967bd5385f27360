"""Checks of the invariants, symmetries, angles, volume and form that a file declares for a map.

Identities are checked at random points with a hundred digits, as for flows (:mod:`trial`). Checks
apply to one pass through the stages. An identity of one pass holds for any number of iterations.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import Number, TooLong, Value
from vpintegrator.dynamics.expressions.constants import HIGH, high
from vpintegrator.dynamics.trial import (
    FEWEST,
    LARGEST_COST,
    OF_ROUNDED,
    OPERATIONS,
    POINTS,
    Formula,
    Point,
    cost_of,
    place,
    random_points,
    shown,
    tolerance_of,
)
from vpintegrator.errors import InputError

_KEPT = {"divergence_free": "the determinant is 1", "symplectic": "the form dq dp is kept"}
_LARGEST = 64  # components of a map whose determinant is computed with a hundred digits


class MapStructure(NamedTuple):
    """Structure that a map preserves: volume, and the symplectic form of states (q, p)."""

    volume_preserving: bool
    symplectic: bool


def check_map(equations: Equations, source: str) -> MapStructure:
    """Check what a file claims of a map, and return what structure it has.

    Raises
    ------
    InputError
        Naming the first claim that does not hold, and a point where it fails.
    """
    trial = _MapTrial(equations, source)
    for name, invariant in equations.invariants.items():
        _check_invariant(trial, invariant, f"{source}, [invariants] {name}")
    for number, rho in enumerate(equations.reversing_symmetries, start=1):
        _check_symmetry(trial, rho, f"{source}, [[reversing_symmetry]] {number}")
    if equations.periods:
        _check_periods(trial, f"{source}, [periodic]")
    return _check_structure(trial, source)


class _MapTrial:
    """Points at which claims are tried, with their images and derivatives."""

    def __init__(self, equations: Equations, source: str) -> None:
        self.equations, self.source = equations, source
        self.tolerance = tolerance_of(equations)
        self._stages = [
            (list(stage), Formula(list(stage.values()), equations.symbols))
            for stage in equations.stages
        ]

    @cached_property
    def points(self) -> list[tuple[Point, Point]]:
        """Points where the map has a value, and that."""
        e = self.equations
        cost = sum(cost_of(list(stage.values())) for stage in e.stages)
        cost *= 2 + len(e.reversing_symmetries) + bool(e.periods)
        cost += sum(2 * cost_of([value]) for value in e.invariants.values())
        if cost > LARGEST_COST:
            raise TooLong(f"so much that checking them takes more than {LARGEST_COST} operations")
        wanted = min(max(OPERATIONS // (cost + 1), 1), POINTS)
        images = ((point, self.image(point)) for point in random_points(len(e.symbols)))
        return [(point, image) for point, image in images if image is not None][:wanted]

    def image(self, point: Point) -> Point | None:
        """Return the stages once through, or None where there is no value."""
        point = list(point)
        for changed, formula in self._stages:
            values = formula.at(point)
            if values is None:
                return None
            for i, value in zip(changed, values, strict=True):
                point[i] = value
        return point

    @cached_property
    def _slopes(self) -> list[tuple[list[tuple[int, int]], Formula]]:
        e = self.equations
        return [(list(found), Formula(list(found.values()), e.symbols)) for found in e.stage_slopes]

    def derivative(self, point: Point) -> Any:
        """Return the matrix of derivatives, or None where there is no value."""
        dim, point = len(point), list(point)
        rows = [[HIGH.mpf(i == j) for j in range(dim)] for i in range(dim)]
        stages = zip(self._stages, self._slopes, strict=True)
        for (changed, formula), (places, slopes) in stages:
            values, factors = formula.at(point), slopes.at(point)
            if values is None or factors is None:
                return None
            new = {i: [HIGH.mpf(0)] * dim for i in changed}
            for (i, j), factor in zip(places, factors, strict=True):
                new[i] = [a + factor * b for a, b in zip(new[i], rows[j], strict=True)]
            for i, value in zip(changed, values, strict=True):
                rows[i], point[i] = new[i], value
        return HIGH.matrix(rows)

    def require(self, judged: int, where: str) -> None:
        """Raise InputError where hardly any point could be judged."""
        if judged < min(max(len(self.points), 1), FEWEST):
            raise InputError(
                f"{where}: cannot be checked, the map has no finite value at random points"
            )


def _check_invariant(trial: _MapTrial, invariant: Value, where: str) -> None:
    formula, judged = Formula([invariant], trial.equations.symbols), 0
    for point, image in trial.points:
        before, after = formula.at(point), formula.at(image)
        if before is None or after is None:
            continue
        judged += 1
        change = after[0] - before[0]
        if abs(change) > trial.tolerance * (1 + abs(before[0])):
            raise InputError(
                f"{where}: this is not constant: the map changes it by {shown(change)} at "
                f"{place(trial.equations, point)}"
            )
    trial.require(judged, where)


def _check_symmetry(trial: _MapTrial, rho: Sequence[Mapping[int, Number]], where: str) -> None:
    """Whether rho M rho M is the identity."""
    entries = [[(j, high(c)) for j, c in row.items()] for row in rho]

    def moved(vector: Point) -> Point:
        return [HIGH.fsum(c * vector[j] for j, c in row) for row in entries]

    judged = 0
    for point, image in trial.points:
        again = trial.image(moved(image))
        if again is None:
            continue
        judged += 1
        defect = max(abs(a - b) for a, b in zip(moved(again), point, strict=True))
        if defect > trial.tolerance * (1 + max(map(abs, [*point, *image]))):
            raise InputError(
                f"{where}: this does not reverse the map M, rho M rho M = identity fails by "
                f"{shown(defect)} at {place(trial.equations, point)}"
            )
    trial.require(judged, where)


def _check_periods(trial: _MapTrial, where: str) -> None:
    """Whether turns of angles turn the images by whole periods, and change nothing else."""
    periods = {i: high(period) for i, period in trial.equations.periods.items()}
    generator, judged = random.Random(20231219), 0
    for point, image in trial.points:
        turned = list(point)
        for i, period in periods.items():
            turned[i] += generator.randint(1, 1000) * period
        again = trial.image(turned)
        if again is None:
            continue
        judged += 1
        changes = [a - b for a, b in zip(again, image, strict=True)]
        for i, period in periods.items():
            changes[i] -= HIGH.nint(HIGH.re(changes[i]) / period) * period
        defect = max(map(abs, changes))
        if defect > trial.tolerance * (1 + max(map(abs, turned))):
            raise InputError(
                f"{where}: the image changes by {shown(defect)} where angles turn by their "
                f"periods, at {place(trial.equations, point)}"
            )
    trial.require(judged, where)


def _check_structure(trial: _MapTrial, source: str) -> MapStructure:
    """Whether det DM = 1 and DM^T J DM = J; raises InputError where the file says otherwise."""
    e = trial.equations
    dim, claims = len(e.symbols), (e.divergence_free, e.symplectic)
    if e.symplectic and dim % 2:
        raise InputError(
            f"{source}, symplectic: the state lists positions and then as many momenta, but it has "
            f"{dim} components"
        )
    if dim > _LARGEST:
        if any(claims):
            raise InputError(
                f"{source}: what is claimed of volume and form is checked for maps of up to "
                f"{_LARGEST} components, not {dim}"
            )
        return MapStructure(False, False)
    judged, worst = 0, {key: HIGH.mpf(0) for key in _KEPT}
    if dim % 2:
        worst["symplectic"] = HIGH.inf
    for point, _ in trial.points:
        slopes = trial.derivative(point)
        if slopes is None:
            continue
        judged += 1
        scale = 1 + max(abs(entry) for entry in slopes)
        defects = {"divergence_free": abs(HIGH.det(slopes) - 1) / scale**dim}
        if dim % 2 == 0:
            defects["symplectic"] = _form_defect(slopes) / scale**2
        for key, defect in defects.items():
            if defect > OF_ROUNDED and getattr(e, key):
                raise InputError(
                    f"{source}, {key}: that {_KEPT[key]} fails by {shown(defect)}, relative to the "
                    f"derivatives, at {place(e, point)}"
                )
            worst[key] = max(worst[key], defect)
    trial.require(judged, f"{source}, [map]")
    # declared identities may fail by the rounding of the file's decimals
    found = {
        key: defect <= (OF_ROUNDED if getattr(e, key) else trial.tolerance)
        for key, defect in worst.items()
    }
    for key, claim in zip(("divergence_free", "symplectic"), claims, strict=True):
        if claim is False and found[key]:
            raise InputError(f"{source}, {key}: the file says false, but the map keeps it")
    if claims == (None, None) and not any(found.values()):
        _propose(worst, source)
    # symplectic maps keep the volume, too
    return MapStructure(found["divergence_free"] or found["symplectic"], found["symplectic"])


def _propose(worst: Mapping[str, Any], source: str) -> None:
    """Warn of structure that a map keeps to rounding and its file does not declare."""
    words = {"symplectic": "the symplectic form", "divergence_free": "volume"}
    for key, what in words.items():
        if worst[key] <= OF_ROUNDED:
            warnings.warn(
                f"{source}: the map preserves {what} to {shown(worst[key])}; say {key} = true",
                stacklevel=2,
            )
            return


def _form_defect(slopes: Any) -> Any:
    """Return the largest entry of D^T J D - J."""
    dim = slopes.rows
    half = dim // 2
    lower, upper = slopes[half:, :], slopes[:half, :]
    form = upper.T * lower - lower.T * upper
    for i in range(half):
        form[i, half + i] -= 1
        form[half + i, i] += 1
    return max(abs(entry) for entry in form)
