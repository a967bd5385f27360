"""Smooth curves through states at long steps: the solution, computed anew within every step.

If a method takes few steps in a turn, a polygon through its states would be misleading. Its states
are then drawn as dots, over a curve through the states of the reference. Where the solution is too
much work or misses the next state, as in noisy data, the curve is a straight line.
"""

from __future__ import annotations

import numpy as np

from vpintegrator.compiled import integrate
from vpintegrator.dynamics import System

COARSE = 15.0  # degrees: with fewer than 24 steps a turn a polygon shows
_FAR = 72.0  # degrees: with fewer than 5 steps a turn dots are clearer than a curve
_FINE = 3.0  # degrees between the points of a curve
_SHARP = 0.99  # quantile of the angles that decides whether an orbit looks like a polygon
_MOST = 24  # points in place of one step
_PARTS = (1, 16)  # steps of the solver in a piece
_WORK = 10_000_000  # components of states on the way: a figure is drawn in seconds
_ARRIVED = 1e-6  # sizes of an orbit, the largest distance of a solution from the next state


def turning(orbits: np.ndarray, share: float = 0.5) -> float:
    """Return the median angle between steps of orbits (..., time, dim), in degrees.

    ``share`` is that of the angles which are at most as large, if it is not the median.
    """
    with np.errstate(all="ignore"):
        steps = np.diff(orbits, axis=-2)
        steps = steps / np.linalg.norm(steps, axis=-1, keepdims=True)
        cosine = (steps[..., 1:, :] * steps[..., :-1, :]).sum(axis=-1)
    known = cosine[np.isfinite(cosine)]
    least = np.clip(np.quantile(known, 1 - share), -1, 1) if known.size else 1.0
    return float(np.degrees(np.arccos(least)))


def refinement(system: System, orbits: np.ndarray) -> int:
    """Return the number of pieces of each step of orbits (trajectory, time, dim) in a smooth curve.

    The number is 1 if the orbits are smooth already, if their steps are too long, or if no
    equations are known between the states.
    """
    moving = orbits[..., : system.phase_dim]
    # the sharpest turns: an orbit that is smooth for the most part has its corners at a pericentre
    angle = turning(moving, _SHARP)
    known = not (system.is_measured or system.is_discrete)
    curved = known and angle > COARSE and turning(moving) <= _FAR
    return min(int(np.ceil(angle / _FINE)), _MOST) if curved else 1


def between(
    system: System, orbits: np.ndarray, step: float, pieces: int
) -> tuple[np.ndarray, bool]:
    """Return orbits (..., time, dim) with ``pieces`` points a step, and whether all are solved.

    The work is bounded, unlike that of a solver which makes its steps as small as it takes.
    """
    if pieces == 1 or orbits.shape[-2] < 2:
        return orbits, False
    starts, ends = orbits[..., :-1, :], orbits[..., 1:, :]
    along = np.arange(pieces)[:, None] / pieces
    # (..., time - 1, pieces, dim)
    curve = starts[..., None, :] + along * (ends - starts)[..., None, :]
    left = np.argwhere(np.isfinite(starts + ends).all(axis=-1))
    size = max(float(np.abs(orbits[np.isfinite(orbits)]).max(initial=0)), np.finfo(float).tiny)
    for parts in _PARTS:
        if not len(left) or len(left) * pieces * parts * system.dim > _WORK:
            break
        here, fine = tuple(left.T), step / (pieces * parts)
        found = integrate(system, "dormand-prince-8", starts[here], fine, pieces * parts)
        arrived = np.abs(found[:, -1] - ends[here]).max(axis=-1) <= _ARRIVED * size
        curve[tuple(left[arrived].T)] = found[arrived, :-1:parts]
        left = left[~arrived]
    inner = curve.reshape(*orbits.shape[:-2], -1, orbits.shape[-1])
    return np.concatenate([inner, orbits[..., -1:, :]], axis=-2), len(left) == 0
