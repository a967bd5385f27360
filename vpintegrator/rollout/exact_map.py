"""The map of a discrete system itself, as a flow beside learned ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.rollout.cursor import Cursor
from vpintegrator.rollout.flow import NumericalFlow

_DIFFERENCE = 5e-4  # its fourth power and rounding over it are alike


class ExactMap(NumericalFlow):
    r"""Iteration of a discrete system, exact but for rounding.

    .. math:: z_{n+1} = M(z_n)

    Parameters
    ----------
    system
        A discrete system.

    Raises
    ------
    InputError
        If the system has a vector field instead, or no equations are known.

    Examples
    --------
    >>> system = vp.load_system('''
    ... state = ["q", "p"]
    ... [[map]]
    ... p = "p + sin(q)"
    ... [[map]]
    ... q = "q + p"
    ... ''')
    >>> vp.rollout.ExactMap(system).map(np.array([[[0.0, 1.0]]]))
    array([[[1., 1.]]])
    """

    kind = "exact"
    system: System

    def __init__(self, system: System) -> None:
        if not system.is_discrete:
            raise InputError(
                f"{system.name} is no map that could be iterated; name a method and a step"
            )
        self.name = self.method_name = self.title = "exact"
        self.description = f"the map of {system.name}"
        self.system, self.dim, self.step = system, system.dim, 1.0

    def map(self, windows: np.ndarray) -> np.ndarray:
        return self.system.map(windows)

    def derivative(self, windows: np.ndarray) -> np.ndarray:
        """Return the derivative: exact for a formula, by differences for a return map.

        Differences give about ten digits.
        """
        if self.system.flow is None:
            return self.system.map_jacobian(windows[:, 0])
        return differences(self.system.map, windows[:, 0])

    def start(self, first: np.ndarray) -> Cursor:
        return _MapCursor(self.system, first[:, 0])

    def resume(self, snapshot: Mapping[str, np.ndarray]) -> Cursor:
        return _MapCursor(self.system, snapshot["state"])


class _MapCursor(Cursor):
    def __init__(self, system: System, state: np.ndarray) -> None:
        self._system, self._state = system, np.array(state, dtype=np.float64)

    def advance(self, count: int) -> np.ndarray:
        states = np.empty((len(self._state), count, self._state.shape[1]))
        for k in range(count):
            states[:, k] = self._state = self._system.map(self._state)
        return states

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"state": self._state.copy()}


def differences(function: Callable[[np.ndarray], np.ndarray], states: np.ndarray) -> np.ndarray:
    """Return derivatives (n, dim, dim) of a map of states (n, dim), by fourth-order differences."""
    dim = states.shape[1]
    step = _DIFFERENCE * np.maximum(1.0, np.abs(states))
    result = np.empty((len(states), dim, dim))
    for k in range(dim):
        total = np.zeros_like(states)
        for places, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
            moved = states.copy()
            moved[:, k] += places * step[:, k]
            total += weight * function(moved)
        result[:, :, k] = total / (12 * step[:, k : k + 1])
    return result
