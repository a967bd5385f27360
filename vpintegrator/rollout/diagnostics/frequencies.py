"""Frequency analysis of trajectories: the lines of quasi-periodic motion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.arguments import finite, real_array, whole_number
from vpintegrator.errors import InputError


@dataclass(frozen=True)
class Frequencies:
    """Lines of each component of each trajectory, the largest amplitude first.

    Attributes
    ----------
    frequency
        Angular frequencies, in radians per unit of time, (trajectory, component, line).
    amplitude, phase
        Of ``amplitude * cos(frequency * t + phase)``, in the same shape.
    mean
        The constant part, (trajectory, component).
    """

    frequency: np.ndarray
    amplitude: np.ndarray
    phase: np.ndarray
    mean: np.ndarray


def frequencies(trajectories: Any, step: float, count: int = 1) -> Frequencies:
    r"""Return the largest lines of trajectories.

    .. math:: x(t) \approx c + \sum_{l=1}^{\text{count}} A_l \cos(\omega_l t + \varphi_l)

    Laskar's frequency analysis (Icarus 88 (1990) 266-291; Physica D 67 (1993) 257-281) for real
    components: the largest line of the spectrum under a window that vanishes at both ends, then the
    largest line of the remainder, and so on. Where Laskar orthogonalises the lines, all of them and
    the mean are fitted together after each new line, by Gauss and Newton's method under the same
    window. A sum of ``count`` cosines is found to rounding. Further lines shift the frequencies a
    little: take more lines then. Lines that are not there have amplitude 0.

    Parameters
    ----------
    trajectories
        States of trajectories, (trajectory, time, dim), at equal steps. Lines must be further
        apart than about four periods over the time of the trajectories.
    step
        Time step.
    count
        Number of lines.

    Raises
    ------
    InputError
        If the trajectories have another shape, are not finite, or are too short.

    Examples
    --------
    >>> times = 0.1 * np.arange(2000)
    >>> states = (np.cos(0.7 * times) + 0.1 * np.cos(1.9 * times + 1))[None, :, None]
    >>> lines = vp.rollout.frequencies(states, 0.1, count=2)
    >>> lines.frequency[0, 0].round(10), lines.amplitude[0, 0].round(10)
    (array([0.7, 1.9]), array([1. , 0.1]))
    """
    states = real_array("trajectories", trajectories, ("trajectory", "time", "dim"))
    step = finite("step", step)
    count = whole_number("count", count, 1)
    orbits, times, dim = states.shape
    if times < 16 * count:
        raise InputError(f"{count} lines need {16 * count} times or more, not {times}")
    if not np.isfinite(states).all():
        raise InputError("trajectories hold a value that is not finite")
    shape = (orbits, dim, count)
    lines = np.zeros((3, *shape))
    result = Frequencies(lines[0], lines[1], lines[2], np.zeros(shape[:2]))
    for i, k in np.ndindex(orbits, dim):
        result.mean[i, k], lines[:, i, k] = _lines(states[i, :, k], count)
    lines[0] /= step
    return result


def _lines(signal: np.ndarray, count: int, padding: int = 4) -> tuple[float, np.ndarray]:
    """Return the mean, and frequencies per step, amplitudes and phases (3, count) of a signal."""
    size = len(signal)
    place = np.arange(size) - (size - 1) / 2  # symmetric: amplitudes and frequencies decouple
    window = np.sin(np.pi * (np.arange(size) + 0.5) / size) ** 4
    scale = np.abs(signal).max()
    signal = signal / (scale or 1.0)
    omega = np.empty(0)
    remainder = signal - window @ signal / window.sum()
    mean = signal.mean()
    lines = np.zeros((3, count))
    while len(omega) < count and np.abs(remainder).max() > 1e-15:
        spectrum = np.abs(np.fft.rfft(window * remainder, padding * size))
        spectrum[: 2 * padding] = 0.0  # the mean is fitted beside the lines
        omega = np.append(omega, 2 * np.pi * spectrum.argmax() / (padding * size))
        omega, coefficients, remainder = _fit(signal, place, window, omega)
        mean = coefficients[0]
        cosine, sine = np.split(coefficients[1:], 2)
    if not len(omega):
        return scale * mean, lines
    amplitude = np.hypot(cosine, sine)
    phase = np.arctan2(-sine, cosine) + omega * place[0]
    order = np.argsort(-amplitude, kind="stable")
    phase = (phase + np.pi) % (2 * np.pi) - np.pi
    lines[:, : len(omega)] = np.stack([omega, scale * amplitude, phase])[:, order]
    return scale * mean, lines


def _fit(
    signal: np.ndarray, place: np.ndarray, window: np.ndarray, omega: np.ndarray, most: int = 30
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return frequencies, coefficients of 1, cosines and sines, and the remainder."""
    count = len(omega)
    size = len(place)
    weights = np.sqrt(window)[:, None]
    change = np.inf
    for _ in range(most):
        angles = np.outer(place, omega)
        cosines = np.cos(angles)
        sines = np.sin(angles)
        linear = np.hstack([np.ones((size, 1)), cosines, sines])
        coefficients = _solution(weights * linear, weights[:, 0] * signal)
        remainder = signal - linear @ coefficients
        cosine = coefficients[1 : count + 1]
        sine = coefficients[count + 1 :]
        slopes = place[:, None] * (sine * cosines - cosine * sines)
        full = weights * np.hstack([linear, slopes / size])
        last = change
        step = _solution(full, weights[:, 0] * remainder)[-count:] / size
        change = np.abs(step).max()
        if last <= change < 1e-6 / size:  # rounding
            break
        omega = np.abs(omega + np.clip(step, -2 / size, 2 / size))
    return omega, coefficients, remainder


def _solution(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the least-squares solution; lines that are apart make the columns almost orthogonal.

    The iteration corrects the rounding errors of the normal equations.
    """
    return np.linalg.lstsq(matrix.T @ matrix, matrix.T @ right, rcond=None)[0]
