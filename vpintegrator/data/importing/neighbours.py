"""States at irregular times, or under changing inputs, as pairs of neighbours.

Each pair is a trajectory of two states, with a step of its own and the parameters that hold over
it: those of its first state (zero-order hold).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vpintegrator.data.importing.arguments import Sharing
from vpintegrator.data.importing.times import check_increase, step_between
from vpintegrator.data.split import GROUPS, Split, consecutive
from vpintegrator.errors import InputError

_LONGEST = 10  # median steps
_EQUAL = 1e-3  # relative to the median step: smaller differences count as equal steps
_CLEAR = 0.1  # the same: by more, and nobody rounded equal ones


def are_irregular(times: np.ndarray, lengths: np.ndarray) -> bool:
    """Whether the steps between times (trajectory, time) are far from equal, and no gaps either.

    Steps that are whole multiples of one another but for rounding are those of regular times, of
    which some are missing.
    """
    known = np.arange(1, times.shape[1]) < lengths[:, None]
    steps = np.diff(times, axis=1)[known]
    if not len(steps) or not np.isfinite(steps).all() or not (steps > 0).all():
        return False
    median = np.median(steps)
    off = np.abs(steps - np.maximum(np.round(steps / median), 1) * median)
    return bool((off > _CLEAR * median).any())


@dataclass(frozen=True)
class Neighbours:
    """Pairs of neighbouring states.

    Attributes
    ----------
    states
        (pair, 2, dim).
    steps
        Time between both, (pair,).
    parameters
        (pair, name).
    origin, start
        The trajectory that each comes from, and the time of its first state, (pair,).
    index
        Number of earlier states in the trajectory, (pair,).
    lengths
        Number of states of each trajectory, (trajectory,).
    said
        States that were left out, if any, a sentence each.
    """

    states: np.ndarray
    steps: np.ndarray
    parameters: np.ndarray
    origin: np.ndarray
    start: np.ndarray
    index: np.ndarray
    lengths: np.ndarray
    said: list[str]

    @property
    def equal_step(self) -> float | None:
        """The step, where all are equal, else None."""
        median = float(np.median(self.steps))
        return step_between(self.steps) if np.ptp(self.steps) <= _EQUAL * median else None

    def deal(self, sharing: Sharing) -> tuple[Split, dict[str, np.ndarray]]:
        """Return the split, and the numbers of the pairs of each group.

        All pairs of a trajectory are in one group; or, where it is cut in time, those of which both
        states are in the same part.
        """
        split, groups = sharing.deal(len(self.lengths), int(self.lengths.min()))
        if split.by == "trajectory":
            members = {name: np.isin(self.origin, which) for name, (which, _) in groups.items()}
            return split, {name: np.flatnonzero(member) for name, member in members.items()}
        found: dict[str, list[np.ndarray]] = {name: [] for name in GROUPS}
        for number, length in enumerate(self.lengths):
            mine = self.origin == number
            for name, part in consecutive(split.counts(int(length), fewest=2)).items():
                inside = mine & (self.index >= part.start) & (self.index + 1 < part.stop)
                found[name].append(np.flatnonzero(inside))
        return split, {name: np.concatenate(numbers) for name, numbers in found.items()}


def pair_up(
    states: np.ndarray,
    times: np.ndarray,
    lengths: np.ndarray,
    parameters: np.ndarray,
    longest: float | None,
    where: str,
) -> Neighbours:
    """Make pairs of neighbours of trajectories.

    Parameters
    ----------
    states
        (trajectory, time, dim); what holds NaN is left out.
    times
        (trajectory, time).
    lengths
        Number of states in each trajectory, (trajectory,).
    parameters
        (trajectory, time, name).
    longest
        The longest step of a pair; 10 times the median by default. Beyond it nothing is known of
        what happened between.
    where
        The file's name, for messages.

    Raises
    ------
    InputError
        If times do not increase, or no pair is left.
    """
    known = np.arange(times.shape[1]) < lengths[:, None]
    check_increase(times, known, where)
    seen = known & np.isfinite(states).all(axis=-1)
    rows = [np.flatnonzero(row) for row in seen]
    first = np.concatenate([row[:-1] for row in rows])
    second = np.concatenate([row[1:] for row in rows])
    origin = np.repeat(np.arange(len(rows)), [max(len(row) - 1, 0) for row in rows])
    index = np.concatenate([np.arange(max(len(row) - 1, 0)) for row in rows])
    steps = times[origin, second] - times[origin, first]
    if not len(steps):
        raise InputError(f"{where}: no trajectory has two states that were observed")
    limit = _LONGEST * float(np.median(steps)) if longest is None else longest
    kept = steps <= limit
    if not kept.any():
        raise InputError(
            f"{where}: every step is longer than {limit:g}, the longest allowed; the shortest is "
            f"{steps.min():g}"
        )
    said = []
    if gone := int((~kept).sum()):
        many = "1 pair" if gone == 1 else f"{gone:,} pairs"
        said.append(
            f"left out, as their steps are longer than {limit:.6g} (--longest-step says how long "
            f"they may be): {many} of neighbours"
        )
    first, second, origin = first[kept], second[kept], origin[kept]
    return Neighbours(
        states=np.stack([states[origin, first], states[origin, second]], axis=1),
        steps=steps[kept],
        parameters=parameters[origin, first],
        origin=origin,
        start=times[origin, first],
        index=index[kept],
        lengths=np.array([len(row) for row in rows]),
        said=said,
    )
