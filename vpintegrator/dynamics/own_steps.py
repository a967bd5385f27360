"""DOP853 for many trajectories of autonomous equations at once, each with steps of its own.

Where a trajectory ends when it comes back to a section, all end at other times; then none has to
wait for another, and none is integrated beyond its end. The formulas and the control of steps are
those of Hairer, Norsett, Wanner, Solving ODEs I, II.10, as in :class:`scipy.integrate.DOP853`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy  # loads scipy.integrate when it is used

Field = Callable[[np.ndarray, np.ndarray], np.ndarray]  # components and parameters, by trajectory
_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10.0  # safety factor, and bounds of the change of a step
_ORDER = 8


class OwnSteps:
    """A step of DOP853 with the error of it, for states (dim, trajectory).

    Parameters
    ----------
    field
        f of components (dim, trajectory) and parameters (name, trajectory).
    rtol, atol
        Tolerances of the local error of every single trajectory.

    Examples
    --------
    >>> from vpintegrator.dynamics.own_steps import OwnSteps
    >>> formulas = OwnSteps(lambda z, _: z, 1e-12, 1e-12)
    >>> state, none = np.ones((1, 2)), np.empty((0, 2))
    >>> formulas.states(state, state, np.array([0.1, 0.2]), none)[0]
    array([1.10517..., 1.22140...])
    """

    def __init__(self, field: Field, rtol: float, atol: float) -> None:
        self.field, self._rtol, self._atol = field, rtol, atol
        method = scipy.integrate.DOP853
        self._a = [method.A[s, :s] for s in range(method.n_stages)]
        self._b, self._e3, self._e5 = method.B, method.E3, method.E5

    def states(
        self, state: np.ndarray, rate: np.ndarray, step: np.ndarray, parameters: np.ndarray
    ) -> np.ndarray:
        """States (dim, trajectory) after steps (trajectory,); ``rate`` is f at the beginning."""
        return self._stages(state, rate, step, parameters)[1]

    def step(
        self, state: np.ndarray, rate: np.ndarray, step: np.ndarray, parameters: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return states after a step, f there, and errors (trajectory,), accepted up to 1."""
        stages, new = self._stages(state, rate, step, parameters)
        stages[-1] = self.field(new, parameters)
        scale = self._atol + self._rtol * np.maximum(np.abs(state), np.abs(new))
        rows = stages.reshape(len(stages), -1)
        fifth = (((self._e5 @ rows).reshape(state.shape) / scale) ** 2).sum(axis=0)
        third = (((self._e3 @ rows).reshape(state.shape) / scale) ** 2).sum(axis=0)
        weight = np.sqrt((fifth + 0.01 * third) * len(state))
        error = np.abs(step) * np.divide(fifth, weight, out=np.zeros_like(fifth), where=weight != 0)
        return new, stages[-1].copy(), error

    def first_step(self, state: np.ndarray, rate: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Return steps to begin with (Hairer, Norsett, Wanner, II.4)."""
        scale = self._atol + self._rtol * np.abs(state)
        size, speed = (np.sqrt(((v / scale) ** 2).mean(axis=0)) for v in (state, rate))
        guess = np.where((size < 1e-5) | (speed < 1e-5), 1e-6, 0.01 * size / speed)
        ahead = self.field(state + guess * rate, parameters)
        bend = np.sqrt((((ahead - rate) / scale) ** 2).mean(axis=0)) / guess
        largest = np.maximum(speed, bend)
        second = (0.01 / np.maximum(largest, 1e-300)) ** (1 / _ORDER)
        return np.minimum(100 * guess, np.where(largest <= 1e-15, np.maximum(1e-6, guess), second))

    @staticmethod
    def changed(step: np.ndarray, error: np.ndarray) -> np.ndarray:
        """Return the next steps, from the errors of these; shorter where an error is not finite."""
        factor = _SAFETY * np.maximum(error, 1e-30) ** (-1 / _ORDER)
        factor = np.where(error > 1, np.minimum(factor, 1.0), factor)
        return step * np.where(np.isfinite(error), np.clip(factor, _LEAST, _MOST), _LEAST)

    def _stages(
        self, state: np.ndarray, rate: np.ndarray, step: np.ndarray, parameters: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        count = len(self._a)
        stages = np.empty((count + 1, *state.shape))
        rows = stages.reshape(count + 1, -1)
        stages[0] = rate
        for s in range(1, count):
            moved = (self._a[s] @ rows[:s]).reshape(state.shape)
            moved *= step
            moved += state
            stages[s] = self.field(moved, parameters)
        return stages, state + step * (self._b @ rows[:count]).reshape(state.shape)
