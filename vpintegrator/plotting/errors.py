"""Growth of errors in time: of the trajectory, of the invariants, of the volume."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.style import Look, floored, thinned


def draw_error_growth(axes: Axes, times: np.ndarray, error: np.ndarray, look: Look) -> None:
    """Median over trajectories of the error (trajectory, time), in a band from least to largest."""
    chosen = thinned(len(times) - 1, logarithmic=True) + 1
    with np.errstate(all="ignore"):
        # a trajectory that has diverged counts as infinitely wrong
        values = np.where(np.isnan(error[:, chosen]), np.inf, error[:, chosen])
        middle = floored(np.median(values, axis=0))
        low, high = floored(values.min(axis=0)), floored(values.max(axis=0))
    if len(error) > 1:
        axes.fill_between(times[chosen], low, high, color=look.colour, alpha=0.12, lw=0)
    axes.plot(times[chosen], middle, color=look.colour, ls=look.line, lw=look.width)
    _mark_failure(axes, times[chosen], middle, look)
    axes.set(xscale="log", yscale="log", xlabel="time", ylabel="error of the trajectory")


def draw_largest_so_far(
    axes: Axes, times: np.ndarray, error: np.ndarray, look: Look, label: str
) -> None:
    """Largest |error| (trajectory, time) of any trajectory up to each time.

    The raw error of a bounded oscillation falls to zero twice a period; its running maximum is flat
    where there is no drift and rises where there is one.
    """
    with np.errstate(all="ignore"):
        size = np.abs(error).max(axis=0)
        envelope = np.maximum.accumulate(np.where(np.isnan(size), np.inf, size))
    chosen = thinned(len(times) - 1, logarithmic=True) + 1
    line = floored(envelope[chosen])
    axes.plot(times[chosen], line, color=look.colour, ls=look.line, lw=look.width)
    _mark_failure(axes, times[chosen], line, look)
    axes.set(xscale="log", yscale="log", xlabel="time", ylabel=label)


def draw_volume_error(
    axes: Axes, times: np.ndarray, log_determinant: np.ndarray, look: Look
) -> None:
    """Largest |log|det|| of the step's map over trajectories, at each time it was measured."""
    with np.errstate(all="ignore"):
        line = floored(np.abs(log_determinant).max(axis=0))
    axes.plot(times, line, color=look.colour, ls=look.line, lw=look.width)
    axes.set(yscale="log", xlabel="time", ylabel=r"volume error $|\log|\det D\Phi||$")


def _mark_failure(axes: Axes, times: np.ndarray, line: np.ndarray, look: Look) -> None:
    """A cross where the curve ends because trajectories are no longer finite."""
    finite = np.flatnonzero(np.isfinite(line))
    if len(finite) and finite[-1] < len(line) - 1:
        last = finite[-1]
        axes.plot(times[last], line[last], marker="X", color=look.colour, ms=5, clip_on=False)
