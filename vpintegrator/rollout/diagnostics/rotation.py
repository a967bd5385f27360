"""Rotation numbers of orbits: mean turns per step, and their difference from the reference's.

The increments of an angle along an orbit are averaged with weights that vanish smoothly at both
ends. On a quasi-periodic orbit the average converges faster than any power of its length (Das,
Saiki, Sander, Yorke, Nonlinearity 30 (2017) 4111). In chaos it does not, and the averages over the
two halves differ (Sander, Meiss, Physica D 411 (2020) 132569).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.maps import ExactMap, Map
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic, Ensemble, Plan
from vpintegrator.rollout.report import Report, Run
from vpintegrator.rollout.variables import TRAJECTORY, Column, Measurement, Variable

TURN = 2 * np.pi
_ITERATIONS = 50
_TOLERANCE = 1e-12  # of a fixed point, relative to the size of the state
_STARTS = 16  # states from which an elliptic point is looked for
# growth of an elliptic point, of its turn, as of rk4; rounding
_SPIRAL = 0.1
_NEUTRAL = 1e-6
_SMALLEST = 2.0**-10  # part of a Newton step


def birkhoff_weights(steps: int) -> np.ndarray:
    """Return weights (step, 3) of the increments: of all, of the first half, of the second half.

    Each column adds up to 1 (eq. 3 of the article).
    """

    weights = np.zeros((steps, 3))
    half = steps // 2
    for rows, column in (slice(steps), 0), (slice(half), 1), (slice(steps - half, steps), 2):
        count = rows.stop - (rows.start or 0)
        t = np.arange(1, count + 1) / (count + 1)
        w = np.exp(-1 / (t * (1 - t)))
        weights[rows, column] = w / w.sum()
    return weights


def tolerance_of(steps: int) -> float:
    """Return the largest difference between the halves of a regular orbit, in turns per step.

    The tolerance is (10/steps)**3. With this power tori and chaos are mistaken for one another
    about as often, from 200 to 20,000 steps of the standard map at K = 0.5 and K = 0.97. The
    least tolerance allows for rounding errors of angles.
    """
    return max((10 / steps) ** 3, 1e-10)


_LEAST = 20  # steps


@dataclass(frozen=True)
class RotationNumbers:
    """Turns per step of a method's orbits and of the reference's, as far as that is known.

    Attributes
    ----------
    centre
        Point about which angles are measured: the elliptic fixed point nearest to the mean of the
        orbits, or that mean. None if a component is an angle.
    number, change
        Turns per step, from minus a half to a half, counterclockwise, and their difference between
        the first and the second half of the steps, (trajectory,); NaN where a state is not finite.
    reference, reference_change
        The same of the reference.
    tolerance
        Largest difference between the halves of a regular orbit.
    """

    centre: np.ndarray | None
    number: np.ndarray
    change: np.ndarray
    reference: np.ndarray
    reference_change: np.ndarray
    tolerance: float

    @property
    def regular(self) -> np.ndarray:
        """Orbits on which the halves of the reference agree within the tolerance: tori."""
        return self.reference_change < self.tolerance

    @property
    def difference(self) -> np.ndarray:
        """Difference from the reference in turns per step, whole turns left out, (trajectory,)."""
        difference = self.number - self.reference
        return np.abs(difference - np.round(difference))

    @property
    def error(self) -> float | None:
        """The largest difference on regular orbits; None where there are none."""
        differences = np.nan_to_num(self.difference[self.regular], nan=np.inf)
        return float(differences.max()) if len(differences) else None


_STORED = (
    Variable("number", "turns per step, counterclockwise", TRAJECTORY, "rotation_number"),
    Variable("change", "its difference between halves of the way", TRAJECTORY, "rotation_change"),
    Variable("reference", "turns of the reference", TRAJECTORY, "rotation_reference"),
    Variable("reference_change", "their difference", TRAJECTORY, "rotation_reference_change"),
    Variable("centre", "centre of the turns", stored_as="rotation_centre", length=2),
    Variable("tolerance", "tolerance", stored_as="rotation_tolerance", required=True),
)


def elliptic_point(map: Map, states: np.ndarray) -> np.ndarray | None:
    """Return a fixed point of a map about which states turn; None if none is found.

    Newton's method starts from the mean of the states and then from some of them. The result is the
    elliptic point found from the mean, or else the one nearest to the mean.

    Parameters
    ----------
    map
        The map.
    states
        States round it, (state, dim).
    """
    middle = states.mean(axis=0)
    points = []
    sample = np.linspace(0, len(states) - 1, min(_STARTS, len(states))).astype(int)
    for guess in (middle, *states[sample]):
        point = _fixed_point(map, guess)
        if point is not None and _is_elliptic(map.derivative(point[None, None])[0]):
            points.append(point)
            if guess is middle:
                break
    if not points:
        return None
    return min(points, key=lambda point: float(np.linalg.norm(point - middle)))


def _fixed_point(map: Map, point: np.ndarray) -> np.ndarray | None:
    """Return the fixed point to which a damped Newton iteration converges, None if to none."""
    gap = _displacement(map, point)
    for _ in range(_ITERATIONS):
        size = np.linalg.norm(gap)
        if not np.isfinite(size):
            return None
        if size <= _TOLERANCE * max(1.0, float(np.linalg.norm(point))):
            return point
        slope = map.derivative(point[None, None])[0] - np.eye(len(point))
        if not np.isfinite(slope).all():
            return None
        change = np.linalg.lstsq(slope, -gap, rcond=None)[0]
        part = 1.0
        while not np.linalg.norm(new_gap := _displacement(map, point + part * change)) < size:
            part /= 2
            if part < _SMALLEST:
                return None
        point = point + part * change
        gap = new_gap
    return None


def _displacement(map: Map, point: np.ndarray) -> np.ndarray:
    """Return the displacement of a point in a step, without whole periods of angles."""
    gap: np.ndarray = map.map(point[None, None])[0, 0] - point
    for k, turn in ({} if map.system is None else map.system.periods).items():
        gap[k] -= turn * np.round(gap[k] / turn)
    return gap


def _is_elliptic(slope: np.ndarray) -> bool:
    """Whether states beside a fixed point turn about it many times before they leave."""
    values = np.linalg.eigvals(slope)
    growth = np.abs(np.log(np.abs(values)))
    return bool((growth <= np.maximum(_SPIRAL * np.abs(values.imag), _NEUTRAL)).all()) and bool(
        (np.abs(values.imag) > _NEUTRAL).any()
    )


class _Turns:
    """Averages the increments of an angle over the steps that the reference reaches."""

    def __init__(self, plan: Plan, centre: np.ndarray | None) -> None:
        self._plan = plan
        self.centre = centre
        self._weights = birkhoff_weights(len(plan.motion) - 1)
        self._scale = np.ptp(plan.motion, axis=(0, 1))
        # last angle and first increment of each orbit, and the three weighted sums
        self._last, self._first = np.zeros((2, len(plan.initial)))
        self._sums = np.zeros((len(plan.initial), 3))

    @np.errstate(all="ignore")
    def observe(self, start: int, states: np.ndarray) -> None:
        """Take in states (trajectory, count, dim) of steps ``start``, ...

        Angles that are known up to whole turns advance by at most half a turn more or less than in
        the first step. Components that are angles go on, turn after turn, and advance by any
        amount.
        """
        states = states[:, : max(len(self._weights) + 1 - start, 0)]
        if not states.shape[1]:
            return
        angles = self._angles(states)
        increments = np.diff(np.concatenate([self._last[:, None], angles], axis=1), axis=1)
        increments = increments[:, start == 0 :]
        if start <= 1 and increments.shape[1]:
            self._first = increments[:, 0]
        more = increments - self._first[:, None]
        if self.centre is not None:
            more -= TURN * np.round(more / TURN)
        begin = max(start - 1, 0)
        self._sums += more @ self._weights[begin : begin + more.shape[1]]
        self._last = angles[:, -1]

    def turns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return turns per step, from minus a half to a half, and the difference of the halves."""
        whole, one, other = self._sums.T
        rotation = (self._first + whole) / TURN
        return rotation - np.round(rotation), np.abs(one - other) / TURN

    def _angles(self, states: np.ndarray) -> np.ndarray:
        if self.centre is None:
            periods = self._plan.system.periods
            return states[..., min(periods)] * (TURN / periods[min(periods)])
        x, y = np.moveaxis((states - self.centre) / self._scale, -1, 0)
        return np.arctan2(y, x)


