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
    """Formulas as a function of states (..., dim), made for a library when first called.

    Where parameters are left open, it is a function of their values (..., name), too.
    """

    def __init__(self, equations: Equations, expressions: Sequence[Value]) -> None:
        self._dim, self._open = len(equations.symbols), len(equations.open)
        self.made = cache(lambda library: vectorised(expressions, equations.arguments, library))

    def __call__(self, state: Any, parameters: Any = None) -> Any:
        """Return the values of the expressions, (..., expression)."""
        if not is_tensor(state):
            state = as_array(state)
        if self._open:
            return self._of_both(state, as_array(() if parameters is None else parameters))
        if not state.shape or state.shape[-1] != self._dim:
            raise InputError(
                f"a state of this system has {self._dim} components in its last dimension, but the "
                f"array given has shape {tuple(state.shape)}"
            )
        if is_tensor(state):
            return stack_torch(self.made("torch")(*state.unbind(-1)), state[..., 0])
        return stack_numpy(self.made("numpy")(*np.moveaxis(state, -1, 0)), state[..., 0])

    def _of_both(self, state: Any, parameters: np.ndarray) -> np.ndarray:
        """Return values at states and parameters, as NumPy arrays."""
        state = np.asarray(state)
        if (*state.shape[-1:], *parameters.shape[-1:]) != (self._dim, self._open):
            raise InputError(
                f"states (..., {self._dim}) and parameters (..., {self._open}) are needed, but the "
                f"arrays given have shapes {state.shape} and {parameters.shape}"
            )
        shape = np.broadcast_shapes(state.shape[:-1], parameters.shape[:-1])
        columns = [*np.moveaxis(state, -1, 0), *np.moveaxis(parameters, -1, 0)]
        return stack_numpy(self.made("numpy")(*columns), np.empty(shape))

    def by_component(self, components: np.ndarray, parameters: Any = ()) -> list[Any]:
        """Return the values of the expressions one by one, of components (dim, ...).

        ``parameters`` are the values of open parameters, one by one.
        """
        if len(parameters) != self._open:
            raise InputError("parameters of this system are left open; their values are needed")
        return self.made("numpy")(*components, *parameters)


class ScalarFunction(StateFunction):
    """A scalar function of the state."""

    def __init__(self, equations: Equations, expression: Value, name: str) -> None:
        super().__init__(equations, [expression])
        self.expression, self._name = expression, name

    def __repr__(self) -> str:
        return f"<{self._name}: a function of states (..., {self._dim})>"

    def __call__(self, state: Any, parameters: Any = None) -> Any:
        return super().__call__(state, parameters)[..., 0]


class MatrixFunction(StateFunction):
    """A square matrix of formulas, given by its entries that are not identically zero."""

    def __init__(self, equations: Equations, entries: dict[tuple[int, int], Value]) -> None:
        super().__init__(equations, list(entries.values()))
        self._positions = list(entries)

    def __call__(self, state: Any, parameters: Any = None) -> Any:
        """Return matrices (..., dim, dim)."""
        entries = super().__call__(state, parameters)
        shape = (*entries.shape[:-1], self._dim, self._dim)
        new = entries.new_zeros(shape) if is_tensor(entries) else np.zeros(shape, entries.dtype)
        rows, columns = np.array(self._positions, int).reshape(-1, 2).T
        new[..., rows, columns] = entries
        return new

    def matrices_by_component(self, components: np.ndarray) -> np.ndarray:
        """Return matrices (dim, dim, ...) of components (dim, ...)."""
        result = np.zeros((self._dim, *components.shape), dtype=components.dtype)
        for place, value in zip(self._positions, self.by_component(components), strict=True):
            result[place] = value
        return result
