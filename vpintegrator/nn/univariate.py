"""Families of functions of one variable, u_0 = 1 among each: factors of terms.

A further family is a further class here, and one object of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
import torch
from numpy.polynomial.chebyshev import chebder

RADIUS = 3.0  # standard deviations that Chebyshev polynomials take for their interval [-1, 1]


class Univariate:
    """Chebyshev polynomials T_0, T_1, ... of x / ``RADIUS``; other families derive from this class.

    Each function is even or odd, so that a change of a variable's sign is a change of the
    functions' signs. Functions up to a degree are the first ones of those up to a higher degree:
    terms keep their functions when they are prolonged.

    Parameters
    ----------
    name : str
        Name of the object in this module: copies and pickles are the object itself.

    Attributes
    ----------
    is_angle : bool
        Whether the variable is an angle, or cyclic: measured in its own unit.
    has_origin : bool
        Whether the variable has a zero of its own, from which it is measured.
    cyclic : int
        Number of the first functions that a cyclic variable may have.
    required : bool
        Whether each term has a function of such a variable that is not constant.
    """

    is_angle = False
    has_origin = False
    cyclic = 1
    required = False

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> str:
        return self.name

    def jet(self, x: torch.Tensor, degree: int, highest: int = 0) -> list[list[torch.Tensor]]:
        """Return u_0, u_1, ... at x up to a degree, and their derivatives up to the second.

        The recursion is T_{n+2} = 2 T_2 T_n - T_{n-2}. Even and odd ones are computed apart: where
        symmetries leave one kind, the other costs nothing.
        """
        curvature = 8 / RADIUS**2
        twice = 0.5 * curvature * (x * x) - 2  # 2 T_2
        result = [[torch.ones_like(x), x * (1 / RADIUS), 0.5 * twice]]
        factors: list[Any] = [twice, curvature * x, curvature]
        if highest > 0:
            slope = torch.full_like(x, 1 / RADIUS)
            result.append([torch.zeros_like(x), slope, 0.5 * factors[1]])
        if highest > 1:
            zero = torch.zeros_like(x)
            result.append([zero, zero, torch.full_like(x, 0.5 * curvature)])
        for k, own in enumerate(result):
            for n in range(1, degree - 1):
                value = twice * own[n]
                for i in range(1, k + 1):
                    value = value + comb(k, i) * (factors[i] * result[k - i][n])
                own.append(value - own[abs(n - 2)])
        return [own[: degree + 1] for own in result]

    def values(self, x: torch.Tensor, degree: int) -> list[torch.Tensor]:
        """Return u_0, u_1, ... at x, up to a degree, or of angles up to that order."""
        return self.jet(x, degree)[0]

    def derivative(self, degree: int) -> torch.Tensor:
        r"""Return the matrix D of the derivatives, :math:`u_i' = \sum_k D_{ik} u_k`."""
        result = np.zeros((degree + 1, degree + 1))
        for n in range(1, degree + 1):
            result[n, :n] = chebder(np.eye(degree + 1)[n, : n + 1]) / RADIUS
        return torch.from_numpy(result)

    def orders(self, degree: int) -> list[int]:
        """Return the order of each function: what a term's degree is the sum of."""
        return list(range(degree + 1))

    def is_odd(self, index: int) -> bool:
        """Whether the function of this index changes its sign with its argument."""
        return index % 2 == 1


class _Vanishing(Univariate):
    """Family 1, T_1 T_0, T_1 T_1, ...: all but the first vanish with the variable."""

    has_origin = True
    required = True

    def jet(self, x: torch.Tensor, degree: int, highest: int = 0) -> list[list[torch.Tensor]]:
        assert not highest
        ((one, *others),) = super().jet(x, degree)
        return [[one, *others[:1], *(others[0] * value for value in others[:-1])]]


class _Harmonics(Univariate):
    """Family 1, cos x, sin x, cos 2x, sin 2x, ... of an angle, by addition theorems."""

    is_angle = True
    has_origin = True

    def jet(self, x: torch.Tensor, degree: int, highest: int = 0) -> list[list[torch.Tensor]]:
        cosine, sine = torch.cos(x), torch.sin(x)  # (...) each
        values = [torch.ones_like(x)]
        c, s = cosine, sine
        for n in range(degree):
            if n:
                c, s = c * cosine - s * sine, s * cosine + c * sine
            values += [c, s]
        result = [values]
        for _ in range(highest):
            own = [torch.zeros_like(x)]
            for n in range(1, degree + 1):
                own += [-n * result[-1][2 * n], n * result[-1][2 * n - 1]]
            result.append(own)
        return result

    def derivative(self, degree: int) -> torch.Tensor:
        result = torch.zeros(2 * degree + 1, 2 * degree + 1, dtype=torch.float64)
        for n in range(1, degree + 1):
            result[2 * n - 1, 2 * n], result[2 * n, 2 * n - 1] = -n, n
        return result

    def orders(self, degree: int) -> list[int]:
        return [0, *(n for n in range(1, degree + 1) for _ in range(2))]

    def is_odd(self, index: int) -> bool:
        return index > 0 and index % 2 == 0


class _Secular(_Harmonics):
    """Family 1, x, cos x, sin x, ...: only the derivative of x is periodic."""

    cyclic = 2

    def jet(self, x: torch.Tensor, degree: int, highest: int = 0) -> list[list[torch.Tensor]]:
        result = super().jet(x, degree, highest)
        linear = x
        for own in result:
            own.insert(1, linear)
            linear = own[0]  # the derivatives of x are those of u_0 one earlier
        return result

    def derivative(self, degree: int) -> torch.Tensor:
        others = super().derivative(degree)
        result = others.new_zeros(len(others) + 1, len(others) + 1)
        result[2:, 2:] = others[1:, 1:]
        result[1, 0] = 1.0
        return result

    def orders(self, degree: int) -> list[int]:
        zero, *others = super().orders(degree)
        return [zero, 1, *others]

    def is_odd(self, index: int) -> bool:
        return index % 2 == 1


POLYNOMIALS = Univariate("POLYNOMIALS")
VANISHING = _Vanishing("VANISHING")
HARMONICS = _Harmonics("HARMONICS")
SECULAR = _Secular("SECULAR")


def families(
    count: int, periodic: Sequence[int] = (), vanishing: Sequence[int] = ()
) -> list[Univariate]:
    """Return the family of each variable: angles, vanishing parameters, others."""
    result = [POLYNOMIALS] * count
    for index in periodic:
        if index < count:
            result[index] = HARMONICS
    for index in vanishing:
        result[index] = VANISHING
    return result
