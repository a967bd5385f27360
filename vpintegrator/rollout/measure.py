"""Rollout of one method: propagation under observers, then assembly of the Run."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vpintegrator.rollout.comparison import Comparison, Ensemble
from vpintegrator.rollout.cursor import Cursor
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.diagnostics.registry import DIAGNOSTICS
from vpintegrator.rollout.flow import NumericalFlow
from vpintegrator.rollout.observer import Observer, Snapshot, StateKeeper
from vpintegrator.rollout.recording import RECORD_SECONDS, Recording
from vpintegrator.rollout.results import Run

Progress = Callable[[str, int, int], None]

_PART_VALUES = 500_000  # numbers in the states advanced at a time: they stay in memory
_LARGEST_PART = 4096  # steps


class Propagation:
    """A method's way through a comparison.

    Parameters
    ----------
    flow
        The method.
    first
        First states, (trajectory, time, dim), at least a window of the method.
    comparison
        Data that all methods share.
    recording
        Storage of the states.
    key
        Under which name, different for each method of a comparison.
    diagnostics
        Diagnostics that measure the method.
    """

    def __init__(
        self,
        flow: NumericalFlow,
        first: np.ndarray,
        comparison: Comparison,
        recording: Recording,
        key: str,
        diagnostics: Sequence[Diagnostic] = DIAGNOSTICS,
    ) -> None:
        first = np.ascontiguousarray(first[:, : flow.window])
        self._first, self._comparison = first, comparison
        self.flow, self._recording, self._key = flow, recording, key
        self._diagnostics = diagnostics
        begun = f"{key}/done" in recording.progress()
        shape = (len(comparison.stored), len(first))
        states = recording.array(f"{key}/states", (*shape, comparison.system.dim), begun)
        self.keeper = StateKeeper(comparison.stored, states)
        self.ensemble = Ensemble(flow, comparison, first, {}, states.transpose(1, 0, 2))
        self._measured = [each for each in diagnostics if self._watch(each, shape, begun)]
        self._observers: dict[str, Observer] = {
            "states": self.keeper,
            "sampler": self.ensemble.sampler,
            **self.ensemble.observers,
        }

    def run(self, progress: Progress | None = None) -> Run:
        """Go through all steps, or those that an interruption left, and return the run.

        Whatever interrupts it, the recording can go on from the last part that was complete.
        """
        flow, steps = self.flow, self._comparison.steps
        done, cursor = self._restore()
        if done == 0:
            flow.map(self._first)  # the first call may compile: it is not timed
            known = self._first[:, : steps + 1]
            self._observe(0, known)
            done, cursor = known.shape[1] - 1, flow.start(self._first)
        if progress:
            progress(flow.name, done, steps)
        part = int(np.clip(_PART_VALUES // self._comparison.initial.size, 1, _LARGEST_PART))
        part = min(part, max(steps // 100, 1))
        latest, recorded = self._snapshot(done, cursor.snapshot()), clock.monotonic()
        try:
            while done < steps:
                count = min(part, steps - done)
                start = clock.perf_counter()
                states = cursor.advance(count)
                seconds = clock.perf_counter() - start
                self._observe(done + 1, states)
                self.ensemble.seconds += seconds
                done += count
                latest = self._snapshot(done, cursor.snapshot())
                if clock.monotonic() - recorded > RECORD_SECONDS:
                    self._recording.record(latest)
                    recorded = clock.monotonic()
                if progress:
                    progress(flow.name, done, steps)
        finally:
            self._recording.record(latest)
        return self._result()

    @np.errstate(all="ignore")
    def _result(self) -> Run:
        """Return the run with all measurements, also those that need derivatives or more steps."""
        flow = self.flow
        measurements: dict[str, Any] = {}
        for diagnostic in self._diagnostics:
            if diagnostic in self._measured:
                measurements |= diagnostic.measure(self.ensemble)
            else:
                measurements |= dict.fromkeys(variable.name for variable in diagnostic.variables)
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
            states=self.ensemble.states,
            measurements=measurements,
        )

    def _watch(self, diagnostic: Diagnostic, shape: tuple[int, int], begun: bool) -> bool:
        """Let a diagnostic watch, unless an earlier version went without it up to here.

        Such a diagnostic has not seen every step, so its values are not known.
        """
        entries = self._recording.progress()

        def missed(name: str) -> bool:
            """Whether there is neither a note of the series nor what an observer remembered."""
            names = (f"{self._key}/series/{name}", f"{self._key}/{name}/")
            return begun and not any(
                entry == names[0] or entry.startswith(names[1]) for entry in entries
            )

        ensemble, series = self.ensemble, diagnostic.series(self._comparison.system)
        if any(map(missed, series)):
            return False
        for name in series:
            ensemble.series[name] = self._recording.array(f"{self._key}/{name}", shape, begun)
        observers = diagnostic.observers(ensemble)
        if any(observer.snapshot() and missed(name) for name, observer in observers.items()):
            return False
        ensemble.observers |= observers
        return True

    @np.errstate(all="ignore")  # diverging states overflow
    def _observe(self, start: int, states: np.ndarray) -> None:
        for observer in self._observers.values():
            observer.update(start, states)

    def _snapshot(self, done: int, cursor: Snapshot) -> Snapshot:
        """Return the progress after ``done`` steps, by names that begin with the key."""
        key = self._key
        parts = {name: observer.snapshot() for name, observer in self._observers.items()}
        parts["cursor"] = cursor
        entries = {"done": np.array(done), "seconds": np.array(self.ensemble.seconds)}
        entries |= {f"series/{name}": np.array(True) for name in self.ensemble.series}
        entries |= {f"{part}/{k}": v for part, values in parts.items() for k, v in values.items()}
        return {f"{key}/{name}": value for name, value in entries.items()}

    def _restore(self) -> tuple[int, Cursor]:
        """Return the steps done and the cursor to continue with (at 0 steps, an unused one)."""
        saved = self._recording.progress()
        if f"{self._key}/done" not in saved:
            return 0, self.flow.start(self._first)

        def part(name: str) -> Snapshot:
            start = f"{self._key}/{name}/"
            return {k.removeprefix(start): v for k, v in saved.items() if k.startswith(start)}

        for name, observer in self._observers.items():
            observer.restore(part(name))
        self.ensemble.seconds = float(saved[f"{self._key}/seconds"])
        return int(saved[f"{self._key}/done"]), self.flow.resume(part("cursor"))
