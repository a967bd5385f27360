"""Hamiltonians p.p/2m + V(q) learned from positions at regular or irregular times."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vpintegrator.data.partial.identified import IdentifiedSystem
from vpintegrator.data.partial.likelihood import OrbitEstimate, maximum_likelihood
from vpintegrator.data.partial.observed import Observed
from vpintegrator.data.partial.potential import PotentialBasis, SplittingOrbits
from vpintegrator.data.partial.weak_form import WeakForm
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.storage.toml import toml_text

_HIGHEST, _MOST_TERMS = 10, 80
_SUBSTEPS = 12  # in a characteristic time, to begin with
_SOLVER_ERROR = 0.1  # of all residuals, in units of the noise
_ORDER = 4  # of the splitting
_FINER, _REFINEMENTS = 8, 3  # largest factor, and number of refinements
_SHORTEST = 8  # times of the segments that are fitted first
_STEPS = 100  # default of datasets
_PLAUSIBLE = 1.2  # score of the weak form over the least, of the degree tried first
_FEW = 4  # orbits, below which the information criterion of Schwarz chooses the degree


@dataclass(frozen=True)
class LearnedPotential:
    """Potential learned from positions.

    Attributes
    ----------
    model
        The Hamiltonian system, with coefficients, their covariance and the noise.
    estimate, length
        Maximum likelihood estimate, and the number of times of its segments.
    degree, scores
        Degree of the potential, and the scores by which degrees were compared: mean square residual
        of left-out orbits in units of the noise; for fewer than four orbits the Bayesian
        information criterion of Schwarz. The smallest score wins.
    """

    model: IdentifiedSystem
    estimate: OrbitEstimate
    length: int
    degree: int
    scores: dict[int, float]


def learn_potential(
    observed: Observed,
    names: Sequence[str],
    *,
    periods: Mapping[int, float] | None = None,
    masses: Sequence[float] | np.ndarray | None = None,
    degree: int | None = None,
    noise: np.ndarray | None = None,
    title: str = "Learned potential",
) -> LearnedPotential:
    """Learn V of H = p.p/2m + V(q) from positions by maximum likelihood over orbits.

    Parameters
    ----------
    observed
        Observations, a column for each position; the matrix is not used.
    names
        Names of the positions.
    periods
        Periods of the positions that are angles, by index: V is a Fourier sum in them, and a
        polynomial in the others.
    masses
        Mass of each position; 1 by default.
    degree
        Total degree of V; chosen by leaving out orbits by default.
    noise
        Noise of each position; estimated by default.
    title
        Title of the system.

    Returns
    -------
    LearnedPotential

    Raises
    ------
    InputError
        If no potential describes the data.

    Examples
    --------
    >>> from vpintegrator.data.partial import Observed, learn_potential
    >>> times = np.tile(np.linspace(0, 6, 40), (5, 1))
    >>> sizes = np.linspace(0.5, 1.5, 5)[:, None]
    >>> noise = np.random.default_rng(0).normal(0, 0.01, times.shape)
    >>> seen = Observed.of(times, (sizes * np.cos(2 * times) + noise)[..., None])
    >>> learned = learn_potential(seen, ["q"])
    >>> learned.degree, learned.model.system.components  # V = 2 q^2
    (2, ('q', 'p'))
    >>> abs(learned.model.values).round(1)
    array([0., 2.])
    """
    search = _Degrees(observed, names, periods or {}, masses, noise)
    degree = search.best() if degree is None else degree
    fit, score = search.fit(degree), search.score(degree)
    if fit is None:
        raise InputError(f"no potential of degree {degree} describes the positions")
    model = _model(fit, title, observed.median_step)
    reference = score / float(fit.estimate.left_out.mean())
    scores = {n: score / reference for n, score in sorted(search.scores.items())}
    return LearnedPotential(model, fit.estimate, fit.length, degree, scores)


@dataclass(frozen=True)
class _DegreeFit:
    basis: PotentialBasis
    orbits: SplittingOrbits
    estimate: OrbitEstimate
    length: int


class _Degrees:
    """Fits of several degrees, begun by the weak form or by the fit of the degree below."""

    def __init__(
        self,
        observed: Observed,
        names: Sequence[str],
        periods: Mapping[int, float],
        masses: Sequence[float] | np.ndarray | None,
        noise: np.ndarray | None,
    ) -> None:
        d = len(names)
        self._masses = np.ones(d) if masses is None else np.asarray(masses, dtype=float)
        self._observed = Observed(observed.times, observed.values, np.eye(d, 2 * d))
        smooth = self._observed.smoothed()
        self._starts = np.concatenate([smooth[0], smooth[1] * self._masses], axis=2)
        positions, speeds = (each.reshape(-1, d) for each in smooth[:2])
        spread = positions.std(axis=0)
        self._unit = 2 * np.pi * float(np.min(spread / np.maximum(speeds.std(axis=0), 1e-300)))
        rough = np.nanstd(observed.values - smooth[0], axis=(0, 1))
        self._known = noise is not None
        self._noise = np.maximum(rough, 1e-9 * spread) if noise is None else noise
        self._weak = WeakForm(self._observed, self._masses, self._unit)
        self._lowest = PotentialBasis.of(names, positions, periods, 1)
        self._fits: dict[int, _DegreeFit | None] = {}
        self.scores: dict[int, float] = {}

    def best(self) -> int:
        """Return the degree with the smallest score, near that of the weak form."""
        basis, weak = self._lowest, dict[int, float]()
        while len(basis.terms) <= _MOST_TERMS and basis.degree <= _HIGHEST:
            weak[basis.degree] = self._weak.solve(basis)[1]
            basis = basis.extended(np.zeros(len(basis.terms)))[0]
        least = min(weak.values())
        begun = min(degree for degree, score in weak.items() if score <= _PLAUSIBLE * least)
        for direction in (1, -1):
            degree = begun
            while degree in weak and self.score(degree) <= min(self.scores.values()):
                degree += direction
        return min(self.scores, key=self.scores.__getitem__)

    def score(self, degree: int) -> float:
        """Return the score of a degree, infinite where its fit fails."""
        if degree not in self.scores:
            fit = self.fit(degree)
            self.scores[degree] = np.inf if fit is None else self._score_of(fit.estimate)
        return self.scores[degree]

    def _score_of(self, found: OrbitEstimate) -> float:
        size = float(np.exp(2 * np.log(found.noise).mean()))
        if len(self._observed.times) >= _FEW:
            return size * float(found.left_out.mean())
        used = int(found.used.sum())
        mean = size * float(np.square(found.residual).sum()) / used
        return mean * float(np.exp(len(found.theta) * np.log(used) / used))

    def fit(self, degree: int) -> _DegreeFit | None:
        """Return the fit of a degree; None where no solution is near the data."""
        if degree not in self._fits:
            try:
                self._fits[degree] = self._fit(degree)
            except InputError:
                self._fits[degree] = None
        return self._fits[degree]

    def _fit(self, degree: int) -> _DegreeFit:
        basis, below = self._lowest, self._fits.get(degree - 1)
        while basis.degree < degree:
            basis = basis.extended(np.zeros(len(basis.terms)))[0]
        theta, starts, shortest = self._weak.solve(basis)[0], self._starts, _SHORTEST
        total = self._observed.times.shape[1]
        if below is not None and below.length == total:
            theta, starts = below.basis.extended(below.estimate.theta)[1], below.estimate.states
            shortest = total
        longest = self._unit / _SUBSTEPS if below is None else below.orbits.longest
        for _ in range(1 + _REFINEMENTS):
            orbits = SplittingOrbits(basis, self._masses, longest)
            found, length = maximum_likelihood(
                orbits, self._observed, theta, starts, self._noise, self._known, shortest
            )
            finer = SplittingOrbits(basis, self._masses, longest / 2)
            error = found.solver_error(finer)
            if error <= _SOLVER_ERROR:
                break
            longest /= math.ceil(np.fmin((error / _SOLVER_ERROR) ** (1 / _ORDER), _FINER))
            if length == total and np.isfinite(error):
                theta, starts, shortest = found.theta, found.states, total
        return _DegreeFit(basis, orbits, found, length)


def _model(fit: _DegreeFit, title: str, step: float) -> IdentifiedSystem:
    """Return the system of a fit, with coefficients of unscaled functions."""
    found, units = fit.estimate, fit.basis.units
    basis, masses = fit.basis.unscaled(), fit.orbits.masses
    values, covariance = units * found.theta, found.covariance * np.outer(units, units)
    positions = basis.names
    momenta = [f"p{name.removeprefix('q')}" for name in positions]
    names = tuple(f"c{k + 1}" for k in range(len(values)))
    if taken := {*positions, *momenta} & {*names}:
        raise InputError(
            f"{', '.join(sorted(taken))} would be the name of a position and of a coefficient; "
            "rename the position (--columns OLD=NEW)"
        )
    coefficients = dict(zip(names, values.tolist(), strict=True))
    text = _text(basis, momenta, masses, coefficients, title, step)
    errors = np.sqrt(np.diag(covariance))
    for name, error in zip(names, errors, strict=True):  # for readers of the file
        text = re.sub(rf"(?m)^{name} = .*$", rf"\g<0>  # +- {error:.2g}", text)
    system = System(text + _initial(System(text), found.states), "-".join(title.lower().split()))
    orbits = SplittingOrbits(basis, masses, fit.orbits.longest)
    matrix = np.eye(len(positions), 2 * len(positions))
    return IdentifiedSystem(system, names, covariance, found.noise, matrix, orbits)


def _text(
    basis: PotentialBasis,
    momenta: Sequence[str],
    masses: np.ndarray,
    values: Mapping[str, float],
    title: str,
    step: float,
) -> str:
    """Return a system file, but for its initial conditions."""
    terms = [
        f"{p}**2/{'2' if m == 1 else repr(float(2 * m))}"
        for p, m in zip(momenta, masses, strict=True)
    ]
    angles = {
        name: "2*pi" if scale == 1 else f"2*pi*{float(scale)!r}"
        for name, scale, angle in zip(basis.names, basis.scale, basis.angles, strict=True)
        if angle
    }
    head = {
        "title": title,
        "description": "Kinetic energy p.p/2m; the potential was learned from positions.",
        "state": [*basis.names, *momenta],
        "hamiltonian": " + ".join([*terms, basis.text(list(values))]),
        "periodic": angles,
    }
    text = toml_text(
        {key: value for key, value in head.items() if value},
        {"parameters": values, "defaults": {"step": step, "steps": _STEPS}},
    )
    symmetry = "\n".join(f'{p} = "-{p}"' for p in momenta)
    return f"{text}\n[[reversing_symmetry]]\n{symmetry}\n"


def _initial(system: System, states: np.ndarray) -> str:
    """Return the table of initial states: the box and the energies of the fitted orbits."""
    rows = states.reshape(-1, system.dim)
    rows = rows[np.isfinite(rows).all(axis=1)]
    energies = np.asarray(system.hamiltonian(rows))
    margin = 1e-3 * np.ptp(energies) + 1e-6 * np.abs(energies).max()
    table = {
        "distribution": "energy-shell",
        "energy": [float(energies.min() - margin), float(energies.max() + margin)],
        "low": rows.min(axis=0).tolist(),
        "high": rows.max(axis=0).tolist(),
    }
    return toml_text({}, {"initial_conditions": table})
