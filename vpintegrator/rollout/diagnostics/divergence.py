"""Diagnostic of orbits that diverge."""

from __future__ import annotations

from typing import Any

import numpy as np

from vpintegrator.rollout.comparison import Ensemble
from vpintegrator.rollout.diagnostics.diagnostic import Column, Diagnostic
from vpintegrator.rollout.observer import Observer, first_step
from vpintegrator.rollout.results import Results, Run
from vpintegrator.rollout.variables import TRAJECTORY, Variable


class DivergenceObserver(Observer):
    """Finds the first step at which each trajectory is not finite, -1 if none."""

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

    def summary(self, run: Run, report: Results) -> dict[str, Any]:
        return {"diverged": report.diverged(run.name), "trajectories": len(run.states)}

    def columns(self, report: Results) -> list[Column]:
        return [
            Column("diverged", lambda s: s.diverged, "count", place=2),
            Column("orbits", lambda s: s.trajectories, "hidden"),
        ]


DIVERGENCE = DivergenceDiagnostic()
