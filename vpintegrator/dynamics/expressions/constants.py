"""Numbers of formulas: exact fractions, and 120 digits where there is no fraction.

Whole numbers and fractions stay exact. What is irrational, such as pi or sqrt(2), becomes the
nearest fraction of 400 binary digits, and so does a fraction that grows too long. So no constant
takes long, whatever a file asks for: one that a double could not hold is refused.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any, Protocol

import mpmath

# precision of constants and of checks: a context of our own, as that of mpmath is shared by all
# threads and anyone may change it
HIGH = mpmath.MPContext()
HIGH.prec = 400

Number = int | Fraction

_LONGEST = 2048  # binary digits of an exact numerator or denominator
LARGEST_EXPONENT = 4096
_LARGEST = 10**300
_SMALLEST = 1100  # smaller than 2 to minus this power is zero, as it is for doubles
_NEARLY = Fraction(1, 2**380)
_ROUND = (Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-1, 2))


class NotFinite(ArithmeticError):
    """A constant is too large, or no real number."""


def size(value: Number) -> Number:
    """Return the absolute value."""
    return -value if value < 0 else value


def tidy(value: Number) -> Number:
    """Return the number as an int if it is whole, and with no more digits than necessary."""
    numerator, denominator = value.numerator, value.denominator
    if denominator == 1 and -_LARGEST <= numerator <= _LARGEST:
        return numerator
    digits = numerator.bit_length() - denominator.bit_length()
    if abs(numerator) > _LARGEST * denominator:
        raise NotFinite
    if digits < -_SMALLEST:
        return 0
    if max(numerator.bit_length(), denominator.bit_length()) > _LONGEST:
        return _rounded(HIGH.mpf(numerator) / HIGH.mpf(denominator))
    return value


def _rounded(value: Any) -> Number:
    """Return the fraction that a number of mpmath is."""
    if not isinstance(value, HIGH.mpf) or not HIGH.isfinite(value):
        raise NotFinite
    sign, mantissa, exponent, length = value._mpf_
    if exponent + length > 1000:
        raise NotFinite
    if exponent + length < -_SMALLEST:
        return 0
    mantissa = -mantissa if sign else mantissa
    return mantissa << exponent if exponent >= 0 else tidy(Fraction(mantissa, 1 << -exponent))


def high(value: Number) -> Any:
    """Return the number for mpmath."""
    if isinstance(value, int):
        return HIGH.mpf(value)
    return HIGH.mpf(value.numerator) / value.denominator


PI = _rounded(+HIGH.pi)


class Computable(Protocol):
    """A function with an implementation for numbers of mpmath."""

    @property
    def exact(self) -> Any:
        """The implementation."""

    @property
    def circular(self) -> bool:
        """Whether values at multiples of pi are rounded to simple fractions."""


@lru_cache(4096)
def function_value(function: Computable, *arguments: Number) -> Number:
    """Return a function of constants.

    Raises
    ------
    NotFinite
        If the value is none that a double could hold.
    """
    try:
        value = _rounded(function.exact(*map(high, arguments)))
    except (ArithmeticError, ValueError):
        raise NotFinite from None
    if function.circular and size(arguments[0]) > _NEARLY:
        # pi was rounded, so cos(pi/3) is no more than nearly a half
        tolerance = _NEARLY * (1 + size(arguments[0]))
        for exact in _ROUND:
            if size(value - exact) < tolerance:
                return tidy(exact)
        if size(value) * tolerance > 1:
            raise NotFinite
    return value


@lru_cache(4096)
def power(base: Number, exponent: Number) -> Number:
    """Return a constant to the power of another.

    Raises
    ------
    NotFinite
        If the value is none that a double could hold, or not real.
    ZeroDivisionError
        For a negative power of zero.
    """
    if base == 0:
        if exponent < 0:
            raise ZeroDivisionError
        return 1 if exponent == 0 else 0
    if base == 1:
        return 1
    if isinstance(exponent, int):
        length = max(base.numerator.bit_length(), base.denominator.bit_length())
        if length * size(exponent) <= _LONGEST:
            return tidy(Fraction(base) ** exponent)
    elif base < 0:
        raise NotFinite
    elif exponent.denominator == 2:
        roots = isqrt(base.numerator), isqrt(base.denominator)
        if (roots[0] ** 2, roots[1] ** 2) == (base.numerator, base.denominator):
            return power(tidy(Fraction(*roots)), exponent.numerator)
    try:
        # the size first: to compute it may take forever
        if size(exponent * (base.numerator.bit_length() - base.denominator.bit_length())) > 10**5:
            raise NotFinite
        return _rounded(high(base) ** high(exponent))
    except (ArithmeticError, ValueError):
        raise NotFinite from None
