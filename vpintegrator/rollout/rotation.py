"""Rotation numbers: mean turns per step, by averages that converge fast on tori.

The increments of an angle along an orbit are averaged with weights that vanish smoothly at both
ends. On a quasi-periodic orbit the average then converges faster than any power of its length (Das,
Saiki, Sander, Yorke, Nonlinearity 30 (2017) 4111); in chaos it does not, and the averages over the
two halves differ (Sander, Meiss, Physica D 411 (2020) 132569).
"""

from __future__ import annotations

import numpy as np

TURN = 2 * np.pi
ENOUGH = 10_000  # steps that mistake less than a twentieth of tori and of chaos at K = 0.5
SUMS = 5  # numbers of each orbit: last angle, first increment, and the three weighted sums


def birkhoff_weights(steps: int) -> np.ndarray:
    """Return weights (step, 3) of the increments: of all, of the first half, of the second half.

    Each column adds up to 1 (eq. 3 of the article).
    """

    def bump(count: int) -> np.ndarray:
        t = np.arange(1, count + 1) / (count + 1)
        w = np.exp(-1 / (t * (1 - t)))
        return w / w.sum() if count else w

    weights, half = np.zeros((steps, 3)), steps // 2
    weights[:, 0] = bump(steps)
    weights[:half, 1] = weights[steps - half :, 2] = bump(half)
    return weights


def add_angles(
    sums: np.ndarray, angles: np.ndarray, done: int, weights: np.ndarray, *, whole: bool
) -> None:
    """Take the angles (orbit, count), in radians, of steps ``done``, ... into sums (orbit, 5).

    Angles that are known up to ``whole`` turns advance by at most half a turn more or less than in
    the first step. Components that are angles go on, turn after turn, and advance by any amount.
    """
    increments = np.diff(np.concatenate([sums[:, :1], angles], axis=1), axis=1)
    if done == 0:
        increments = increments[:, 1:]
    if done <= 1 and increments.shape[1]:
        sums[:, 1] = increments[:, 0]
    more = increments - sums[:, 1:2]
    if whole:
        more -= TURN * np.round(more / TURN)
    start = max(done - 1, 0)
    sums[:, 2:] += more @ weights[start : start + more.shape[1]]
    sums[:, 0] = angles[:, -1]


def tolerance_of(steps: int) -> float:
    """Return the largest difference between the halves of a regular orbit, in turns per step.

    (10/steps)**3: of all powers the one that mistakes tori for chaos and chaos for tori about as
    often, from 200 to 20,000 steps of the standard map at K = 0.5 and K = 0.97
    (scripts/benchmarks/tori_and_chaos.py); beyond these, rounding errors of angles count.
    """
    return max((10 / steps) ** 3, 1e-10)


def turns_of(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return turns per step, from minus a half to a half, and the difference of the two halves."""
    rotation = (sums[:, 1] + sums[:, 2]) / TURN
    return rotation - np.round(rotation), np.abs(sums[:, 3] - sums[:, 4]) / TURN


def between(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the difference of turns per step without whole turns."""
    difference = one - other
    return np.abs(difference - np.round(difference))
