"""Fit of equations to measured states, and estimates of their parameters.

The check integrates every observed state for one step, and for ten steps. It compares the results
with the later observations, relative to the differences that noise in both explains. Parameters are
estimated by maximum likelihood over segments whose first states are estimated too, so that noise in
a first state does not bias a parameter (Ljung, System Identification, 2nd ed., ch. 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.data.importing.arguments import Identification
from vpintegrator.data.importing.arrays import numbers
from vpintegrator.data.importing.samples import Samples
from vpintegrator.data.noise import noise_of_states
from vpintegrator.data.partial.flows import FlowOrbits
from vpintegrator.data.partial.likelihood import maximum_likelihood
from vpintegrator.data.partial.observed import Observed
from vpintegrator.data.variation import STEP
from vpintegrator.dynamics import System, solve
from vpintegrator.dynamics.varied import solve_varied
from vpintegrator.errors import InputError, nearest

_STARTS = 3000  # solutions in all for the check
_FEWEST = 50  # observed states from which it integrates
_SPAN = 10  # steps of the longer check
_MISFIT = 2.0  # median residual in units of the noise beyond which equations do not fit
_MATERIAL = 1e-3  # relative to the states' change: smaller residuals are rounding of other programs
_SHORTEST, _LONGEST = 5, 65  # times of segments: short ones find parameters that begin far off
_SHOWN = 6  # numbers listed in a sentence
_UNKNOWNS = 60  # first states of segments, in numbers
_DIFFERENCE = 1e-6  # relative, for derivatives
_FLOOR = 1e-10  # relative to the spread: the solver's own error
_TOLERANCE = 1e-10
_FAMILY_STEPS = 1000  # steps that are computed where steps or parameters vary


@dataclass(frozen=True)
class FitCheck:
    """Residuals of equations in units of the noise: about 1 if the equations fit.

    Attributes
    ----------
    median, worst
        Median and largest residual over the states, of one step.
    median_long
        Median residual over :attr:`span` steps.
    span
        Steps of the longer check.
    relative
        Root mean square residual of one step, relative to the change in the step, of the worst
        component.
    noise
        Standard deviation of each component, (dim,).
    """

    median: float
    worst: float
    median_long: float
    span: int
    relative: float
    noise: np.ndarray

    @property
    def fits(self) -> bool:
        """Whether noise explains the residuals, or they are too small to matter."""
        largest = max(self.median, self.median_long)
        return bool(largest < _MISFIT or self.relative < _MATERIAL)


def noise_level(states: np.ndarray, step: float) -> np.ndarray:
    """Return the noise of states at equal steps, (dim,), no less than their digits make it.

    Parameters
    ----------
    states
        (trajectory, time, dim), NaN where none was observed.
    step
        Time between two states.
    """
    estimate = noise_of_states(states, step * np.arange(states.shape[1]))
    found = []
    for k, component in enumerate(np.moveaxis(states, -1, 0)):
        values = np.unique(component[np.isfinite(component)])
        if len(values) < 2:
            found.append(_FLOOR)
            continue
        spread = float(np.ptp(values))
        level = spread if estimate is None else float(estimate.level[k])
        rounding = float(np.diff(values).min()) / 12**0.5
        found.append(max(level, rounding, _FLOOR * spread))
    return np.array(found)


def check_equations(
    system: System, states: np.ndarray, step: float, noise: np.ndarray | None = None
) -> FitCheck:
    """Compare what equations make of each observed state with the next one observed.

    Parameters
    ----------
    system
        The equations.
    states
        (trajectory, time, dim), NaN where none was observed.
    step
        Time between two states.
    noise
        Standard deviation of each component, (dim,); estimated by default.

    Raises
    ------
    InputError
        If no state has another one observed after it, or the equations have no solution there.
    """
    noise = noise_level(states, step) if noise is None else noise
    span = min(_SPAN, states.shape[1] - 1)
    one, relative = _residuals(system, states, step, noise, 1)
    long, _ = _residuals(system, states, step, noise, span)
    return FitCheck(
        float(np.median(one)), float(one.max()), float(np.median(long)), span, relative, noise
    )


def _residuals(
    system: System, states: np.ndarray, step: float, noise: np.ndarray, span: int
) -> tuple[np.ndarray, float]:
    """Root mean square of each residual in units of the noise, (state,); and the relative one."""
    begin, end = states[:, :-span], states[:, span:]
    both = np.isfinite(begin).all(axis=-1) & np.isfinite(end).all(axis=-1)
    begin, end = begin[both], end[both]
    if not len(begin):
        raise InputError(f"no two states that are {span} steps apart were both observed")
    most = max(_STARTS // (system.dim + 1), _FEWEST)
    chosen = np.unique(np.linspace(0, len(begin) - 1, most).astype(int))
    begin, end = begin[chosen], end[chosen]
    shift = _DIFFERENCE * np.maximum(np.ptp(begin, axis=0), 1e-3 * np.abs(begin).max(axis=0))
    shift = np.where(shift > 0, shift, _DIFFERENCE)
    starts = np.concatenate([begin, *(begin + row for row in np.diag(shift))])
    ends = _flow(system, starts, step * np.array([0.0, span]))[:, 1]
    ends = ends.reshape(system.dim + 1, *begin.shape)
    # the noise of the first state, carried on by the linearised flow, and that of the last
    slopes = (ends[1:] - ends[0]) / shift[:, None, None]
    scale = np.sqrt(noise**2 + np.einsum("jni,j->ni", slopes**2, noise**2))
    residual = end - ends[0]
    change = np.sqrt(((end - begin) ** 2).mean(axis=0))
    size = np.sqrt((residual**2).mean(axis=0))
    relative = float(np.max(size / np.where(change > 0, change, np.inf)))
    return np.sqrt(((residual / scale) ** 2).mean(axis=-1)), relative


def _flow(system: System, initial: np.ndarray, times: np.ndarray) -> np.ndarray:
    return solve(system, initial, times, rtol=_TOLERANCE, atol=_TOLERANCE)


def judge(
    system: System, given: Identification, samples: Samples, train: np.ndarray
) -> tuple[System, dict[str, Any]]:
    """Fit parameters to what is trained on, if asked, and say how well the equations describe all.

    Parameters
    ----------
    system
        The system; nothing is found for one without equations.
    given
        Parameters to be fitted, and the noise.
    samples, train
        All trajectories, and the states (trajectory, time, dim) of those that are trained on.

    Returns
    -------
    System, dict
        The system, with the values fitted; and what was found, to be stored: ``said`` is a
        sentence, and ``fits`` is ``yes``, ``no``, or ``unknown`` where it cannot be told.

    Raises
    ------
    InputError
        If something varies that is no parameter of the system, or options need equations or equal
        steps that are not there.
    """
    for name in ("fit", "noise"):
        if getattr(given, name) is None:
            continue
        if samples.varied:
            raise InputError(
                f"{name} is for trajectories of equal steps and parameters; these have their own "
                f"{', '.join(samples.varied)}"
            )
        if system.is_measured:
            raise InputError(f"{name} needs equations; give a system with --system")
    if system.is_measured:
        return system, {}
    if samples.varied:
        return system, _judge_family(system, samples)
    noise = None if given.noise is None else _noise(given.noise, system.dim)
    fit, states, step = given.fit, samples.states, samples.step
    found: dict[str, Any] = {}
    if fit is not None:
        system, values = fit_parameters(system, fit, train, step, noise)
        found["fitted"] = {name: list(pair) for name, pair in values.items()}
    try:
        residual = check_equations(system, states, step, noise)
    except InputError as error:
        said = f"it cannot be told how well they describe the data: {error}"
        return system, found | {"fits": "unknown", "said": said}
    found |= {
        "fits": "yes" if residual.fits else "no",
        "said": _sentence(system, residual, noise is not None, fit),
        "residual_median": residual.median,
        "residual_worst": residual.worst,
        f"residual_median_of_{residual.span}_steps": residual.median_long,
        "relative_residual": residual.relative,
        "noise": [float(value) for value in residual.noise],
        "noise_given": noise is not None,
    }
    return system, found


def _noise(noise: Any, dim: int) -> np.ndarray:
    """Return the noise given, (dim,)."""
    found = numbers(noise, "noise").ravel()
    if len(found) not in (1, dim) or not (np.isfinite(found) & (found > 0)).all():
        raise InputError(
            f"noise = {noise}: expected a positive standard deviation, or one for each of the "
            f"{dim} components"
        )
    return np.broadcast_to(found, (dim,)).copy()


def _judge_family(system: System, samples: Samples) -> dict[str, Any]:
    """Return how far a step is from what was observed, relative to the change in it."""
    names = [name for name in samples.varied if name != STEP]
    varied = system.with_open(names)
    seen = np.flatnonzero(np.isfinite(samples.states[:, :2]).all(axis=(1, 2)))
    chosen = seen[np.unique(np.linspace(0, len(seen) - 1, _FAMILY_STEPS).astype(int))]
    if not len(chosen):
        return {"fits": "unknown", "said": "it cannot be told how well they describe them"}
    pairs, own = samples.states[chosen, :2], samples.conditions[chosen]
    steps = own[:, 0] if STEP in samples.varied else np.full(len(own), samples.step)
    parameters = own[:, len(samples.varied) - len(names) :]
    try:
        reached = solve_varied(
            varied,
            pairs[:, 0],
            steps,
            parameters,
            np.arange(2),
            rtol=_TOLERANCE,
            atol=_TOLERANCE,
        )
    except InputError as error:
        said = f"it cannot be told how well they describe the data: {error}"
        return {"fits": "unknown", "said": said}
    size = np.abs(pairs[:, 1] - pairs[:, 0]).max(axis=1)
    misses = np.abs(reached[:, 1] - pairs[:, 1]).max(axis=1) / np.where(size > 0, size, 1.0)
    median = float(np.median(misses))
    said = f"one step of them misses the next state by {median:.2g} of the change in it (median)"
    return {"fits": "unknown", "said": said, "relative_residual": median}


def _sentence(system: System, residual: FitCheck, given: bool, fit: Sequence[str] | None) -> str:
    sizes = ", ".join(f"{value:.2g}" for value in residual.noise[:_SHOWN])
    more = ", ..." if len(residual.noise) > _SHOWN else ""
    source = "as given" if given else "estimated from the data"
    figures = (
        f"one step of them misses the next state by {residual.median:.2g} times the noise (median; "
        f"worst {residual.worst:.2g}), {residual.span} steps by {residual.median_long:.2g}; noise "
        f"{sizes}{more}, {source}"
    )
    if residual.fits:
        small = residual.median > _MISFIT
        return figures + (f", and {residual.relative:.1g} of the change in a step" if small else "")
    numbers = [name for name, v in system.parameters.items() if isinstance(v, int | float)]
    left = [name for name in numbers if name not in (fit or ())]
    values = ", ".join(f"{name} = {system.parameters[name]:g}" for name in left[:_SHOWN])
    advice = (
        f"{values} may be wrong, and --fit {left[-1]} (fit=['{left[-1]}'] in Python) estimates it "
        "from the data"
        if left
        else "something is missing in them"
    )
    return f"they do NOT describe the data: {figures}; {advice}"


def fit_parameters(
    system: System,
    names: Sequence[str],
    states: np.ndarray,
    step: float,
    noise: np.ndarray | None = None,
) -> tuple[System, dict[str, tuple[float, float]]]:
    """Estimate parameters of equations from observed states, by multiple shooting.

    Parameters
    ----------
    system
        The equations; the values of its parameters are where the search begins.
    names
        The parameters, numbers each.
    states, step, noise
        Arguments of :func:`check_equations`.

    Returns
    -------
    System, dict
        The system with the values found; and value and standard error by name. The errors hold if
        the equations do, and the noise is independent and normal; its size is taken from the fit
        unless it is given.

    Raises
    ------
    InputError
        If a parameter is none, or the data do not determine the parameters.
    """
    _check_names(system, names)
    values = np.array([float(system.parameters[name]) for name in names])
    observed, starts = _segments(system, states, step)
    level = noise_level(states, step) if noise is None else noise
    found, _ = maximum_likelihood(
        FlowOrbits(system, names),
        observed,
        values,
        starts,
        level[: system.phase_dim],
        known=noise is not None,
        shortest=_SHORTEST,
    )
    try:
        errors = np.sqrt(np.diag(found.covariance))
    except InputError:
        raise InputError(
            f"the data do not determine {' and '.join(names)} of {system.name}"
            + ("; fit fewer of them" if len(names) > 1 else "; it changes nothing in them")
        ) from None
    pairs = zip(found.theta.tolist(), errors.tolist(), strict=True)
    fitted = dict(zip(names, pairs, strict=True))
    return system.with_parameters({name: value for name, (value, _) in fitted.items()}), fitted


def _segments(system: System, states: np.ndarray, step: float) -> tuple[Observed, np.ndarray]:
    """Return segments of the data, and approximate states at all of their times."""
    free, times = system.phase_dim, step * np.arange(states.shape[1])
    matrix = np.eye(system.dim)[:free]
    whole = Observed(np.broadcast_to(times, states.shape[:2]), states, np.eye(system.dim))
    parts = whole.segments(min(_LONGEST, states.shape[1]))
    seen = np.isfinite(parts.values[..., :free]).all(axis=-1)
    rows = np.flatnonzero(seen.sum(axis=1) > 1)
    if not len(rows):
        raise InputError("there are too few observed states to fit parameters to")
    most = max(_UNKNOWNS // system.dim, 1)
    parts = parts.orbits(rows[np.unique(np.linspace(0, len(rows) - 1, most).astype(int))])
    starts = parts.values.copy()
    for time, orbit in zip(parts.times, starts, strict=True):
        for component in orbit.T:
            known = np.isfinite(component)
            component[~known] = np.interp(time[~known], time[known], component[known])
    return Observed(parts.times, parts.values[..., :free], matrix), starts


def _check_names(system: System, names: Sequence[str]) -> None:
    for name in names:
        if name not in system.parameters:
            hint = nearest(name, system.parameters) or (
                f" (it has: {', '.join(system.parameters) or 'none'})"
            )
            raise InputError(f"{system.name} has no parameter '{name}' to be fitted{hint}")
        if not isinstance(system.parameters[name], int | float):
            raise InputError(f"{name} of {system.name} is a list; single numbers can be fitted")
    if len(set(names)) < len(names) or not names:
        raise InputError("name each parameter to be fitted once")
