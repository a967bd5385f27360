"""Formulas as functions of states, for NumPy and torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from vpintegrator.dynamics.arrays import as_array, is_tensor, stack_numpy, stack_torch
from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import Value, vectorised
from vpintegrator.errors import InputError


class StateFunction:
    """Formulas as a function of states (..., dim), made for a library when first called."""

    def __init__(self, equations: Equations, expressions: Sequence[Value]) -> None:
        self._dim = len(equations.symbols)
        self.made = cache(lambda library: vectorised(expressions, equations.symbols, library))

    def __call__(self, state: Any) -> Any:
        """Return the values of the expressions, (..., expression)."""
        if not is_tensor(state):
            state = as_array(state)
        if not state.shape or state.shape[-1] != self._dim:
            raise InputError(
                f"a state of this system has {self._dim} components in its last dimension, but the "
                f"array given has shape {tuple(state.shape)}"
            )
        if is_tensor(state):
            return stack_torch(self.made("torch")(*state.unbind(-1)), state[..., 0])
        return stack_numpy(self.made("numpy")(*np.moveaxis(state, -1, 0)), state[..., 0])


class ScalarFunction(StateFunction):
    """A scalar function of the state."""

    def __init__(self, equations: Equations, expression: Value, name: str) -> None:
        super().__init__(equations, [expression])
        self.expression, self._name = expression, name

    def __repr__(self) -> str:
        return f"<{self._name}: a function of states (..., {self._dim})>"

    def __call__(self, state: Any) -> Any:
        return super().__call__(state)[..., 0]


def as_matrices(entries: Any, positions: Sequence[tuple[int, int]], dim: int) -> Any:
    """Matrices (..., dim, dim) of their entries (..., entry) that are not identically zero."""
    shape = (*entries.shape[:-1], dim, dim)
    new = entries.new_zeros(shape) if is_tensor(entries) else np.zeros(shape, entries.dtype)
    rows, columns = np.array(positions, int).reshape(-1, 2).T
    new[..., rows, columns] = entries
    return new
