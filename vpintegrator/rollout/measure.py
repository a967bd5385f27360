"""One method's rollout: run through once, watched by observers, and put together to a Run."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.region import Departure
from vpintegrator.rollout.cursor import Cursor
from vpintegrator.rollout.diagnostics import (
    InvariantError,
    Lyapunov,
    SectionObserver,
    evaluations_per_step,
    log_determinant,
    reversibility_defect,
    series_names,
    symplecticity_defect,
    tangent_propagation,
)
from vpintegrator.rollout.flow import NumericalFlow
from vpintegrator.rollout.observers import (
    DivergenceObserver,
    ErrorObserver,
    InvariantObserver,
    Observer,
    RegionObserver,
    Snapshot,
    StateKeeper,
    WindowSampler,
)
from vpintegrator.rollout.recording import RECORD_SECONDS, Recording
from vpintegrator.rollout.report import Run, Volume

Progress = Callable[[str, int, int], None]

_PART_VALUES = 500_000  # numbers in the states advanced at a time: they stay in memory
_LARGEST_PART = 4096  # steps
_SAMPLES = 60  # times at which the determinant is measured
_SAMPLED_TRAJECTORIES = 40


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What all methods of a comparison have in common.

    Attributes
    ----------
    system, step, steps
        What is integrated, and how far.
    stored
        Steps at which states are kept, the first and the last among them, (time,).
    initial
        Initial states, (trajectory, dim).
    reference
        Reference states of the first steps, (time, trajectory, dim).
    threshold
        Error at which a method is taken to have failed.
    section_plane
        Component, value and direction of the Poincare section, or None.
    tangent_steps, tangent_trajectories
        How far, and for how many trajectories, the phase-space volume is followed.
    """

    system: System
    step: float
    steps: int
    stored: np.ndarray
    initial: np.ndarray
    reference: np.ndarray
    threshold: float
    section_plane: tuple[str, float, int] | None
    tangent_steps: int
    tangent_trajectories: int

    @cached_property
    def times(self) -> np.ndarray:
        """Stored times, (time,)."""
        return self.step * self.stored

    @property
    def reference_stored(self) -> int:
        """Number of stored times that the reference reaches."""
        return int(np.searchsorted(self.stored, len(self.reference)))


