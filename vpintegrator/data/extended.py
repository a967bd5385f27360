"""Datasets of many steps and parameters as datasets of extended states with step one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from vpintegrator.data.dataset import Dataset
from vpintegrator.dynamics.family import STEP, Family
from vpintegrator.dynamics.system import System


class ExtendedDataset(Dataset):
    """Dataset of a family for training: states with the components k of their trajectory.

    See :class:`vpintegrator.dynamics.Family`.

    Parameters
    ----------
    dataset
        Dataset with ``is_family``.

    Attributes
    ----------
    family
        System, and step and parameters that vary.
    plain
        Dataset that was given.

    Examples
    --------
    >>> vary = {"step": (0.05, 0.4)}
    >>> dataset = vp.generate("pendulum", "family.h5", count=8, steps=1, vary=vary, overwrite=True)
    >>> extended = vp.data.ExtendedDataset(dataset)
    >>> extended.dim, extended.step, extended.states("train").shape
    (3, 1.0, (6, 2, 3))
    """

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(dataset.path)
        self.plain = dataset
        fixed = None if STEP in dataset.varied else dataset.step
        self.family = Family(dataset.system, list(dataset.varied), fixed)
        more = len(self.family.coefficients)
        self.shapes = {
            name: (rows, times, dim + more) for name, (rows, times, dim) in dataset.shapes.items()
        }

    @property
    def system(self) -> System:
        """The autonomous system of extended states."""
        return self.family.extended

    @property
    def step(self) -> float:
        """Step of the extended system, 1.0."""
        return 1.0

    @contextmanager
    def open_states(self, group: str) -> Iterator[Any]:
        """Extended ``state (trajectory, time, component)`` of a group, as of any dataset."""
        components = self.family.components(self.plain.conditions(group))
        with self.plain.open_states(group) as state:
            yield _ExtendedStates(state, components)


class _ExtendedStates:
    """States on disk with the components of each trajectory, indexed by [rows, times]."""

    def __init__(self, state: Any, components: np.ndarray) -> None:
        self._state, self._components = state, components
        self.shape = (*state.shape[:2], state.shape[2] + components.shape[1])
        self.chunks = state.chunks

    def __getitem__(self, key: Any) -> np.ndarray:
        rows, times = key if isinstance(key, tuple) else (key, slice(None))
        states = np.asarray(self._state[rows, times])
        components = self._components[rows]
        for axis in range(components.ndim - 1, states.ndim - 1):
            components = np.expand_dims(components, axis)
        return np.concatenate(
            [states, np.broadcast_to(components, (*states.shape[:-1], components.shape[-1]))], -1
        )

    def __len__(self) -> int:
        return int(self.shape[0])
