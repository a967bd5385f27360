"""Smooth curves through states at long steps, by the solution or by interpolation.

If a method takes few steps in a turn, a polygon through its states would be misleading. Its states
are then drawn as dots, over a curve through the states of the reference. The curve is the solution
itself, computed anew within every step. If that is too much work or misses the next state, the
curve is a Hermite interpolation.
"""

from __future__ import annotations

import numpy as np

from vpintegrator.compiled import integrate
from vpintegrator.dynamics import System

COARSE = 15.0  # degrees: with fewer than 24 steps a turn a polygon shows
_FINE = 3.0  # degrees between the points of a curve
_SHARP = 0.99  # quantile of the angles that decides whether an orbit looks like a polygon
_MOST = 24  # points in place of one step
_MISSED = 0.1  # spreads of an orbit by which a curve may miss the field in a step
_SAMPLED = 60  # states that this is measured on
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
    return (
        float(np.degrees(np.arccos(np.clip(np.quantile(known, 1 - share), -1, 1))))
        if known.size
        else 0.0
    )


def refinement(system: System, orbits: np.ndarray, step: float) -> int:
    """Return the number of pieces of each step of orbits (trajectory, time, dim) in a smooth curve.

    The number is 1 if the orbits are smooth already, or if no curve between the states is known. No
    curve is known for a measured system, or for steps too long for a curve that follows the field.
    """
    # the sharpest turns: an orbit that is smooth for the most part has its corners at a pericentre
    angle = turning(orbits[..., : system.phase_dim], _SHARP)
    if angle <= COARSE or system.is_measured or system.is_discrete:
        return 1
    pieces = min(int(np.ceil(angle / _FINE)), _MOST)
    some = orbits[:4, :_SAMPLED]
    with np.errstate(all="ignore"):
        curve, slope = _hermite(system, some, step, pieces)
        missed = np.linalg.norm(slope - step * system.vector_field(curve), axis=-1).max(axis=-1)
        spread = np.linalg.norm(np.nanstd(some[..., : system.phase_dim], axis=1), axis=-1)[:, None]
        return pieces if np.nanmedian(missed / spread) < _MISSED else 1


def between(
    system: System, orbits: np.ndarray, step: float, pieces: int
) -> tuple[np.ndarray, bool]:
    """Return orbits (..., time, dim) with ``pieces`` points a step, and whether all are solved.

    The equations are solved over one step from every state. If the solution misses the next state,
    as in noisy data, a cubic Hermite interpolation with the slopes of the field gives the points.
    """
    if pieces == 1 or orbits.shape[-2] < 2:
        return orbits, False
    curve, _ = _hermite(system, orbits, step, pieces)
    solved = _solve_steps(system, orbits, step, curve)
    inner = curve.reshape(*orbits.shape[:-2], -1, orbits.shape[-1])
    return np.concatenate([inner, orbits[..., -1:, :]], axis=-2), solved


def _solve_steps(system: System, orbits: np.ndarray, step: float, curve: np.ndarray) -> bool:
    """Replace points (..., time - 1, pieces, dim) by the solution; whether all could be.

    The work is bounded, unlike that of a solver which makes its steps as small as it takes.
    """
    starts, ends = orbits[..., :-1, :], orbits[..., 1:, :]
    pieces = curve.shape[-2]
    finite = np.isfinite(starts).all(axis=-1) & np.isfinite(ends).all(axis=-1)
    left = np.argwhere(finite)
    size = max(float(np.abs(orbits[np.isfinite(orbits)]).max(initial=0)), np.finfo(float).tiny)
    for parts in _PARTS:
        if not len(left) or len(left) * pieces * parts * system.dim > _WORK:
            break
        here = tuple(left.T)
        found = integrate(
            system, "dormand-prince-8", starts[here], step / (pieces * parts), pieces * parts
        )[:, ::parts]
        arrived = np.abs(found[:, -1] - ends[here]).max(axis=-1) <= _ARRIVED * size
        curve[tuple(left[arrived].T)] = found[arrived, :-1]
        left = left[~arrived]
    return len(left) == 0


def _hermite(
    system: System, orbits: np.ndarray, step: float, pieces: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return points (..., time - 1, pieces, dim) between states, and their derivatives.

    The polynomials are cubic, with the slopes of the vector field at both ends of a step.
    """
    with np.errstate(all="ignore"):
        slopes = step * system.vector_field(orbits)
        change = np.diff(orbits, axis=-2)[..., None, :]
        start, first, last = (
            x[..., None, :] for x in (orbits, slopes[..., :-1, :], slopes[..., 1:, :])
        )
        square, cube = 3 * change - 2 * first - last, first + last - 2 * change
        s = np.linspace(0, 1, pieces, endpoint=False)[:, None]
        curve = start[..., :-1, :, :] + s * (first + s * (square + s * cube))
        return curve, first + s * (2 * square + 3 * s * cube)
