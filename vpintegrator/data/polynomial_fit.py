"""Polynomial fits of maps to pairs of states, with variances over groups of pairs.

The fits serve statistical tests (``structure_tests.py``). Groups are trajectories or parts of
them: residuals within a group may be correlated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

_ROUNDING = 1e-12  # squared length below which a direction of the basis is rounding
_RESOLVED = 20.0  # squared length of a direction over the noise: attenuation of 5 percent


class Polynomials:
    """Polynomials of bounded total degree, harmonics in angles.

    Parameters
    ----------
    states : (state, dim)
        States whose range the polynomials are scaled to.
    degree
        Total degree; the harmonics cos(k z) and sin(k z) have degree k.
    periods
        Period of each component that is an angle, by its number.
    """

    def __init__(self, states: np.ndarray, degree: int, periods: Mapping[int, float]) -> None:
        self.degree, self.periods = degree, periods
        low, high = states.min(0), states.max(0)
        self.middle, self.half = (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)
        choices = [self._degrees(k) for k in range(states.shape[1])]
        self.places = np.array(_bounded(choices, degree))

    @staticmethod
    def count(dim: int, degree: int) -> int:
        """Return the number of polynomials, without angles."""
        count = 1
        for k in range(1, degree + 1):
            count = count * (dim + k) // k
        return count

    def _degrees(self, k: int) -> list[int]:
        if k in self.periods:
            return [(n + 1) // 2 for n in range(2 * self.degree + 1)]
        return list(range(self.degree + 1))

    def _univariate(self, states: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return functions of one component and their derivatives, (state, function) each."""
        if k in self.periods:
            unit = 2 * np.pi / self.periods[k]
            angle = unit * states[:, k, None] * np.arange(1, self.degree + 1)
            size = unit * np.arange(1, self.degree + 1)
            values = np.ones((len(states), 2 * self.degree + 1))
            slopes = np.zeros_like(values)
            values[:, 1::2], values[:, 2::2] = np.cos(angle), np.sin(angle)
            slopes[:, 1::2], slopes[:, 2::2] = -size * np.sin(angle), size * np.cos(angle)
            return values, slopes
        x = (states[:, k] - self.middle[k]) / self.half[k]
        values = np.polynomial.legendre.legvander(x, self.degree)
        derivatives = np.polynomial.legendre.legder(np.eye(self.degree + 1))
        slopes = values[:, : len(derivatives)] @ derivatives / self.half[k]
        return values, slopes

    def values(self, states: np.ndarray) -> np.ndarray:
        """Return the values (state, polynomial) at states (state, dim)."""
        found = np.ones((len(states), len(self.places)))
        for k in range(states.shape[1]):
            found *= self._univariate(states, k)[0][:, self.places[:, k]]
        return found

    def gradients(self, states: np.ndarray) -> np.ndarray:
        """Return the gradients (state, component, polynomial) at states (state, dim)."""
        parts = [self._univariate(states, k) for k in range(states.shape[1])]
        found = np.ones((len(states), states.shape[1], len(self.places)))
        for component in range(states.shape[1]):
            for k, (values, slopes) in enumerate(parts):
                own = slopes if k == component else values
                found[:, component] *= own[:, self.places[:, k]]
        return found


def _bounded(degrees: list[list[int]], most: int) -> list[tuple[int, ...]]:
    """Return the tuples of places whose degrees add up to a bound at most."""
    found: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for own in degrees:
        found = [
            ((*places, n), total + degree)
            for (places, total), (n, degree) in product(found, enumerate(own))
            if total + degree <= most
        ]
    return [places for places, _ in found]


