"""Bessel functions of the first kind, of integer order.

The derivative of J_n is (J_(n-1) - J_(n+1))/2, finite at 0. Expressions name the orders 0 to 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # loads scipy.special when it is used

HIGHEST = 9  # order
ORDERS = {f"j{order}": order for order in range(HIGHEST + 1)}
_NEARLY_REAL = 1e-4  # imaginary part up to which four terms of the Taylor series are exact


def in_doubles(x: Any) -> Any:
    """Round extended precision, which SciPy's functions refuse, to doubles."""
    extended = getattr(x, "dtype", None) == np.longdouble
    return x.astype(np.float64) if extended else x


def of_order(order: int, x: Any) -> Any:
    """Return J_n of a number or an array, real or complex."""
    if np.iscomplexobj(x):
        return _continued(order, x)
    x = in_doubles(x)
    if order < 2:
        return (scipy.special.j0 if order == 0 else scipy.special.j1)(x)
    return scipy.special.jv(order, x)


def _continued(order: int, x: Any) -> Any:
    # SciPy's function loses the small imaginary parts of complex-step derivatives
    a, b = np.real(x), np.imag(x)
    slopes = [scipy.special.jvp(order, a, k) for k in range(4)]
    series = slopes[0] - b**2 / 2 * slopes[2] + 1j * (b * slopes[1] - b**3 / 6 * slopes[3])
    return np.where(np.abs(b) < _NEARLY_REAL, series, scipy.special.jv(order, x))
