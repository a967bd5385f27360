"""Base class of diagnostics, and what they are given: the trajectories of one map.

A comparison makes an object of each diagnostic for each map, shows it every chunk of states, and
asks for the result. Rollout file, summaries, tables and JSON loop over the diagnostics of a report.
``registry.py`` names those of the package; ``vp.compare(diagnostics=...)`` takes further ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.maps import Map
from vpintegrator.rollout.plan import Plan
from vpintegrator.rollout.report import Report, Run
from vpintegrator.rollout.variables import Column, Variable, read_variables
from vpintegrator.storage.reading import StoredGroup

Result = TypeVar("Result")


class Ensemble:
    """Trajectories of one map in a comparison, as diagnostics are given them.

    Parameters
    ----------
    name, map, plan
        The name in the report, the map, and the plan of the comparison.
    first
        First windows, (trajectory, window, dim).
    samples, sampled_trajectories
        Number of times at which windows are kept, and of trajectories, for derivatives.

    Attributes
    ----------
    states
        States at the stored times, (trajectory, time, dim), zero until the rollout reaches them.

    Examples
    --------
    A diagnostic reads its ensemble:

    >>> class Largest(vp.rollout.diagnostics.Diagnostic):
    ...     def result(self):
    ...         return {"largest": np.abs(self.ensemble.states).max()}
    >>> report = vp.compare(None, "rk4", system="pendulum", steps=5, diagnostics=[Largest])
    >>> bool(report.runs["rk4"].measurements["largest"] > 0)
    True
    """

    def __init__(
        self,
        name: str,
        map: Map,
        plan: Plan,
        first: np.ndarray,
        samples: int = 60,
        sampled_trajectories: int = 40,
    ) -> None:
        self.name, self.map, self.plan, self.first = name, map, plan, first
        self.states = self.series(plan.system.dim).transpose(1, 0, 2)
        count = max(plan.steps + 2 - map.window, 0)
        chosen = np.linspace(0, count - 1, min(samples, count)).round().astype(int)
        self._ends, self._every = map.window - 1 + chosen, samples // 4
        some = min(len(first), sampled_trajectories)
        self._sampler = WindowSampler(self._ends, map.window, some, map.dim)
        self._computed: dict[Any, Any] = {}

    def series(self, *shape: int) -> np.ndarray:
        """Return an array of zeros (time, trajectory, ...) for the stored times."""
        return np.zeros((len(self.plan.stored), len(self.first), *shape))

    def observe(self, start: int, states: np.ndarray) -> None:
        """Keep states (trajectory, count, dim) from step ``start`` on."""
        stored = self.plan.stored
        first, last = np.searchsorted(stored, [start, start + states.shape[1]])
        self.states[:, first:last] = states[:, stored[first:last] - start]
        self._sampler.observe(start, states)

    @property
    def steps(self) -> int:
        """Number of steps that the map computes; the states of its first window are given."""
        return self.plan.steps + 1 - self.map.window

    @property
    def windows(self) -> np.ndarray:
        """Windows met at times spread over the rollout, (sample, trajectory, window, dim)."""
        return self._sampler.windows

    @property
    def sample_times(self) -> np.ndarray:
        """The ends of these, (sample,)."""
        return self.plan.step * self._ends

    @cached_property
    def sample(self) -> np.ndarray:
        """A few of these, (n, window, dim), the first ones among them; all are finite."""
        met = self.windows[:: self._every].reshape(-1, *self.first.shape[1:])
        met = met[np.isfinite(met).all(axis=(1, 2))]
        return met if len(met) else self.first[: self.windows.shape[1]]

    def time_of(self, index: np.ndarray) -> np.ndarray:
        """Return the times of steps, NaN for -1."""
        return np.where(index >= 0, self.plan.step * index, np.nan)

    def once(self, function: Callable[[Ensemble], Result]) -> Result:
        """Return the value of a function of this ensemble, computed once for all diagnostics."""
        if function not in self._computed:
            self._computed[function] = function(self)
        return self._computed[function]


class Diagnostic(ABC):
    """Diagnostic of a comparison: what it measures on one map, stores, sums up and prints.

    Parameters
    ----------
    ensemble
        The trajectories of the map that this object measures.

    Attributes
    ----------
    variables
        Measurements that are arrays or numbers, and are stored as they are. For other measurements,
        override :meth:`stored` and :meth:`read`.
    figure
        Class of :class:`vpintegrator.plotting.RolloutFigure` that ``vp.draw`` draws of the report;
        None for no figure, or one of the package.

    Examples
    --------
    >>> from vpintegrator.rollout.diagnostics import Column, Diagnostic, Variable
    >>> class Extent(Diagnostic):
    ...     variables = (Variable("extent", "largest component", ("trajectory",)),)
    ...     extent = 0.0
    ...     def observe(self, start, states):
    ...         self.extent = np.maximum(self.extent, np.abs(states).max((1, 2)))
    ...     def result(self):
    ...         return {"extent": self.extent}
    ...     @classmethod
    ...     def columns(cls, report):
    ...         return [Column("extent", lambda summary: summary.extent, "short")]
    ...     @classmethod
    ...     def summary(cls, run, report):
    ...         return {"extent": float(run.extent.max())}
    >>> report = vp.compare(None, "rk4", system="pendulum", steps=20, diagnostics=[Extent])
    >>> bool(report.table()[0]["extent"] == report.runs["rk4"].extent.max())
    True
    """

    variables: ClassVar[tuple[Variable, ...]] = ()
    figure: ClassVar[Any] = None

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble, self.map, self.plan = ensemble, ensemble.map, ensemble.plan

    def observe(self, start: int, states: np.ndarray) -> None:  # noqa: B027 (some see no steps)
        """Observe the states of steps ``start``, ``start`` + 1, ..., (trajectory, count, dim).

        All steps come, in chunks, from step 0 on.
        """

    @abstractmethod
    def result(self) -> dict[str, Any]:
        """Return measurements by name after all steps, None for those that are not possible.

        The names are the same for every map.
        """

    @classmethod
    def stored(cls, run: Run) -> Iterator[Variable]:
        """Return the measurements of a run for the rollout file."""
        for variable in cls.variables:
            values = getattr(run, variable.name)
            if values is not None:
                yield replace(variable, values=values)

    @classmethod
    def read(cls, group: StoredGroup, system: System, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Return the measurements in a method's group, None for missing ones.

        ``sizes`` are those of the axes ``trajectory``, ``time`` and ``component``.

        Raises
        ------
        InputError
            If they are damaged or do not fit.
        """
        return read_variables(group, cls.variables, sizes)

    @classmethod
    def summary(cls, run: Run, report: Report) -> dict[str, Any]:
        """Return single numbers of a method by name: attributes of its :class:`Summary`.

        By default they are the variables that are numbers.
        """
        return {each.name: getattr(run, each.name) for each in cls.variables if not each.dims}

    @classmethod
    def columns(cls, report: Report) -> Sequence[Column]:
        """Return the columns of the table."""
        return ()


