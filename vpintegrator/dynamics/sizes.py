"""Sizes that errors are relative to: of states, from their mean, and of invariants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from vpintegrator.dynamics.system import System

ROUNDING = 1e-12  # error of a state, relative to its size, that no solution is without


def spread_of(system: System, deviation: np.ndarray, moving: Sequence[int] | None = None) -> float:
    r"""Return the root of the sum of variances; that of an angle is at most a uniform one's.

    .. math:: \sqrt{\sum_i \min(\sigma_i^2, T_i^2 / 12)}

    Parameters
    ----------
    system
        System of the states.
    deviation
        Standard deviation of each component that moves, (moving,).
    moving
        Numbers of these components; by default those that move by the equations.
    """
    moving = system.moving if moving is None else moving
    period = np.array([system.periods.get(i, np.inf) for i in moving])
    return float(np.sqrt(np.sum(np.minimum(deviation**2, period**2 / 12))))


VANISHING = 1e-10  # an invariant this much smaller than elsewhere, or than its terms, is zero
_SAMPLED = 100  # orbits from which the size of an invariant's terms is taken
_ENTRIES = 1_000_000  # components of all their states with one left out


def terms_of(
    invariant: Callable[..., Any], initial: np.ndarray, parameters: np.ndarray | None = None
) -> float:
    """Return the largest size of the terms of an invariant at some of the states (trajectory, dim).

    They are seen by leaving out one component at a time: a sum that cancels does not any more. Of
    an invariant that also takes ``parameters`` these are (trajectory, name).
    """
    dim = initial.shape[-1]
    chosen = np.flatnonzero(np.isfinite(initial).all(axis=-1))
    chosen = chosen[: min(_SAMPLED, max(1, _ENTRIES // dim**2))]
    own = () if parameters is None else (parameters[chosen, None],)
    with np.errstate(all="ignore"):
        return largest_of(invariant(initial[chosen, None] * (1 - np.eye(dim)), *own))


def size_of(
    invariant: Callable[..., Any], initial: np.ndarray, parameters: np.ndarray | None = None
) -> float:
    """Largest value of an invariant at states (trajectory, dim), or of its terms where it cancels.

    A momentum that is zero in all orbits has the size of its terms: those of the rounding would
    make any change enormous.
    """
    own = () if parameters is None else (parameters,)
    with np.errstate(all="ignore"):
        value = largest_of(invariant(initial, *own))
        terms = terms_of(invariant, initial, parameters)
    return ensemble_size(np.array([value]), terms) or terms


def ensemble_size(first: np.ndarray, terms: float = 0.0) -> float:
    """Largest size of an invariant's first values (trajectory,), 0 where it vanishes in all orbits.

    Changes are divided by it: the value of a single orbit may be zero by chance. Values that are
    tiny beside the terms of the invariant are zero but for rounding.

    Parameters
    ----------
    first
        The first values of an invariant, (trajectory,).
    terms
        The largest size of the terms that it is a sum of, where known.

    Examples
    --------
    >>> ensemble_size(np.array([-2.0, 1e-9]))
    2.0
    >>> ensemble_size(np.array([1e-17, 3e-17]), terms=1.0)
    0.0
    """
    size = largest_of(first)
    return size if size > VANISHING * terms else 0.0


def largest_of(values: Any) -> float:
    """Return the largest finite size, 0 where there is none."""
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))