@dataclass
class GroupedFit:
    """Least-squares fit of displacements by polynomials, and its variation over groups.

    Attributes
    ----------
    basis
        The polynomials.
    transform : (polynomial, direction)
        Directions of the basis that are orthonormal over the states.
    coefficients : (1 + group, direction, component)
        Coefficients of all pairs; then for each group coefficients whose differences from these
        have the covariance of the estimate as their sum of squares (CR2 of Bell and McCaffrey,
        Survey Methodology 28 (2002) 169): deletion of a group overestimates it if a fit has few
        pairs.
    left_out : (pair, component)
        Residuals of each pair under the fit without its group.
    unresolved
        Number of directions that are dropped, because noise moves the states as far as they
        spread: the states lie near a surface of fewer dimensions.
    """

    basis: Polynomials
    transform: np.ndarray
    coefficients: np.ndarray
    left_out: np.ndarray
    unresolved: int

    @property
    def error(self) -> float:
        """Cross-validated mean square error over the components."""
        return float((self.left_out**2).mean())

    def error_deviation(self, groups: np.ndarray) -> float:
        """Return the standard error of ``error`` over groups (pair,)."""
        squares = (self.left_out**2).mean(1)
        means = np.bincount(groups, squares) / np.bincount(groups)
        return float(means.std(ddof=1) / np.sqrt(len(means)))

    def displacements(self, states: np.ndarray) -> np.ndarray:
        """Return the displacements (1 + group, state, component) at states."""
        return np.asarray(self.basis.values(states) @ self.transform @ self.coefficients)

    def jacobians(self, states: np.ndarray) -> np.ndarray:
        """Return the Jacobians (1 + group, state, component, dim) of the map at states."""
        gradients = self.basis.gradients(states) @ self.transform
        slopes = np.einsum("sdp,gpc->gscd", gradients, self.coefficients, optimize=True)
        return np.asarray(np.eye(states.shape[1]) + slopes)

    def leverages(self, states: np.ndarray) -> np.ndarray:
        """Return the leverage of each state (state,): large outside the states of the fit."""
        return np.asarray(((self.basis.values(states) @ self.transform) ** 2).sum(1))


def fit_groups(
    before: np.ndarray,
    displacements: np.ndarray,
    groups: np.ndarray,
    degree: int,
    periods: Mapping[int, float],
    noise: float,
) -> GroupedFit:
    """Fit displacements (pair, component) of states (pair, dim) by polynomials.

    Parameters
    ----------
    groups : (pair,)
        Number of each pair's group, from 0.
    noise
        Standard deviation of the noise on the states; directions of the basis that noise blurs
        by a twentieth or more are dropped.
    """
    basis = Polynomials(before, degree, periods)
    values, slopes = basis.values(before), basis.gradients(before)
    gram = values.T @ values
    lengths = np.einsum("sdp,sdq->pq", slopes, slopes, optimize=True)
    scale = 1 / np.sqrt(np.diag(gram))
    gram, lengths = gram * np.outer(scale, scale), lengths * np.outer(scale, scale)
    # functions of length one in value and gradient together; others depend on these
    own, directions = np.linalg.eigh(gram + lengths)
    kept = own > _ROUNDING * own[-1]
    white = directions[:, kept] / np.sqrt(own[kept])
    shares, turned = np.linalg.eigh(white.T @ gram @ white)
    squares = shares / np.maximum(1 - shares, _ROUNDING)  # values over gradients: a length squared
    resolved = squares > max(_RESOLVED * noise**2, _ROUNDING)
    transform = scale[:, None] * (white @ turned[:, resolved]) / np.sqrt(shares[resolved])
    q, r = np.linalg.qr(values @ transform)
    transform = np.linalg.solve(r.T, transform.T).T
    whole = q.T @ displacements
    residuals = displacements - q @ whole
    coefficients, left_out = [whole], np.empty_like(residuals)
    for group in range(int(groups.max()) + 1):
        here = groups == group
        u, s, v = np.linalg.svd(q[here], full_matrices=False)
        rest = np.maximum(1 - s**2, _ROUNDING)[:, None]
        own = u.T @ residuals[here]
        coefficients.append(whole - v.T @ (s[:, None] * own / np.sqrt(rest)))
        left_out[here] = residuals[here] + u @ (own / rest - own)
    return GroupedFit(basis, transform, np.array(coefficients), left_out, int((~resolved).sum()))
