"""Sparse regression of the vector field by pysindy, and a Runge-Kutta method."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from vpintegrator.baselines.base import Baseline, BaselineData, Step

_DEGREE = 3  # of polynomials
_THRESHOLDS = (0.0, 1e-3, 1e-2, 1e-1)  # of coefficients that are set to zero
_SUBSTEPS = 4  # steps of Runge-Kutta between two states: errors below those of the regression
_LONG = 7  # states of a trajectory that differences of order four need
_EVERY = 5  # trajectories, of which one chooses the threshold


class SparseRegression(Baseline):
    """Sparse regression of the vector field (SINDy) with the classical Runge-Kutta method.

    The functions are polynomials of degree 3, and the sine and cosine of each component. Pairs of
    states give central differences, trajectories of seven states or more differences of order four.
    Every fifth trajectory chooses the threshold by the error one step ahead.

    References
    ----------
    Brunton, Proctor, Kutz, PNAS 113 (2016) 3932-3937; Kaptanoglu et al., JOSS 7 (2022) 3994.
    """

    name = "sparse regression"

    def unsuited(self, data: BaselineData) -> str:
        """Return the reason why the baseline cannot be fitted to such data."""
        if data.is_discrete:
            return "maps have no vector field"
        if importlib.util.find_spec("pysindy") is None:
            return "needs pysindy: pip install 'vpintegrator[bench]'"
        return ""

    def fit(self, data: BaselineData, seconds: float = 60.0, seed: int = 0) -> Step:
        """Return the map, see ``Baseline.fit``."""
        held = np.arange(len(data.states)) % _EVERY == 0
        if len(data.states) < _EVERY:
            held[:] = False
        judged = BaselineData(data.states[held if held.any() else ~held], data.step, data.periods)
        best, least = None, np.inf
        for threshold in _THRESHOLDS:
            step = _runge_kutta(_field(data, data.states[~held], threshold), data.step)
            with np.errstate(all="ignore"):
                error = float(((step(judged.before) - judged.after) ** 2).mean())
            if best is None or error < least:
                best, least = threshold, error
        assert best is not None
        return _runge_kutta(_field(data, data.states, best), data.step)


def _field(
    data: BaselineData, states: np.ndarray, threshold: float
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the fitted vector field as a function of states (state, dim)."""
    import pysindy

    points, slopes = _differences(data, states)
    library = pysindy.PolynomialLibrary(degree=_DEGREE) + pysindy.FourierLibrary(n_frequencies=1)
    optimizer = pysindy.STLSQ(threshold=threshold, alpha=1e-12)
    model: Any = pysindy.SINDy(feature_library=library, optimizer=optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about functions that all vanish
        model.fit(points, t=data.step, x_dot=slopes)
    matrix = np.asarray(model.coefficients()).T
    return lambda z: np.asarray(np.asarray(library.transform(z)) @ matrix)


def _differences(data: BaselineData, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return states (state, dim), and their derivatives."""
    dim = states.shape[-1]
    if states.shape[1] >= _LONG and np.isfinite(states).all():
        jumps = data.difference(states[:, 1:], states[:, :-1])
        s = states[:, :1] + np.concatenate([0 * jumps[:, :1], jumps.cumsum(1)], 1)
        slopes = (8 * (s[:, 3:-1] - s[:, 1:-3]) - s[:, 4:] + s[:, :-4]) / (12 * data.step)
        return s[:, 2:-2].reshape(-1, dim), slopes.reshape(-1, dim)
    own = BaselineData(states, data.step, data.periods)
    return (own.before + own.after) / 2, (own.after - own.before) / data.step


def _runge_kutta(field: Callable[[np.ndarray], np.ndarray], step: float) -> Step:
    """Return some steps of the classical Runge-Kutta method."""
    h = step / _SUBSTEPS

    def stepped(z: np.ndarray) -> np.ndarray:
        for _ in range(_SUBSTEPS):
            a = field(z)
            b = field(z + h / 2 * a)
            c = field(z + h / 2 * b)
            z = z + h / 6 * (a + 2 * b + 2 * c + field(z + h * c))
        return z

    return stepped
