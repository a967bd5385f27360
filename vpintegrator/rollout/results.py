"""Results of a comparison: the runs of all methods beside a reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.rollout.divergence import divergence_times, extent_of
from vpintegrator.rollout.run import Run


class Summary(SimpleNamespace):
    """Summary of one method; values that are not finite count as infinite errors.

    The attributes are ``name``, ``title``, ``kind``, ``order`` and ``structure``, as in
    :class:`Run`, and the sums of the diagnostics: ``error``, ``worst_error``, ``final_error``,
    ``threshold_time``, ``invariants``, ``drifts``, ``volume``, ``volume_preserved``, ``lyapunov``,
    ``diverged``, and so on. The classes in ``vpintegrator.rollout.diagnostics`` define them.
    """


@dataclass(frozen=True)
class Results:
    """Runs of several methods beside a reference, from the same initial states.

    The attributes are those of :class:`vpintegrator.rollout.Report`.
    """

    system: System
    step: float
    every: int
    times: np.ndarray
    reference: np.ndarray
    reference_error: np.ndarray
    threshold: float
    runs: dict[str, Run]
    seed: int | None = None
    section_plane: tuple[str, float, int] | None = None
    work_precision: dict[str, Any] = field(default_factory=dict)

    @property
    def reference_time(self) -> float:
        """Time at which the reference ends."""
        return float(self.times[self.reference.shape[1] - 1])

    @property
    def is_reference_given(self) -> bool:
        """Whether the reference was given, as measured states are, and not solved for."""
        return bool(np.isnan(self.reference_error).any())

    def is_compared(self, name: str) -> bool:
        """Whether the reference goes beyond the states that a method was given."""
        return self.reference_time > (self.run(name).window - 1) * self.step

    def run(self, name: str) -> Run:
        """Return the trajectories of a method, or raise InputError with the names of all."""
        if name not in self.runs:
            raise InputError(f"this rollout has no method '{name}'; it has {', '.join(self.runs)}")
        return self.runs[name]

    def errors(self, name: str) -> np.ndarray:
        """Return the largest distance of a method from the reference, (trajectory, time)."""
        return self.run(name).error

    def invariant_errors(self, name: str) -> dict[str, Any]:
        """Return the ``InvariantError`` of every invariant along a method's trajectories."""
        return self.run(name).invariants

    def divergence_time(self, name: str) -> np.ndarray:
        """Return the time at which each trajectory diverged, NaN if it has not, (trajectory,).

        A trajectory has diverged where a state is not finite, is farther from the reference than
        ten times the reference's extent (the largest distance of its states from their mean), or
        where an invariant has changed by more than a hundred times its largest initial value.
        Either is found at a stored time, and looked for in all the steps before it.
        """
        if name not in self._divergence_times:
            run = self.run(name)
            self._divergence_times[name] = divergence_times(
                self.times,
                run.failure_time,
                run.error,
                self._extent,
                run.invariants,
                self.system.invariants,
                self.reference[:, 0],
            )
        return self._divergence_times[name]

    @cached_property
    def _divergence_times(self) -> dict[str, np.ndarray]:
        return {}

    @cached_property
    def _extent(self) -> float:
        return extent_of(self.reference)

    def diverged(self, name: str) -> int:
        """Return the number of trajectories of a method that have diverged."""
        return int(np.isfinite(self.divergence_time(name)).sum())

    @property
    def invariant_labels(self) -> dict[str, str]:
        """Labels of the invariants: their names as words."""
        return {name: name.replace("_", " ") for name in self.system.invariants}
