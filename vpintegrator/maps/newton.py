"""Newton's method for the stages of implicit Runge-Kutta methods, for many trajectories.

The stages y_i = h sum_j a_ij f(z + y_j) are solved to rounding: a residual error would make
quadratic invariants drift (Hairer, Lubich, Wanner, Geometric Numerical Integration, section
VIII.6.3; Hairer, McLachlan, Razakarivony, BIT 48 (2008) 231-243).

Components are measured in their scales, so nothing depends on units. Each trajectory has its own
matrices, scales and end, so it does not depend on the rest. All arrays
have the trajectories last; the time goes into calls of NumPy, so there are few of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from vpintegrator.runtime.interrupts import check_time

_MAXIMUM_ITERATIONS = 60
_SLOW = 1e-2  # an update shrinking by less asks for a new Jacobian
_NOTHING = 2.0**-57  # smaller updates (relative) change no digit of the vector field's argument
_NUMBERS = 1 << 21  # in matrices that are inverted between two looks at the time
_FORESEEN = 2.0**-60  # an update foreseen to be smaller is not worth computing

Field = Callable[[np.ndarray], np.ndarray]


def solve_stages(
    field: Field,
    jacobian: Field,
    state: np.ndarray,
    matrix: np.ndarray,
    rounding: float,
) -> np.ndarray:
    """Return f at the stages z + y_i, (dim, stage, trajectory); NaN without a solution.

    Parameters
    ----------
    field
        The vector field, (dim, ...) to (dim, ...).
    jacobian
        Its derivatives, (dim, ...) to (dim, dim, ...).
    state
        z, shape (dim, trajectory).
    matrix
        h a_ij, shape (stage, stage).
    rounding
        Updates this small (relative) that shrink no more are rounding errors.
    """
    count = state.shape[1]
    stages = len(matrix)
    base = state[:, None, :]
    columns = [column[:, None] for column in matrix.T]

    def residual(slopes: np.ndarray, stage: np.ndarray) -> np.ndarray:
        # summed one by one, in the same order for any number of trajectories
        total = columns[0] * slopes[:, :1]
        for j in range(1, stages):
            total += columns[j] * slopes[:, j : j + 1]
        total -= stage
        return total

    slopes = field(base)
    slopes_derivative = jacobian(base)
    scales = step_scales(
        state, slopes[:, 0], slopes_derivative[:, :, 0], float(np.abs(matrix).max())
    )
    units = scales[:, None]
    ratios = (scales / units)[:, :, None]  # Jacobian matrices times these depend on no units

    # the first update from y = 0 is a linearly implicit step: exact for linear systems, and for
    # stiff ones on the branch of solutions that an explicit step may overshoot
    inverse = _inverse_newton_matrix(slopes_derivative * ratios, matrix)
    stage = units * _solve(inverse, sum(columns[1:], start=columns[0]) * slopes / units)
    # the matrix is renewed once for all: it makes every later update smaller by another power of h
    points = base + stage
    inverse = _inverse_newton_matrix(jacobian(points) * ratios, matrix)
    update = _solve(inverse, residual(field(points), stage) / units)
    stage += units * update
    previous = _size(update)
    running = np.ones(count, dtype=bool)
    failed = np.zeros(count, dtype=bool)
    for _ in range(_MAXIMUM_ITERATIONS):
        check_time()
        points = base + stage
        slopes = field(points)
        update = _solve(inverse, residual(slopes, stage) / units)
        size = _size(update)
        if not math.isfinite(np.add.reduce(size)):
            failed |= ~np.isfinite(size) & running
            running &= ~failed
        small = size <= rounding
        running &= ~(small & (size >= previous)) & (size > _NOTHING)
        left = np.count_nonzero(running)
        if left == 0:
            break
        update *= units
        if left == count:
            stage += update
        else:
            np.add(stage, update, out=stage, where=running)
        # updates shrink by the same factor each time: the next one would be size^2 / previous
        running &= size * size > _FORESEEN * previous
        if np.count_nonzero(running) == 0:
            slopes = field(base + stage)
            break
        slow = running & ~small & (size > _SLOW * previous)
        if np.count_nonzero(slow):
            renewed = jacobian(base + stage)[:, :, :, slow] * ratios[:, :, :, slow]
            inverse[slow] = _inverse_newton_matrix(renewed, matrix)
        previous = size
    failed |= running
    if np.count_nonzero(failed):
        slopes[:, :, failed] = np.nan
    return slopes


def _inverse_newton_matrix(jacobian: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return inverses of I - h A (x) J, (trajectory, dim * stage, dim * stage).

    The Jacobian matrices have shape (dim, dim, stage, trajectory), with one stage if all are equal.
    """
    dim, _, _, count = jacobian.shape
    size = dim * len(matrix)
    if len(matrix) == 1:
        newton = -matrix[0, 0] * jacobian[:, :, 0]
    else:
        newton = -matrix[:, None, :, None] * jacobian[:, None]
    # chosen trajectories may lie in memory in another order: then a reshaped array is a copy
    newton = np.ascontiguousarray(newton)
    newton.reshape(size * size, count)[:: size + 1] += 1.0
    return inverse_matrices(newton.reshape(size, size, count).transpose(2, 0, 1))


def inverse_matrices(matrices: np.ndarray) -> np.ndarray:
    """Return inverses of a batch (trajectory, size, size); NaN for singular matrices."""
    result = np.empty(matrices.shape)
    together = max(_NUMBERS // max(matrices.shape[-1] ** 2, 1), 1)
    for start in range(0, len(matrices), together):
        check_time()
        part = slice(start, start + together)
        try:
            result[part] = np.linalg.inv(matrices[part])
        except np.linalg.LinAlgError:
            result[part] = [_inverse(matrix) for matrix in matrices[part]]
    return result


def _inverse(matrix: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return np.full(matrix.shape, np.nan)


def _solve(inverse: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the product with right-hand sides (dim, stage, trajectory) as a new array."""
    dim, stages, count = right.shape
    # contiguous, so that each product is the same computation whatever stands beside it
    vectors = np.ascontiguousarray(right.reshape(dim * stages, count).T)
    product = np.matmul(inverse, vectors[:, :, None])
    return np.ascontiguousarray(product[:, :, 0].T).reshape(dim, stages, count)


def step_scales(
    state: np.ndarray, slopes: np.ndarray, jacobian: np.ndarray, step: float
) -> np.ndarray:
    """Return the scale of each component of states (dim, trajectory), in any units.

    It is the largest of the component itself, of its change h f in a step, and of the terms h J_ij
    z_j of this change: a component that passes through zero has their rounding errors.
    """
    size = np.abs(state)
    terms = np.maximum.reduce(np.abs(jacobian) * size, axis=1)
    scales = np.maximum(size, step * np.maximum(np.abs(slopes), terms))
    return np.where((scales > 0) & (scales < np.inf), scales, 1.0)


def _size(update: np.ndarray) -> np.ndarray:
    return np.maximum.reduce(np.abs(update).reshape(-1, update.shape[-1]), axis=0)
