"""Lyapunov exponents of a map, by differences of neighbouring trajectories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vpintegrator.arguments import of_kind, whole_number
from vpintegrator.compiled import machine_code
from vpintegrator.errors import InputError
from vpintegrator.maps import Map
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.diagnostics.drift import variance_of_fit
from vpintegrator.rollout.diagnostics.tangent import first_windows, scales_of_motion
from vpintegrator.rollout.report import Report, Run
from vpintegrator.rollout.variables import Column, Measurement, Variable

_GROUPINGS = (1, 2, 4)


@dataclass(frozen=True)
class Lyapunov:
    """Estimates of Lyapunov exponents.

    Attributes
    ----------
    exponent
        Per unit of time, the largest first, (trajectory, exponent).
    uncertainty
        Standard errors, (trajectory, exponent), of two parts added in squares. The first part is
        statistical, from the scatter of the growth rate over batches of time. The second part is
        1/time: the norm of a tangent vector is arbitrary by a factor of order one. On regular
        motion, where vectors grow linearly, an estimate falls to zero like 1/time, too. An exponent
        of less than two or three times this is not told from zero.
    time
        Time over which the growth was averaged, without the first fifth of the whole.
    """

    exponent: np.ndarray
    uncertainty: np.ndarray
    time: float


def lyapunov_spectrum(
    map: Map,
    states: Any,
    steps: int,
    count: int = 1,
    *,
    compiled: bool | None = None,
    scales: np.ndarray | None = None,
    distance: float = 1e-5,
    growth: float = 2.0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Lyapunov:
    r"""Return the largest Lyapunov exponents along trajectories of a map.

    .. math:: \lambda_i = \lim_{t \to \infty} \frac{1}{t} \log r_{ii}(t), \qquad D\Phi^t Q = Q' R

    Tangent vectors are central differences of neighbours on both sides of the trajectory, which the
    map itself moves, as machine code where there is some: ``2 count + 1`` trajectories instead of
    one. They are orthonormalised before they grow much (Benettin, Galgani, Giorgilli, Strelcyn,
    Meccanica 15 (1980) 9-30); their growth has a relative error of about 1e-8. The growth is
    averaged without the first fifth of the time.

    Parameters
    ----------
    map
        The map. Exponents of a map of windows are those of its map of windows.
    states
        Initial states (trajectory, dim), or first windows (trajectory, window, dim).
    steps
        Number of time steps.
    count
        Number of exponents, at most ``window * dim``.
    compiled
        Whether the map runs as machine code, by default where that is possible.
    scales
        Scale of each component, (dim,), in which tangent vectors are measured; by default that of
        the first states of the trajectories.
    distance
        Distance of neighbours, in the scales of the components.
    growth
        Largest logarithm of the growth between two orthonormalisations, about.
    progress
        Called with the name of the map, steps done, and steps in all.

    Returns
    -------
    Lyapunov
        Exponents and uncertainties (trajectory, count); NaN after a divergence.

    Raises
    ------
    InputError
        If an argument is wrong, or the map has an adaptive step size.

    Examples
    --------
    >>> map = vp.classical("stoermer-verlet", "henon-heiles", 0.1)
    >>> states = np.array([[0.0, -0.25, 0.42, 0.0]])
    >>> spectrum = vp.rollout.lyapunov_spectrum(map, states, 2000, count=4)
    >>> spectrum.exponent.shape, bool(abs(spectrum.exponent.sum()) < 1e-7)  # volume is kept
    ((1, 4), True)
    """
    if not of_kind("map", map, Map, "a map, such as vp.classical gives").differentiable:
        raise InputError(f"{map.name} has an adaptive step size, so it is no fixed map")
    windows = first_windows(map, states)
    steps = whole_number("steps", steps, 1)
    trajectories, window, dim = windows.shape
    count = whole_number("count", count, 1)
    if count > window * dim:
        raise InputError(f"count = {count}: {map.name} has {window * dim} exponents")
    machine = machine_code(map, windows if window > 1 else windows[:, 0], compiled)
    if scales is None:
        scales = scales_of_motion(machine, windows, steps)
    units = np.tile(scales, window)[:, None]
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((window * dim, window * dim)))[0]
    basis = np.broadcast_to(basis[:, :count], (trajectories, window * dim, count))
    logarithms = [np.zeros((trajectories, count))]
    times = [0]
    new = map.prediction_window
    length = 1
    while times[-1] < steps:
        # at least 256 parts, for the statistics
        length = new * max(min(length, steps // 256, steps - times[-1]) // new, 1)
        sizes = distance * np.maximum(np.abs(windows / scales).max(axis=(1, 2)), 1.0)
        offsets = ((sizes[:, None, None] * units) * basis).swapaxes(1, 2)
        offsets = offsets.reshape(trajectories, count, window, dim)
        centre = windows[:, None]
        bundle = np.concatenate([centre, centre + offsets, centre - offsets], axis=1)
        rows = bundle.reshape(-1, window, dim)
        (moved,) = machine.advance(rows, length, chunk=length)
        moved = np.concatenate([rows, moved], axis=1)[:, -window:]
        moved = moved.reshape(trajectories, 2 * count + 1, window * dim)
        windows = moved[:, 0].reshape(trajectories, window, dim)
        change = (moved[:, 1 : count + 1] - moved[:, count + 1 :]).swapaxes(1, 2) / units
        change /= 2 * sizes[:, None, None]
        with np.errstate(all="ignore"):
            basis, lengths = _orthonormal(change)
            rates = np.log(lengths)
        logarithms.append(logarithms[-1] + rates)
        times.append(times[-1] + length)
        largest = np.abs(rates).max(initial=0, where=np.isfinite(rates))
        if largest < growth / 2:
            length *= 2
        elif largest > growth:
            length //= 2
        if progress:
            progress(map.name, min(times[-1], steps), steps)
    return growth_rates(map.step * np.array(times), np.stack(logarithms, axis=-1))


def _orthonormal(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal vectors (n, size, k) and the lengths (n, k) before they are normalised.

    Gram and Schmidt's method, twice, for all n at once: the factor R of QR has the lengths as its
    diagonal. For a few columns it takes a small part of the time of LAPACK's QR.
    """
    result = np.empty_like(vectors)
    lengths = np.empty((len(vectors), vectors.shape[2]))
    for k in range(vectors.shape[2]):
        vector = vectors[:, :, k]
        before = result[:, :, :k]
        for _ in range(2 if k else 0):
            vector = vector - (before @ (vector[:, None] @ before).swapaxes(1, 2))[..., 0]
        lengths[:, k] = np.sqrt(np.sum(vector * vector, axis=1))
        result[:, :, k] = vector / lengths[:, k : k + 1]
    return result, lengths


