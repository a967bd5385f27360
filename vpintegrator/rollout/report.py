"""The outcome of a comparison: states of every method, and all that was measured on them."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.region import Departure
from vpintegrator.errors import InputError, printable
from vpintegrator.rollout.diagnostics.divergence import divergence_times, extent_of
from vpintegrator.rollout.diagnostics.invariants import InvariantError
from vpintegrator.rollout.diagnostics.lyapunov import Lyapunov
from vpintegrator.rollout.diagnostics.poincare import Section
from vpintegrator.rollout.recording import Recording

# columns that an invariant's could be taken for
_ERROR_COLUMNS = ("median final error", "map volume error", "phase-space volume error")
_ROUNDING = 1e-12  # |log|det|| of a map that keeps volume: at most this, in up to so many steps
_ROUNDING_STEPS = 200


@dataclass(frozen=True)
class Volume:
    """Logarithms of the determinant of a derivative, 0 where volume is preserved.

    Attributes
    ----------
    times
        (volume_time,).
    log_determinant
        log|det| at these times for the first trajectories, (trajectory, volume_time).
    """

    times: np.ndarray
    log_determinant: np.ndarray

    def __repr__(self) -> str:
        largest = "not measured" if self.largest is None else f"at most {self.largest:.1e}"
        return f"<Volume: |log|det|| {largest}, at {len(self.times)} times>"

    @property
    def largest(self) -> float | None:
        """Largest |log|det|| that could be measured, None if none could.

        Infinite where a derivative is singular: then a volume collapses to nothing.
        """
        sizes = np.abs(self.log_determinant[~np.isnan(self.log_determinant)])
        return float(sizes.max()) if sizes.size else None

    @property
    def is_preserved(self) -> bool | None:
        """Whether volume was measured to be preserved, to rounding; None if it was not measured."""
        steps = max(1.0, len(self.times) / _ROUNDING_STEPS)
        return None if self.largest is None else self.largest <= _ROUNDING * steps


@dataclass(frozen=True)
class Run:
    """One method's trajectories and what was measured on them.

    "Stored times" are every ``every``-th step of the rollout; what is called a largest value at a
    stored time is that over all the steps since the stored time before.

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
    structure
        What it keeps, of ``"symplectic"``, ``"volume-preserving"``, ``"symmetric"`` and
        ``"reversible"``.
    window, prediction_window
        Time steps read and predicted in each call.
    states
        At the stored times, (trajectory, time, dim).
    error
        Largest Euclidean distance from the reference, (trajectory, time); NaN after the reference
        ends, infinite where the method has diverged before that.
    root_mean_square_error
        Over all components and all steps to the end of the reference but those after the first that
        the method was given, (trajectory,).
    invariants
        By name: at a stored time the change of largest size, and the drift over all steps.
    failure_time
        First time at which a trajectory is not finite, NaN if none, (trajectory,).
    threshold_time
        First time at which the error passes the report's threshold, NaN if none, (trajectory,).
    volume
        ``"step"``: of the map of states, or of windows where ``window`` > 1, at states met on the
        way; ``"phase-space"``: of the map z_0 -> z_t. Either may be missing.
    section
        Points of the Poincare section, if one was asked for.
    symplecticity, reversibility
        Largest defects over sampled states; None where they are not defined.
    lyapunov
        Estimates of the largest Lyapunov exponent over the time of the phase-space volume.
    seconds_per_step
        Wall time for one step of one trajectory in this batch.
    evaluations_per_step
        Evaluations of the vector field for one step of one trajectory; None for a learned map.
    departure
        How trajectories left the states that the model was trained on; None where it does not say,
        and for classical methods.
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
    error: np.ndarray
    root_mean_square_error: np.ndarray
    invariants: dict[str, InvariantError]
    failure_time: np.ndarray
    threshold_time: np.ndarray
    volume: dict[str, Volume]
    section: Section | None
    symplecticity: float | None
    reversibility: float | None
    lyapunov: Lyapunov | None
    seconds_per_step: float
    evaluations_per_step: float | None
    departure: Departure | None = None

    def __repr__(self) -> str:
        return (
            f"<Run {self.title} ({self.kind}): {len(self.states)} trajectories, "
            f"worst RMSE {self.root_mean_square_error.max():.1e}>"
        )


