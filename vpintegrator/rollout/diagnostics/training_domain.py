"""Times at which trajectories leave the training domain of a model, and their distance from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.training_domain import TOLERANCE, Domain, OutOfDomain
from vpintegrator.rollout.comparison import Ensemble
from vpintegrator.rollout.diagnostics.diagnostic import Column, Diagnostic
from vpintegrator.rollout.observer import Observer, first_step
from vpintegrator.rollout.results import Results, Run
from vpintegrator.rollout.variables import TRAJECTORY, Variable
from vpintegrator.storage.reading import StoredGroup


class DomainObserver(Observer):
    """Finds when trajectories leave the training domain of a model, and how far they get.

    Attributes
    ----------
    domain
        Training domain: bounds of the quantities that the system has.
    index
        First step outside by more than the tolerance, -1 if none, (trajectory,).
    excess
        Largest excess, see :class:`vpintegrator.dynamics.training_domain.OutOfDomain`.
    """

    def __init__(self, domain: Domain, system: System, trajectories: int) -> None:
        self.domain = domain.within(system)
        self._quantities = self.domain.quantities(system)
        self._scales = [*zip(self.domain.bounds, self.domain.units, strict=True)]
        self.index = np.full(trajectories, -1)
        self.excess = np.zeros((trajectories, len(self._quantities)))

    @np.errstate(all="ignore")
    def update(self, start: int, states: np.ndarray) -> None:
        outside: np.ndarray | None = None
        for k, (quantity, ((low, high), unit)) in enumerate(
            zip(self._quantities, self._scales, strict=True)
        ):
            values = quantity(states)
            top = np.maximum(low - values.min(axis=1), values.max(axis=1) - high) / unit
            top[np.isnan(top)] = np.inf
            self.excess[:, k] = np.maximum(self.excess[:, k], top)
            if (top[self.index < 0] > TOLERANCE).any():
                inside = np.maximum(low - values, values - high) <= TOLERANCE * unit
                outside = ~inside if outside is None else outside | ~inside
        if outside is not None:
            first_step(self.index, start, outside)


class DomainDiagnostic(Diagnostic):
    """Diagnostic of trajectories that leave the training domain of a model.

    The measurement is ``departure``, a :class:`vpintegrator.dynamics.training_domain.OutOfDomain`.
    It is None for models without a stored domain and for classical methods. The summary has
    ``left_domain``, the number of trajectories that left; ``left_domain_time``, the first time of
    leaving, None if none left; ``left_domain_by``, the greatest distance from the domain. All three
    are None if the domain is not known.
    """

    def observers(self, ensemble: Ensemble) -> dict[str, Observer]:
        domain = ensemble.flow.domain
        if domain is None:
            return {}
        system = ensemble.comparison.system
        return {"region": DomainObserver(domain, system, len(ensemble.first))}

    def measure(self, ensemble: Ensemble) -> dict[str, Any]:
        observer: DomainObserver | None = ensemble.observers.get("region")
        if observer is None:
            return {"departure": None}
        time = ensemble.time_of(observer.index)
        return {"departure": OutOfDomain(observer.domain, time, observer.excess)}

    def stored(self, run: Run) -> Iterator[Variable]:
        found: OutOfDomain | None = run.departure
        if found is not None:
            yield Variable("region", "training domain", values=found.domain.text)
            left = "first time out of the training domain"
            yield Variable("region_time", left, TRAJECTORY, values=found.time)
            axis = "region_quantity"
            numbers = np.arange(found.excess.shape[1])
            title = "component, then invariant, of the training domain"
            yield Variable(axis, title, (axis,), values=numbers)
            far = "largest distance from the range of the training states, in its widths"
            yield Variable("region_excess", far, (*TRAJECTORY, axis), values=found.excess)

    def read(self, group: StoredGroup, system: System, sizes: Mapping[str, int]) -> dict[str, Any]:
        if not group.has("region"):
            return {"departure": None}
        each, text = sizes["trajectory"], group.text("region")
        region = Domain.from_text(text, f"{group}: the attribute 'region'")
        time = group.array("region_time", (each,))
        excess = group.array("region_excess", (each, len(region.names)))
        return {"departure": OutOfDomain(region, time, excess)}

    def summary(self, run: Run, report: Results) -> dict[str, Any]:
        found: OutOfDomain | None = run.departure
        return {
            "left_domain": None if found is None else found.count,
            "left_domain_time": found.first if found and found.count else None,
            "left_domain_by": None if found is None else found.farthest,
        }

    def columns(self, report: Results) -> list[Column]:
        return [
            Column("left domain", lambda s: s.left_domain, "count", place=2),
            Column("left domain at", lambda s: s.left_domain_time, "hidden"),
            Column("left domain by", lambda s: s.left_domain_by, "hidden"),
        ]


DOMAIN = DomainDiagnostic()
