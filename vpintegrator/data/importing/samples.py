"""Samples of a dataset from imported arrays: trajectories at equal steps, or pairs of states."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vpintegrator.data.dataset_file import Conditions
from vpintegrator.data.importing.arguments import Reading, Sharing
from vpintegrator.data.importing.arrays import Arrays
from vpintegrator.data.importing.neighbours import Neighbours, are_irregular, pair_up
from vpintegrator.data.importing.resampling import resample
from vpintegrator.data.importing.times import place_on_grid
from vpintegrator.data.split import Split
from vpintegrator.data.variation import STEP
from vpintegrator.errors import InputError


@dataclass(frozen=True)
class Samples:
    """Trajectories, and what differs between them.

    Attributes
    ----------
    states
        (trajectory, time, dim).
    step
        Time between states; where each trajectory has its own, their median.
    times
        (time,), counted in steps where these differ.
    split, groups
        The numbers of the trajectories of each group, and the times of them.
    varied
        Between which values the step and parameters vary, by name.
    conditions
        Values of step and parameters, (trajectory, name).
    constant
        Parameters that were given and are the same everywhere, by name.
    origins
        Original trajectory of each pair, and the time of its first state.
    told
        Steps of the import, a sentence each.
    """

    states: np.ndarray
    step: float
    times: np.ndarray
    split: Split
    groups: dict[str, tuple[Any, slice]]
    varied: dict[str, tuple[float, float]] = field(default_factory=dict)
    conditions: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    constant: dict[str, float] = field(default_factory=dict)
    origins: tuple[np.ndarray, np.ndarray] | None = None
    told: list[str] = field(default_factory=list)

    @property
    def as_stored(self) -> Conditions | None:
        """Return the conditions that a file stores, or None if nothing varies."""
        if not self.varied and self.origins is None:
            return None
        numbers = {name: which for name, (which, _) in self.groups.items()}
        origins = None
        if self.origins is not None:
            origin, start = self.origins
            origins = {name: (origin[which], start[which]) for name, which in numbers.items()}
        values = {name: self.conditions[which] for name, which in numbers.items()}
        return Conditions(self.varied, values, origins)


def arrange(
    arrays: Arrays, names: list[str], given: Reading, sharing: Sharing, where: str, known: bool
) -> Samples:
    """Trajectories of states (trajectory, time, dim) and parameters (trajectory, time, name).

    ``known`` says whether there are equations, for which the components are all of the state.

    Raises
    ------
    InputError
        If steps are not equal and nobody said what to do, or anything else is wrong with the times.
    """
    states, lengths = arrays.states, arrays.lengths
    assert lengths is not None
    count, length, _ = states.shape
    times = times_of(arrays, given, where)
    parameters = arrays.parameters
    assert isinstance(parameters, np.ndarray)
    change = _change(parameters, lengths)
    told = list[str]()
    alone = not known and states.shape[2] == 1 and not change
    if alone and given.irregular is None and _as_pairs(times, lengths, given):
        given = replace(given, irregular="resample")
        told.append(
            "a single component needs windows of states, so of equal steps (--irregular pairs "
            "takes it for the whole state)"
        )
    if change and given.interpolated:
        raise InputError(
            f"{where}: {names[change[0]]} changes along a trajectory, so states cannot be brought "
            "to other times; leave --irregular out, and pairs of neighbours are taken"
        )
    if given.irregular == "pairs" or change or _as_pairs(times, lengths, given):
        if times is None:
            step = step_of(arrays, given, where)
            times = np.broadcast_to(step * np.arange(length), (count, length))
        pairs = pair_up(states, times, lengths, parameters, given.longest_step, where)
        return _of_pairs(pairs, names, sharing, _reason(names, change, given))
    if times is None:
        step, first = step_of(arrays, given, where), 0.0
    else:
        if given.interpolated:
            states, times, lengths, said = resample(states, times, lengths, given.step, where)
            told.append(said)
        states, step, first = place_on_grid(
            states, times, lengths, given.step, given.missing, where
        )
    if given.longest_step is not None:
        raise InputError("longest_step is for pairs of neighbours; the steps here are equal")
    split, groups = sharing.deal(len(states), states.shape[1])
    varied, conditions, constant = _varying(names, parameters[:, 0])
    return Samples(
        states,
        step,
        first + step * np.arange(states.shape[1]),
        split,
        groups,
        varied,
        conditions,
        constant,
        told=told,
    )


def _of_pairs(pairs: Neighbours, names: list[str], sharing: Sharing, reason: str) -> Samples:
    step, told = pairs.equal_step, [reason]
    if step is None:
        low, high = pairs.steps.min(), pairs.steps.max()
        told = [f"{reason}; steps are from {low:.6g} to {high:.6g}"]
    split, numbers = pairs.deal(sharing)
    varied, conditions, constant = _varying(names, pairs.parameters)
    if step is None:
        varied = {STEP: (float(pairs.steps.min()), float(pairs.steps.max())), **varied}
        conditions = np.concatenate([pairs.steps[:, None], conditions], axis=1)
    return Samples(
        pairs.states,
        float(np.median(pairs.steps)) if step is None else step,
        (1.0 if step is None else step) * np.arange(2),
        split,
        {name: (which, slice(0, 2)) for name, which in numbers.items()},
        varied,
        conditions,
        constant,
        (pairs.origin, pairs.start),
        [*told, *pairs.said],
    )


def _reason(names: list[str], change: list[int], given: Reading) -> str:
    why = "as was asked for"
    if change:
        which = ", ".join(names[k] for k in change)
        why = f"for {which} change{'s' if len(change) == 1 else ''} along a trajectory"
    elif given.irregular is None:
        why = "for times are irregular (--irregular resample interpolates to equal steps)"
    return f"each pair of neighbours is a trajectory of two states, {why}"


def _as_pairs(times: np.ndarray | None, lengths: np.ndarray, given: Reading) -> bool:
    """Whether pairs are meant where nobody said so."""
    if times is None or given.interpolated or given.step is not None or given.missing:
        return False
    return are_irregular(times, lengths)


def step_of(arrays: Arrays, given: Reading, where: str) -> float:
    """Return the step, where no times are known."""
    step = arrays.step if given.step is None else given.step
    if step is None:
        raise InputError(
            f"{where} does not say the time between two states; give it with --step "
            "(step=... in Python), or add a column or an array named time"
        )
    if not (np.isfinite(step) and step > 0):
        raise InputError(f"{where}: the step {step!r} is not a positive number")
    return float(step)


def times_of(arrays: Arrays, given: Reading, where: str) -> np.ndarray | None:
    """Return times (trajectory, time), where they are known."""
    times, (count, length, _) = arrays.times, arrays.states.shape
    if times is None:
        if given.irregular is not None:
            raise InputError(f"{where}: --irregular needs times, and none are known")
        return None
    if times.shape not in ((length,), (count, length)):
        raise InputError(
            f"{where}: times of shape {times.shape} do not fit states of shape "
            f"{arrays.states.shape}; expected ({length},)"
        )
    return np.broadcast_to(times, (count, length))


def _change(parameters: np.ndarray, lengths: np.ndarray) -> list[int]:
    """Return the numbers of the parameters that change along a trajectory."""
    known = np.arange(parameters.shape[1]) < lengths[:, None]
    same = (parameters == parameters[:, :1]) | ~known[..., None]
    return [k for k in range(parameters.shape[2]) if not same[..., k].all()]


def _varying(
    names: list[str], values: np.ndarray
) -> tuple[dict[str, tuple[float, float]], np.ndarray, dict[str, float]]:
    """Return ranges and values (trajectory, name) of varying parameters, and constant ones."""
    low, high = values.min(axis=0), values.max(axis=0)
    varies = low < high
    ranges = zip(names, low.tolist(), high.tolist(), strict=True)
    found = {name: (least, most) for name, least, most in ranges if least < most}
    constant = {name: float(low[k]) for k, name in enumerate(names) if not varies[k]}
    return found, values[:, varies], constant
