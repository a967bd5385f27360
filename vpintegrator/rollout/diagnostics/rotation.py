"""How fast orbits of a map of the plane turn, beside those of the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.reading import StoredGroup
from vpintegrator.rollout.comparison import Comparison, Ensemble
from vpintegrator.rollout.diagnostics.diagnostic import TRAJECTORY, Column, Diagnostic, Variable
from vpintegrator.rollout.exact_map import ExactMap
from vpintegrator.rollout.observer import Observer
from vpintegrator.rollout.periodic_points import NoPeriodicPoint, periodic_point
from vpintegrator.rollout.rotation import (
    REGULAR,
    SUMS,
    TURN,
    add_angles,
    between,
    birkhoff_weights,
    turns_of,
)
from vpintegrator.rollout.run import Run

if TYPE_CHECKING:
    from vpintegrator.rollout.report import Report

_LEAST = 20  # steps
_ARRAYS = {
    "number": ("rotation_number", "turns per step, counterclockwise"),
    "change": ("rotation_change", "difference of turns per step between the halves of the way"),
    "reference": ("rotation_reference", "turns per step of the reference"),
    "reference_change": ("rotation_reference_change", "the same difference, of the reference"),
}


@dataclass(frozen=True)
class RotationNumbers:
    """Turns per step of a method's orbits and of the reference's, as far as that is known.

    Attributes
    ----------
    centre
        The point about which angles are taken, the fixed point of the map in the middle of the
        orbits or else their middle; None where a component that is an angle advances.
    number, change
        Turns per step, from minus a half to a half, counterclockwise, and the difference between
        the first and the second half of the way, (trajectory,); NaN where a state is not finite.
    reference, reference_change
        The same of the reference.
    """

    centre: np.ndarray | None
    number: np.ndarray
    change: np.ndarray
    reference: np.ndarray
    reference_change: np.ndarray

    @property
    def regular(self) -> np.ndarray:
        """Orbits on which the halves of the reference agree within 1e-6: tori, and no chaos."""
        return self.reference_change < REGULAR

    @property
    def difference(self) -> np.ndarray:
        """How far the method's turns per step are from the reference's, (trajectory,)."""
        return between(self.number, self.reference)

    @property
    def error(self) -> float | None:
        """The largest difference on regular orbits; None where there are none."""
        found = self.difference[self.regular]
        if not len(found):
            return None
        return float(np.nan_to_num(found, nan=np.inf).max())


class RotationObserver(Observer):
    """Averages the increments of an angle over the steps that the reference reaches."""

    remembered = ("sums",)

    def __init__(self, comparison: Comparison) -> None:
        self._system = comparison.system
        self._last = len(comparison.reference) - 1
        self._weights = birkhoff_weights(self._last)
        self.centre = _centre(comparison)
        self._scale = np.ptp(comparison.reference, axis=(0, 1))
        self.sums = np.zeros((len(comparison.initial), SUMS))

    @np.errstate(all="ignore")
    def update(self, start: int, states: np.ndarray) -> None:
        states = states[:, : max(self._last + 1 - start, 0)]
        if states.shape[1]:
            add_angles(self.sums, self._angles(states), start, self._weights)

    def _angles(self, states: np.ndarray) -> np.ndarray:
        if self.centre is None:
            k = min(self._system.periods)
            return states[..., k] * (TURN / self._system.periods[k])
        x, y = np.moveaxis((states - self.centre) / self._scale, -1, 0)
        return np.arctan2(y, x)


def _centre(comparison: Comparison) -> np.ndarray | None:
    system = comparison.system
    if system.periods:
        return None
    middle = comparison.reference.mean(axis=(0, 1))
    try:
        return periodic_point(ExactMap(system), middle)
    except NoPeriodicPoint:
        return middle


class RotationDiagnostic(Diagnostic):
    """Rotation numbers of the orbits of a map of two components.

    Measured is ``rotation``, a :class:`RotationNumbers`; None for other systems, and where the
    reference is no longer than a few steps. Summed up: ``rotation_error``, the largest difference
    on orbits that are regular, and ``regular``, how many these are; None where there is nothing.
    """

    def observers(self, ensemble: Ensemble) -> dict[str, Observer]:
        comparison = ensemble.comparison
        system, reference = comparison.system, comparison.reference
        if not system.is_discrete or system.dim != 2 or len(reference) <= _LEAST:
            return {}
        if not np.isfinite(reference).all() or not np.ptp(reference, axis=(0, 1)).all():
            return {}
        return {"rotation": RotationObserver(comparison)}

    def measure(self, ensemble: Ensemble) -> dict[str, Any]:
        observer: RotationObserver | None = ensemble.observers.get("rotation")
        if observer is None:
            return {"rotation": None}
        beside = RotationObserver(ensemble.comparison)
        beside.update(0, ensemble.comparison.reference.transpose(1, 0, 2))
        found = RotationNumbers(observer.centre, *turns_of(observer.sums), *turns_of(beside.sums))
        return {"rotation": found}

    def stored(self, run: Run) -> Iterator[Variable]:
        found: RotationNumbers | None = run.measurements.get("rotation")
        if found is not None:
            if found.centre is not None:
                yield Variable("rotation_centre", "centre of the turns", values=found.centre)
            for name, (key, title) in _ARRAYS.items():
                yield Variable(key, title, TRAJECTORY, values=getattr(found, name))

    def read(self, group: StoredGroup, system: System, sizes: Mapping[str, int]) -> dict[str, Any]:
        if "rotation_number" not in group:
            return {"rotation": None}
        centre = group.numbers("rotation_centre", system.dim, None)
        each = (sizes["trajectory"],)
        arrays = {name: group.array(key, each) for name, (key, _) in _ARRAYS.items()}
        return {"rotation": RotationNumbers(centre, **arrays)}

    def summary(self, run: Run, report: Report) -> dict[str, Any]:
        found: RotationNumbers | None = run.measurements.get("rotation")
        return {
            "rotation_error": None if found is None else found.error,
            "regular": None if found is None else int(found.regular.sum()),
        }

    def columns(self, report: Report) -> list[Column]:
        if not any(run.measurements.get("rotation") for run in report.runs.values()):
            return []
        return [
            Column("rotation error", lambda s: s.rotation_error, rank=2.5, place=2),
            Column("regular orbits", lambda s: s.regular, "hidden"),
        ]


ROTATION = RotationDiagnostic()
