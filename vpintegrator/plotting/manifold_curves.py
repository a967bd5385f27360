"""Stable and unstable manifolds as curves in a plane."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from vpintegrator.arguments import of_kind
from vpintegrator.plotting.own_axes import drawn_into
from vpintegrator.rollout import InvariantManifolds

_UNSTABLE, _STABLE = "#D55E00", "#0072B2"
_WIDTH = 0.6


def _draw(axes: Axes, found: InvariantManifolds, periods: dict[int, float]) -> None:
    for colour, branches, label in (
        (_UNSTABLE, found.unstable, "unstable"),
        (_STABLE, found.stable, "stable"),
    ):
        for number, branch in enumerate(branches):
            points = _within_a_turn(branch, periods)
            name = label if number == 0 else "_nolegend_"
            axes.plot(points[:, 0], points[:, 1], color=colour, lw=_WIDTH, label=name)
    x, y = _within_a_turn(found.point[None], periods)[0]
    axes.plot(x, y, "o", color=axes.xaxis.label.get_color(), ms=3, zorder=5)


def _within_a_turn(points: np.ndarray, periods: dict[int, float]) -> np.ndarray:
    """Return points (n, 2) with angles within a turn, and NaN where a line leaves the turn."""
    moved = points.copy()
    for k, period in periods.items():
        moved[:, k] -= period * np.round(moved[:, k] / period)
    jump = np.flatnonzero((np.abs(np.diff(moved - points, axis=0)) > 0).any(axis=1)) + 1
    return np.insert(moved, jump, np.nan, axis=0)


def manifolds(
    found: InvariantManifolds, ax: Any = None, periods: dict[int, float] | None = None
) -> Any:
    """Draw the stable and unstable manifolds of a hyperbolic point.

    Crossings of the two show chaos.

    Parameters
    ----------
    found
        Manifolds from :func:`vpintegrator.rollout.invariant_manifolds`.
    ax
        Matplotlib's Axes; a new figure if None.
    periods
        Periods of components that are angles: ``system.periods``. Angles are drawn within a turn.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Examples
    --------
    >>> flow = vp.rollout.ExactMap(vp.load_system("standard-map"))
    >>> found = vp.rollout.invariant_manifolds(flow, np.array([0.1, 0.1]), length=2.0)
    >>> axes = vp.plotting.manifolds(found, periods=flow.system.periods)
    """
    of_kind("found", found, InvariantManifolds, "what vp.rollout.invariant_manifolds gives")
    return drawn_into(ax, _draw, found, periods or {})
