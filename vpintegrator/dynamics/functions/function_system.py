"""Systems whose vector field is a Python function that no formulas say."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vpintegrator.dynamics.arrays import is_tensor
from vpintegrator.dynamics.functions.calls import Values
from vpintegrator.dynamics.functions.derivatives import ScalarOfStates, derivatives
from vpintegrator.dynamics.system import System
from vpintegrator.errors import InputError


def reduced(name: str, remade: Callable[..., Any]) -> tuple[Any, ...]:
    """Return how pickle makes a system of a Python function again in another process.

    Raises
    ------
    InputError
        If the function cannot be pickled, as it is no function of a module.
    """
    try:
        pickle.dumps(remade)
    except Exception:
        raise InputError(
            f"{name} cannot be sent to other processes, as its function is no function of a "
            "module; define it at the top of a file, or take one worker"
        ) from None
    return remade, ({},)


class FunctionSystem(System):
    """A system of a function that is called; made by :meth:`vpintegrator.System.from_function`.

    Its text says its name and its claims, and no code.

    Parameters
    ----------
    text, name, source
        Arguments of :class:`vpintegrator.System`.
    field
        The vector field of states (state, dim) without the time, and times.
    scalars
        Invariants that no formulas say, by name.
    remade
        Makes it again with other parameters.
    reason
        Why the function is no formula.
    """

    def __init__(
        self,
        text: str,
        name: str,
        source: str,
        field: Values,
        scalars: Mapping[str, Any],
        remade: Callable[[Mapping[str, Any]], System],
        reason: str,
    ) -> None:
        super().__init__(text, name, source=source)
        self._values, self._remade, self.reason = field, remade, reason
        timed = self.clock is not None
        for key, values in scalars.items():
            self.invariants[key] = ScalarOfStates(values, self.phase_dim, timed, key)

    @property
    def is_measured(self) -> bool:
        return False

    @property
    def structure(self) -> str:
        if self.is_canonical:
            return "Hamiltonian"
        return "divergence-free" if self.divergence_free else "not divergence-free"

    def require_formulas(self, what: str) -> None:
        raise InputError(
            f"{what} needs formulas, but {self.name} is a Python function that was not recorded as "
            f"formulas ({self.reason})"
        )

    def with_parameters(self, values: Mapping[str, Any]) -> System:
        return self._remade(values)

    def vector_field(self, state: Any, parameters: Any = None) -> Any:
        array = self._array(state)
        found = self._rates(array.reshape(-1, self.dim)).reshape(array.shape)
        return state.new_tensor(found) if is_tensor(state) else found

    def vector_field_by_component(self, components: np.ndarray) -> np.ndarray:
        rows = components.reshape(self.dim, -1).T
        return np.ascontiguousarray(self._rates(rows).T).reshape(components.shape)

    def jacobian(self, state: Any) -> Any:
        array = self._array(state)
        found = self._slopes(array.reshape(-1, self.dim))
        found = found.reshape(*array.shape, self.dim)
        return state.new_tensor(found) if is_tensor(state) else found

    def jacobian_by_component(self, components: np.ndarray) -> np.ndarray:
        found = self._slopes(components.reshape(self.dim, -1).T)
        return np.moveaxis(found, 0, -1).reshape(self.dim, *components.shape)

    def hamiltonian(self, state: Any) -> Any:
        if "energy" in self.invariants and self.is_canonical:
            return self.invariants["energy"](state)
        return super().hamiltonian(state)

    def divergence(self, state: Any) -> Any:
        slopes = self.jacobian(state)
        return slopes.diagonal(0, -2, -1).sum(-1)

    def _array(self, state: Any) -> np.ndarray:
        state = self.checked_state(state)
        array = np.asarray(state.detach().cpu() if is_tensor(state) else state)
        return array.astype(np.float64)

    def _timed(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        times = np.zeros(len(rows)) if self.clock is None else rows[:, -1]
        return rows[:, : self.phase_dim], times

    def _rates(self, rows: np.ndarray) -> np.ndarray:
        result = np.ones((len(rows), self.dim))
        if len(rows):
            result[:, : self.phase_dim] = self._values(*self._timed(rows))
        return result

    def _slopes(self, rows: np.ndarray) -> np.ndarray:
        result = np.zeros((len(rows), self.dim, self.dim))
        if len(rows):
            found = derivatives(self._values, *self._timed(rows))
            result[:, : self.phase_dim] = found[..., : self.dim]
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self.name, self._remade)
