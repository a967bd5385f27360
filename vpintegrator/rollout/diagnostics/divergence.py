"""Times at which orbits diverge, and at which they leave the training domain of a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from vpintegrator.rollout.diagnostics.diagnostic import Column, Diagnostic, Ensemble, first_step
from vpintegrator.rollout.results import Results, Run
from vpintegrator.rollout.variables import TRAJECTORY, Variable


class Divergence(Diagnostic):
    """Orbits that diverge, or leave the training domain of a model.

    The measurements are ``failure_time``, the first time at which the trajectory is not finite, and
    ``departure_time``, the first time out of the domain, NaN if there is none, (trajectory,). The
    latter is None for models without a stored domain and for other maps. The summary has
    ``diverged`` and ``trajectories``, the numbers of trajectories that diverge by
    :meth:`Report.divergence_time` and of all; ``left_domain``, the number of trajectories that
    left, and ``left_domain_time``, the first time of leaving, None if none left.
    """

    variables = (
        Variable(
            "failure_time",
            "first time at which the trajectory is not finite",
            TRAJECTORY,
            stored_as="divergence_time",
            required=True,
        ),
        Variable("departure_time", "first time out of the training domain", TRAJECTORY),
    )

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(ensemble)
        self._domain = self.map.domain
        # first steps at which each trajectory is not finite, and is outside; -1 if none
        self.failed, self.left = (np.full(len(ensemble.first), -1) for _ in range(2))

    def observe(self, start: int, states: np.ndarray) -> None:
        # nothing comes back from NaN, so the end of a part tells whether there is anything to find
        with np.errstate(all="ignore"):
            if not np.isfinite(states[:, -1].sum()):
                first_step(self.failed, start, ~np.isfinite(states).all(axis=-1))
        inside = np.flatnonzero(self.left < 0)
        if self._domain is not None and len(inside):
            left = self.left[inside]
            first_step(left, start, ~self._domain.holds(self.plan.system, states[inside]))
            self.left[inside] = left

    def result(self) -> dict[str, Any]:
        time_of = self.ensemble.time_of
        departed = None if self._domain is None else time_of(self.left)
        return {"failure_time": time_of(self.failed), "departure_time": departed}

    @classmethod
    def summary(cls, run: Run, report: Results) -> dict[str, Any]:
        times = run.departure_time
        left = [] if times is None else times[np.isfinite(times)]
        return {
            "diverged": report.diverged(run.name),
            "trajectories": len(run.states),
            "left_domain": None if times is None else len(left),
            "left_domain_time": float(min(left)) if len(left) else None,
        }

    @classmethod
    def columns(cls, report: Results) -> list[Column]:
        return [
            Column("diverged", lambda s: s.diverged, "count", place=2),
            Column("orbits", lambda s: s.trajectories, "hidden"),
            Column("left domain", lambda s: s.left_domain, "count", place=2),
            Column("left domain at", lambda s: s.left_domain_time, "hidden"),
        ]