@dataclass(frozen=True)
class Summary:
    """One method's numbers. What is not finite counts as an infinite error.

    Attributes
    ----------
    error, worst_error
        Median and largest, over the trajectories, of the root mean square error over times and
        components.
    final_error
        Median over the trajectories of the Euclidean distance from the reference at its end.
    threshold_time
        Time at which the error of half of the trajectories has passed the threshold, infinite where
        that of more than half has not: their median, the lower one of an even number.
    invariants
        For each invariant the largest error over trajectories and steps (relative, or absolute
        where the invariant vanishes: see ``invariant_kinds``).
    drifts, drift_errors
        For each invariant the drift of largest size, per unit of time, and its standard error.
    volume
        Largest |log|det|| measured, of ``"step"`` and ``"phase-space"`` where they were.
    volume_preserved
        Whether these are rounding.
    symplecticity, reversibility
        Largest defects.
    lyapunov, lyapunov_error
        Median of the estimates, and of their uncertainties.
    seconds_per_step, evaluations_per_step
        Of one trajectory.
    diverged, trajectories
        How many of how many diverged, as :meth:`Report.divergence_time` has it.
    left_region, left_region_time, left_region_by
        How many left the states that the model was trained on, when the first of them did, and how
        far they got, see :class:`vpintegrator.dynamics.region.Departure`; None where that is not
        known, and the time None where none did.
    """

    name: str
    title: str
    kind: str
    order: int | None
    structure: tuple[str, ...]
    error: float
    worst_error: float
    final_error: float
    threshold_time: float
    invariants: dict[str, float]
    invariant_kinds: dict[str, str]
    drifts: dict[str, float]
    drift_errors: dict[str, float]
    volume: dict[str, float]
    volume_preserved: dict[str, bool]
    symplecticity: float | None
    reversibility: float | None
    lyapunov: float | None
    lyapunov_error: float | None
    seconds_per_step: float
    evaluations_per_step: float | None
    diverged: int
    trajectories: int
    left_region: int | None
    left_region_time: float | None
    left_region_by: float | None


