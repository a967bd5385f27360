"""Rollout of one method: propagation under observers, then assembly of the Run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vpintegrator.rollout.comparison import Comparison, Ensemble
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.diagnostics.registry import DIAGNOSTICS
from vpintegrator.rollout.flow import NumericalFlow
from vpintegrator.rollout.observer import Observer, StateKeeper
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
    diagnostics
        Diagnostics that measure the method.
    """

    def __init__(
        self,
        flow: NumericalFlow,
        first: np.ndarray,
        comparison: Comparison,
        diagnostics: Sequence[Diagnostic] = DIAGNOSTICS,
    ) -> None:
        first = np.ascontiguousarray(first[:, : flow.window])
        self._first, self._comparison = first, comparison
        self.flow, self._diagnostics = flow, diagnostics
        shape = (len(comparison.stored), len(first))
        states = np.zeros((*shape, comparison.system.dim))
        names = [name for each in diagnostics for name in each.series(comparison.system)]
        series = {name: np.zeros(shape) for name in names}
        self.ensemble = Ensemble(flow, comparison, first, series, states.transpose(1, 0, 2))
        for diagnostic in diagnostics:
            self.ensemble.observers |= diagnostic.observers(self.ensemble)
        self._observers: list[Observer] = [
            StateKeeper(comparison.stored, states),
            self.ensemble.sampler,
            *self.ensemble.observers.values(),
        ]

    def run(self, progress: Progress | None = None) -> Run:
        """Go through all steps and return the run."""
        flow, steps = self.flow, self._comparison.steps
        known = self._first[:, : steps + 1]
        self._observe(0, known)
        done, cursor = known.shape[1] - 1, flow.start(self._first)
        part = int(np.clip(_PART_VALUES // self._comparison.initial.size, 1, _LARGEST_PART))
        part = min(part, max(steps // 100, 1))
        while True:
            if progress:
                progress(flow.name, done, steps)
            if done >= steps:
                return self._result()
            count = min(part, steps - done)
            self._observe(done + 1, cursor.advance(count))
            done += count

    @np.errstate(all="ignore")
    def _result(self) -> Run:
        """Return the run with all measurements, also those that need derivatives or more steps."""
        flow = self.flow
        measurements: dict[str, Any] = {}
        for diagnostic in self._diagnostics:
            measurements |= diagnostic.measure(self.ensemble)
        return Run(
            name=flow.name,
            kind=flow.kind,
            method=flow.method_name,
            title=flow.title,
            description=flow.description,
            order=flow.order,
            structure=flow.structure,
            remark=flow.remark,
            window=flow.window,
            prediction_window=flow.prediction_window,
            states=self.ensemble.states,
            measurements=measurements,
        )

    @np.errstate(all="ignore")  # diverging states overflow
    def _observe(self, start: int, states: np.ndarray) -> None:
        for observer in self._observers:
            observer.update(start, states)
