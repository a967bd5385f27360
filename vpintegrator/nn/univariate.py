"""Families of functions of one variable, u_0 = 1 among each: what terms are products of.

All of them are even or odd, so that a change of a variable's sign is one of the functions' signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import torch

RADIUS = 3.0  # standard deviations that Chebyshev polynomials take for their interval [-1, 1]


class Univariate(Enum):
    """A family of functions of one variable.

    ``POLYNOMIALS`` are Chebyshev polynomials, ``HARMONICS`` sines and cosines of an angle, and
    ``RATES`` the products of a variable with Chebyshev polynomials of it, all of which but u_0
    vanish with it: u_n has the parity of the polynomial of degree n. ``SECULAR`` are u_1(x) = x,
    of which the derivative alone is periodic, and the harmonics after it.
    """

    POLYNOMIALS = "polynomials"
    HARMONICS = "harmonics"
    RATES = "rates"
    SECULAR = "secular"

    @property
    def is_angle(self) -> bool:
        """Whether the variable is an angle, or cyclic: measured in its own unit."""
        return self in (Univariate.HARMONICS, Univariate.SECULAR)

    def values(self, x: torch.Tensor, degree: int) -> list[torch.Tensor]:
        """Return u_0, u_1, ... at x, up to a degree, or of angles up to that order."""
        if self is Univariate.HARMONICS:
            return harmonics(x, degree)
        if self is Univariate.SECULAR:
            one, *others = harmonics(x, degree)
            return [one, x, *others]
        if self is Univariate.RATES:
            return rates(x, degree)
        return chebyshev(x, degree)

    def derivatives(self, x: torch.Tensor, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return derivatives by x of the ``values``; none of rates, which are constant."""
        if self is Univariate.HARMONICS:
            return harmonic_derivatives(x, values)
        if self is Univariate.SECULAR:
            zero, *others = harmonic_derivatives(x, [values[0], *values[2:]])
            return [zero, values[0], *others]
        assert self is Univariate.POLYNOMIALS
        return chebyshev_derivatives(x, values)

    def second_derivatives(
        self, x: torch.Tensor, values: list[torch.Tensor], slopes: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Return second derivatives by x, from the values and the first ``derivatives``."""
        if self is Univariate.HARMONICS:
            return harmonic_derivatives(x, slopes)
        if self is Univariate.SECULAR:
            zero, *others = harmonic_derivatives(x, [slopes[0], *slopes[2:]])
            return [zero, zero, *others]
        assert self is Univariate.POLYNOMIALS
        return chebyshev_second_derivatives(x, values, slopes)

    def orders(self, degree: int) -> list[int]:
        """Return the order of each function: what a term's degree is the sum of."""
        if self is Univariate.HARMONICS:
            return [0, *(n for n in range(1, degree + 1) for _ in range(2))]
        if self is Univariate.SECULAR:
            return [0, 1, *(n for n in range(1, degree + 1) for _ in range(2))]
        return list(range(degree + 1))

    def is_odd(self, index: int) -> bool:
        """Whether the function of this index changes its sign with its argument."""
        if self is Univariate.HARMONICS:
            return index > 0 and index % 2 == 0
        return index % 2 == 1


def families(
    count: int, periodic: Sequence[int] = (), rates: Sequence[int] = ()
) -> list[Univariate]:
    """Return the family of each of so many variables, of which some are angles and some rates."""
    found = [Univariate.POLYNOMIALS] * count
    for index in periodic:
        if index < count:
            found[index] = Univariate.HARMONICS
    for index in rates:
        found[index] = Univariate.RATES
    return found


def chebyshev(x: torch.Tensor, degree: int) -> list[torch.Tensor]:
    """Return T_0 ... T_degree of x / RADIUS, by T_{n+2} = 2 T_2 T_n - T_{n-2}.

    Even and odd ones are computed apart: where symmetries leave one kind, the other costs nothing.
    """
    double = (4 / RADIUS**2) * (x * x) - 2  # 2 T_2
    x = x * (1 / RADIUS)
    values = [torch.ones_like(x), x, 0.5 * double]
    while len(values) <= degree:
        values.append(double * values[-2] - values[abs(len(values) - 4)])
    return values[: degree + 1]


def rates(x: torch.Tensor, degree: int) -> list[torch.Tensor]:
    """Return 1, and T_1 T_0 ... T_1 T_{degree-1} of x / RADIUS."""
    one, *others = chebyshev(x, degree)
    if not others:
        return [one]
    return [one, others[0], *(others[0] * value for value in others[:-1])]


def harmonics(x: torch.Tensor, degree: int) -> list[torch.Tensor]:
    """Return 1, cos x, sin x, cos 2x, sin 2x, ... to the order ``degree``, by addition theorems."""
    cosine, sine = torch.cos(x), torch.sin(x)
    values = [torch.ones_like(x)]
    c, s = cosine, sine
    for n in range(degree):
        if n:
            c, s = c * cosine - s * sine, s * cosine + c * sine
        values += [c, s]
    return values


def chebyshev_derivatives(x: torch.Tensor, values: list[torch.Tensor]) -> list[torch.Tensor]:
    """Derivatives by x of the ``values`` of ``chebyshev``, by the derivative of its recursion."""
    slope = (8 / RADIUS**2) * x
    double = (4 / RADIUS**2) * (x * x) - 2
    found = [torch.zeros_like(x), torch.full_like(x, 1 / RADIUS), 0.5 * slope]
    for n in range(1, len(values) - 2):
        found.append(slope * values[n] + double * found[n] - found[abs(n - 2)])
    return found[: len(values)]


def chebyshev_second_derivatives(
    x: torch.Tensor, values: list[torch.Tensor], slopes: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Second derivatives by x, by the second derivative of the recursion of ``chebyshev``."""
    curvature = 8 / RADIUS**2
    slope = curvature * x
    double = (4 / RADIUS**2) * (x * x) - 2
    zero = torch.zeros_like(x)
    found = [zero, zero, torch.full_like(x, 0.5 * curvature)]
    for n in range(1, len(values) - 2):
        moved = curvature * values[n] + 2 * (slope * slopes[n])
        found.append(moved + double * found[n] - found[abs(n - 2)])
    return found[: len(values)]


def harmonic_derivatives(x: torch.Tensor, values: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return derivatives by x of the ``values`` of ``harmonics``."""
    found = [torch.zeros_like(x)]
    for n in range(1, len(values) // 2 + 1):
        found += [-n * values[2 * n], n * values[2 * n - 1]]
    return found