class WindowSampler:
    """Keeps windows of consecutive states that end at given steps.

    Attributes
    ----------
    windows
        (sample, trajectory, window, dim).
    """

    def __init__(self, ends: np.ndarray, window: int, trajectories: int, dim: int) -> None:
        self._ends = ends
        self._before = np.empty((trajectories, 0, dim))
        self.windows = np.full((len(ends), trajectories, window, dim), np.nan)

    def observe(self, start: int, states: np.ndarray) -> None:
        trajectories, window = self.windows.shape[1:3]
        states = np.concatenate([self._before, states[:trajectories]], axis=1)
        start -= self._before.shape[1]
        first, last = np.searchsorted(self._ends, [start, start + states.shape[1]])
        for sample in range(first, last):
            end = self._ends[sample] - start + 1
            if end >= window:  # else it was there already, in the part before
                self.windows[sample] = states[:, end - window : end]
        self._before = states[:, states.shape[1] - min(window - 1, states.shape[1]) :].copy()


def first_step(index: np.ndarray, start: int, found: np.ndarray) -> None:
    """Set ``index``, initially -1, to the first step at which a trajectory satisfies a condition.

    ``found`` (trajectory, count) says it of the steps from ``start`` on.
    """
    new = found.any(axis=1) & (index < 0)
    index[new] = start + found[new].argmax(axis=1)


def larger(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return elementwise the number of larger absolute value, NaN if either is NaN."""
    return np.where(
        np.isnan(first) | np.isnan(second),
        np.nan,
        np.where(np.abs(first) >= np.abs(second), first, second),
    )


def fold(
    larger: Callable[[np.ndarray, np.ndarray], np.ndarray],
    start: int,
    values: np.ndarray,
    stored: np.ndarray,
    largest: np.ndarray,
) -> None:
    """Take values (trajectory, count) of steps from ``start`` into (time, trajectory) maxima.

    A step belongs to the first stored time at or after it.
    """
    owner = np.searchsorted(stored, np.arange(start, start + values.shape[1]))
    first, last = owner[0], owner[-1] + 1
    begins = np.searchsorted(owner, np.arange(first, last))
    top = np.maximum.reduceat(values, begins, axis=1)
    if larger is not np.maximum:
        top = larger(top, np.minimum.reduceat(values, begins, axis=1))
    largest[first:last] = larger(largest[first:last], top.T)
