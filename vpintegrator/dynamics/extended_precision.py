"""Solutions in extended precision, by which others are judged.

Gragg's modified midpoint rule, extrapolated from 2, 4, ..., 16 steps to order 16 (Hairer, Norsett,
Wanner, Solving Ordinary Differential Equations I, section II.9), in NumPy's long double: 64 bits
instead of 53 on x86 processors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

IS_EXTENDED = bool(np.finfo(np.longdouble).eps < 1e-18)
_STEPS = range(2, 18, 2)
_EVALUATIONS = sum(_STEPS) + len(_STEPS)
_TOLERANCE = 1e-18  # error of a step, relative to the size of a component
_MOST_PARTS = 64  # parts of the time between outputs

Field = Callable[[np.ndarray], np.ndarray]


def solve_extended(
    field: Field, initial: np.ndarray, times: np.ndarray, most: float
) -> np.ndarray | None:
    """Return states (trajectory, time, dim) in long double.

    Parameters
    ----------
    field
        Components (dim, trajectory) of an autonomous vector field, of such components.
    initial
        (trajectory, dim).
    times
        Increasing, the first is that of the initial states.
    most
        Numbers of the field that may be computed.

    Returns
    -------
    numpy.ndarray or None
        None where that is not enough, as of stiff systems, or rounding is not that of long double.
    """
    z = initial.T.astype(np.longdouble)
    size = np.abs(z).max(axis=1)  # of each component, up to here
    found, parts, spent = [z], 1, 0.0
    for length in np.diff(times.astype(np.longdouble)):
        while True:
            new, error = z, np.longdouble(0.0)
            with np.errstate(all="ignore"):
                for _ in range(parts):
                    new, own = _step(field, new, length / parts)
                    larger = np.maximum(size, np.abs(new).max(axis=1))
                    relative = np.divide(own, larger, out=np.zeros_like(own), where=larger != 0)
                    error = np.maximum(error, relative.max())
            spent += parts * _EVALUATIONS * z.size
            if new.dtype != np.longdouble or spent > most or parts > _MOST_PARTS:
                return None
            if error <= _TOLERANCE:
                break
            parts *= 2
        z, size = new, np.maximum(size, np.abs(new).max(axis=1))
        found.append(z)
        parts = max(parts // 2, 1) if error < _TOLERANCE / 1e6 else parts
    return np.stack(found).transpose(2, 0, 1)


def _step(field: Field, z: np.ndarray, length: np.longdouble) -> tuple[np.ndarray, np.ndarray]:
    """Return the states after a step, and the largest last correction of each component."""
    row: list[np.ndarray] = []
    for number, steps in enumerate(_STEPS):
        h, before = length / steps, z
        state = z + h * field(z)
        for _ in range(steps - 1):
            before, state = state, before + 2 * h * field(state)
        new = [(before + state + h * field(state)) / 2]
        for k, coarser in enumerate(row):
            ratio = np.longdouble(steps) / _STEPS[number - k - 1]
            new.append(new[k] + (new[k] - coarser) / (ratio * ratio - 1))
        row = new
    return row[-1], np.abs(row[-1] - row[-2]).max(axis=1)
