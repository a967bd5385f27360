"""Trajectories of one method, and the measurements on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Run:
    """Trajectories of one method and the measurements on them.

    The stored times are every ``every``-th step of the rollout. A largest value at a stored time is
    the largest over all steps since the stored time before.

    Attributes
    ----------
    name
        Name of the method in tables, figures and files.
    kind
        ``"learned"`` or ``"classical"``.
    method
        Name of the classical method or of the architecture.
    title, description
        Name of the method in figures, and a line about it.
    order
        Order of convergence; None for a learned map.
    structure
        Properties of the map: ``"symplectic"``, ``"volume-preserving"``, ``"symmetric"`` and
        ``"reversible"``.
    window, prediction_window
        Time steps read and predicted in each call.
    states
        States at the stored times, (trajectory, time, dim).
    measurements
        Values of the diagnostics by name; None for a value that does not exist. Each is an
        attribute too: ``error``, ``root_mean_square_error``, ``threshold_time``, ``invariants``,
        ``volume``, ``symplecticity``, ``reversibility``, ``lyapunov``, ``section``,
        ``evaluations_per_step``, ``seconds_per_step``, ``failure_time``, ``departure``, and those
        that are added. The classes in ``vpintegrator.rollout.diagnostics`` define them.
    unknown
        Other measurements in the file, for which this version has no diagnostic.
    """

    name: str
    kind: str
    method: str
    title: str
    description: str
    order: int | None
    structure: tuple[str, ...]
    window: int
    prediction_window: int
    states: np.ndarray
    measurements: dict[str, Any] = field(repr=False)
    unknown: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        measurements = self.__dict__.get("measurements", {})
        if name in measurements:
            return measurements[name]
        if name in self.__dict__.get("unknown", ()):
            raise AttributeError(
                f"'{name}' is in the file, for a diagnostic of its own: open it with "
                "open_rollout(path, diagnostics=[...])"
            )
        raise AttributeError(f"'{name}' was not measured; there are {', '.join(measurements)}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.measurements})

    def __repr__(self) -> str:
        also = f"; its file also holds {', '.join(self.unknown)}" if self.unknown else ""
        return (
            f"<Run {self.title} ({self.kind}): {len(self.states)} trajectories, "
            f"worst RMSE {self.root_mean_square_error.max():.1e}{also}>"
        )
