"""Derivatives of functions that are called: by PyTorch's autograd, else by finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from vpintegrator.dynamics.arrays import as_given, float_array

AUTOGRAD, DIFFERENCES = "autograd", "finite differences"
_STEP = 2e-3  # relative; a central difference of order 6 then errs by some 1e-13
_WEIGHTS = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))


class BatchFunction(Protocol):
    """A function of states (state, dim) and its library."""

    library: str

    def __call__(self, states: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return values (state, count)."""

    def tensors(self, states: Any, times: Any) -> Any:
        """Return values of tensors, with a graph for autograd."""


def derivatives(
    function: BatchFunction, states: np.ndarray, times: np.ndarray, size: float = _STEP
) -> np.ndarray:
    """Return derivatives (state, count, dim + 1) of a function by the components, and by the time.

    Parameters
    ----------
    function
        The function.
    states, times
        States (state, dim) and times (state,) at which to differentiate.
    size
        Relative size of finite differences, of order 6.
    """
    if function.library == "torch":
        return _by_autograd(function, states, times)
    return _by_differences(function, states, times, size)


def _by_autograd(function: BatchFunction, states: np.ndarray, times: np.ndarray) -> np.ndarray:
    import torch

    with torch.enable_grad():
        y = torch.tensor(states, dtype=torch.float64, requires_grad=True)
        t = torch.tensor(times, dtype=torch.float64, requires_grad=True)
        values = function.tensors(y, t)
        rows = []
        for k in range(values.shape[1]):
            if not values.requires_grad:
                rows.append(np.zeros((len(states), states.shape[1] + 1)))
                continue
            slopes = torch.autograd.grad(
                values[:, k].sum(), (y, t), retain_graph=True, allow_unused=True
            )
            of_y, of_t = (
                np.zeros(shape) if slope is None else slope.detach().numpy()
                for slope, shape in zip(slopes, (states.shape, times.shape), strict=True)
            )
            rows.append(np.concatenate([of_y, of_t[:, None]], axis=1))
    return np.stack(rows, axis=1)


def _by_differences(
    function: BatchFunction, states: np.ndarray, times: np.ndarray, relative: float
) -> np.ndarray:
    points = np.concatenate([states, times[:, None]], axis=1)
    columns = []
    for j in range(points.shape[1]):
        size = relative * np.maximum(1.0, np.abs(points[:, j]))
        total: Any = 0.0
        for number, weight in _WEIGHTS:
            ahead, behind = points.copy(), points.copy()
            ahead[:, j] += number * size
            behind[:, j] -= number * size
            both = np.concatenate([ahead, behind])
            values = function(both[:, :-1], both[:, -1])
            values = values.reshape(len(both), -1)
            total = total + weight * (values[: len(points)] - values[len(points) :])
        columns.append(total / size[:, None])
    return np.stack(columns, axis=-1)


class ScalarOfStates:
    """A scalar function of states (..., dim) with what autograd needs, such as an invariant.

    Parameters
    ----------
    values
        The function of states (state, dim) without the time, and times.
    dim
        Number of components without the time.
    timed
        Whether the last component of a state is the time.
    name
        Name for its repr.
    """

    def __init__(
        self,
        values: Callable[[np.ndarray, np.ndarray], np.ndarray],
        dim: int,
        timed: bool,
        name: str,
    ) -> None:
        self.values, self._dim, self._timed, self._name = values, dim, timed, name

    def __repr__(self) -> str:
        return f"<{self._name}: a function of states (..., {self._dim + self._timed})>"

    def __call__(self, state: Any) -> Any:
        """Return values (...), an array of an array and a tensor of a tensor."""
        array = float_array(state)
        rows = array.reshape(-1, array.shape[-1])
        times = rows[:, -1] if self._timed else np.zeros(len(rows))
        found = self.values(rows[:, : self._dim], times)
        return as_given(found.reshape(array.shape[:-1]), state)