class Measurement:
    """A method's way through a plan.

    Parameters
    ----------
    flow
        The method.
    first
        First windows, (trajectory, window, dim).
    plan
        What is measured.
    recording
        Where the states go.
    key
        Under which name, different for each method of a comparison.
    """

    def __init__(
        self, flow: NumericalFlow, first: np.ndarray, plan: Plan, recording: Recording, key: str
    ) -> None:
        self.flow, self.plan = flow, plan
        self._first, self._recording, self._key = first, recording, key
        times, trajectories, dim = len(plan.stored), len(plan.initial), plan.system.dim
        begun = f"{key}/done" in recording.progress()
        states = recording.array(f"{key}/states", (times, trajectories, dim), begun)
        error = recording.array(f"{key}/error", (times, trajectories), begun)
        self.divergence = DivergenceObserver(trajectories)
        self.keeper = StateKeeper(plan.stored, states)
        self.error = ErrorObserver(
            plan.reference, plan.threshold, plan.stored, error, given=flow.window - 1
        )
        count = max(plan.steps + 2 - flow.window, 0)
        chosen = np.linspace(0, count - 1, min(_SAMPLES, count)).round().astype(int)
        ends = flow.window - 1 + chosen
        self.sampler = WindowSampler(
            ends, flow.window, min(trajectories, _SAMPLED_TRAJECTORIES), dim
        )
        self._sample_times = plan.step * ends
        series = series_names(plan.system.invariants)
        self.invariants = {
            name: InvariantObserver(
                invariant,
                plan.initial,
                plan.step,
                plan.stored,
                recording.array(f"{key}/invariant/{series[name]}", (times, trajectories), begun),
            )
            for name, invariant in plan.system.invariants.items()
        }
        self.section: SectionObserver | None = None
        if plan.section_plane is not None:
            component, value, direction = plan.section_plane
            index = plan.system.components.index(component)
            self.section = SectionObserver(index, value, direction, plan.step)
        self._observers: dict[str, Observer | SectionObserver] = {
            "divergence": self.divergence,
            "states": self.keeper,
            "error": self.error,
            "sampler": self.sampler,
            **{f"invariant/{series[name]}": o for name, o in self.invariants.items()},
        }
        if self.section is not None:
            self._observers["section"] = self.section
        self.region: RegionObserver | None = None
        if flow.region is not None:
            self.region = RegionObserver(flow.region, plan.system, trajectories)
            self._observers["region"] = self.region
        self._seconds = 0.0

    def run(self, progress: Progress | None = None) -> None:
        """Go through all steps, or those that an interruption left.

        Whatever interrupts it, the recording can go on from the last part that was complete.
        """
        flow, steps = self.flow, self.plan.steps
        done, cursor = self._restore()
        if done == 0:
            flow.map(self._first)  # what happens only in the first call is not timed
            known = self._first[:, : steps + 1]
            self._observe(0, known)
            done, cursor = known.shape[1] - 1, flow.start(self._first)
        if progress:
            progress(flow.name, done, steps)
        part = int(np.clip(_PART_VALUES // self.plan.initial.size, 1, _LARGEST_PART))
        part = min(part, max(steps // 100, 1))
        latest, recorded = self._snapshot(done, cursor.snapshot()), clock.monotonic()
        try:
            while done < steps:
                count = min(part, steps - done)
                start = clock.perf_counter()
                states = cursor.advance(count)
                seconds = clock.perf_counter() - start
                self._observe(done + 1, states)
                self._seconds += seconds
                done += count
                latest = self._snapshot(done, cursor.snapshot())
                if clock.monotonic() - recorded > RECORD_SECONDS:
                    self._recording.record(latest)
                    recorded = clock.monotonic()
                if progress:
                    progress(flow.name, done, steps)
        finally:
            self._recording.record(latest)

    def result(self) -> Run:
        """What was measured, with the diagnostics that need derivatives or further steps."""
        flow, plan = self.flow, self.plan
        steps = plan.steps + 1 - flow.window
        self.error.largest[plan.reference_stored :] = np.nan
        self.error.largest[self.error.nothing_known] = np.nan
        sample = self._sample()
        volume, lyapunov, symplecticity = self._derivatives(sample)
        return Run(
            name=flow.name,
            kind=flow.kind,
            method=flow.method_name,
            title=flow.title,
            description=flow.description,
            order=flow.order,
            structure=flow.structure,
            window=flow.window,
            prediction_window=flow.prediction_window,
            states=self.keeper.kept.transpose(1, 0, 2),
            error=self.error.largest.T,
            root_mean_square_error=self.error.root_mean_square,
            invariants={
                name: InvariantError(
                    error=observer.largest.T,
                    relative=observer.relative,
                    drift=observer.drift.fit(),
                )
                for name, observer in self.invariants.items()
            },
            failure_time=self._time_of(self.divergence.index),
            threshold_time=self._time_of(self.error.index),
            volume=volume,
            section=None if self.section is None else self.section.section,
            symplecticity=symplecticity,
            reversibility=reversibility_defect(flow, sample),
            lyapunov=lyapunov,
            seconds_per_step=self._seconds / (steps * len(plan.initial)) if steps > 0 else math.nan,
            evaluations_per_step=evaluations_per_step(flow, sample),
            departure=None
            if self.region is None
            else Departure(
                self.region.region, self._time_of(self.region.index), self.region.excess
            ),
        )

    def _sample(self) -> np.ndarray:
        """Some windows met on the way, (sample, window, dim), the first ones among them."""
        met = self.sampler.windows[:: _SAMPLES // 4].reshape(-1, *self._first.shape[1:])
        met = met[np.isfinite(met).all(axis=(1, 2))]
        return met if len(met) else self._first[:_SAMPLED_TRAJECTORIES]

    def _derivatives(
        self, sample: np.ndarray
    ) -> tuple[dict[str, Volume], Lyapunov | None, float | None]:
        """Volumes, Lyapunov exponents and symplecticity, where the method has a derivative."""
        flow, plan, windows = self.flow, self.plan, self.sampler.windows
        if not flow.differentiable:
            return {}, None, None
        count = windows.shape[:2]
        values = log_determinant(flow, windows.reshape(-1, *windows.shape[2:])).reshape(count)
        volume = {"step": Volume(self._sample_times, values.T)}
        lyapunov = None
        steps = min(plan.tangent_steps, plan.steps + 1 - flow.window)
        # a window is made from its first state by the equations
        if steps > 0 and not (flow.window > 1 and plan.system.is_measured):
            tangent = tangent_propagation(flow, self._first[: plan.tangent_trajectories], steps)
            volume["phase-space"] = Volume(tangent.times, tangent.log_determinant)
            lyapunov = tangent.lyapunov
        return volume, lyapunov, symplecticity_defect(flow, sample)

    def _time_of(self, index: np.ndarray) -> np.ndarray:
        return np.where(index >= 0, self.plan.step * index, np.nan)

    def _observe(self, start: int, states: np.ndarray) -> None:
        for observer in self._observers.values():
            observer.update(start, states)

    def _snapshot(self, done: int, cursor: Snapshot) -> Snapshot:
        """The state after ``done`` steps, by names that begin with the key."""
        key = self._key
        parts = {name: observer.snapshot() for name, observer in self._observers.items()}
        parts["cursor"] = cursor
        entries = {"done": np.array(done), "seconds": np.array(self._seconds)}
        entries |= {f"{part}/{k}": v for part, values in parts.items() for k, v in values.items()}
        return {f"{key}/{name}": value for name, value in entries.items()}

    def _restore(self) -> tuple[int, Cursor]:
        """Steps done, and the cursor to go on with (at 0 steps, none that may be used)."""
        saved = self._recording.progress()
        if f"{self._key}/done" not in saved:
            return 0, self.flow.start(self._first)

        def part(name: str) -> Snapshot:
            start = f"{self._key}/{name}/"
            return {k.removeprefix(start): v for k, v in saved.items() if k.startswith(start)}

        for name, observer in self._observers.items():
            observer.restore(part(name))
        self._seconds = float(saved[f"{self._key}/seconds"])
        return int(saved[f"{self._key}/done"]), self.flow.resume(part("cursor"))
