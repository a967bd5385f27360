"""Part of a dataset: fewer training trajectories, or noise on what a training sees."""

from __future__ import annotations

from typing import Any

import numpy as np

from vpintegrator.arguments import not_negative, whole
from vpintegrator.data.dataset import Dataset
from vpintegrator.errors import InputError

_STREAM = 2  # random stream, apart from those of recipes


class DatasetPart(Dataset):
    """A dataset with its first training trajectories alone, or with noise; test states stay.

    Parameters
    ----------
    dataset
        The whole dataset.
    count
        Training trajectories that are kept; None for all.
    noise
        Standard deviation of Gaussian noise on states of the training and validation groups,
        relative to that of each component over all training states.
    seed
        Seed of the noise.

    Raises
    ------
    InputError
        If there are fewer training trajectories, or the noise is no such number.

    Examples
    --------
    >>> whole = vp.generate("pendulum", "pendulum.h5", count=20, steps=5, overwrite=True)
    >>> vp.data.DatasetPart(whole, count=5, noise=0.01).states("train").shape
    (5, 6, 2)
    """

    def __init__(
        self, dataset: Dataset, count: int | None = None, noise: float = 0.0, seed: int = 0
    ) -> None:
        vars(self).update(vars(dataset))
        known, times, dim = dataset.shapes["train"]
        count = known if count is None else whole("count", count)
        if count > known:
            raise InputError(
                f"count: {dataset.path} has {known:,} training trajectories, not {count:,}"
            )
        self.shapes = dataset.shapes | {"train": (count, times, dim)}
        states = dataset.states("train")
        self._held = {"train": states[:count]}
        if not_negative("noise", noise):
            scale = noise * np.nanstd(states, (0, 1))  # (dim,)
            self._held["validation"] = dataset.states("validation")
            generator = np.random.default_rng([seed, _STREAM])
            self._held = {
                group: exact + scale * generator.standard_normal(exact.shape)
                for group, exact in self._held.items()
            }

    def states(
        self, group: str, trajectories: Any = slice(None), times: Any = slice(None)
    ) -> np.ndarray:
        """Return trajectories of a group, see :meth:`Dataset.states`."""
        if group not in self._held:
            return super().states(group, trajectories, times)
        return np.array(self._held[group][trajectories, times])

    def conditions(self, group: str, trajectories: Any = slice(None)) -> np.ndarray:
        """Return step and parameters that vary, see :meth:`Dataset.conditions`."""
        return self._all_conditions(group)[: self.shapes[group][0]][trajectories]

    def _all_conditions(self, group: str) -> np.ndarray:
        """Return the values of all trajectories of the file."""
        return Dataset(self.path).conditions(group)
