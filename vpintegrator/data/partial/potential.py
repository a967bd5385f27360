"""Potentials that are linear in coefficients, and orbits of p.p/2m + V(q) by a splitting.

V is a sum of products of one function of each position, up to a total degree: cos(n q) and
sin(n q) of an angle q, powers of q - centre of another position.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import numpy as np

# SRKN of six stages and order 4: Blanes and Moan, J. Comput. Appl. Math. 142 (2002) 313-330
_KICKS = (0.0829844064174052, 0.396309801498368, -0.0390563049223486)
_DRIFTS = (0.245298957184271, 0.604872665711080)
_B = (*_KICKS, 1 - 2 * sum(_KICKS), *_KICKS[::-1])
_A = (*_DRIFTS, 0.5 - sum(_DRIFTS), 0.5 - sum(_DRIFTS), *_DRIFTS[::-1])


class PotentialBasis:
    """Functions of positions up to a total degree, scaled to the data.

    Parameters
    ----------
    names
        Names of the positions.
    centre, scale
        Origin and unit of each position; of an angle they are 0 and period/(2 pi).
    angles
        Whether each position is an angle.
    degree
        Largest sum of the degrees of the factors; cos(n q) has the degree n.

    Attributes
    ----------
    terms
        Indices of the functions of each position, (term, position): the power; or 2n - 1 and 2n for
        cos(n q) and sin(n q).
    """

    def __init__(
        self,
        names: Sequence[str],
        centre: np.ndarray,
        scale: np.ndarray,
        angles: Sequence[bool],
        degree: int,
    ) -> None:
        self.names, self.degree, self.angles = list(names), degree, list(angles)
        self._centre, self.scale = centre, scale
        each = [
            [((n + 1) // 2 if angle else n, n) for n in range((1 + angle) * degree + 1)]
            for angle in self.angles
        ]
        found = [tuple(zip(*factors, strict=True)) for factors in itertools.product(*each)]
        chosen = sorted((sum(sizes), which) for sizes, which in found if 0 < sum(sizes) <= degree)
        self.terms = np.array([which for _, which in chosen])

    @classmethod
    def of(
        cls, names: Sequence[str], positions: np.ndarray, periods: Mapping[int, float], degree: int
    ) -> PotentialBasis:
        """Return the basis for positions (n, position), and periods of those that are angles."""
        low, high = positions.min(axis=0), positions.max(axis=0)
        centre = np.where((low < 0) & (high > 0), 0.0, (low + high) / 2)
        centre = np.array([float(f"{value:.3g}") for value in centre])
        scale = np.maximum(high - centre, centre - low)
        for k, period in periods.items():
            centre[k], scale[k] = 0.0, period / (2 * math.pi)
        return cls(names, centre, scale, [k in periods for k in range(len(names))], degree)

    def extended(self, coefficients: np.ndarray) -> tuple[PotentialBasis, np.ndarray]:
        """Return the basis of the next degree, and the coefficients of the same potential in it."""
        other = PotentialBasis(self.names, self._centre, self.scale, self.angles, self.degree + 1)
        place = {tuple(term): k for k, term in enumerate(other.terms.tolist())}
        found = np.zeros(len(other.terms))
        found[[place[tuple(term)] for term in self.terms.tolist()]] = coefficients
        return other, found

    def unscaled(self) -> PotentialBasis:
        """Return the basis whose coefficients are those of the text."""
        scale = np.where(self.angles, self.scale, 1.0)
        return PotentialBasis(self.names, self._centre, scale, self.angles, self.degree)

    @property
    def units(self) -> np.ndarray:
        """Coefficients of the text for coefficients 1 of the scaled functions, (term,)."""
        powers = self.terms * ~np.array(self.angles)
        return np.asarray(np.prod(self.scale**-powers, axis=1))

    def text(self, coefficients: Sequence[str]) -> str:
        """Return the formula of the potential, with names of the coefficients."""
        return " + ".join(
            "*".join([c, *self._factor_texts(term)])
            for c, term in zip(coefficients, self.terms.tolist(), strict=True)
        )

    def _factor_texts(self, term: Sequence[int]) -> Iterator[str]:
        for name, n, c, s, angle in zip(
            self.names, term, self._centre, self.scale, self.angles, strict=True
        ):
            if n and angle:
                factors = [] if n < 3 else [str((n + 1) // 2)]
                turn = name if s == 1 else f"{name}/{float(s)!r}"
                yield f"{'cos' if n % 2 else 'sin'}({'*'.join([*factors, turn])})"
            elif n:
                base = name if c == 0 else f"({name} - {c})".replace("- -", "+ ")
                yield base if n == 1 else f"{base}**{n}"

    def derivatives(
        self, q: np.ndarray, theta: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return gradients of all functions, and Hessian matrices of potentials.

        Parameters
        ----------
        q
            Positions, (n, position).
        theta
            Coefficients, (n, term); without them no Hessian matrices are computed.

        Returns
        -------
        numpy.ndarray, numpy.ndarray
            Shapes (n, position, term) and (n, position, position).
        """
        d = q.shape[1]
        factors = [self._functions(q[:, j], j) for j in range(d)]

        def product(*by: int) -> np.ndarray:
            return reduce(np.multiply, (f[by.count(j)] for j, f in enumerate(factors)))

        gradients = np.stack([product(j) for j in range(d)], axis=1)
        if theta is None:
            return gradients, np.empty(0)
        hessian = np.empty((len(q), d, d))
        for i, j in itertools.combinations_with_replacement(range(d), 2):
            hessian[:, i, j] = hessian[:, j, i] = (product(i, j) * theta).sum(axis=1)
        return gradients, hessian

    def _functions(self, q: np.ndarray, j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the factors of one position in all terms, and two derivatives of them."""
        unit = 1 / self.scale[j]
        u, n = ((q - self._centre[j]) * unit)[:, None], self.terms[:, j]
        if not self.angles[j]:
            first, second = n * unit, n * (n - 1) * unit**2
            powers = u ** np.arange(self.degree + 1)
            return (
                powers[:, n],
                first * powers[:, np.maximum(n - 1, 0)],
                second * powers[:, np.maximum(n - 2, 0)],
            )
        n, even = (n + 1) // 2, n % 2 == 0
        phase = u * n - np.where(even, np.pi / 2, 0.0) * (n > 0)
        waves, slopes = np.cos(phase), -np.sin(phase)
        return waves, n * unit * slopes, -((n * unit) ** 2) * waves


class SplittingOrbits:
    """Symplectic orbits of H = p.p/2m + V(q) with substeps of one length at most.

    Parameters
    ----------
    basis
        Functions of the potential, whose coefficients are the parameters.
    masses
        Mass of each position, (position,).
    longest
        Longest substep.
    """

    def __init__(self, basis: PotentialBasis, masses: np.ndarray, longest: float) -> None:
        self.basis, self.masses, self.longest = basis, masses, longest
        self.dim = self.free = 2 * len(masses)

    def __call__(self, theta: np.ndarray, first: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return states (orbit, time, dim)."""
        return self._run(theta, first, times, None)[0]

    def tangent(
        self, theta: np.ndarray, first: np.ndarray, times: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return states, and derivatives by coefficients and first states."""
        count, more = len(first), theta.shape[-1]
        moved = np.zeros((count, self.dim, more + self.dim))
        moved[:, :, more:] = np.eye(self.dim)
        states, by = self._run(theta, first, times, moved)
        return states, by[..., :more], by[..., more:]

    def _run(
        self, theta: np.ndarray, first: np.ndarray, times: np.ndarray, moved: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        d, more = len(self.masses), theta.shape[-1]
        theta = np.broadcast_to(theta, (len(first), more))
        z, by = first.copy(), moved
        states, all_by = [first], [] if by is None else [by.copy()]
        with np.errstate(all="ignore"):  # an orbit that escapes is no fit
            for steps in np.diff(times, axis=1).T:
                parts = max(math.ceil(steps.max() / self.longest), 1)
                h = (steps / parts)[:, None]
                for _ in range(parts):
                    self._kick(z, by, theta, _B[0] * h)
                    for a, b in zip(_A, _B[1:], strict=True):
                        z[:, :d] += a * h * z[:, d:] / self.masses
                        if by is not None:
                            by[:, :d] += (a * h)[..., None] * by[:, d:] / self.masses[:, None]
                        self._kick(z, by, theta, b * h)
                states.append(z.copy())
                all_by += [] if by is None else [by.copy()]
        return np.stack(states, 1), np.empty(0) if by is None else np.stack(all_by, 1)

    def _kick(self, z: np.ndarray, by: np.ndarray | None, theta: np.ndarray, h: np.ndarray) -> None:
        d = len(self.masses)
        gradients, hessian = self.basis.derivatives(z[:, :d], None if by is None else theta)
        z[:, d:] -= h * (gradients @ theta[..., None])[..., 0]
        if by is not None:
            by[:, d:] -= h[..., None] * (hessian @ by[:, :d])
            by[:, d:, : theta.shape[1]] -= h[..., None] * gradients
