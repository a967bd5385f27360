"""Pairs of windows to draw from: some of them, a random subset, or all of them in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset as TorchDataset

from vpintegrator.data.windows import observed_starts

LARGEST_PERMUTATION = 1 << 25  # pairs of which all are put in order to choose some

Pair = tuple[torch.Tensor, torch.Tensor]


class Pairs(TorchDataset[Pair], ABC):
    """Pairs of windows, inputs (pair, window, dim) and targets (pair, time, dim), by number."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: Any) -> Pair: ...

    @abstractmethod
    def buffers(self, generator: torch.Generator) -> Iterator[HeldPairs]:
        """Return parts in memory that hold every pair once, in random order."""

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Pair]:
        """Every pair once, in random order, ``size`` at a time; the last ones may be fewer."""
        return in_batches(self.buffers(generator), size)

    def evenly(self, count: int) -> Pair:
        """Return a number of pairs, evenly chosen from all; all if there are no more."""
        return self[self.places(count)]

    def places(self, count: int) -> torch.Tensor:
        """Return the numbers of these pairs."""
        count = min(count, len(self))
        return torch.linspace(0, len(self) - 1, count, dtype=torch.float64).long()

    def sample(self, count: int, generator: torch.Generator) -> Pair:
        """Return different pairs at random: ``count``, or all if there are no more."""
        total = len(self)
        if total <= max(LARGEST_PERMUTATION, 2 * count):
            return self[torch.randperm(total, generator=generator)[:count]]
        chosen = torch.empty(0, dtype=torch.int64)
        while len(chosen) < count:
            chosen = torch.randint(total, (count + count // 2 + 16,), generator=generator).unique()
        return self[chosen[torch.randperm(len(chosen), generator=generator)[:count]]]


class HeldPairs(Pairs):
    """Pairs of windows of states in memory, none of which is there twice.

    Parameters
    ----------
    states
        (state, dim), trajectories one after the other.
    first
        The number of each pair's first state, (pair,).
    window, shift, size
        States in an input, by how many the target begins later, and states in both together.
    """

    def __init__(
        self, states: torch.Tensor, first: torch.Tensor, window: int, shift: int, size: int
    ) -> None:
        self.states, self.first = states, first
        self.window, self.shift, self.size = window, shift, size
        self._steps = torch.arange(size, device=first.device)

    @classmethod
    def of_states(
        cls, parts: Sequence[np.ndarray], window: int, shift: int, size: int
    ) -> HeldPairs:
        """All pairs in trajectories (trajectory, time, dim) in which every state was observed."""
        first, end = [], 0
        for states in parts:
            rows, length, _ = states.shape
            starts = observed_starts(states, size)
            first.append(
                end + starts // (length - size + 1) * length + starts % (length - size + 1)
            )
            end += rows * length
        flat = [states.reshape(-1, states.shape[2]) for states in parts]
        return cls(
            torch.from_numpy(flat[0] if len(flat) == 1 else np.concatenate(flat)),
            torch.from_numpy(np.concatenate(first)),
            window,
            shift,
            size,
        )

    @classmethod
    def of_tensors(cls, inputs: torch.Tensor, targets: torch.Tensor) -> HeldPairs:
        """Return pairs that were cut already, (pair, window, dim) and (pair, time, dim)."""
        both = torch.cat([inputs, targets], dim=1)
        count, size, dim = both.shape
        first = size * torch.arange(count, device=both.device)
        return cls(both.reshape(-1, dim), first, inputs.shape[1], inputs.shape[1], size)

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, index: Any) -> Pair:
        chosen = (self.first[index][:, None] + self._steps).reshape(-1)
        chosen = self.states.index_select(0, chosen).reshape(-1, self.size, self.states.shape[1])
        return chosen[:, : self.window].contiguous(), chosen[:, self.shift :].contiguous()

    def buffers(self, generator: torch.Generator) -> Iterator[HeldPairs]:
        """Yield the pairs themselves, in random order."""
        yield self.shuffled(generator)

    def shuffled(self, generator: torch.Generator) -> HeldPairs:
        """Return the pairs in random order."""
        order = torch.randperm(len(self), generator=generator).to(self.first.device)
        return HeldPairs(self.states, self.first[order], self.window, self.shift, self.size)

    def to(self, like: torch.Tensor) -> HeldPairs:
        """Return the pairs with the type and device of ``like``."""
        states, first = self.states.to(like), self.first.to(like.device)
        return HeldPairs(states, first, self.window, self.shift, self.size)


def in_batches(buffers: Iterable[HeldPairs], size: int) -> Iterator[Pair]:
    """Pairs in the order in which buffers hold them, ``size`` at a time, but for the last ones."""
    rest: list[Pair] = []
    missing = size
    for buffer in buffers:
        begin = 0
        while begin < len(buffer):
            rest.append(buffer[begin : begin + missing])
            begin += len(rest[-1][0])
            missing -= len(rest[-1][0])
            if not missing:
                yield _joined(rest)
                rest, missing = [], size
    if rest:
        yield _joined(rest)


def _joined(parts: list[Pair]) -> Pair:
    if len(parts) == 1:
        return parts[0]
    inputs, targets = zip(*parts, strict=True)
    return torch.cat(inputs), torch.cat(targets)
