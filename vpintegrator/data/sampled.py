"""Large groups of a dataset, of which random parts are read, and more only as they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from vpintegrator.data.loading import StatesOnDisk, WindowDataset
from vpintegrator.data.pairs import HeldPairs, Pair, Pairs

_PART = 1 << 18  # bytes
_LONG = 1024  # states from which on trajectories are cut into parts of at least as many


class SampledStates:
    """Random parts of the trajectories of a group, always in the same order.

    Parameters
    ----------
    dataset, group
        Dataset and group to read.
    bytes_of_states
        Approximate number of bytes of the first sample.

    Attributes
    ----------
    length
        Times in a part, but for the last one of a trajectory.
    parts
        States (trajectory, time, dim) that were read so far.
    """

    def __init__(self, dataset: StatesOnDisk, group: str, bytes_of_states: int) -> None:
        self._dataset, self._group = dataset, group
        rows, length, dim = dataset.shapes[group]
        trajectory, state = 8 * dim * length, 8 * dim
        cut = length > _LONG and trajectory > _PART
        block = (1 if cut else -(-_PART // trajectory)), max(_LONG, _PART // state)
        block = block if cut else (block[0], length)
        first, begin = np.mgrid[0 : rows : block[0], 0 : length : block[1]].reshape(2, -1)
        order = np.random.default_rng(0).permutation(len(first))
        self._block, self._corners = block, np.stack([first, begin], axis=-1)[order]
        self._begin_with = max(1, bytes_of_states // (state * block[0] * block[1]))
        self.length = block[1]
        self.parts: list[np.ndarray] = []
        self.more()

    def more(self) -> bool:
        """Read as many parts again; False if there are none."""
        there = len(self.parts)
        corners = self._corners[there : there + (there or self._begin_with)]
        rows, times = self._block
        with self._dataset.open_states(self._group) as state:
            found = {
                (first, begin): np.asarray(
                    state[first : first + rows, begin : begin + times], np.float64
                )
                for first, begin in sorted(map(tuple, corners.tolist()))
            }
        self.parts += [found[first, begin] for first, begin in corners.tolist()]
        return bool(len(corners))


class SampledPairs(Pairs):
    """Pairs of windows of a large group, drawn from parts that are held in memory.

    The parts hold at least twice as many pairs as are drawn, unless the group has fewer.

    Parameters
    ----------
    states
        Parts of the group that are read.
    pairs
        All pairs of the group.
    like
        A tensor of the type and device of the pairs.
    """

    def __init__(self, states: SampledStates, pairs: WindowDataset, like: torch.Tensor) -> None:
        self._states, self._all, self._like = states, pairs, like
        self._held_parts, self._held = 0, HeldPairs.of_tensors(*(like.new_empty(0, 1, 1),) * 2)

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, index: Any) -> Pair:
        return self._all[index]

    def buffers(self, generator: torch.Generator) -> Iterator[HeldPairs]:
        """Return parts of the file, one after the other."""
        return self._all.buffers(generator)

    @property
    def held(self) -> HeldPairs:
        """The pairs in the parts that are in memory."""
        parts, pairs = self._states.parts, self._all
        if self._held_parts < len(parts):
            held = HeldPairs.of_states(parts, pairs.window, pairs.shift, pairs.size)
            self._held_parts, self._held = len(parts), held.to(self._like)
        return self._held

    def sample(self, count: int, generator: torch.Generator) -> Pair:
        """Return different pairs at random."""
        if 2 * count >= len(self):
            return self._all.sample(count, generator)
        while len(self.held) < 2 * count and self._states.more():
            pass
        return self.held.sample(count, generator)

    def evenly(self, count: int) -> Pair:
        """Return pairs that are held, evenly chosen from these."""
        return self.held.evenly(count)
