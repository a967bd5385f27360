"""Observation of trajectories: noise on the states, and times without observation.

    [observation]
    noise = 0.01            # standard deviation: a number, or a list with one for each component
    relative_noise = 0.01   # or: the same in units of each component's spread
    missing = 0.2           # part of the times of each trajectory, at random, without a state
    stretch = [20, 100]     # each trajectory is seen over a random stretch of so many steps
    groups = ["train", "validation"]

A state that is not observed is NaN. Training draws only windows without NaN. The random numbers of
each trajectory follow from the recipe's seed and the trajectory's number. The result therefore does
not depend on the number of workers. The exact states equal the states of the recipe without this
table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.arguments import is_number
from vpintegrator.data.split import GROUPS
from vpintegrator.errors import InputError, nearest
from vpintegrator.storage.toml import read_fields

_USUAL_GROUPS = ("train", "validation")  # test states stay exact, for comparison


@dataclass(frozen=True)
class Observation:
    """Noise and missing states of observed trajectories.

    Attributes
    ----------
    noise, relative_noise
        Standard deviation of independent normal noise, or the same divided by each component's
        spread: numbers, or one for each component. At most one of them is not zero.
    missing
        Part of the times of a trajectory that is not observed.
    stretch
        Least and largest number of steps over which a trajectory is observed, or None for all.
    groups
        Groups whose states are observed; the states of other groups are exact.

    Raises
    ------
    InputError
        If a value is wrong.

    Examples
    --------
    >>> import dataclasses
    >>> recipe = vp.load_recipe("pendulum")
    >>> noisy = dataclasses.replace(recipe, observation=vp.data.Observation(noise=0.01))
    """

    noise: float | tuple[float, ...] = 0.0
    relative_noise: float | tuple[float, ...] = 0.0
    missing: float = 0.0
    stretch: tuple[int, int] | None = None
    groups: tuple[str, ...] = _USUAL_GROUPS

    def __post_init__(self) -> None:
        for key in ("noise", "relative_noise"):
            given = getattr(self, key)
            entries = given if isinstance(given, list | tuple | np.ndarray) else (given,)
            if not all(is_number(s) and s >= 0 for s in entries):
                raise InputError(
                    f"observation, {key}: expected a standard deviation, 0 or more, for all "
                    f"components or for each, found {given!r}"
                )
        if np.any(self.noise) and np.any(self.relative_noise):
            raise InputError("observation: give noise or relative_noise, not both")
        if not is_number(self.missing) or not 0 <= self.missing < 1:
            raise InputError(
                f"observation, missing: expected a part of the times, 0 or more and below 1, found "
                f"{self.missing!r}"
            )
        if self.stretch is not None:
            whole = len(self.stretch) == 2 and all(type(s) is int for s in self.stretch)
            if not whole or not 1 <= self.stretch[0] <= self.stretch[1]:
                raise InputError(
                    "observation, stretch: expected the least and the largest number of steps, as "
                    f"in [20, 100], found {list(self.stretch)}"
                )
        for group in self.groups:
            if group not in GROUPS:
                raise InputError(
                    f"observation, groups: unknown group '{group}'{nearest(str(group), GROUPS)}; "
                    f"the groups are {', '.join(GROUPS)}"
                )

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> Observation:
        """Read the table ``[observation]`` of a recipe."""
        return read_fields(cls, table, f"{where}, [observation]", ("stretch", "groups"))

    @property
    def table(self) -> dict[str, Any]:
        """The table that makes an equal observation; empty where all is observed exactly."""
        if self.exact:
            return {}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in vars(self).items()
            if value is not None and (isinstance(value, tuple) or value)
        }

    @property
    def noisy(self) -> bool:
        """Whether there is noise."""
        return bool(np.any(self.noise) or np.any(self.relative_noise))

    @property
    def complete(self) -> bool:
        """Whether every state is observed."""
        return not self.missing and self.stretch is None

    @property
    def exact(self) -> bool:
        """Whether states are left as they are."""
        return self.complete and not self.noisy

    def standard_deviation(self, dim: int, spread: np.ndarray | None = None) -> np.ndarray:
        """Return the standard deviation of the noise in each component, (dim,).

        Parameters
        ----------
        dim
            Number of components.
        spread
            Spread of each component of the states, (dim,); with it the noise is relative.

        Raises
        ------
        InputError
            If values are given for another number of components.
        """
        level = np.asarray(self.relative_noise if spread is not None else self.noise, np.float64)
        if level.ndim and level.shape != (dim,):
            raise InputError(
                f"observation, noise: {len(level)} standard deviations are given for {dim} "
                "components"
            )
        return np.broadcast_to(level, dim) * (1.0 if spread is None else spread)

    def observe(
        self, states: np.ndarray, first: int, seed: int, standard_deviation: np.ndarray
    ) -> np.ndarray:
        """Return the observation of exact states (trajectory, time, dim) as a new array.

        Parameters
        ----------
        states
            Whole trajectories.
        first
            Number of the first trajectory in the dataset.
        seed
            Seed of the recipe.
        standard_deviation
            Standard deviation of the noise, (dim,).
        """
        seen = np.array(states, dtype=np.float64)
        times = states.shape[1]
        for row in range(len(seen)):
            # one stream for each trajectory; 1 separates it from the stream of the initial states
            generator = np.random.Generator(np.random.PCG64([seed, 1, first + row]))
            if self.noisy:
                seen[row] += standard_deviation * generator.standard_normal(seen[row].shape)
            if self.stretch is not None:
                least, most = (min(steps, times - 1) for steps in self.stretch)
                steps = int(generator.integers(least, most + 1))
                begin = int(generator.integers(0, times - steps))
                seen[row, :begin] = np.nan
                seen[row, begin + steps + 1 :] = np.nan
            if self.missing:
                gone = generator.permutation(times)[: round(self.missing * times)]
                seen[row, gone] = np.nan
        return seen
