"""How large an invariant is, and when it is zero but for rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_VANISHING = 1e-10  # an invariant this much smaller than elsewhere, or than its terms, is zero
_SAMPLED = 100  # orbits from which the size of an invariant's terms is taken
_ENTRIES = 1_000_000  # components of all their states with one left out


def terms_of(
    invariant: Callable[..., Any], initial: np.ndarray, parameters: np.ndarray | None = None
) -> float:
    """Largest size of the terms of an invariant at some of the states (trajectory, dim).

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
    return value if value > _VANISHING * terms else terms


def is_relative(first: np.ndarray, terms: float = 0.0) -> np.ndarray:
    """Whether an invariant's first values (trajectory,) are large enough to divide by.

    A value that is tiny beside those of the rest of the ensemble, or beside its own terms, is zero
    but for rounding.

    Parameters
    ----------
    first
        The first values of an invariant, (trajectory,).
    terms
        The largest size of the terms that it is a sum of, where known.

    Examples
    --------
    >>> vp.rollout.diagnostics.is_relative(np.array([2.0, 0.0]))
    array([ True, False])
    >>> vp.rollout.diagnostics.is_relative(np.array([1e-17, 3e-17]), terms=1.0)
    array([False, False])
    """
    size = np.abs(first)
    return size > _VANISHING * max(size.max(initial=0.0), terms)


def largest_of(values: Any) -> float:
    """Largest finite size, 0 where there is none."""
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))
