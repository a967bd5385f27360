"""Base class of diagnostics, and what they are given: a plan, and trajectories of one map.

A comparison makes an object of each diagnostic for each map, shows it every chunk of states, and
asks for the result. Rollout file, summaries, tables and JSON loop over the diagnostics of a report.
``registry.py`` names those of the package; ``vp.compare(diagnostics=...)`` takes further ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.dynamics.structure import affordable, component_scales
from vpintegrator.maps import Map
from vpintegrator.rollout.diagnostics.completion import Completion, completion_of
from vpintegrator.rollout.diagnostics.tangent import TangentHistory, tangent_propagation
from vpintegrator.rollout.observed import CompleteStates
from vpintegrator.rollout.report import Report, Run, Summary
from vpintegrator.rollout.variables import Column, Measurement, Variable

Result = TypeVar("Result")

FAR = 10.0  # extents of the reference
# times at which windows are kept, and trajectories, for derivatives
_SAMPLES = 60
_SAMPLED = 40


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The data that all maps of a comparison share.

    Attributes
    ----------
    system, step, steps
        System, time step and number of steps.
    stored
        Steps at which states are kept, including the first and the last, (time,).
    initial
        Initial states, (trajectory, dim).
    section_plane
        Component, value and direction of the Poincare section, or None.
    tangent_steps, tangent_trajectories
        Numbers of steps and of trajectories for which the phase-space volume is followed.
    threshold
        Error at which a method is taken to have failed.
    bound
        Largest absolute value of components; orbits that pass it end there.
    reference
        Reference states of the first steps, (time, trajectory, dim); NaN where an orbit's reference
        has ended.
    motion
        The solution from which the reference is taken, also after its end: averages have a meaning.
    complete
        The complete states behind observed ones, where they are known; else None.
    """

    system: System
    step: float
    steps: int
    stored: np.ndarray
    initial: np.ndarray
    section_plane: tuple[str, float, int] | None
    tangent_steps: int
    tangent_trajectories: int = 8
    threshold: float
    bound: float
    reference: np.ndarray
    motion: np.ndarray
    complete: CompleteStates | None = None
    _computed: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, function: Callable[[Plan], Result]) -> Result:
        """Return the value of a function of the solved plan, computed once for all maps."""
        if function not in self._computed:
            self._computed[function] = function(self)
        return self._computed[function]

    @property
    def complete_system(self) -> System:
        """The system behind observed states, or that of the states."""
        return self.system if self.complete is None else self.complete.system

    @cached_property
    def far(self) -> float:
        """Distance from the reference at which an orbit is lost: ten of its extents."""
        known = self.reference[np.isfinite(self.reference).all(axis=-1)]
        known = known[:, list(self.system.moving)]
        if not len(known):
            return np.inf
        with np.errstate(all="ignore"):
            extent = float(np.linalg.norm(known - known.mean(axis=0), axis=-1).max())
        return FAR * extent if extent > 0 else np.inf

    @cached_property
    def scales(self) -> np.ndarray:
        """Scale of each component at up to a thousand times of the reference, (dim,)."""
        every = -(-len(self.motion) // 1000)
        return component_scales(self.motion[::every], self.system.structure)


class Ensemble:
    """Trajectories of one map in a comparison, as diagnostics are given them.

    Parameters
    ----------
    name, map, plan
        The name in the report, the map, and the plan of the comparison.
    first
        First windows, (trajectory, window, dim).
    is_complete
        Whether the states of the map are the complete ones behind those of the plan. Then what is
        observed of them is stored and compared.

    Attributes
    ----------
    states
        States at the stored times, (trajectory, time, dim), zero until the rollout reaches them.
    system, scales
        System of the states of the map, and the scale of each component.
    completed
        Number of the first of the newest complete states, and these (trajectory, count, dim), by
        which invariants are measured; None where observed components do not determine them.
    lost
        First step at which each orbit is lost, -1 for none, (trajectory,); see
        :meth:`vpintegrator.rollout.Report.divergence_time`. What is measured on an orbit ends
        there.

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
        self, name: str, map: Map, plan: Plan, first: np.ndarray, is_complete: bool = False
    ) -> None:
        self.name = name
        self.map = map
        self.plan = plan
        self.first = first
        known = plan.complete if is_complete else None
        self.is_complete = known is not None
        self.observe_states = (lambda states: states) if known is None else known.observe
        self.system = plan.system if known is None else known.system
        self.scales = plan.scales if known is None else known.scales
        self.completion: Completion | None = None
        if plan.complete is not None:
            periods = plan.system.periods
            self.completion = completion_of(map, plan.complete, is_complete, plan.step, periods)
        self.completed: tuple[int, np.ndarray] | None = None
        self.states = self.series(plan.system.dim).transpose(1, 0, 2)
        count = max(plan.steps + 2 - map.window, 0)
        sample = np.linspace(0, count - 1, min(_SAMPLES, count)).round().astype(int)
        self._ends = map.window - 1 + sample
        some = min(len(first), _SAMPLED)
        self._sampler = WindowSampler(self._ends, map.window, some, map.dim)
        self.lost = np.full(len(first), -1)

    def series(self, *shape: int) -> np.ndarray:
        """Return an array of zeros (time, trajectory, ...) for the stored times."""
        return np.zeros((len(self.plan.stored), len(self.first), *shape))

    def observe(self, start: int, states: np.ndarray) -> np.ndarray:
        """Keep states (trajectory, count, dim) from step ``start`` on; return the observed ones."""
        stored = self.plan.stored
        first, last = np.searchsorted(stored, [start, start + states.shape[1]])
        seen = self.observe_states(states)
        self.states[:, first:last] = seen[:, stored[first:last] - start]
        self._sampler.observe(start, states)
        if self.completion is not None:
            self.completed = self.completion.observe(start, states)
        return seen

    def lose(self, start: int, losses: np.ndarray) -> None:
        """Note orbits that are lost at steps from ``start`` on.

        ``losses`` (trajectory, count) says it of each step. Several diagnostics see the same steps;
        the earliest loss counts.
        """
        new = losses.any(axis=1)
        step = start + losses.argmax(axis=1)
        earlier = new & ((self.lost < 0) | (step < self.lost))
        self.lost[earlier] = step[earlier]

    def lasting(self, steps: np.ndarray, trajectories: int) -> np.ndarray:
        """Return whether the first orbits last beyond steps (count,), (count, trajectory)."""
        lost = self.lost[:trajectories]
        return (lost < 0) | (steps[:, None] < lost)

    @property
    def windows(self) -> np.ndarray:
        """Windows met at times spread over the rollout, (sample, trajectory, window, dim).

        NaN from the step on at which an orbit is lost.
        """
        windows = self._sampler.windows
        lasting = self.lasting(self._ends, windows.shape[1])
        return np.where(lasting[..., None, None], windows, np.nan)

    @property
    def sample_times(self) -> np.ndarray:
        """The ends of these, (sample,)."""
        return self.plan.step * self._ends

    @cached_property
    def sample(self) -> np.ndarray:
        """A few of these, (n, window, dim), the first ones among them; all are finite."""
        met = self.windows[:: _SAMPLES // 4].reshape(-1, *self.first.shape[1:])
        met = met[np.isfinite(met).all(axis=(1, 2))]
        return met if len(met) else self.first[: self.windows.shape[1]]

    def time_of(self, index: np.ndarray) -> np.ndarray:
        """Return the times of steps, NaN for -1."""
        return np.where(index >= 0, self.plan.step * index, np.nan)

    @cached_property
    def tangent_history(self) -> TangentHistory | None:
        """Tangent history of the first trajectories, or None if it cannot be computed."""
        map = self.map
        plan = self.plan
        steps = min(plan.tangent_steps, plan.steps + 1 - map.window)  # which the map computes
        # a window is made from its first state by the equations
        unknown = map.window > 1 and self.system.is_measured
        if not map.differentiable or steps <= 0 or unknown:
            return None
        first = self.first[: plan.tangent_trajectories]
        count = affordable(len(first) * steps, map.window * map.dim)
        if count < min(steps, 10):  # so few tell no more than one
            return None
        first = first[: max(1, count // steps)]
        history = tangent_propagation(map, first, min(steps, count), self.scales)
        lasting = self.lasting(np.arange(len(history.times)), len(first)).T
        return replace(history, log_determinant=np.where(lasting, history.log_determinant, np.nan))


class Diagnostic(ABC):
    """Diagnostic of a comparison: what it measures on one map, stores, sums up and prints.

    Parameters
    ----------
    ensemble
        The trajectories of the map that this object measures.

    Attributes
    ----------
    variables
        Measurements as they are stored: arrays, numbers, and objects of these.
    needs
        Attributes of the :class:`Plan` without which nothing is measured, such as
        ``section_plane`` or ``system.is_discrete``.
    joins
        Rules by which numbers of the summary are joined over several models of one name, where it
        is not the median: ``largest``, ``least``, or ``typical``, that of the model of median
        error.
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

    variables: ClassVar[tuple[Variable | Measurement, ...]] = ()
    needs: ClassVar[tuple[str, ...]] = ()
    joins: ClassVar[Mapping[str, str]] = {}
    figure: ClassVar[Any] = None

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.map = ensemble.map
        self.plan = ensemble.plan

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
    def summary(cls, run: Run, report: Report) -> dict[str, Any]:
        """Return single numbers of a method by name: attributes of its :class:`Summary`.

        By default they are the variables that are numbers.
        """
        numbers = (each for each in cls.variables if isinstance(each, Variable) and not each.dims)
        return {each.name: getattr(run, each.name) for each in numbers}

    @classmethod
    def verdicts(cls, summary: Summary) -> dict[str, Any]:
        """Return what follows from the numbers of a summary, by name.

        Over several models of one name a verdict is about the joined number, so that a cell of the
        table never says one thing of one model and another thing of another.
        """
        return {}

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


def first_step(index: np.ndarray, start: int, holds: np.ndarray) -> None:
    """Set ``index``, initially -1, to the first step at which a trajectory satisfies a condition.

    ``holds`` (trajectory, count) says it of the steps from ``start`` on.
    """
    new = holds.any(axis=1) & (index < 0)
    index[new] = start + holds[new].argmax(axis=1)


def larger(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return elementwise the number of larger absolute value, NaN if either is NaN."""
    return np.where(np.isnan(first) | (np.abs(first) >= np.abs(second)), first, second)


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
    first = owner[0]
    last = owner[-1] + 1
    begins = np.searchsorted(owner, np.arange(first, last))
    top = np.maximum.reduceat(values, begins, axis=1)
    if larger is not np.maximum:
        top = larger(top, np.minimum.reduceat(values, begins, axis=1))
    largest[first:last] = larger(largest[first:last], top.T)
