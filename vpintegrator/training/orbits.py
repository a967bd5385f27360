"""Held-out orbits: how far a map goes from them, and how many of them it loses."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.maps import Map
from vpintegrator.runtime.interrupts import TimeIsUp, check_time, stopping, time_left, until
from vpintegrator.training.results import TOLERANCES, Fit, Orbits, best, candidates
from vpintegrator.training.training_data import TrainingData

COUNT = 24  # held-out orbits that a map iterates
STEPS = 1_000  # steps of each; a step of an implicit map costs more, and maps that are solved for
IMPLICIT_STEPS = 200  # with their structure rarely leave later
HORIZON = 100  # steps after which the error counts, if the data are as long
ROOM = 2.0  # times the range of the training states: an orbit beyond is lost
STEADY = 1.2  # a range that grows more than this along the data says nothing on later times
CHECKED = 4  # maps that are judged by orbits, at most
SHARE = 0.5  # part of the time left that each of them may take


def follow(
    map: Map,
    data: TrainingData,
    count: int = COUNT,
    steps: int = STEPS,
    bounds: StateRange | None = None,
) -> Orbits | None:
    """Iterate a map from held-out states; None where there is no whole window to begin with.

    Parameters
    ----------
    map
        A map of the step of the data.
    data
        Training data, whose validation group is held out, or whose training group is where that is
        empty.
    count, steps
        Most orbits, and steps of each; fewer where the time ends before.
    bounds
        Range outside of which an orbit is lost; by default twice that of the training states.

    Examples
    --------
    >>> from vpintegrator.training.orbits import follow
    >>> from vpintegrator.training.training_data import TrainingData
    >>> turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    >>> start = np.random.default_rng(0).normal(size=(60, 2))
    >>> powers = [np.linalg.matrix_power(turn, n) for n in range(6)]
    >>> states = np.stack([start @ power.T for power in powers], 1)
    >>> result = vp.fit(states, [vp.training.LinearMaps()], step=1.0)
    >>> dataset = vp.import_dataset(states, "turn.h5", step=1.0, overwrite=True)
    >>> orbits = follow(result.model, TrainingData(dataset), steps=100)
    >>> orbits.lost, orbits.horizon, orbits.error < 1e-12
    (0, 5, True)
    """
    group = "validation" if data.has("validation") else "train"
    states = data.held(group)
    parameters = data.parameters(group)
    window = map.window
    whole = np.isfinite(states).all(2)  # (trajectory, time)
    begins = np.flatnonzero(whole[:, :window].all(1))
    if states.shape[1] < window or not len(begins):
        return None
    starts = begins[:: -(-len(begins) // count)]
    truth = states[starts, window:]  # (orbit, time, dim)
    k = None if parameters is None else parameters[starts]
    horizon = min(truth.shape[1], HORIZON, steps)
    error = math.nan
    done = 0
    alive = np.ones(len(starts), dtype=bool)
    chunks = map.advance(states[starts, :window], steps, chunk=50, parameters=k)
    try:
        for part, alive in surviving(chunks, bounds or StateRange.of(data)):
            if done < horizon <= done + part.shape[1]:
                last = part[:, horizon - 1 - done]
                if group == "validation" and horizon > 1:
                    error = _median_distance(last, truth[:, horizon - 1], data)
            done += part.shape[1]
            if not alive.any() and done >= horizon:
                break
    except TimeIsUp:  # what was seen so far counts
        if done < max(horizon, 1):
            raise
        steps = done
    return Orbits(len(starts), steps, int((~alive).sum()), horizon, error)


class StateRange:
    """A multiple of the range of states, in components with a bounded range.

    Angles and the time have none. A range that still grows along the orbits, as that of momenta
    which begin at zero, is taken fifty times as often.

    Parameters
    ----------
    states
        States (orbit, time, dim), NaN where they are not known.
    free
        Components without bounds.
    room
        The multiple.

    Examples
    --------
    >>> from vpintegrator.training.orbits import StateRange
    >>> bounds = StateRange(np.array([[[-1.0], [1.0], [-1.0], [1.0]]]))
    >>> bounds.holds(np.array([[1.9], [2.1]]))
    array([ True, False])
    """

    def __init__(self, states: np.ndarray, free: Collection[int] = (), room: float = ROOM) -> None:
        self.components = [i for i in range(states.shape[-1]) if i not in free]
        bounded = states[..., self.components]  # (orbit, time, component)
        half = bounded.shape[1] // 2
        low, high = _least_and_largest(bounded)
        early_low, early_high = _least_and_largest(bounded[:, : half or 1])
        grows = (high - low) > STEADY * (early_high - early_low)
        self.middle = (low + high) / 2
        self.reach = (high - low) / 2 * np.where(grows & (half > 0), 50 * room, room)

    @classmethod
    def of(cls, data: TrainingData, free: Collection[int] = ()) -> StateRange:
        """Return twice the range of training states; ``free`` are further components without."""
        system = data.dataset.system
        still = {*range(data.dataset.dim)} - {*data.moving}
        time = [] if system.explicit_time is None else [system.explicit_time]
        return cls(data.held("train"), {*system.periods, *time, *still, *free})

    def holds(self, states: np.ndarray) -> np.ndarray:
        """Whether states (..., dim) are finite and inside, (...)."""
        with np.errstate(all="ignore"):
            distance = np.abs(states[..., self.components] - self.middle)
            inside = np.isfinite(states).all(-1) & (distance <= self.reach).all(-1)
        return np.asarray(inside)


def surviving(
    chunks: Iterable[np.ndarray], bounds: StateRange
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield chunks of states (orbit, count, dim), and whether each orbit is not lost yet, (orbit,).

    An orbit is lost where a state is not finite, or outside the range.
    """
    alive = np.array(True)
    for part in chunks:
        check_time()
        alive = alive & bounds.holds(part).all(1)
        yield part, alive


