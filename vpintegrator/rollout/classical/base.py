"""What every classical method is, and the loop that iterates a one-step method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from vpintegrator.dynamics import System
from vpintegrator.rollout.cursor import Cursor


@dataclass(frozen=True, kw_only=True)
class ClassicalMethod(ABC):
    """A numerical method for systems z' = f(z), sampled at a fixed step.

    A method holds its coefficients and no state, so one instance serves every system.

    Attributes
    ----------
    name
        Name on the command line, such as ``implicit-midpoint``.
    title
        Name in tables and figures.
    order
        Order of convergence.
    symplectic
        Whether Phi_h is symplectic for every Hamiltonian system the method applies to.
    volume_preserving
        Whether det DPhi_h = 1 for every divergence-free system the method applies to.
    symmetric
        Whether Phi_{-h} is the inverse of Phi_h.
    source
        Paper or book, with the equation or section.
    """

    name: str
    title: str
    order: int
    symplectic: bool = False
    volume_preserving: bool = False
    symmetric: bool = False
    source: str

    def check(self, system: System) -> None:  # noqa: B027 (most methods apply to every system)
        """Say why the method does not apply to a system, if it does not.

        Raises
        ------
        InputError
            If it does not.
        """

    @abstractmethod
    def start(self, system: System, initial: np.ndarray, step: float) -> Cursor:
        """Trajectories from initial states (trajectory, dim), of which the first is not given."""

    @abstractmethod
    def resume(self, system: System, snapshot: Mapping[str, np.ndarray], step: float) -> Cursor:
        """Trajectories from a snapshot of such a cursor."""


@dataclass(frozen=True, kw_only=True)
class OneStepMethod(ClassicalMethod):
    """A method that is a map z -> Phi_h(z), the same at every step."""

    @abstractmethod
    def increment(self, system: System, state: np.ndarray, step: float) -> np.ndarray:
        """Phi_h(z) - z, shape (trajectory, dim), for states (trajectory, dim).

        The increment, and not the new state, so that whoever adds it up can carry along what
        rounding cuts off. A trajectory whose step cannot be computed gets NaN.
        """

    @abstractmethod
    def derivative(self, system: System, state: np.ndarray, step: float) -> np.ndarray:
        """DPhi_h(z), shape (trajectory, dim, dim), by differentiating the method's formulas.

        This is exact up to rounding: the system's own Jacobian goes through the same formulas as
        the vector field does (the method applied to the variational equation).
        """

    def step(self, system: System, state: np.ndarray, step: float) -> np.ndarray:
        """Phi_h(z) for states of shape (..., dim); NaN where the step cannot be computed."""
        state = np.asarray(state, dtype=np.float64)
        rows = state.reshape(-1, system.dim)
        with np.errstate(all="ignore"):
            return (rows + self.increment(system, rows, step)).reshape(state.shape)


    @final
    def start(self, system: System, initial: np.ndarray, step: float) -> Cursor:
        state = np.array(initial, dtype=np.float64)
        return _Iteration(self, system, step, state, np.zeros_like(state))

    @final
    def resume(self, system: System, snapshot: Mapping[str, np.ndarray], step: float) -> Cursor:
        return _Iteration(self, system, step, snapshot["state"], snapshot["carry"])


class _Iteration(Cursor):
    """z, Phi_h(z), Phi_h(Phi_h(z)), ...

    The increments are added up by compensated summation, so that rounding errors grow like those
    of a single addition per step (Hairer, Lubich, Wanner, Geometric Numerical Integration,
    section VIII.5; Hairer, McLachlan, Razakarivony, BIT 48 (2008) 231-243). A trajectory that is
    no longer finite is NaN from there on, and costs nothing any more.
    """

    def __init__(
        self,
        method: OneStepMethod,
        system: System,
        step: float,
        state: np.ndarray,
        carry: np.ndarray,
    ) -> None:
        self._method, self._system, self._step = method, system, step
        self._state, self._carry = state.copy(), carry.copy()
        finite = np.isfinite(state).all(axis=-1)
        # indices of those still finite, or None for all of them
        self._alive: np.ndarray | None = None if finite.all() else np.flatnonzero(finite)

    def advance(self, count: int) -> np.ndarray:
        states = np.empty((count, *self._state.shape))
        with np.errstate(all="ignore"):
            for k in range(count):
                self._advance()
                states[k] = self._state
        return states.transpose(1, 0, 2)

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"state": self._state.copy(), "carry": self._carry.copy()}

    def _advance(self) -> None:
        alive = self._alive
        if alive is None:
            state, carry = self._state, self._carry
        elif len(alive):
            state, carry = self._state[alive], self._carry[alive]
        else:
            return
        increment = self._method.increment(self._system, state, self._step)
        increment += carry
        new = state + increment
        # what the addition cut off (exact, as the increment is smaller than the state; else
        # harmless)
        carry = increment - (new - state)
        if alive is None:
            self._state, self._carry = new, carry
        else:
            self._state[alive], self._carry[alive] = new, carry
        # the sum is finite in all but absurd cases where all terms are, and far cheaper
        if not np.isfinite(new.sum()):
            finite = np.isfinite(self._state).all(axis=-1)
            self._state[~finite] = np.nan
            self._alive = np.flatnonzero(finite)
