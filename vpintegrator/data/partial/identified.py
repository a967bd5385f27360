"""A system whose parameters were estimated from observations, with their covariance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vpintegrator.data.dataset import Dataset
from vpintegrator.data.partial.flows import FlowOrbits
from vpintegrator.data.partial.likelihood import Orbits, OwnParameters, maximum_likelihood
from vpintegrator.data.partial.observed import Observed
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.storage.toml import read_toml


@dataclass(frozen=True)
class PredictedOrbits:
    """States of observed orbits at other times, with their uncertainty.

    Attributes
    ----------
    states
        Most likely states, (orbit, time, dim).
    draws
        Draws from the posterior of parameters and first states, (draw, orbit, time, dim): each an
        orbit of the system with other parameters, so symplectic where the system is.
    """

    states: np.ndarray
    draws: np.ndarray

    def band(self, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bound of a pointwise band, (orbit, time, dim) each.

        A further draw lies in the band with this probability, at any number of draws that it needs.
        """
        tails = [(1 - coverage) / 2, (1 + coverage) / 2]
        low, high = np.quantile(self.draws, tails, axis=0, method="weibull")
        return low, high


@dataclass(frozen=True)
class IdentifiedSystem:
    """System with estimated parameters.

    Attributes
    ----------
    system
        The system with the estimates.
    names, covariance
        Names of the estimated parameters, and their covariance (parameter, parameter).
    noise
        Standard deviation of the noise of each observed column.
    matrix
        Observed columns as combinations of the components, (column, dim).
    orbits
        Solver of the system, exactly symplectic for a learned potential.
    """

    system: System
    names: tuple[str, ...]
    covariance: np.ndarray
    noise: np.ndarray
    matrix: np.ndarray
    orbits: Orbits = field(repr=False)

    @classmethod
    def read(cls, dataset: Dataset) -> IdentifiedSystem:
        """Return the system that a dataset of partial observations was made with.

        Raises
        ------
        InputError
            If the dataset is another one.
        """
        table = read_toml(dataset.recipe, f"recipe in {dataset.path}").get("equations", {})
        try:
            names = tuple(table["fitted"])
            covariance, noise, matrix = (
                np.array(table[key], dtype=float) for key in ("covariance", "noise", "matrix")
            )
        except (KeyError, ValueError, TypeError):
            raise InputError(
                f"{dataset.path} was not made of partial observations, so it holds no fitted system"
            ) from None
        covariance = covariance.reshape(len(names), len(names))
        orbits = FlowOrbits(dataset.system, names)
        return cls(dataset.system, names, covariance, noise, matrix, orbits)

    @property
    def values(self) -> np.ndarray:
        """Estimates of the parameters, (parameter,)."""
        return np.array([self.system.parameters[name] for name in self.names], dtype=float)

    @property
    def errors(self) -> np.ndarray:
        """Standard errors of the parameters, (parameter,)."""
        return np.sqrt(np.diag(self.covariance))

    def sample(self, count: int, seed: int = 0) -> list[System]:
        """Draw systems from the Gaussian posterior of the parameters."""
        generator = np.random.default_rng(seed)
        drawn = generator.multivariate_normal(self.values, self.covariance, count)
        return [
            self.system.with_parameters(dict(zip(self.names, row.tolist(), strict=True)))
            for row in drawn
        ]

    def predict(
        self, times: Any, observed: Any, at: Any, draws: int = 64, seed: int = 0
    ) -> PredictedOrbits:
        """Infer orbits from observations, and return their states at other times.

        First states and parameters of each orbit have a joint Gaussian posterior: the prior of the
        parameters is that of the estimate.

        Parameters
        ----------
        times
            Times of the observations, (time,) or (orbit, time), NaN beyond the last.
        observed
            Observed columns, (orbit, time, column), NaN where nothing was observed.
        at
            Times of the states wanted, (time,), none before the first observation.
        draws, seed
            Number of draws, and their seed.

        Returns
        -------
        PredictedOrbits

        Raises
        ------
        InputError
            If an orbit has too few observations, or no solution is near them.
        """
        observed, at = np.asarray(observed, dtype=float), np.asarray(at, dtype=float)
        times = np.broadcast_to(np.asarray(times, dtype=float), observed.shape[:2])
        data = Observed.of(times, observed, self.matrix)
        if (at < data.times[:, :1]).any() or not (np.diff(at) > 0).all():
            raise InputError("times of a prediction increase, and none is before the first state")
        more, count, values = len(self.names), len(observed), self.values
        correlation = self.covariance / np.outer(self.errors, self.errors)
        root = np.linalg.cholesky(np.linalg.inv(correlation)).T / self.errors
        prior = np.full((*data.values.shape[:2], more), np.nan)
        prior[:, 0] = root @ values
        matrix = np.zeros((more + len(self.matrix), more + self.orbits.dim))
        matrix[:more, :more], matrix[more:, more:] = root, self.matrix
        extended = Observed(data.times, np.concatenate([prior, data.values], axis=2), matrix)
        starts = FlowOrbits(self.system).guess(np.empty(0), data)
        known = np.broadcast_to(values, (*starts.shape[:2], more))
        fit, _ = maximum_likelihood(
            OwnParameters(self.orbits, more),
            extended,
            np.empty(0),
            np.concatenate([known, starts], axis=2),
            np.concatenate([np.ones(more), self.noise]),
            known=True,
            shortest=data.times.shape[1],
        )
        free = more + self.orbits.free
        normal = np.random.default_rng(seed).normal(size=(draws, count, free, 1))
        z = np.tile(fit.first, (draws + 1, 1, 1))
        z[1:, :, :free] += np.linalg.solve(fit.root, normal)[..., 0]
        flat = z.reshape(-1, z.shape[2])
        when = np.concatenate([data.times[:, :1], np.broadcast_to(at, (count, len(at)))], axis=1)
        states = self.orbits(flat[:, :more], flat[:, more:], np.tile(when, (draws + 1, 1)))
        states = states.reshape(draws + 1, count, -1, self.orbits.dim)[:, :, 1:]
        return PredictedOrbits(states[0], states[1:])