def lost_orbits(chunks: Iterable[np.ndarray], bounds: StateRange, most: float = math.inf) -> int:
    """Return the number of orbits that are lost in chunks of states (orbit, count, dim).

    Parameters
    ----------
    chunks
        States, as ``Map.advance`` gives them.
    bounds
        The range.
    most
        Number of lost orbits from which on no further chunk is asked for.

    Examples
    --------
    >>> from vpintegrator.training.orbits import StateRange, lost_orbits
    >>> twice = vp.Map.from_function(lambda z: 2 * z, 1.0, 1)
    >>> windows = np.array([[[1.0]], [[1e-3]]])
    >>> bounds = StateRange(np.concatenate([windows, -windows]))
    >>> lost_orbits(twice.advance(windows, 5), bounds)
    1
    """
    lost = 0
    for _, alive in surviving(chunks, bounds):
        lost = int((~alive).sum())
        if lost >= most or not alive.any():
            break
    return lost


def _least_and_largest(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and largest observed values of the components (component,)."""
    return np.nanmin(states, axis=(0, 1)), np.nanmax(states, axis=(0, 1))


def _median_distance(states: np.ndarray, truth: np.ndarray, data: TrainingData) -> float:
    """Return the median relative distance of states (orbit, dim) from those of the data."""
    scale = data.error_scale
    periods = data.dataset.system.periods
    with np.errstate(all="ignore"):  # of a map that diverges
        difference = states - truth
        for i, period in periods.items():
            difference[:, i] -= period * np.round(difference[:, i] / period)
        distance = np.linalg.norm(difference[:, list(scale.components)], axis=1)
    known = np.isfinite(truth).all(1)
    distance = np.where(np.isfinite(distance), distance, np.inf)[known]
    if not len(distance):
        return math.nan
    return float(np.median(distance)) / (scale.spread if scale.spread > 0 else 1.0)


def iterated(fits: Sequence[Fit], data: TrainingData) -> list[Fit]:
    """Return the same fits, with the orbits of those that are best by turns.

    The best fit is iterated from held-out states, and that of the least error, as long as one of
    them was not iterated yet. A map of states with structure and an error at rounding needs no such
    judgement. Each may take half of the time that is left. After four of them the choice is among
    these: the others are superseded.

    Parameters
    ----------
    fits
        Trained models, at least one.
    data
        Training data.
    """
    judged = list(fits)
    for _ in range(CHECKED):
        choice = best(judged)
        is_sure = (
            choice.structured and choice.error <= TOLERANCES.exact and choice.model.window == 1
        )
        if is_sure or _is_alone(choice, judged):
            break
        # the choice may be another than that of the least error, for which orbits may speak
        least = min(candidates(judged), key=lambda fit: fit.score)
        unknown = next((fit for fit in (choice, least) if fit.orbits is None), None)
        if unknown is None:
            break
        with until(time.perf_counter() + SHARE * time_left()):
            followed = with_orbits(unknown, data)
        if followed.orbits is None:  # there is no time, or no whole window to begin with
            break
        place = next(i for i, fit in enumerate(judged) if fit is unknown)
        judged[place] = followed
    else:
        judged = [replace(f, superseded=f.superseded or f.orbits is None) for f in judged]
    return judged


def with_orbits(fit: Fit, data: TrainingData) -> Fit:
    """Return a fit with its orbits, or as it is where there is no time or no whole window."""
    orbits: Orbits | None = None
    with stopping(), suppress(InputError):
        orbits = follow(fit.model, data, steps=STEPS if fit.explicit else IMPLICIT_STEPS)
    return fit if orbits is None else replace(fit, orbits=orbits)


def _is_alone(choice: Fit, fits: Iterable[Fit]) -> bool:
    """Whether no other map could be taken instead."""
    others = [fit for fit in fits if fit.model is not choice.model and not fit.segment]
    return not any(math.isfinite(fit.error) for fit in others)
