"""Complete states of observed orbits, for the invariants that are measured along them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from vpintegrator.maps import Map
from vpintegrator.rollout.observed import CompleteStates

_NEIGHBOURS = 8  # states on each side from which rates are computed: order 16
_SHOWN = 400  # states of the reference at which completions are compared with complete states


class Completion(Protocol):
    """Complete states of orbits that come in chunks."""

    def observe(self, start: int, states: np.ndarray) -> tuple[int, np.ndarray]:
        """Return the first step and complete states (trajectory, count, dim) that are now known.

        ``states`` (trajectory, count, dim) are those of the map from step ``start`` on.
        """


class Identity:
    """States that are complete."""

    def observe(self, start: int, states: np.ndarray) -> tuple[int, np.ndarray]:
        return start, states


class Recent:
    """States of the last steps before a chunk.

    Parameters
    ----------
    count
        Number of these steps.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._before: np.ndarray | None = None

    def joined(self, start: int, states: np.ndarray) -> tuple[int, np.ndarray]:
        """Return a chunk with the last states before it, and the step of the first."""
        before = states[:, :0] if self._before is None else self._before
        both = np.concatenate([before, states], axis=1)
        self._before = both[:, max(both.shape[1] - self._count, 0) :].copy()
        return start - before.shape[1], both


class Placed:
    """Observed states that hold all components of the complete ones, or those with hidden values.

    Parameters
    ----------
    complete
        Complete states of the plan.
    """

    def __init__(self, complete: CompleteStates) -> None:
        self.complete = complete

    def observe(self, start: int, states: np.ndarray) -> tuple[int, np.ndarray]:
        return start, self.of(states, states[..., :0], [])

    def reset(self) -> None:
        """Forget all chunks: those of other orbits follow."""

    def of(self, states: np.ndarray, others: np.ndarray, places: list[int]) -> np.ndarray:
        """Return complete states of observed ones, and of ``others`` at further ``places``."""
        initial = self.complete.initial
        result = np.empty((*states.shape[:-1], initial.shape[-1]))
        if self.complete.carried:
            last = slice(initial.shape[-1] - self.complete.carried, None)
            result[..., last] = initial[: len(states), None, last]
        result[..., list(self.complete.components)] = states
        result[..., places] = others
        return result


class Momenta(Placed):
    """Positions with the momenta of a model, which are those of the system up to a factor.

    Parameters
    ----------
    complete
        Complete states of the plan, whose positions are observed.
    model
        A model with the method ``momenta`` of windows of two positions.
    """

    def __init__(self, complete: CompleteStates, model: Any) -> None:
        super().__init__(complete)
        self.model = model
        self.factor = 1.0
        pairs = dict(complete.system.structure.pairs)
        self.places = [pairs[q] for q in complete.components]
        self.reset()

    def reset(self) -> None:
        self._recent = Recent(1)

    def observe(self, start: int, states: np.ndarray) -> tuple[int, np.ndarray]:
        start, both = self._recent.joined(start, states)
        windows = np.stack([both[:, :-1], both[:, 1:]], 2)  # (trajectory, count, 2, n)
        flat = windows.reshape(-1, *windows.shape[2:])
        momenta = np.full((len(flat), flat.shape[-1]), np.nan)
        known = np.isfinite(flat).all((1, 2))
        if known.any():
            momenta[known] = self.factor * self.model.momenta(flat[known])
        rows = momenta.reshape(*windows.shape[:2], -1)
        return start + 1, self.of(both[:, 1:], rows, self.places)


