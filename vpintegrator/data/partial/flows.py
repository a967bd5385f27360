"""Orbits of a system with open parameters, and their derivatives by differences."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from vpintegrator.data.partial.observed import Observed
from vpintegrator.dynamics import System
from vpintegrator.dynamics.varied import solve_varied
from vpintegrator.errors import InputError

_DIFFERENCE = 1e-6  # relative, for derivatives
_TOLERANCE = 1e-9
_ROUNDING = 1e-12  # of equal steps
_WEIGHTS = (1.0, 0.5, 0.1)  # of curves and their derivatives, which are less certain
_STARTS, _ROUNDS, _DAMPING = 8, 12, 1e-2


class FlowOrbits:
    """Accurate orbits of a system, each with its own times and parameters.

    Parameters
    ----------
    system
        The system.
    names
        Parameters that are left open.

    Examples
    --------
    >>> from vpintegrator.data.partial.flows import FlowOrbits
    >>> orbits = FlowOrbits(vp.load_system("harmonic-oscillator"), ["k"])
    >>> times = np.array([[0.0, 0.3, 1.0], [0.0, 0.5, 0.9]])
    >>> orbits(np.array([4.0]), np.array([[1.0, 0.0], [1.0, 0.0]]), times)[..., 0].round(4)
    array([[ 1.    ,  0.8253, -0.4161],
           [ 1.    ,  0.5403, -0.2272]])
    """

    def __init__(self, system: System, names: Sequence[str] = ()) -> None:
        self.system = system
        self._system = system.with_open(list(names))
        self.dim, self.free = system.dim, system.phase_dim

    def __call__(self, theta: np.ndarray, first: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return states (orbit, time, dim), NaN from where a solution ends."""
        theta = np.broadcast_to(theta, (len(first), np.shape(theta)[-1]))
        states = np.full((*times.shape, self.dim), np.nan)
        states[:, 0] = first
        with contextlib.suppress(InputError):  # an orbit that ends: it is followed time by time
            if (found := self._on_grid(theta, first, times)) is not None:
                return found
        with contextlib.suppress(InputError):  # the states that are missing tell
            for k, steps in enumerate(np.diff(times, axis=1).T, start=1):
                moving = steps > 0
                states[:, k] = states[:, k - 1]
                if moving.any():
                    z = states[moving, k - 1]
                    states[moving, k] = self._solve(theta[moving], z, steps[moving], 2)[:, 1]
        return states

    def _on_grid(
        self, theta: np.ndarray, first: np.ndarray, times: np.ndarray
    ) -> np.ndarray | None:
        """Return states at times that are multiples of one step, else None."""
        steps = np.diff(times, axis=1)
        step = float(np.min(steps, where=steps > 0, initial=np.inf))
        counts = (times - times[:, :1]) / step
        index = np.round(counts).astype(int)
        count = int(index.max()) + 1
        if count > times.shape[1] or np.abs(counts - index).max() > _ROUNDING * count:
            return None
        found = self._solve(theta, first, np.full(len(first), step), count)
        return np.take_along_axis(found, index[..., None], axis=1)

    def _solve(
        self, theta: np.ndarray, first: np.ndarray, steps: np.ndarray, count: int
    ) -> np.ndarray:
        times, small = np.arange(count), _TOLERANCE
        return solve_varied(self._system, first, steps, theta, times, rtol=small, atol=small)

    def tangent(
        self, theta: np.ndarray, first: np.ndarray, times: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return states, and derivatives by parameters and first states.

        All shifted orbits are solved together, so that errors of the solver cancel.
        """
        count, more = len(first), theta.shape[-1]
        theta = np.broadcast_to(theta, (count, more))
        z = np.concatenate([theta, first], axis=1)
        moving = more + self.free
        shift = _DIFFERENCE * np.maximum(np.abs(z[:, :moving]).max(axis=0), 1e-3)
        shifted = np.tile(z, (moving + 1, 1, 1))
        for k in range(moving):
            shifted[k + 1, :, k] += shift[k]
        flat = shifted.reshape(-1, z.shape[1])
        found = self(flat[:, :more], flat[:, more:], np.tile(times, (moving + 1, 1)))
        found = found.reshape(moving + 1, *times.shape, self.dim)
        slopes = (found[1:] - found[0]) / shift[:, None, None, None]
        slopes = np.moveaxis(slopes, 0, -1)
        return found[0], slopes[..., :more], slopes[..., more:]

    def guess(self, theta: np.ndarray, observed: Observed) -> np.ndarray:
        """Return states at all times that agree with smooth curves through the observations.

        C z, C z' and C z'' = C f'(z) f(z) are compared with the curves and their derivatives, by
        damped Gauss-Newton steps from several states.

        Raises
        ------
        InputError
            If the system is a map.
        """
        self.system.require_vector_field("partial observation")
        wanted = observed.smoothed()  # (derivative, orbit, time, column)
        spread = wanted.std(axis=(1, 2))
        weight = np.array(_WEIGHTS)[:, None] / np.where(spread > 0, spread, 1.0)
        shape, columns = wanted.shape[1:3], len(observed.matrix)
        target = np.moveaxis(wanted * weight[:, None, None], 0, 2).reshape(-1, 3 * columns)
        base = np.zeros((len(target), self.dim))
        base[:, : self.free] = (
            target[:, :columns] / weight[0] @ np.linalg.pinv(observed.matrix[:, : self.free]).T
        )
        if self.free < self.dim:
            base[:, self.free] = observed.times.ravel()
        best, least = base, np.full(len(base), np.inf)
        for start in self._starts(base):
            z, cost = self._solved(start, target, observed.matrix, weight, theta)
            better = cost < least
            best, least = np.where(better[:, None], z, best), np.where(better, cost, least)
        return best.reshape(*shape, self.dim)

    def _starts(self, base: np.ndarray) -> list[np.ndarray]:
        generator = np.random.default_rng(0)
        try:
            drawn = self.system.sample_initial(_STARTS, generator)
        except InputError:  # a file need not say where its states are
            drawn = generator.normal(size=(_STARTS, self.dim))
        free = slice(self.free)
        starts = [base.copy() for _ in range(len(drawn) + 1)]
        for start, state in zip(starts[1:], drawn, strict=True):
            start[:, free] = state[free]
        return starts

    def _solved(
        self,
        z: np.ndarray,
        target: np.ndarray,
        matrix: np.ndarray,
        weight: np.ndarray,
        theta: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return states (n, dim) after damped Gauss-Newton steps, and their residuals."""

        def residual(z: np.ndarray) -> np.ndarray:
            speed = self._system.vector_field(z, theta)
            h = _DIFFERENCE / np.maximum(np.abs(speed).max(axis=1, keepdims=True), 1e-9)
            ahead, behind = (self._system.vector_field(z + s * h * speed, theta) for s in (1, -1))
            rows = (z, speed, (ahead - behind) / (2 * h))
            seen = [row @ matrix.T * w for row, w in zip(rows, weight, strict=True)]
            return np.nan_to_num(np.concatenate(seen, axis=1) - target, nan=1e9, posinf=1e9)

        r, damping = residual(z), np.full((len(z), 1, 1), _DAMPING)
        for _ in range(_ROUNDS):
            shifts = _DIFFERENCE ** (2 / 3) * np.eye(self.dim)[: self.free]
            D = np.stack([(residual(z + s) - r) / s.max() for s in shifts], axis=-1)
            normal = D.mT @ D
            size = np.einsum("nii->n", normal)[:, None, None] / self.free + 1e-12
            step = np.linalg.solve(normal + damping * size * np.eye(self.free), D.mT @ r[..., None])
            moved = z.copy()
            moved[:, : self.free] -= step[..., 0]
            other = residual(moved)
            better = np.square(other).sum(1) < np.square(r).sum(1)
            z, r = np.where(better[:, None], moved, z), np.where(better[:, None], other, r)
            damping = np.where(better[:, None, None], damping / 5, damping * 5)
        return z, np.square(r).sum(axis=1)
