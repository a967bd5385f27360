"""Maximum likelihood over whole orbits: common parameters, and a first state for each orbit.

Independent normal noise makes it a least-squares problem. The first states are eliminated from each
Gauss-Newton step (Golub and Pereyra, SIAM J. Numer. Anal. 10, 1973), and segments that become
longer lead to whole orbits (Bock, Recent advances in parameter identification techniques for ODE,
1983).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from vpintegrator.data.partial.observed import Observed
from vpintegrator.errors import InputError

_ITERATIONS = 60
_DAMPING, _LARGEST_DAMPING = 1e-3, 1e8
_SETTLED, _NEARLY_SETTLED = 1e-6, 1e-3  # relative fall of the cost; of segments
_SINGULAR = 1e-8  # least part of squared derivatives that first states do not compensate
_FIRST, _RATIO = 16, 4  # times of the shortest segments, and the growth of their length
_REWEIGHTED, _SAME = 4, 1e-3  # rounds of weights from residuals, and their relative change
_FLOOR = 1e-9  # least noise, relative to the spread of a column
_IN_NOISE = ("residual", "by_theta", "root", "size")  # what is in units of the noise
_WORSE = 1.5  # noise of longer segments over that of shorter ones, from which they are given up


class Orbits(Protocol):
    """Solutions of equations with parameters, and their derivatives.

    Attributes
    ----------
    dim, free
        Components of a state, and how many of them (the first ones) a first state leaves open.
    """

    dim: int
    free: int

    def __call__(self, theta: np.ndarray, first: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return states (orbit, time, dim); NaN where there is no solution.

        ``theta`` is (parameter,) or (orbit, parameter), ``first`` (orbit, dim), ``times``
        (orbit, time).
        """

    def tangent(
        self, theta: np.ndarray, first: np.ndarray, times: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return states, and derivatives (orbit, time, dim, .) by parameters and first states."""


@dataclass(frozen=True)
class OrbitEstimate:
    """Estimate of parameters and first states.

    Attributes
    ----------
    theta, first
        Parameters (parameter,) and first states (orbit, dim).
    noise, level
        Standard deviation of each observed column: the one of the weights, and the one of the
        residuals with fitted numbers taken off.
    states
        Fitted states (orbit, time, dim).
    residual, by_theta, root
        Residuals in units of the noise (orbit, number); their derivatives by parameters at the best
        first states (orbit, number, parameter); and the triangular factors R of the derivatives by
        first states, (orbit, free, free).
    size
        Norms of the derivatives by each parameter at fixed first states, (parameter,).
    used
        Number of observations of each orbit.
    observed
        The observations.
    """

    theta: np.ndarray
    first: np.ndarray
    noise: np.ndarray
    states: np.ndarray
    residual: np.ndarray
    by_theta: np.ndarray
    root: np.ndarray
    size: np.ndarray
    used: np.ndarray
    level: np.ndarray
    observed: Observed

    @property
    def precision(self) -> np.ndarray:
        """Inverse covariance of the parameters, (parameter, parameter)."""
        return np.einsum("nri,nrj->ij", self.by_theta, self.by_theta)

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the parameters, (parameter, parameter).

        Raises
        ------
        InputError
            If the data do not determine the parameters.
        """
        values, vectors = np.linalg.eigh(self.precision / np.outer(self.size, self.size))
        if len(values) and values[0] < _SINGULAR:
            raise InputError("the data do not determine the parameters; fit fewer of them")
        return np.asarray((vectors / values) @ vectors.T / np.outer(self.size, self.size))

    def solver_error(self, accurate: Orbits) -> float:
        """Return the change of all residuals by accurate orbits, in units of the noise.

        It bounds the shift of the estimate, in standard errors. NaN where accurate orbits escape.
        """
        problem = _Residuals(accurate, self.observed, self.noise)
        states = problem.states(self.theta, self.first)
        return float(np.linalg.norm(problem.residual(states) - self.residual))

    def rescaled(self, factor: float) -> OrbitEstimate:
        """Return the same estimate for the noise times a factor."""
        parts = {name: getattr(self, name) / factor for name in _IN_NOISE}
        return replace(self, noise=self.noise * factor, **parts)

    @property
    def left_out(self) -> np.ndarray:
        """Mean square residual of each orbit, its first state fitted, without it in the parameters.

        One Gauss-Newton step from the estimate gives the parameters without an orbit, (orbit,).
        """
        precision, found = self.precision, []
        for r, by in zip(self.residual, self.by_theta, strict=True):
            step = np.linalg.lstsq(precision - by.T @ by, by.T @ r, rcond=1e-14)[0]
            found.append(np.square(r + by @ step).sum())
        return np.array(found) / np.maximum(self.used - self.root.shape[-1], 1)


class Fixed:
    """Orbits with given parameters, none of which is left open."""

    def __init__(self, orbits: Orbits, theta: np.ndarray) -> None:
        self.dim, self.free = orbits.dim, orbits.free
        self._orbits, self._theta = orbits, theta

    def __call__(self, theta: np.ndarray, first: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return states, as of :class:`Orbits`."""
        return self._orbits(self._theta, first, times)

    def tangent(
        self, theta: np.ndarray, first: np.ndarray, times: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return states and derivatives, as of :class:`Orbits`."""
        states, by_theta, by_first = self._orbits.tangent(self._theta, first, times)
        return states, by_theta[..., :0], by_first


class OwnParameters:
    """Orbits that have parameters of their own: components of the state, before the others."""

    def __init__(self, orbits: Orbits, parameters: int) -> None:
        self._orbits, self._more = orbits, parameters
        self.dim, self.free = orbits.dim + parameters, orbits.free + parameters

    def __call__(self, theta: np.ndarray, first: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return states, as of :class:`Orbits`."""
        own = first[:, : self._more]
        states = self._orbits(own, first[:, self._more :], times)
        constant = np.broadcast_to(own[:, None], (*states.shape[:2], self._more))
        return np.concatenate([constant, states], axis=2)

    def tangent(
        self, theta: np.ndarray, first: np.ndarray, times: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return states and derivatives, as of :class:`Orbits`."""
        own, more = first[:, : self._more], self._more
        states, by_own, by_first = self._orbits.tangent(own, first[:, more:], times)
        constant = np.broadcast_to(own[:, None], (*states.shape[:2], more))
        by = np.zeros((*states.shape[:2], self.dim, self.free))
        by[:, :, :more, :more] = np.eye(more)
        by[:, :, more:] = np.concatenate([by_own, by_first], axis=3)
        states = np.concatenate([constant, states], axis=2)
        return states, by[..., :0], by


class _Residuals:
    def __init__(self, orbits: Orbits, observed: Observed, noise: np.ndarray) -> None:
        self.orbits, self.observed, self.noise = orbits, observed, noise
        self._seen = np.isfinite(observed.values)
        self._values = np.where(self._seen, observed.values, 0.0)
        self._weight = np.where(self._seen, 1 / noise, 0.0)
        self.used = self._seen.sum(axis=(1, 2))

    def residual(self, states: np.ndarray) -> np.ndarray:
        """Return residuals in units of the noise, (orbit, number)."""
        with np.errstate(all="ignore"):  # orbits that escape
            r = (states @ self.observed.matrix.T - self._values) * self._weight
        return np.asarray(r.reshape(len(r), -1))

    def weighted(self, by: np.ndarray) -> np.ndarray:
        """Return derivatives of the residuals from those of the states."""
        seen = np.einsum("kd,ntdp->ntkp", self.observed.matrix, by) * self._weight[..., None]
        return np.asarray(seen.reshape(len(by), self._weight[0].size, by.shape[-1]))

    def states(self, theta: np.ndarray, first: np.ndarray) -> np.ndarray:
        return self.orbits(theta, first, self.observed.times)

    def level(self, residual: np.ndarray, parameters: int) -> np.ndarray:
        """Return the noise of each column from residuals, with what was fitted taken off."""
        squares = np.square(residual.reshape(self._seen.shape)).sum(axis=(0, 1))
        count = self._seen.sum(axis=(0, 1))
        fitted = parameters + self.orbits.free * len(residual)
        free = count * np.maximum(1 - fitted / count.sum(), 1 / count.sum())
        return np.asarray(self.noise * np.sqrt(squares / free))


def estimate(
    orbits: Orbits,
    observed: Observed,
    theta: np.ndarray,
    first: np.ndarray,
    noise: np.ndarray,
    settled: float = _SETTLED,
) -> OrbitEstimate:
    """Return the least-squares estimate near parameters and first states, for given noise.

    Iterations end when the cost falls by less than the part ``settled``.

    Raises
    ------
    InputError
        If the equations have no solution there.
    """
    problem = _Residuals(orbits, observed, noise)
    states = problem.states(theta, first)
    r = problem.residual(states)
    cost, damping = float(np.square(r).sum()), _DAMPING
    if not np.isfinite(cost):
        raise InputError("the equations have no solution near the data; begin with other values")
    for _ in range(_ITERATIONS):
        _, by_theta, by_first = orbits.tangent(theta, first, observed.times)
        A, B = problem.weighted(by_theta), problem.weighted(by_first)
        before = cost
        while damping < _LARGEST_DAMPING:
            change, moved = _step(A, B, r, damping)
            new = first.copy()
            new[:, : orbits.free] += moved
            there = problem.states(theta + change, new)
            other = problem.residual(there)
            found = float(np.square(other).sum())
            if found < cost:
                theta, first, states, r, cost = theta + change, new, there, other, found
                damping /= 10
                break
            damping *= 10
        if not before - cost > settled * before:
            break
    _, by_theta, by_first = orbits.tangent(theta, first, observed.times)
    A, B = problem.weighted(by_theta), problem.weighted(by_first)
    Q, R = np.linalg.qr(B)
    size = np.sqrt(np.einsum("nri,nri->i", A, A))
    size = np.where(size > 0, size, 1.0)
    A -= Q @ (Q.mT @ A)
    level = problem.level(r, len(theta))
    return OrbitEstimate(theta, first, noise, states, r, A, R, size, problem.used, level, observed)


def _step(
    A: np.ndarray, B: np.ndarray, r: np.ndarray, damping: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return damped Gauss-Newton steps of the parameters and of the first states."""
    rows, free = B.shape[1:]
    size = np.linalg.norm(B, axis=1)
    size = np.where(size > 0, size, 1.0)
    damped = np.concatenate([B, np.sqrt(damping) * size[:, None] * np.eye(free)], axis=1)
    Q, R = np.linalg.qr(damped)
    Q = Q[:, :rows]
    seen, of_theta = Q.mT @ r[..., None], Q.mT @ A
    normal = np.einsum("nri,nrj->ij", A, A) - np.einsum("nri,nrj->ij", of_theta, of_theta)
    gradient = np.einsum("nri,nr->i", A, r) - np.einsum("nri,nr->i", of_theta, seen[..., 0])
    scale = np.sqrt(np.einsum("nri,nri->i", A, A))
    scale = np.where(scale > 0, scale, 1.0)
    scaled = normal / np.outer(scale, scale) + damping * np.eye(len(scale))
    change = -np.linalg.lstsq(scaled, gradient / scale, rcond=None)[0] / scale
    moved = -np.linalg.solve(R, seen + (of_theta @ change)[..., None])[..., 0]
    return change, moved


def maximum_likelihood(
    orbits: Orbits,
    observed: Observed,
    theta: np.ndarray,
    starts: np.ndarray,
    noise: np.ndarray,
    known: bool = False,
    shortest: int = _FIRST,
) -> tuple[OrbitEstimate, int]:
    """Return the estimate over whole orbits, or over the longest segments that follow the data.

    Parameters
    ----------
    orbits, observed, theta
        The equations, the data, and parameters to begin with.
    starts
        Approximate states at all times, (orbit, time, dim).
    noise
        Noise of each column; the ratios alone matter unless it is ``known``.
    known
        Whether the noise is given, and not estimated.
    shortest
        Times of the segments that are fitted first.

    Returns
    -------
    OrbitEstimate, int
        The estimate, and the number of times of its segments.

    Raises
    ------
    InputError
        If the equations have no solution near the data.
    """
    count, total = observed.times.shape
    floor = _FLOOR * np.nanstd(observed.values, axis=(0, 1))
    best: tuple[OrbitEstimate, int] | None = None
    length = 0
    while length < total:
        length = min(max(_RATIO * length, shortest), total)
        part, more = observed.segments(length), -total % length
        states = np.pad(starts, ((0, 0), (0, more), (0, 0)), mode="edge")
        states = states.reshape(-1, length, states.shape[-1])
        # segments with fewer observations than unknowns say nothing
        used = np.isfinite(part.values).sum(axis=(1, 2)) > orbits.free
        part, first = part.orbits(used), states[used, 0]
        rounds = 1 if known or length < total else _REWEIGHTED
        for _ in range(rounds):
            fall = _SETTLED if length == total else _NEARLY_SETTLED
            found = estimate(orbits, part, theta, first, noise, fall)
            theta, first = found.theta, found.first
            level = np.maximum(found.level, floor)
            if known:
                break
            found = found.rescaled(float(np.exp(np.log(level / noise).mean())))
            same = np.ptp(level / noise) < _SAME
            noise = level
            if same:
                break
        if best is not None and (level > _WORSE * best[0].noise).any():
            break
        best = found, length
        states[used] = found.states
        starts = states.reshape(count, -1, states.shape[-1])[:, :total]
    assert best is not None
    _check_determined(best[0].root)
    return best


def _check_determined(root: np.ndarray) -> None:
    size = np.linalg.norm(root, axis=1, keepdims=True)
    values = np.linalg.svd(root / np.where(size > 0, size, 1.0), compute_uv=False)
    if values.size and values.min() < _SINGULAR**0.5:
        raise InputError(
            "what was observed does not determine the states; observe another component, or longer"
        )