class Rates(Placed):
    """Observed components with those that their rates determine by the equations of the system.

    Rates are differences of order 16 along the orbit. The other components solve the equations of
    the observed ones, by Gauss-Newton.

    Parameters
    ----------
    complete
        Complete states of the plan, some of whose components are observed.
    step
        Time step.
    periods
        Periods of observed components that are angles.
    """

    def __init__(self, complete: CompleteStates, step: float, periods: Mapping[int, float]) -> None:
        super().__init__(complete)
        self.step = step
        self.periods = periods
        moving = complete.system.dim - complete.carried
        self.places = [i for i in range(moving) if i not in complete.components]
        self.reset()
        self._guess = np.median(complete.states[..., self.places], axis=(0, 1))
        self._scales = complete.scales

    def reset(self) -> None:
        self._recent = Recent(2 * _NEIGHBOURS)

    def observe(self, start: int, states: np.ndarray) -> tuple[int, np.ndarray]:
        start, both = self._recent.joined(start, states)
        unwrapped = both.copy()
        for i, period in self.periods.items():
            turns = np.round(np.diff(both[..., i], axis=1) / period)
            unwrapped[:, 1:, i] -= period * np.cumsum(turns, axis=1)
        count = max(both.shape[1] - 2 * _NEIGHBOURS, 0)
        middle = both[:, _NEIGHBOURS : _NEIGHBOURS + count]
        rates = np.zeros_like(middle)
        for j, weight in enumerate(_weights(_NEIGHBOURS), 1):
            after = unwrapped[:, _NEIGHBOURS + j : _NEIGHBOURS + j + count]
            before = unwrapped[:, _NEIGHBOURS - j : _NEIGHBOURS - j + count]
            rates += weight / self.step * (after - before)
        return start + _NEIGHBOURS, self._solved(middle, rates)

    def _solved(self, states: np.ndarray, rates: np.ndarray, iterations: int = 20) -> np.ndarray:
        """Return complete states of observed ones (trajectory, count, k) and their rates."""
        system = self.complete.system
        observed = list(self.complete.components)
        scale = self._scales
        guess = np.broadcast_to(self._guess, (*states.shape[:-1], len(self.places)))
        result = self.of(states, guess, self.places)
        flat = result.reshape(-1, result.shape[-1])
        wanted = rates.reshape(-1, rates.shape[-1])
        todo = np.flatnonzero(np.isfinite(flat).all(1) & np.isfinite(wanted).all(1))
        lost = np.setdiff1d(np.arange(len(flat)), todo)
        for _ in range(iterations):
            if not len(todo):
                break
            z = flat[todo]
            wrong = (system.vector_field(z)[:, observed] - wanted[todo]) / scale[observed]
            slope = system.jacobian(z)[:, observed][:, :, self.places]
            slope = slope * scale[self.places] / scale[observed][:, None]
            change = (_inverse(slope) @ wrong[..., None])[..., 0]
            flat[todo[:, None], self.places] -= change * scale[self.places]
            todo = todo[~(np.abs(change).max(1) < 1e-12)]
        flat[lost] = np.nan
        return flat.reshape(result.shape)


def completion_of(
    map: Map,
    complete: CompleteStates,
    is_complete: bool,
    step: float,
    periods: Mapping[int, float],
    *,
    alike: float = 1e-6,
    most: float = 1e-3,
) -> Completion | None:
    """Return what completes the states of a map; None where they do not determine complete ones.

    Momenta of a model are taken where they are those of the system along the reference, and else
    rates where these give its complete states.

    Parameters
    ----------
    map
        A map, whose original has momenta or not.
    complete
        Complete states behind observed ones.
    is_complete
        Whether the states of the map are complete.
    step
        Time step.
    periods
        Periods of observed components that are angles.
    alike, most
        Largest distances of momenta, and of what rates give, from those of the reference, relative
        to their scales.
    """
    if is_complete:
        return Identity()
    if not complete.components:
        return None
    every = complete.system.dim - complete.carried
    if len({*complete.components}) == every:
        return Placed(complete)
    model: Any = getattr(map, "original", map)
    pairs = dict(complete.system.structure.pairs)
    has_momenta = hasattr(model, "momenta") and {*pairs} == {*complete.components}
    if has_momenta:
        momenta = Momenta(complete, model)
        if _mismatch(momenta, complete) <= alike:
            return momenta
    rates = Rates(complete, step, periods)
    return rates if _mismatch(rates, complete) <= most else None


def _mismatch(candidate: Momenta | Rates, complete: CompleteStates) -> float:
    """Return the largest relative distance from complete states of the reference.

    The factor of momenta is chosen here.
    """
    motion = complete.motion[:_SHOWN].transpose(1, 0, 2)  # (trajectory, time, dim)
    observed = complete.observe(motion)
    start, states = candidate.observe(0, observed)
    candidate.reset()
    true = motion[:, start : start + states.shape[1]]
    known = np.isfinite(states).all(-1) & np.isfinite(true).all(-1)
    if not known.any():
        return math.inf
    values = states[known][:, candidate.places]
    others = true[known][:, candidate.places]
    if isinstance(candidate, Momenta):
        size = float((values**2).sum())
        candidate.factor = float((values * others).sum()) / size if size > 0 else 1.0
        values = candidate.factor * values
    return float(np.abs((values - others) / complete.scales[candidate.places]).max())


def _inverse(matrices: np.ndarray) -> np.ndarray:
    """Return inverses (n, u, k) of matrices (n, k, u), or pseudoinverses."""
    if matrices.shape[-1] == matrices.shape[-2]:
        with suppress(np.linalg.LinAlgError):
            return np.linalg.inv(matrices)
    return np.linalg.pinv(matrices)


def _weights(count: int) -> list[float]:
    """Return weights of central differences of the order 2 ``count``."""
    weight = 1.0
    result = []
    for j in range(1, count + 1):
        weight *= (count - j + 1) / (count + j)
        result.append((-1) ** (j + 1) * weight / j)
    return result
