"""Distance from the reference, and times at which orbits fail, diverge or leave the domain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from vpintegrator.arguments import real_array
from vpintegrator.errors import InputError
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic, Ensemble, first_step, fold
from vpintegrator.rollout.report import Report, Run
from vpintegrator.rollout.variables import SERIES, TRAJECTORY, Column, Variable


def root_mean_square_error(states: np.ndarray, reference: np.ndarray) -> np.ndarray:
    r"""Return the root mean square of the error over times and components, (trajectory,).

    .. math:: \sqrt{ \frac{1}{N d} \sum_{k=1}^{N} \| z_k - z_k^{\text{reference}} \|^2 }

    over N times, for states of d components.

    Infinite for a trajectory that has diverged.

    Parameters
    ----------
    states
        States of a method, (trajectory, time, dim).
    reference
        The reference at the same times, (trajectory, time, dim).

    Examples
    --------
    >>> vp.rollout.root_mean_square_error(np.ones((1, 4, 2)), np.zeros((1, 4, 2)))
    array([1.])
    """
    states = real_array("states", states, None)
    reference = real_array("reference", reference, None)
    if states.ndim < 2 or not states.size or states.shape[-2:] != reference.shape[-2:]:
        raise InputError(
            f"states have shape {states.shape} and reference {reference.shape}, which are not both "
            "(..., time, dim)"
        )
    with np.errstate(all="ignore"):
        error = np.sqrt(np.mean((states - reference) ** 2, axis=(-2, -1)))
    return infinite_where_nan(error)


def infinite_where_nan(values: np.ndarray) -> np.ndarray:
    """Return the values with infinity for NaN, the error of a diverged trajectory."""
    return np.where(np.isnan(values), np.inf, values)


class TrajectoryError(Diagnostic):
    """Distance from the reference, in the components that move.

    The measurements are: ``error``, the largest Euclidean distance (trajectory, time), NaN after
    the reference of the orbit ends, infinite if the method has diverged before that;
    ``root_mean_square_error``, over the components that move and all steps to the end of the
    reference, without the states that the method was given, (trajectory,); ``threshold_time``, the
    first time at which the error exceeds the threshold of the report, NaN if there is none,
    (trajectory,).

    The summary has: ``error`` and ``worst_error``, the median and the largest root mean square
    error; ``final_error``, the median of the distance at the reference time of the report, over the
    trajectories whose reference is known then; ``threshold_time``, the median (the lower one of an
    even number) of the times at which the error exceeds the threshold, infinite if more than half
    of the trajectories never exceed it.
    """

    joins: ClassVar[Mapping[str, str]] = {"worst_error": "largest"}
    variables = (
        Variable("error", "largest error since the stored time before", SERIES, required=True),
        Variable("root_mean_square_error", "root mean square error", TRAJECTORY, required=True),
        Variable("threshold_time", "first time above the threshold", TRAJECTORY, required=True),
    )

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(ensemble)
        self.largest = ensemble.series()  # distance since the stored time before
        trajectories = len(ensemble.first)
        self.squares = np.zeros(trajectories)
        self.index = np.full(trajectories, -1)
        self._known = np.isfinite(self.plan.reference).all(axis=-1).T  # (trajectory, time)
        self._moving = list(self.plan.system.moving)
        self._selects = self._moving != list(range(self.plan.system.dim))

    def observe(self, start: int, states: np.ndarray) -> None:
        reference = self.plan.reference[start : start + states.shape[1]]
        if not len(reference):
            return
        with np.errstate(all="ignore"):
            difference = states[:, : len(reference)] - reference.transpose(1, 0, 2)
            difference = difference[..., self._moving] if self._selects else difference
            squares = np.einsum("ntd,ntd->nt", difference, difference)
            distance = np.sqrt(squares)
            # a diverged trajectory has an infinite error
            distance[np.isnan(distance)] = np.inf
            squares[np.isnan(squares)] = np.inf
            unknown = ~self._known[:, start : start + len(reference)]
            squares[unknown] = 0.0
            distance[unknown] = 0.0
            self.squares += squares.sum(axis=1)
            self.ensemble.lose(start, distance > self.plan.far)
        first_step(self.index, start, distance > self.plan.threshold)
        fold(np.maximum, start, distance, self.plan.stored, self.largest)

    def result(self) -> dict[str, Any]:
        given = self._known[:, 1 : self.map.window].sum(axis=1)  # states
        count = (self._known.sum(axis=1) - given) * len(self._moving)
        steps = np.arange(self._known.shape[1])
        known = np.zeros(self.largest.shape, dtype=bool)  # since the stored time before
        np.logical_or.at(known, np.searchsorted(self.plan.stored, steps), self._known.T)
        return {
            "error": np.where(known, self.largest, np.nan).T,
            "root_mean_square_error": np.sqrt(self.squares / count),
            "threshold_time": self.ensemble.time_of(self.index),
        }

    @classmethod
    def summary(cls, run: Run, report: Report) -> dict[str, Any]:
        ended = run.failure_time <= report.reference_time
        end = report.reference_end - 1
        moving = report.system.moving
        last = report.reference[:, end]
        difference = run.states[:, end] - last
        distance = np.linalg.norm(difference[..., moving], axis=-1)
        final = np.where(ended | ~np.isfinite(distance), np.inf, distance)
        final = final[np.isfinite(last).all(axis=-1)]
        passed = np.where(np.isnan(run.threshold_time), np.inf, run.threshold_time)
        return {
            "error": float(np.median(run.root_mean_square_error)),
            "worst_error": float(run.root_mean_square_error.max()),
            "final_error": float(np.median(final)) if len(final) else math.nan,
            "threshold_time": float(np.sort(passed)[(len(passed) - 1) // 2]),
        }

    @classmethod
    def columns(cls, report: Report) -> list[Column]:
        def of(name: str) -> Any:
            return lambda s: getattr(s, name) if report.is_compared(s.name) else None

        final = ("median final", "distance")
        failure = ("median time", "to failure")
        return [
            Column("median RMSE", of("error"), "error", place=1),
            Column("worst RMSE", of("worst_error"), "error", place=1),
            Column("median final error", of("final_error"), "error", final, rank=8),
            Column("median time to failure", of("threshold_time"), "failure", failure, rank=11),
        ]


class Divergence(Diagnostic):
    """Orbits that diverge, or leave the training domain of a model.

    The measurements are ``failure_time``, the first time at which the trajectory is not finite,
    ``divergence_time``, the time at which it is lost by :meth:`Report.divergence_time`, and
    ``departure_time``, the first time out of the domain, NaN if there is none, (trajectory,). The
    last is None for models without a stored domain and for other maps. The summary has
    ``diverged`` and ``trajectories``, the numbers of trajectories that diverge by
    :meth:`Report.divergence_time` and of all; ``left_domain``, the number of trajectories that
    left, and ``left_domain_time``, the first time of leaving, None if none left.
    """

    joins: ClassVar[Mapping[str, str]] = {"left_domain_time": "least"}
    variables = (
        Variable("failure_time", "first time not finite", TRAJECTORY, required=True),
        Variable("divergence_time", "time of divergence", TRAJECTORY, required=True),
        Variable("departure_time", "first time out of the training domain", TRAJECTORY),
    )

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(ensemble)
        self._domain = self.map.domain
        # first steps at which each trajectory is not finite, and is outside; -1 if none
        self.failed, self.left = (np.full(len(ensemble.first), -1) for _ in range(2))

    def observe(self, start: int, states: np.ndarray) -> None:
        # nothing comes back from NaN, so the end of a part tells whether there is anything to find
        with np.errstate(all="ignore"):
            if not np.isfinite(states[:, -1].sum()):
                failed = ~np.isfinite(states).all(axis=-1)
                first_step(self.failed, start, failed)
                self.ensemble.lose(start, failed)
        inside = np.flatnonzero(self.left < 0)
        if self._domain is not None and len(inside):
            left = self.left[inside]
            first_step(left, start, ~self._domain.holds(self.plan.system, states[inside]))
            self.left[inside] = left

    def result(self) -> dict[str, Any]:
        time_of = self.ensemble.time_of
        departed = None if self._domain is None else time_of(self.left)
        return {
            "failure_time": time_of(self.failed),
            "divergence_time": time_of(self.ensemble.lost),
            "departure_time": departed,
        }

    @classmethod
    def summary(cls, run: Run, report: Report) -> dict[str, Any]:
        times = run.departure_time
        left = [] if times is None else times[np.isfinite(times)]
        return {
            "diverged": report.diverged(run.name),
            "trajectories": len(run.states),
            "left_domain": None if times is None else len(left),
            "left_domain_time": float(min(left)) if len(left) else None,
        }

    @classmethod
    def columns(cls, report: Report) -> list[Column]:
        return [
            Column("diverged", "diverged", "count", place=2),
            Column("orbits", "trajectories", "hidden"),
            Column("left domain", "left_domain", "count", place=2),
            Column("left domain at", "left_domain_time", "hidden"),
        ]
