"""Growth of errors in time: of the trajectory, of the invariants, of the volume."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.style import Look, floored, thinned

_BEYOND_USE = 1e2


def draw_error_growth(
    axes: Axes, times: np.ndarray, error: np.ndarray, look: Look, start: int = 1
) -> None:
    """Median over trajectories of the error (trajectory, time), in a band from least to largest.

    Only times from index ``start`` on are drawn.
    """
    chosen = thinned(len(times) - start, logarithmic=True) + start
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
    _limit(axes)


def draw_largest_so_far(
    axes: Axes, times: np.ndarray, error: np.ndarray, look: Look, start: int = 1
) -> None:
    """Largest |error| (trajectory, time) of any trajectory up to each time.

    The raw error of a bounded oscillation falls to zero twice a period; its running maximum is flat
    where there is no drift and rises where there is one.
    """
    with np.errstate(all="ignore"):
        size = np.abs(error).max(axis=0)
        envelope = np.maximum.accumulate(np.where(np.isnan(size), np.inf, size))
    chosen = thinned(len(times) - start, logarithmic=True) + start
    line = floored(envelope[chosen])
    axes.plot(times[chosen], line, color=look.colour, ls=look.line, lw=look.width)
    _mark_failure(axes, times[chosen], line, look)
    axes.set(xscale="log", yscale="log", xlabel="time", ylabel="largest change so far")
    _limit(axes)


def draw_volume_error(
    axes: Axes, times: np.ndarray, log_determinant: np.ndarray, look: Look
) -> None:
    """Largest |log|det|| of the step's map over trajectories, at each time it was measured."""
    with np.errstate(all="ignore"):
        line = floored(np.abs(log_determinant).max(axis=0))
    axes.plot(times, line, color=look.colour, ls=look.line, lw=look.width)
    _mark_failure(axes, times, line, look)
    axes.set(yscale="log", xlabel="time", ylabel=r"volume error $|\log|\det D\Phi||$")


def _limit(axes: Axes) -> None:
    """Cut the axis where a method is wrong beyond all use, lest it squeeze the others."""
    if axes.get_ylim()[1] > _BEYOND_USE:
        axes.set_ylim(top=_BEYOND_USE)


def _mark_failure(axes: Axes, times: np.ndarray, line: np.ndarray, look: Look) -> None:
    """A cross where the curve ends because trajectories are no longer finite."""
    finite = np.flatnonzero(np.isfinite(line))
    if len(finite) and finite[-1] < len(line) - 1:
        last = finite[-1]
        height = min(line[last], _BEYOND_USE)  # at the edge where the axis is cut
        axes.plot(times[last], height, marker="X", color=look.colour, ms=5, clip_on=False)
