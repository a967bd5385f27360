"""The outcome of a comparison: states of every method, and all that follows from them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.rollout.diagnostics import (
    InvariantError,
    failure_index,
    invariant_errors,
    root_mean_square_error,
    trajectory_error,
)


@dataclass(frozen=True)
class Run:
    """One method's trajectories.

    Attributes
    ----------
    name
        Its name in tables, figures and files.
    kind
        ``"learned"`` or ``"classical"``.
    method
        Name of the classical method or of the architecture.
    title, description
        Name in figures and a line about it.
    order
        Order of convergence; None for a learned map.
    states
        (trajectory, time, dim).
    volume_index
        Indices of the times at which the volume was measured, (volume_time,).
    log_determinant
        log|det| of the map at these times, (trajectory, volume_time): of the map of states, or of
        windows where ``window`` > 1.
    seconds_per_step
        Wall time for one step of one trajectory in this batch.
    window, prediction_window
        Time steps read and predicted in each call.
    """

    name: str
    kind: str
    method: str
    title: str
    description: str
    order: int | None
    states: np.ndarray
    volume_index: np.ndarray
    log_determinant: np.ndarray
    seconds_per_step: float
    window: int = 1
    prediction_window: int = 1

    @cached_property
    def failures(self) -> np.ndarray:
        """Index of the first time at which each trajectory is not finite, -1 if none."""
        return failure_index(self.states)

    @property
    def diverged(self) -> int:
        """Number of trajectories that diverged."""
        return int((self.failures >= 0).sum())


@dataclass(frozen=True)
class Summary:
    """One method's numbers. What diverged counts as an infinite error.

    Attributes
    ----------
    error, worst_error
        Median and largest, over the trajectories, of the root mean square error over times and
        components.
    final_error
        Median over the trajectories of the Euclidean distance from the reference at the end.
    invariants
        For each invariant the largest error over trajectories and times (relative, or absolute
        where the invariant vanishes: see ``invariant_kinds``).
    log_determinant
        Largest |log|det|| measured; None if none was.
    seconds_per_step
        Wall time per step and trajectory.
    diverged, trajectories
        How many of how many diverged.
    """

    name: str
    title: str
    kind: str
    order: int | None
    error: float
    worst_error: float
    final_error: float
    invariants: dict[str, float]
    invariant_kinds: dict[str, str]
    log_determinant: float | None
    seconds_per_step: float
    diverged: int
    trajectories: int


@dataclass(frozen=True)
class Report:
    """States of several methods beside a reference, from the same initial states.

    Made by :func:`vpintegrator.compare` or :func:`vpintegrator.open_rollout`.

    Attributes
    ----------
    system
        The system.
    step
        Time step.
    times
        (time,), from 0.
    reference
        Reference states, (trajectory, time, dim).
    reference_error
        Estimate of their largest error, (trajectory,).
    runs
        The methods' trajectories by name, learned ones first.
    seed
        Seed of the initial states, or None where they were given.
    """

    system: System
    step: float
    times: np.ndarray
    reference: np.ndarray
    reference_error: np.ndarray
    runs: dict[str, Run]
    seed: int | None = None
    _invariant_cache: dict[str, dict[str, InvariantError]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def run(self, name: str) -> Run:
        """The trajectories of a method, or InputError naming those there are."""
        if name not in self.runs:
            raise InputError(f"this rollout has no method '{name}'; it has {', '.join(self.runs)}")
        return self.runs[name]

    def errors(self, name: str) -> np.ndarray:
        """Euclidean distance of a method from the reference, (trajectory, time)."""
        return trajectory_error(self.run(name).states, self.reference)

    def root_mean_square_error(self, name: str) -> np.ndarray:
        """RMSE of a method over times and components, (trajectory,)."""
        return root_mean_square_error(self.run(name).states, self.reference)

    def invariant_errors(self, name: str) -> dict[str, InvariantError]:
        """Errors of every invariant along a method's trajectories."""
        if name not in self._invariant_cache:
            self._invariant_cache[name] = invariant_errors(self.system, self.run(name).states)
        return self._invariant_cache[name]

    def summary(self, name: str) -> Summary:
        """A method's numbers."""
        run = self.run(name)
        error = self.root_mean_square_error(name)
        final = np.where(run.failures >= 0, np.inf, self.errors(name)[:, -1])
        invariants = self.invariant_errors(name)
        measured = np.abs(run.log_determinant[np.isfinite(run.log_determinant)])
        return Summary(
            name=name,
            title=run.title,
            kind=run.kind,
            order=run.order,
            error=float(np.median(error)),
            worst_error=float(error.max()),
            final_error=float(np.median(final)),
            invariants={key: float(value.largest.max()) for key, value in invariants.items()},
            invariant_kinds={key: value.kind for key, value in invariants.items()},
            log_determinant=float(measured.max()) if measured.size else None,
            seconds_per_step=run.seconds_per_step,
            diverged=run.diverged,
            trajectories=len(run.states),
        )

    def table(self) -> list[dict[str, Any]]:
        """A row a method; the keys are the column titles, in order.

        ``vpintegrator.plotting.tables`` renders it for terminals, CSV, Markdown and LaTeX.
        """
        rows = []
        for name in self.runs:
            s = self.summary(name)
            rows.append(
                {
                    "method": s.title,
                    "kind": s.kind,
                    "order": s.order,
                    "RMSE": s.error,
                    "worst RMSE": s.worst_error,
                    "final error": s.final_error,
                    **{f"{key.replace('_', ' ')} error": v for key, v in s.invariants.items()},
                    "volume error": s.log_determinant,
                    "time per step": s.seconds_per_step,
                    "diverged": s.diverged,
                }
            )
        return rows

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write a rollout file, from which everything can be drawn without integrating again.

        Raises
        ------
        InputError
            If the file exists and ``overwrite`` is false, or cannot be written.
        """
        from vpintegrator.rollout.store import save_rollout

        save_rollout(self, path, overwrite)

    def __repr__(self) -> str:
        return (
            f"<Report {self.system.name}: {', '.join(self.runs)}; "
            f"{len(self.reference)} trajectories to t = {self.times[-1]:g}>"
        )
