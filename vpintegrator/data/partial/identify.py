"""Parameters of known equations, and states, from observations of some components."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vpintegrator.data.partial.flows import FlowOrbits
from vpintegrator.data.partial.identified import IdentifiedSystem
from vpintegrator.data.partial.likelihood import Fixed, OrbitEstimate, Orbits, maximum_likelihood
from vpintegrator.data.partial.observed import Observed
from vpintegrator.dynamics import System


def identify(
    system: System, names: Sequence[str], observed: Observed, noise: np.ndarray | None = None
) -> IdentifiedSystem:
    """Estimate parameters of a system by maximum likelihood over partially observed orbits.

    Parameters
    ----------
    system
        The system; the search begins at its parameters.
    names
        Parameters to estimate; none estimates the noise alone.
    observed
        Observations; their matrix says of which components.
    noise
        Standard deviation of each column; estimated by default.

    Returns
    -------
    IdentifiedSystem

    Raises
    ------
    InputError
        If the observations do not determine the parameters or the states.

    Examples
    --------
    >>> from vpintegrator.data.partial import Observed, identify
    >>> times = np.tile(np.linspace(0, 6, 40), (4, 1))
    >>> sizes = np.linspace(0.5, 1.5, 4)[:, None]
    >>> noise = np.random.default_rng(0).normal(0, 0.01, times.shape)
    >>> seen = Observed.of(times, (sizes * np.cos(2 * times) + noise)[..., None], np.eye(1, 2))
    >>> found = identify(vp.load_system("harmonic-oscillator", k=3.0), ["k"], seen)
    >>> bool(abs(found.values[0] - 4) < 3 * found.errors[0] < 0.03)
    True
    """
    orbits = FlowOrbits(system, names)
    theta = np.array([system.parameters[name] for name in names], dtype=float)
    known = noise is not None
    level = _rough_noise(observed) if noise is None else noise
    starts = orbits.guess(theta, observed)
    found, _ = maximum_likelihood(orbits, observed, theta, starts, level, known)
    values = dict(zip(names, found.theta.tolist(), strict=True))
    return IdentifiedSystem(
        system.with_parameters(values) if values else system,
        tuple(names),
        found.covariance,
        found.noise,
        observed.matrix,
        orbits,
    )


def orbits_of(model: IdentifiedSystem, observed: Observed) -> tuple[Orbits, OrbitEstimate, int]:
    """Return fitted orbits of a model: the solver, first states, and the length of segments."""
    orbits = Fixed(model.orbits, model.values)
    starts = FlowOrbits(model.system).guess(np.empty(0), observed)
    found, length = maximum_likelihood(
        orbits, observed, np.empty(0), starts, model.noise, known=True
    )
    return orbits, found, length


def _rough_noise(observed: Observed) -> np.ndarray:
    rest = observed.values - observed.smoothed()[0]
    spread = np.nanstd(observed.values, axis=(0, 1))
    return np.asarray(np.maximum(np.nanstd(rest, axis=(0, 1)), 1e-9 * spread))
