"""Stable and unstable manifolds of hyperbolic points of maps of the plane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from vpintegrator.arguments import of_kind, whole_number
from vpintegrator.errors import InputError
from vpintegrator.rollout.flow import LearnedFlow, NumericalFlow
from vpintegrator.rollout.map_flows import ExactMap
from vpintegrator.rollout.periodic_points import displacement, periodic_point

_START = 1e-5  # distance from the point; the manifold differs from a line by its square
_FIRST = 32  # points of the first segment
_MOST = 200_000  # points of a branch
_ITERATIONS = 400
_HYPERBOLIC = 1e-6

Map = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class InvariantManifolds:
    r"""The manifolds of a hyperbolic point.

    For a fixed or periodic point p of a map :math:`\Phi`, the unstable manifold holds the states
    whose past tends to p, and the stable manifold those whose future does:

    .. math:: W^u = \{ z : \Phi^{-n}(z) \to p \}, \qquad W^s = \{ z : \Phi^n(z) \to p \}

    as n grows, counted in periods.

    Attributes
    ----------
    point
        The fixed or periodic point, (2,).
    period
        After how many steps it returns.
    multipliers
        Eigenvalues of the derivative there, the larger one first, (2,).
    unstable, stable
        Both branches of each, points (n, 2) from the point on.
    """

    point: np.ndarray
    period: int
    multipliers: np.ndarray
    unstable: tuple[np.ndarray, np.ndarray]
    stable: tuple[np.ndarray, np.ndarray]

    def __repr__(self) -> str:
        place = ", ".join(f"{value:.6g}" for value in self.point)
        return (
            f"<InvariantManifolds of ({place}), period {self.period}, multipliers "
            f"{self.multipliers[0]:.4g} and {self.multipliers[1]:.4g}: "
            f"{sum(map(len, (*self.unstable, *self.stable))):,} points>"
        )


def invariant_manifolds(
    flow: NumericalFlow,
    guess: np.ndarray,
    period: int = 1,
    *,
    length: float = 10.0,
    spacing: float = 0.01,
) -> InvariantManifolds:
    """Follow the manifolds of a hyperbolic fixed or periodic point of a map of the plane.

    A segment of the tangent that the map takes to the next one is iterated, and points are put in
    where its images are too far apart (You, Kostelich, Yorke, Int. J. Bifurcation Chaos 1 (1991)
    605).

    Parameters
    ----------
    flow
        A map of two components that can be gone back: an invertible model, or the exact map of a
        system with a reversing symmetry.
    guess
        A state near the point, (2,).
    period
        After how many steps it returns.
    length, spacing
        Length of each branch, and largest distance between two points on it.

    Raises
    ------
    InputError
        If there is no such point, it is not hyperbolic, or the map cannot be gone back.

    Examples
    --------
    >>> flow = vp.rollout.ExactMap(vp.load_system("standard-map"))
    >>> found = vp.rollout.invariant_manifolds(flow, np.array([0.1, 0.1]), length=2.0)
    >>> found.multipliers[0] > 1, len(found.unstable)
    (np.True_, 2)
    """
    of_kind("flow", flow, NumericalFlow, "a flow, as vp.rollout.as_flow gives it")
    period = whole_number("period", period, 1)
    if flow.dim != 2 or flow.window != 1:
        raise InputError(f"{flow.name} is no map of single states of two components")
    if not (np.isfinite([length, spacing]).all() and 0 < spacing < length):
        raise InputError(
            f"length = {length!r} and spacing = {spacing!r} must be 0 < spacing < length"
        )
    point = periodic_point(flow, guess, period)
    _, slope = displacement(flow, point, period)
    multipliers, vectors = np.linalg.eig(slope)
    order = np.argsort(-np.abs(multipliers))
    largest, least = np.abs(multipliers[order])
    if np.iscomplexobj(multipliers) or not least < 1 - _HYPERBOLIC < 1 + _HYPERBOLIC < largest:
        raise InputError(
            f"the point {point.tolist()} of {flow.name} is not hyperbolic: its multipliers are "
            f"{multipliers.tolist()}"
        )
    branches = []
    for k, once in ((order[0], _forwards(flow)), (order[1], _backwards(flow))):
        factor = multipliers[k] if k == order[0] else 1 / multipliers[k]
        times = period * (1 if factor > 0 else 2)  # a reflection exchanges the branches
        returning = _returning(flow, once, times, point)
        growth = abs(factor) if factor > 0 else factor**2
        tangent, growth = vectors[:, k], float(growth)
        one = _grow(returning, point, tangent, growth, length, spacing)
        branches.append((one, _grow(returning, point, -tangent, growth, length, spacing)))
    unstable, stable = branches
    return InvariantManifolds(point, period, multipliers[order], unstable, stable)


def _forwards(flow: NumericalFlow) -> Map:
    return lambda states: flow.map(states[:, None])[:, 0]


def _backwards(flow: NumericalFlow) -> Map:
    """Return the inverse of one step."""
    if isinstance(flow, LearnedFlow) and flow.model.invertible:
        return _inverse_of_model(flow)
    system = flow.system
    if isinstance(flow, ExactMap) and system is not None and len(system.reversing_symmetries):
        rho = system.reversing_symmetries[0].T
        return lambda states: system.map(states @ rho) @ rho
    raise InputError(
        f"{flow.name} cannot be gone back: stable manifolds need an invertible model, or the exact "
        "map of a system with a reversing symmetry"
    )


def _inverse_of_model(flow: LearnedFlow) -> Map:
    import torch

    from vpintegrator.rollout.neural import as_windows, evaluating

    def inverse(states: np.ndarray) -> np.ndarray:
        with evaluating(flow.model), torch.inference_mode():
            windows = as_windows(flow.model, states[:, None])
            return flow.model.inverse(windows).double().cpu().numpy()[:, 0]

    return inverse


def _returning(flow: NumericalFlow, once: Map, times: int, point: np.ndarray) -> Map:
    """Return the map of ``times`` steps, without the whole periods by which the point moves."""

    def several(states: np.ndarray) -> np.ndarray:
        for _ in range(times):
            states = once(states)
        return states

    shift = several(point[None])[0] - point
    periods = {} if flow.system is None else flow.system.periods
    whole = np.zeros_like(shift)
    for k, turn in periods.items():
        whole[k] = turn * np.round(shift[k] / turn)
    return lambda states: several(states) - whole


def _grow(
    function: Map,
    point: np.ndarray,
    direction: np.ndarray,
    growth: float,
    length: float,
    spacing: float,
) -> np.ndarray:
    """Return points (n, 2) along one branch."""
    size = _START * max(1.0, float(np.abs(point).max()))
    place = np.linspace(0, 1, _FIRST + 1)

    def iterated(place: np.ndarray, times: int) -> np.ndarray:
        states = point + size * growth ** place[:, None] * direction
        for _ in range(times):
            states = function(states)
        return states

    pieces, total = [point[None]], 0.0
    states = iterated(place, 0)
    for times in range(_ITERATIONS):
        if times:
            states = function(states)
        place, states = _refined(place, states, partial(iterated, times=times), spacing)
        steps = np.linalg.norm(np.diff(states, axis=0), axis=1)
        far = np.flatnonzero(~(total + np.cumsum(steps) <= length))
        if len(far):
            pieces.append(states[: far[0] + 1])
            break
        pieces.append(states[:-1])
        total += float(steps.sum())
        if len(place) > _MOST:
            break
    return np.concatenate(pieces)


def _refined(
    place: np.ndarray, states: np.ndarray, at: Map, spacing: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return places on the segment with their images, more where images are far apart."""
    while len(place) <= _MOST:
        gaps = np.linalg.norm(np.diff(states, axis=0), axis=1)
        wide = np.flatnonzero((gaps > spacing) & (np.diff(place) > 1e-13))
        if not len(wide):
            break
        new = (place[wide] + place[wide + 1]) / 2
        place, states = (
            np.insert(place, wide + 1, new),
            np.insert(states, wide + 1, at(new), axis=0),
        )
    return place, states