@dataclass(frozen=True)
class Report:
    """Several methods beside a reference, from the same initial states.

    Made by :func:`vpintegrator.compare` or :func:`vpintegrator.open_rollout`.

    Attributes
    ----------
    system
        The system.
    step
        Time step.
    every
        How many steps lie between two stored times.
    times
        Stored times, (time,), from 0.
    reference
        Reference states at the first of the stored times, (trajectory, reference_time, dim): where
        it was told to end early, there are fewer of them.
    reference_error
        Estimate of their largest error, (trajectory,); NaN where the reference was given, measured
        say, and not solved for. Then single states of it may be NaN too: nothing is known there.
    threshold
        The error at which a method is taken to have failed.
    runs
        The methods by name, learned ones first.
    seed
        Seed of the initial states, or None where they were given.
    section_plane
        Component, value and direction of the Poincare section, or None.
    work_precision
        Error against cost over several steps, by method; empty where it was not asked for.
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
    _recording: Recording = field(default_factory=Recording, repr=False, compare=False)

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
        """The trajectories of a method, or InputError naming those there are."""
        if name not in self.runs:
            raise InputError(f"this rollout has no method '{name}'; it has {', '.join(self.runs)}")
        return self.runs[name]

    def errors(self, name: str) -> np.ndarray:
        """Largest distance of a method from the reference, (trajectory, time)."""
        return self.run(name).error

    def invariant_errors(self, name: str) -> dict[str, InvariantError]:
        """Errors of every invariant along a method's trajectories."""
        return self.run(name).invariants

    def divergence_time(self, name: str) -> np.ndarray:
        """Time at which each trajectory of a method has diverged, NaN if it has not, (trajectory,).

        It has where a state is not finite, is farther from the reference than ten times the
        reference's extent (the largest distance of its states from their mean), or where an
        invariant has changed by more than a hundred times its largest initial value. Either is
        found at a stored time, and looked for in all the steps before it.
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
        """How many trajectories of a method have diverged."""
        return int(np.isfinite(self.divergence_time(name)).sum())

    @np.errstate(all="ignore")  # what has diverged is infinite
    def summary(self, name: str) -> Summary:
        """A method's numbers."""
        run = self.run(name)
        departure = run.departure
        ended = run.failure_time <= self.reference_time
        last = self.reference.shape[1] - 1
        distance = np.linalg.norm(run.states[:, last] - self.reference[:, last], axis=-1)
        final = np.where(ended | ~np.isfinite(distance), np.inf, distance)
        final = final[np.isfinite(self.reference[:, last]).all(axis=-1)]
        passed = np.where(np.isnan(run.threshold_time), np.inf, run.threshold_time)
        volume = {key: value.largest for key, value in run.volume.items()}
        worst = {
            key: int(np.argmax(np.abs(np.nan_to_num(value.drift.slope))))
            for key, value in run.invariants.items()
        }
        return Summary(
            name=name,
            title=run.title,
            kind=run.kind,
            order=run.order,
            structure=run.structure,
            error=float(np.median(run.root_mean_square_error)),
            worst_error=float(run.root_mean_square_error.max()),
            final_error=float(np.median(final)) if len(final) else math.nan,
            threshold_time=float(np.sort(passed)[(len(passed) - 1) // 2]),
            invariants={key: float(v.largest.max()) for key, v in run.invariants.items()},
            invariant_kinds={key: v.kind for key, v in run.invariants.items()},
            drifts={key: float(v.drift.slope[worst[key]]) for key, v in run.invariants.items()},
            drift_errors={
                key: float(v.drift.standard_error[worst[key]]) for key, v in run.invariants.items()
            },
            volume={key: value for key, value in volume.items() if value is not None},
            volume_preserved={
                key: value.is_preserved
                for key, value in run.volume.items()
                if value.is_preserved is not None
            },
            symplecticity=run.symplecticity,
            reversibility=run.reversibility,
            lyapunov=None if run.lyapunov is None else float(np.median(run.lyapunov.exponent)),
            lyapunov_error=(
                None if run.lyapunov is None else float(np.median(run.lyapunov.uncertainty))
            ),
            seconds_per_step=run.seconds_per_step,
            evaluations_per_step=run.evaluations_per_step,
            diverged=self.diverged(name),
            trajectories=len(run.states),
            left_region=None if departure is None else departure.count,
            left_region_time=departure.first if departure and departure.count else None,
            left_region_by=None if departure is None else departure.farthest,
        )

    @property
    def invariant_labels(self) -> dict[str, str]:
        """What the columns of each invariant are called in the table.

        The name as words; where another column is called so, ``invariant`` and a number with it.
        """
        labels: dict[str, str] = {}
        taken = {title.removesuffix(" error") for title in _ERROR_COLUMNS}
        for name in self.system.invariants:
            words = label = printable(name.replace("_", " ")).strip() or "invariant"
            number = 1
            while label in taken:
                label = f"invariant {words}" + (f" {number}" if number > 1 else "")
                number += 1
            labels[name] = label
            taken.add(label)
        return labels

    def table(self) -> list[dict[str, Any]]:
        """A row a method; the keys are the column titles, in order, no two alike.

        ``vpintegrator.plotting.tables`` renders it for terminals, CSV, Markdown and LaTeX. "Median"
        and "worst" are over the orbits; all other errors are the largest of any orbit.
        """
        rows, labels = [], self.invariant_labels
        for name in self.runs:
            s = self.summary(name)
            row: dict[str, Any] = {
                "method": s.title,
                "kind": s.kind,
                "order": s.order,
                "structure": ", ".join(s.structure),
            }
            errors = {
                "median RMSE": s.error,
                "worst RMSE": s.worst_error,
                "median final error": s.final_error,
                "median time to failure": s.threshold_time,
            }
            row |= errors if self.is_compared(name) else dict.fromkeys(errors)
            for key, value in s.invariants.items():
                label = labels[key]
                row[f"{label} error"] = value
                row[f"{label} error kind"] = s.invariant_kinds[key]
                row[f"{label} drift"] = s.drifts[key]
                row[f"{label} drift ±"] = s.drift_errors[key]
            for words, key in (("map", "step"), ("phase-space", "phase-space")):
                row[f"{words} volume preserved"] = s.volume_preserved.get(key)
                row[f"{words} volume error"] = s.volume.get(key)
            row |= {
                "symplecticity defect": s.symplecticity,
                "reversibility defect": s.reversibility,
                "Lyapunov exponent": s.lyapunov,
                "Lyapunov exponent ±": s.lyapunov_error,
                "evaluations per step": s.evaluations_per_step,
                "time per step": s.seconds_per_step,
                "diverged": s.diverged,
                "orbits": s.trajectories,
                "left region": s.left_region,
                "left region at": s.left_region_time,
                "left region by": s.left_region_by,
            }
            rows.append(row)
        return rows

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write a rollout file, from which everything can be drawn without integrating again.

        A checkpoint is deleted then: what is in it is in the file.

        Raises
        ------
        InputError
            If the file exists and ``overwrite`` is false, or cannot be written.
        """
        from vpintegrator.rollout.rollout_file import save_rollout

        save_rollout(self, path, overwrite)
        self._recording.remove()

    def __repr__(self) -> str:
        methods = []
        for name, run in self.runs.items():
            worst = f" (worst RMSE {run.root_mean_square_error.max():.1e})"
            methods.append(f"{name}{worst if self.is_compared(name) else ''}")
        return (
            f"<Report {self.system.name}: {', '.join(methods)}; "
            f"{len(self.reference)} trajectories to t = {self.times[-1]:g}>"
        )
