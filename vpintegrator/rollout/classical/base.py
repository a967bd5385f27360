"""What every classical one-step method is, and the loop that iterates it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vpintegrator.dynamics import System


@dataclass(frozen=True, kw_only=True)
class OneStepMethod(ABC):
    """A map z -> Phi_h(z) that approximates the flow of a system over the time ``h``.

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


def iterate(
    method: OneStepMethod, system: System, initial: np.ndarray, step: float, steps: int
) -> Iterator[np.ndarray]:
    """Yield the states (trajectory, dim) after each of ``steps`` steps.

    The increments are added up by compensated summation, so that rounding errors grow like those
    of a single addition per step (Hairer, Lubich, Wanner, Geometric Numerical Integration,
    section VIII.5; Hairer, McLachlan, Razakarivony, BIT 48 (2008) 231-243). A trajectory that is
    no longer finite is NaN from there on, and costs nothing any more. The array yielded must not
    be changed.
    """
    state = np.array(initial, dtype=np.float64)
    carry = np.zeros_like(state)
    alive: np.ndarray | None = None  # all of them, as long as it is None
    for _ in range(steps):
        with np.errstate(all="ignore"):
            if alive is None:
                state, carry = _advance(method, system, state, carry, step)
            elif len(alive):
                state, carry = state.copy(), carry.copy()
                state[alive], carry[alive] = _advance(
                    method, system, state[alive], carry[alive], step
                )
            # the sum is finite in all but absurd cases where all terms are, and far cheaper
            if not np.isfinite(state.sum() if alive is None else state[alive].sum()):
                finite = np.isfinite(state).all(axis=-1)
                state[~finite] = np.nan
                alive = np.flatnonzero(finite)
        yield state


def _advance(
    method: OneStepMethod, system: System, state: np.ndarray, carry: np.ndarray, step: float
) -> tuple[np.ndarray, np.ndarray]:
    increment = method.increment(system, state, step)
    increment += carry
    new = state + increment
    # what the addition cut off (exact, as the increment is smaller than the state; else harmless)
    carry = increment - (new - state)
    return new, carry