def growth_rates(
    times: np.ndarray, logarithms: np.ndarray, most: int = 100, transient: float = 0.2
) -> Lyapunov:
    """Return mean growth rates and their uncertainties.

    Parameters
    ----------
    times, logarithms
        Times (time,), and logarithms of the growth (trajectory, exponent, time).
    most
        Largest number of about even parts of the time, for the uncertainty.
    transient
        Share of the time in which the vectors turn to the fastest growth.
    """
    first = np.searchsorted(times, transient * times[-1])
    times = times[first:]
    logarithms = logarithms[..., first:]
    if len(times) < 2:
        unknown = np.full(logarithms.shape[:-1], np.nan)
        return Lyapunov(unknown, unknown.copy(), 0.0)
    even = np.linspace(times[0], times[-1], min(most, len(times) - 1) + 1)
    places = np.unique(np.abs(times[:, None] - even).argmin(axis=0))
    series = logarithms.reshape(-1, len(times))[:, places]
    time = float(abs(times[-1] - times[0]))
    with np.errstate(all="ignore"):
        rates = np.diff(series, axis=1) / np.diff(times[places])
        mean = (series[:, -1] - series[:, 0]) / (times[-1] - times[0])
        variance = _variance_of_mean(rates)
        variance = np.fmax(variance, variance_of_fit(rates - mean[:, None], 0))
        error = np.sqrt(variance + 1 / time**2)
    return Lyapunov(mean.reshape(logarithms.shape[:-1]), error.reshape(logarithms.shape[:-1]), time)


