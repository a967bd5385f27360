"""Pairs of windows in memory to draw from: some of them, a random subset, or all in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch.utils.data import Dataset as TorchDataset

from vpintegrator.data.windows import pair_starts


class Pair(NamedTuple):
    """Windows before and after, and of a family the parameters of each.

    Attributes
    ----------
    inputs, targets : (pair, window, dim), (pair, time, dim)
    parameters : (pair, p) or None
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    parameters: torch.Tensor | None = None

    def to(self, like: torch.Tensor) -> Pair:
        """Return the pairs with the type and device of ``like``."""
        return Pair(*(None if part is None else part.to(like) for part in self))  # type: ignore[arg-type]

    def split(self, size: int) -> Iterator[Pair]:
        """Yield so many of the pairs at a time."""
        for first in range(0, len(self.inputs), size):
            share = slice(first, first + size)
            yield Pair(*(None if part is None else part[share] for part in self))  # type: ignore[arg-type]


class Pairs(TorchDataset[tuple[torch.Tensor, ...]]):
    """Pairs of windows of states in memory, none of which is there twice, by number.

    The pairs of several numbers are inputs (pair, window, dim) and targets (pair, time, dim); of a
    family also the parameters (pair, p).

    Parameters
    ----------
    states
        (state, dim), trajectories one after the other.
    first
        The number of each pair's first state, (pair,).
    window, shift, size
        States in an input, by how many the target begins later, and states in both together.
    parameters
        Of a family: the parameters of each state, (state, p).
    """

    def __init__(
        self,
        states: torch.Tensor,
        first: torch.Tensor,
        window: int,
        shift: int,
        size: int,
        parameters: torch.Tensor | None = None,
    ) -> None:
        self.states = states
        self.first = first
        self.parameters = parameters
        self.window = window
        self.shift = shift
        self.size = size

    @classmethod
    def of_states(
        cls,
        states: np.ndarray,
        window: int,
        prediction_window: int | None = None,
        horizon: int = 1,
        where: str = "the states",
        parameters: np.ndarray | None = None,
    ) -> Self:
        """All pairs in trajectories (trajectory, time, dim) in which every state was observed.

        Parameters
        ----------
        states, window, prediction_window, horizon
            Arguments of :func:`vpintegrator.windows`.
        where
            Source of the states, for messages.
        parameters
            Of a family: the parameters of each trajectory, (trajectory, p).

        Raises
        ------
        InputError
            If there are none.
        """
        first, shift, size = pair_starts(states, window, prediction_window, horizon, where)
        flat = torch.from_numpy(states.reshape(-1, states.shape[2]))
        k = None
        if parameters is not None:
            k = torch.from_numpy(np.repeat(parameters, states.shape[1], 0))
        return cls(flat, torch.from_numpy(first), window, shift, size, k)

    @classmethod
    def of_tensors(
        cls, inputs: torch.Tensor, targets: torch.Tensor, parameters: torch.Tensor | None = None
    ) -> Self:
        """Return pairs that were cut already, (pair, window, dim) and (pair, time, dim)."""
        both = torch.cat([inputs, targets], dim=1)
        count, size, dim = both.shape
        first = size * torch.arange(count, device=both.device)
        k = None if parameters is None else parameters.repeat_interleave(size, 0)
        return cls(both.reshape(-1, dim), first, inputs.shape[1], inputs.shape[1], size, k)

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, index: Any) -> tuple[torch.Tensor, ...]:
        return tuple(part for part in self.pair(index) if part is not None)

    def pair(self, index: Any) -> Pair:
        """Return the pairs of some numbers."""
        first = self.first[index]
        both = self._both().index_select(0, first.reshape(-1)).reshape(*first.shape, self.size, -1)
        k = None if self.parameters is None else self.parameters[first]
        return Pair(both[..., : self.window, :], both[..., self.shift :, :], k)

    def views(self) -> Pair:
        """Return windows that begin at each state, without a copy.

        The pair of a number is in row ``first[number]``; other rows may join two trajectories.
        """
        both = self._both()
        return Pair(both[:, : self.window], both[:, self.shift :], self.parameters)

    def _both(self) -> torch.Tensor:
        """Return input and target together that begin at each state, (state, size, dim)."""
        return self.states.unfold(0, self.size, 1).transpose(1, 2)

    def shuffled(self, size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
        """Yield all numbers in random order, ``size`` at a time; the last ones may be fewer."""
        order = torch.randperm(len(self), generator=generator).to(self.first.device)
        yield from order.split(size)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Pair]:
        """Every pair once, in random order, ``size`` at a time; the last ones may be fewer."""
        return map(self.pair, self.shuffled(size, generator))

    def evenly(self, count: int) -> Pair:
        """Return a number of pairs, evenly chosen from all; all if there are no more."""
        count = min(count, len(self))
        return self.pair(torch.linspace(0, len(self) - 1, count, dtype=torch.float64).long())

    def sample(self, count: int, generator: torch.Generator) -> Pair:
        """Return different pairs at random: ``count``, or all if there are no more."""
        return self.pair(torch.randperm(len(self), generator=generator)[:count])

    def to(self, like: torch.Tensor) -> Self:
        """Return the pairs with the type and device of ``like``."""
        states = self.states.to(like)
        first = self.first.to(like.device)
        k = None if self.parameters is None else self.parameters.to(like)
        return type(self)(states, first, self.window, self.shift, self.size, k)