def _centre(plan: Plan) -> np.ndarray | None:
    if plan.system.periods:
        return None
    states = plan.motion.reshape(-1, plan.system.dim)
    point = elliptic_point(ExactMap(plan.system), states)
    return states.mean(axis=0) if point is None else point


class Rotation(Diagnostic):
    """Rotation numbers of the orbits of a map of two components.

    The measurement is ``rotation``, a :class:`RotationNumbers`; None for other systems and short
    references. The summary has ``rotation_error``, the largest difference on regular orbits, and
    ``regular``, the number of these orbits.
    """

    variables = (Measurement("rotation", _STORED, RotationNumbers),)
    needs = ("system.is_discrete",)

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(ensemble)
        system = self.plan.system
        motion = self.plan.motion
        self._turns: _Turns | None = None
        plane = system.dim == 2 and len(motion) > _LEAST
        if plane and np.isfinite(motion).all() and np.ptp(motion, axis=(0, 1)).all():
            self._turns = _Turns(self.plan, self.plan.once(_centre))

    def observe(self, start: int, states: np.ndarray) -> None:
        if self._turns is not None:
            self._turns.observe(start, states)

    def result(self) -> dict[str, Any]:
        if self._turns is None:
            return {"rotation": None}
        beside = _Turns(self.plan, self._turns.centre)
        beside.observe(0, self.plan.motion.transpose(1, 0, 2))
        turns = *self._turns.turns(), *beside.turns()
        tolerance = tolerance_of(len(self.plan.motion) - 1)
        return {"rotation": RotationNumbers(self._turns.centre, *turns, tolerance)}

    @classmethod
    def summary(cls, run: Run, report: Report) -> dict[str, Any]:
        rotation: RotationNumbers | None = run.rotation
        if rotation is None:
            return {"rotation_error": None, "regular": None}
        return {"rotation_error": rotation.error, "regular": int(rotation.regular.sum())}

    @classmethod
    def columns(cls, report: Report) -> list[Column]:
        if all(run.rotation is None for run in report.runs.values()):
            return []
        error = Column("rotation error", "rotation_error", rank=2.5, place=2)
        return [error, Column("regular orbits", "regular", "hidden")]
