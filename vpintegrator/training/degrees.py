"""Polynomials that suit the data: weights of components in the degree, and components as angles.

The flow of most systems is far smoother in some components than in others: kinetic energies are
quadratic, potentials are not. Equally many terms err a thousandth where the degree counts the
components by weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vpintegrator.nn.basis import Univariate, families, terms
from vpintegrator.runtime.interrupts import check_time

TURN = 2 * math.pi
PERIODS = (TURN, 1.0, 360.0)  # of angles in the usual units

Error = Callable[[Sequence[float], Mapping[int, float]], float]


def scaled_weights(
    rates: np.ndarray, degree: int, count: int, periodic: Sequence[int] = ()
) -> tuple[float, ...]:
    """Return weights in proportion to rates, for so many terms of a degree, or a few more.

    Parameters
    ----------
    rates : (component,)
        Positive numbers.
    degree
        Degree of the polynomials.
    count
        Number of terms.
    periodic
        Components that are angles.

    Examples
    --------
    >>> from vpintegrator.training.degrees import scaled_weights
    >>> weights = scaled_weights(np.array([1.0, 2.0]), degree=6, count=20)
    >>> round(weights[1] / weights[0], 3)
    2.0
    """
    kinds: list[Univariate] = families(len(rates), periodic)
    most = 50 * count
    low = -3.0
    high = 3.0
    unit = rates / np.exp(np.log(rates).mean())

    def weights(exponent: float) -> tuple[float, ...]:
        scaled = np.clip(unit * 2.0**exponent, 1 / 16, 16.0)
        return tuple(float(f"{weight:.4g}") for weight in scaled)

    for _ in range(12):
        middle = (low + high) / 2
        try:
            number = len(terms(degree, kinds, most=most, weights=weights(middle)))
        except ValueError:  # too many
            number = most
        if number > count:
            low = middle
        else:
            high = middle
    return weights(low)


def relative_rates(
    error: Callable[[np.ndarray], float],
    ties: Sequence[Sequence[int]],
    factor: float = 2.5,
    gain: float = 0.9,
    trials: int = 60,
) -> np.ndarray:
    """Return rates (component,) that minimise an error, component by component.

    A rate is multiplied or divided by the factor as long as the error falls to ``gain`` times what
    it was; then the factor is replaced by its root.

    Parameters
    ----------
    error
        Error at rates, whose common factor does not count.
    ties
        Components that have the same rate.
    factor, gain, trials
        First factor, what counts as a gain, and most evaluations of the error.
    """
    rates = np.ones(sum(map(len, ties)))
    known: dict[bytes, float] = {}

    def error_of(trial: np.ndarray) -> float:
        key = np.log(trial).round(6).tobytes()
        if key not in known:
            check_time()
            known[key] = error(trial)
        return known[key]

    least = error_of(rates)
    step = factor
    while step > factor**0.2 and len(known) < trials:
        before = least
        for tied, change in itertools.product(ties, (step, 1 / step)):
            while len(known) < trials:
                trial = rates.copy()
                trial[[*tied]] *= change
                if not (value := error_of(trial)) < gain * least:
                    break
                rates = trial
                least = value
        if least == before:
            step = math.sqrt(step)
    return rates


def apparent_angles(
    widths: np.ndarray,
    error: Callable[[Mapping[int, float]], float],
    gain: float = 0.5,
    periods: Sequence[float] = PERIODS,
) -> dict[int, float]:
    """Return the components that maps take for angles with a gain, with their periods.

    Components are tried together first, and those are left out that gain nothing; then one by one.

    Parameters
    ----------
    widths : (component,)
        Ranges of the training states. A component may be an angle where they fill half a period.
    error
        Error of a map with these angles.
    gain
        Error with an angle, relative to that without, up to which it is taken.
    periods
        Periods that are tried.
    """
    angles: dict[int, float] = {}
    least = error(angles)
    for period in periods:
        free = [i for i in possible_angles(widths, period) if i not in angles]
        if len(free) > 1:
            trial = angles | dict.fromkeys(free, period)
            check_time()
            if (value := error(trial)) < gain * least:
                angles = trial
                least = value
                for i in free:
                    trial = {k: each for k, each in angles.items() if k != i}
                    if gain * (value := error(trial)) < least:
                        angles = trial
                        least = value
                continue
        for i in free:
            check_time()
            trial = angles | {i: period}
            if (value := error(trial)) < gain * least:
                angles = trial
                least = value
    return angles


def possible_angles(widths: np.ndarray, period: float, least: float = 0.5) -> list[int]:
    """Return the components whose widths (component,) are such a part of a period, or more."""
    return [i for i, width in enumerate(widths) if least <= width / period <= 30]


def reversals(count: int) -> list[tuple[float, ...]]:
    """Return the changes of signs (component,) that turn the symplectic form.

    Components are positions and then momenta; the reversal of all momenta comes first.

    Examples
    --------
    >>> from vpintegrator.training.degrees import reversals
    >>> reversals(2)
    [(1.0, -1.0), (-1.0, 1.0)]
    """
    signs = itertools.product((1.0, -1.0), repeat=count // 2)
    return [(*own, *(-sign for sign in own)) for own in signs]


def odd_products(signs: Sequence[tuple[float, ...]]) -> set[tuple[float, ...]]:
    """Return the products of three, five, ... changes of signs, and these themselves."""
    products = {*signs}
    for first, second in itertools.combinations(signs, 2):
        even = [a * b for a, b in zip(first, second, strict=True)]
        products |= {tuple(a * b for a, b in zip(even, each, strict=True)) for each in products}
    return products


def tied_components(symmetries: np.ndarray, count: int) -> list[list[int]]:
    """Return groups of the first components that matrices (symmetry, dim, dim) exchange."""
    connected = np.eye(count, dtype=bool)
    if len(symmetries):
        connected |= (np.abs(symmetries[:, :count, :count]) > 1e-9).any(0)
    connected |= connected.T
    for _ in range(count):
        connected = connected @ connected
    return [np.flatnonzero(row).tolist() for row in np.unique(connected, axis=0)]
