"""Declared properties of a system that is given as a Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Claims:
    """Declared properties of a function; each is checked.

    Attributes
    ----------
    hamiltonian
        H of a state (q, p), as a function like the vector field.
    divergence_free
        Whether the flow preserves phase-space volume; None to find out.
    reversing_symmetries
        Matrices (dim, dim), or the signs on their diagonals, with f(rho z) = -rho f(z).
    invariants
        Functions of the state that are constant along solutions, by name.
    periodic
        Angles: periods by the name of the component, or a list of names for periods of 2 pi.
    period
        Period in time of a function that depends on time; None if there is no period.
    """

    hamiltonian: Callable[..., Any] | None = None
    divergence_free: bool | None = None
    reversing_symmetries: Sequence[Any] = ()
    invariants: Mapping[str, Callable[..., Any]] | None = None
    periodic: Mapping[str, float | str] | Sequence[str] | None = None
    period: float | str | None = None
