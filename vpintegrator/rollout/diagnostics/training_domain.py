"""Times at which trajectories leave the training domain of a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.rollout.comparison import Ensemble
from vpintegrator.rollout.diagnostics.diagnostic import Column, Diagnostic
from vpintegrator.rollout.observer import Observer, first_step
from vpintegrator.rollout.results import Results, Run
from vpintegrator.rollout.variables import TRAJECTORY, Variable


class DomainObserver(Observer):
    """Finds when trajectories leave the training domain of a model.

    Attributes
    ----------
    index
        First step outside, -1 if none, (trajectory,).
    """

    def __init__(self, domain: Domain, system: System, trajectories: int) -> None:
        self._domain, self._system = domain, system
        self.index = np.full(trajectories, -1)

    def update(self, start: int, states: np.ndarray) -> None:
        inside = np.flatnonzero(self.index < 0)
        if len(inside):
            found = self.index[inside]
            first_step(found, start, ~self._domain.holds(self._system, states[inside]))
            self.index[inside] = found


class DomainDiagnostic(Diagnostic):
    """Diagnostic of trajectories that leave the training domain of a model.

    The measurement is ``departure_time``, the first time out of the domain, NaN if there is none,
    (trajectory,). It is None for models without a stored domain and for classical methods. The
    summary has ``left_domain``, the number of trajectories that left, and ``left_domain_time``, the
    first time of leaving, None if none left.
    """

    variables = (Variable("departure_time", "first time out of the training domain", TRAJECTORY),)

    def observers(self, ensemble: Ensemble) -> dict[str, Observer]:
        domain, system = ensemble.flow.domain, ensemble.comparison.system
        return {"domain": DomainObserver(domain, system, len(ensemble.first))} if domain else {}

    def measure(self, ensemble: Ensemble) -> dict[str, Any]:
        observer: DomainObserver | None = ensemble.observers.get("domain")
        return {"departure_time": observer and ensemble.time_of(observer.index)}

    def summary(self, run: Run, report: Results) -> dict[str, Any]:
        times = run.departure_time
        left = [] if times is None else times[np.isfinite(times)]
        return {
            "left_domain": None if times is None else len(left),
            "left_domain_time": float(min(left)) if len(left) else None,
        }

    def columns(self, report: Results) -> list[Column]:
        return [
            Column("left domain", lambda s: s.left_domain, "count", place=2),
            Column("left domain at", lambda s: s.left_domain_time, "hidden"),
        ]


DOMAIN = DomainDiagnostic()
