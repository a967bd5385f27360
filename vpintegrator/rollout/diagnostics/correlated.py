"""Variance of a mean or a slope of a series with correlated neighbours.

The series is taken for a line, or a constant, plus noise that forgets exponentially, an AR(1)
process: its correlation over k places is rho^k. Residuals of a fit are less correlated than the
noise, and smaller, the more the longer its memory is; both are known in closed form for every rho
(Bence, Ecology 76 (1995) 628-639), and rho is the one for which residuals are expected to be as
correlated as they are.
"""

from __future__ import annotations

from functools import cache

import numpy as np

_FEWEST = 8
_RHOS = np.linspace(-0.5, 0.98, 75)


def variance_of_fit(residuals: np.ndarray, degree: int) -> np.ndarray:
    """Return the variance of the highest coefficient of a fitted polynomial, (series,).

    Parameters
    ----------
    residuals
        Residuals of the fit at places 0, 1, 2, ..., (series, place).
    degree
        0: a constant, whose variance is that of the mean; 1: a line, that of its slope.
    """
    count = residuals.shape[-1]
    if count < _FEWEST:
        return np.full(residuals.shape[:-1], np.nan)
    correlation, size, variance = _expected(count, degree)
    squares = np.sum(residuals**2, axis=-1)
    products = np.sum(residuals[..., 1:] * residuals[..., :-1], axis=-1)
    found = np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)
    rho = np.interp(found, correlation, _RHOS)
    return squares * np.exp(np.interp(rho, _RHOS, np.log(variance / size)))


@cache
def _expected(count: int, degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the expected statistics of residuals for unit noise, an entry for each rho.

    The statistics are the correlation of neighbouring residuals, their sum of squares, and the
    variance of the highest coefficient of the fit.
    """
    place = np.arange(count)
    design = np.vander(place - place.mean(), degree + 1)
    weights = np.linalg.pinv(design)
    left = np.eye(count) - design @ weights
    found = []
    for rho in _RHOS:
        noise = np.sign(rho) ** abs(place[:, None] - place) * abs(rho) ** abs(
            place[:, None] - place
        )
        of_residuals = left @ noise @ left
        size = np.trace(of_residuals)
        found.append((np.trace(of_residuals, 1) / size, size, weights[0] @ noise @ weights[0]))
    correlation, size, variance = np.array(found).T
    return np.maximum.accumulate(correlation), size, variance
