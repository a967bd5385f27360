"""Divergence of orbits: overflow, distance from the reference, change of invariants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.dynamics.magnitude import size_of
from vpintegrator.rollout.comparison import Ensemble
from vpintegrator.rollout.diagnostics.diagnostic import TRAJECTORY, Column, Diagnostic, Variable
from vpintegrator.rollout.diagnostics.invariants import InvariantError
from vpintegrator.rollout.observer import Observer, first_step
from vpintegrator.rollout.run import Run

if TYPE_CHECKING:
    from vpintegrator.rollout.report import Report

FAR = 10.0  # extents of the reference
CHANGED = 100.0  # sizes of an invariant


def divergence_times(
    times: np.ndarray,
    failure_time: np.ndarray,
    error: np.ndarray,
    extent: float,
    changes: Mapping[str, InvariantError],
    invariants: Mapping[str, Callable[[np.ndarray], Any]],
    initial: np.ndarray,
) -> np.ndarray:
    """Return the time at which each orbit has diverged, NaN if it has not, (trajectory,).

    An orbit has diverged where a state is not finite, where it is farther from the reference than
    :data:`FAR` times the reference's extent, or where an invariant has changed by more than
    :data:`CHANGED` times its size: what explodes slowly is as useless as what overflows.

    Parameters
    ----------
    times
        Stored times, (time,).
    failure_time
        First time at which a state is not finite, NaN if none, (trajectory,).
    error
        Distance from the reference, NaN where that is not known, (trajectory, time).
    extent
        Extent of the reference, see :func:`extent_of`; distances are not used if it is 0.
    changes
        Changes of the invariants along the orbits, by name.
    invariants
        The invariants as functions of states (..., dim).
    initial
        Initial states, (trajectory, dim).
    """
    with np.errstate(all="ignore"):
        beyond = error > FAR * extent if extent > 0 else np.zeros(error.shape, dtype=bool)
        for name, change in changes.items():
            size = 1.0 if change.relative else size_of(invariants[name], initial)
            if size > 0:
                beyond = beyond | (np.abs(change.error) > CHANGED * size)
    found = np.where(beyond.any(axis=1), times[beyond.argmax(axis=1)], np.nan)
    return np.fmin(found, failure_time)


def extent_of(reference: np.ndarray) -> float:
    """Return the largest distance of a state (trajectory, time, dim) from the mean, or NaN."""
    known = reference[np.isfinite(reference).all(axis=-1)]
    if not len(known):
        return float("nan")
    return float(np.linalg.norm(known - known.mean(axis=0), axis=-1).max())


class DivergenceObserver(Observer):
    """Finds the first step at which each trajectory is not finite, -1 if none."""

    remembered = ("index",)

    def __init__(self, trajectories: int) -> None:
        self.index = np.full(trajectories, -1)

    def update(self, start: int, states: np.ndarray) -> None:
        # nothing comes back from NaN, so the end of a part tells whether there is anything to find
        with np.errstate(all="ignore"):
            if np.isfinite(states[:, -1].sum()):
                return
        first_step(self.index, start, ~np.isfinite(states).all(axis=-1))


class DivergenceDiagnostic(Diagnostic):
    """Diagnostic of orbits that diverge.

    The measurement is ``failure_time``, the first time at which the trajectory is not finite, NaN
    if there is none, (trajectory,). The summary has ``diverged`` and ``trajectories``, the numbers
    of trajectories that diverge by :meth:`Report.divergence_time` and of all.
    """

    variables = (
        Variable(
            "failure_time",
            "first time at which the trajectory is not finite",
            TRAJECTORY,
            stored_as="divergence_time",
            required=True,
        ),
    )

    def observers(self, ensemble: Ensemble) -> dict[str, Observer]:
        return {"divergence": DivergenceObserver(len(ensemble.first))}

    def measure(self, ensemble: Ensemble) -> dict[str, Any]:
        observer: DivergenceObserver = ensemble.observers["divergence"]
        return {"failure_time": ensemble.time_of(observer.index)}

    def summary(self, run: Run, report: Report) -> dict[str, Any]:
        return {"diverged": report.diverged(run.name), "trajectories": len(run.states)}

    def columns(self, report: Report) -> list[Column]:
        return [
            Column("diverged", lambda s: s.diverged, "count", place=2),
            Column("orbits", lambda s: s.trajectories, "hidden"),
        ]


DIVERGENCE = DivergenceDiagnostic()
