"""Statistics of the states of an ensemble: counts on a plane, escape times, rotation numbers.

Machine code takes a few nanoseconds for each state. Without a compiler NumPy takes ten times as
long.
"""

from __future__ import annotations

import ctypes
import warnings
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from vpintegrator.native import NotCompilable, load_library
from vpintegrator.rollout.diagnostics.rotation import (
    SUMS,
    TURN,
    add_angles,
    birkhoff_weights,
    turns_of,
)
from vpintegrator.rollout.ensembles.escape import Escape
from vpintegrator.rollout.ensembles.plan import EnsemblePlan
from vpintegrator.rollout.observer import first_step


@dataclass(frozen=True)
class Counts:
    """Statistics of some trajectories.

    Attributes
    ----------
    density
        Number of states in each cell of the view, (rows, columns), uint32.
    off
        Number of states in no cell.
    left
        First step at which each trajectory is outside, -1 if it never is, (trajectory,), int32.
    left_domain
        First step at which each trajectory is out of the training domain before it is outside, -1
        if it never is, (trajectory,), int32. None if the domain is not known, or is itself the
        escape condition.
    rotation, change
        Turns per step of each trajectory, at most half a turn from the plan's, and their difference
        between its two halves, (trajectory,); NaN if it left. None if not asked for.
    """

    density: np.ndarray
    off: int
    left: np.ndarray
    left_domain: np.ndarray | None
    rotation: np.ndarray | None
    change: np.ndarray | None


class Statistics:
    """Statistics of trajectories, updated part by part.

    Parameters
    ----------
    plan
        Settings of the statistics.
    trajectories
        Number of trajectories.
    compiled
        Whether machine code does it; by default if there is a compiler.
    """

    def __init__(self, plan: EnsemblePlan, trajectories: int, compiled: bool | None = None) -> None:
        self._plan = plan
        self._density = np.zeros((plan.rows, plan.columns), np.uint32)
        self._off = np.zeros(1, np.int64)
        self.left = np.full(trajectories, -1, np.int32)
        self._left_domain = np.full(trajectories, -1, np.int32)
        self._domain = None if plan.domain == plan.escape.domain else Escape(domain=plan.domain)
        self._weights = birkhoff_weights(plan.steps)
        self._turned = np.zeros((trajectories, SUMS))
        self._library = None if compiled is False else _library()

    def add(self, which: np.ndarray, states: np.ndarray, done: int) -> None:
        """Add states (some, count, dim) of trajectories, after ``done`` earlier states of each."""
        states = np.ascontiguousarray(states, np.float64)
        left, turned = self.left[which], self._turned[which]
        self._find_outside(self._plan.escape, states, done, left)
        if self._domain is not None:
            left_domain = self._left_domain[which]
            self._find_outside(self._domain, states, done, left_domain)
            left_domain[(left >= 0) & (left_domain >= left)] = -1
            self._left_domain[which] = left_domain
        if self._library is None:
            self._add(states, done, left, turned)
        else:
            self._library.accumulate(
                _pointer(states),
                *map(ctypes.c_int64, (*states.shape, done)),
                ctypes.byref(_plane(self._plan)),
                _pointer(self._density),
                _pointer(self._off),
                _pointer(left),
                ctypes.byref(_turning(self._plan)),
                _pointer(self._weights),
                _pointer(turned),
            )
        self.left[which], self._turned[which] = left, turned

    @property
    def counts(self) -> Counts:
        """Statistics after all steps have been counted."""
        rotation = change = None
        if self._plan.turning:
            gone = self.left >= 0
            rotation, change = (np.where(gone, np.nan, x) for x in turns_of(self._turned))
            rotation -= np.round(rotation - self._plan.near)
        left_domain = None if self._domain is None else self._left_domain
        return Counts(self._density, int(self._off[0]), self.left, left_domain, rotation, change)

    def _find_outside(
        self, escape: Escape, states: np.ndarray, done: int, first: np.ndarray
    ) -> None:
        """Write the step of the first state outside into ``first``, where that is -1 so far."""
        if self._library is None:
            first_step(first, done, escape.mask(self._plan.system, states))
            return
        outside = escape.outside(self._plan.system, states)
        box = np.ascontiguousarray(escape.box(self._plan.system))
        self._library.find_outside(
            _pointer(states),
            None if outside is None else _pointer(outside),
            _pointer(box),
            *map(ctypes.c_int64, (*states.shape, done)),
            _pointer(first),
        )

    def _add(self, states: np.ndarray, done: int, left: np.ndarray, turned: np.ndarray) -> None:
        """Count states and turns by NumPy, with the same result as the machine code."""
        plan, count = self._plan, states.shape[1]
        gone = left >= 0
        end = np.where(gone, left - done, count)
        kept = states[np.arange(count) < end[:, None]]
        cells, inside = plan.cells(kept)
        flat = cells[inside, 1] * plan.columns + cells[inside, 0]
        found = np.bincount(flat, minlength=self._density.size).astype(np.uint32)
        self._density += found.reshape(self._density.shape)
        self._off += len(kept) - len(flat)
        if plan.turning and not gone.all():
            sums = turned[~gone]
            angles, whole = plan.angles(states[~gone]), plan.angle is None
            add_angles(sums, angles, done, self._weights, whole=whole)
            turned[~gone] = sums


class _Plane(ctypes.Structure):
    _fields_ = (
        [(name, ctypes.c_int64) for name in ("x", "y")]
        + [
            (f"{name}_{axis}", ctypes.c_double)
            for name in ("low", "cells", "period", "per_period")
            for axis in "xy"
        ]
        + [(name, ctypes.c_int64) for name in ("columns", "rows")]
    )


class _Turning(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int64),
        ("centre_x", ctypes.c_double),
        ("centre_y", ctypes.c_double),
        ("scale_x", ctypes.c_double),
        ("scale_y", ctypes.c_double),
    ]


def _plane(plan: EnsemblePlan) -> _Plane:
    x, y = plan.pair
    periods = [plan.period(k) for k in plan.pair]
    inverse = [1 / period if period else 0.0 for period in periods]
    (left, right), (low, high) = plan.view
    cells = (plan.columns / (right - left), plan.rows / (high - low))
    return _Plane(x, y, left, low, *cells, *periods, *inverse, plan.columns, plan.rows)


def _turning(plan: EnsemblePlan) -> _Turning:
    if plan.angle is not None:
        return _Turning(2, 0.0, 0.0, TURN / plan.system.periods[plan.angle], 0.0)
    return _Turning(int(plan.turning), *(plan.centre or (0.0, 0.0)), *plan.scales)


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@cache
def _library() -> ctypes.CDLL | None:
    """Return the machine code; None, with a warning, if it cannot be compiled."""
    source = files("vpintegrator.rollout.ensembles").joinpath("statistics.cpp")
    try:
        return load_library(source.read_text(encoding="utf-8"))
    except NotCompilable as reason:
        warnings.warn(f"statistics are made by NumPy, slower: {reason}", stacklevel=3)
        return None