def _variance_of_mean(rates: np.ndarray) -> np.ndarray:
    """Return the variance of the mean (series,) of rates (series, place), over batch sizes."""
    variance = np.full(len(rates), np.nan)
    for size in _GROUPINGS:
        count = rates.shape[-1] // size
        if count < 2 or (size > 1 and count < 8):
            break
        groups = rates[:, rates.shape[-1] - count * size :]
        means = groups.reshape(len(rates), count, size).mean(axis=-1)
        variance = np.fmax(variance, means.var(axis=-1, ddof=1) / count)
    return variance


_EACH = ("phase_space_trajectory",)
_STORED = (
    Variable("exponent", "largest Lyapunov exponent", _EACH, "lyapunov_exponent"),
    Variable("uncertainty", "uncertainty of the exponent", _EACH, "lyapunov_uncertainty"),
    Variable("time", "time", required=True, attribute_of="lyapunov_exponent"),
)


def _largest(exponent: np.ndarray, uncertainty: np.ndarray, time: float) -> Lyapunov:
    return Lyapunov(exponent[:, None], uncertainty[:, None], time)


def _parts(exponents: Lyapunov) -> dict[str, Any]:
    return {
        name: value if name == "time" else value[:, 0] for name, value in vars(exponents).items()
    }


class LyapunovExponent(Diagnostic):
    """The largest Lyapunov exponent over the time of the phase-space volume.

    The measurement is ``lyapunov``, a :class:`Lyapunov` of one exponent. The summary has
    ``lyapunov`` and ``lyapunov_error``, the medians of the estimates and of their uncertainties
    over the trajectories that are not lost, and ``lyapunov_time``, the time that they are averaged
    over.
    """

    variables = (Measurement("lyapunov", _STORED, _largest, _parts),)

    def result(self) -> dict[str, Any]:
        history = self.ensemble.tangent_history
        count, times = (0, 0) if history is None else history.log_determinant.shape
        first = self.ensemble.first[:count]
        steps = times - self.map.window
        if steps < 1:
            return {"lyapunov": None}
        spectrum = lyapunov_spectrum(
            self.map, first, steps, compiled=False, scales=self.ensemble.scales
        )
        lasting = self.ensemble.lasting(np.array([times - 1]), count).T  # (trajectory, 1)
        spectrum = replace(
            spectrum,
            exponent=np.where(lasting, spectrum.exponent, np.nan),
            uncertainty=np.where(lasting, spectrum.uncertainty, np.nan),
        )
        return {"lyapunov": spectrum}

    @classmethod
    def summary(cls, run: Run, report: Report) -> dict[str, Any]:
        exponents: Lyapunov | None = run.lyapunov
        if exponents is None or np.isnan(exponents.exponent).all():
            return dict.fromkeys(("lyapunov", "lyapunov_error", "lyapunov_time"))
        return {
            "lyapunov": float(np.nanmedian(exponents.exponent)),
            "lyapunov_error": float(np.nanmedian(exponents.uncertainty)),
            "lyapunov_time": exponents.time,
        }

    @classmethod
    def columns(cls, report: Report) -> list[Column]:
        title = "Lyapunov exponent"
        return [
            Column(title, "lyapunov", rank=3, beside=f"{title} ±"),
            Column(f"{title} ±", "lyapunov_error", "hidden"),
            Column(f"{title} time", "lyapunov_time", "hidden"),
        ]
