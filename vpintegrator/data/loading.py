"""Windows of a dataset file for torch: a ``Dataset`` that reads, and a ``DataLoader`` of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from vpintegrator.arguments import whole_number
from vpintegrator.data.pairs import HeldPairs, Pair, Pairs, in_batches
from vpintegrator.data.windows import count_starts, observed_starts
from vpintegrator.errors import InputError

_BLOCK_BYTES = 1 << 20  # read at a time where the file does not say better
_BUFFER_BYTES = 1 << 25  # bytes of blocks that are shuffled together, or searched for gaps


class StatesOnDisk(Protocol):
    """Interface of :class:`vpintegrator.data.Dataset` that the loader uses."""

    path: Path
    is_complete: bool

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """(trajectory, time, dim) of each group."""
        ...

    def open_states(self, group: str) -> AbstractContextManager[Any]:
        """Open the states of a group for reading, indexed by trajectories and times."""
        ...


class WindowDataset(Pairs):
    """All pairs of windows in a group of a dataset file; the item k is the pair k.

    A sequence of numbers instead of k gives the pairs in one reading, stacked. The file is opened
    by each process for itself when it first reads: an HDF5 handle must not cross a fork, and cannot
    be pickled.

    Parameters
    ----------
    dataset
        The dataset.
    window, prediction_window, horizon
        Arguments of :func:`vpintegrator.windows`.
    group
        ``train``, ``validation`` or ``test``.
    dtype
        Type of the tensors.

    Raises
    ------
    InputError
        If the trajectories are too short to hold a pair, or an argument is wrong.
    """

    def __init__(
        self,
        dataset: StatesOnDisk,
        window: int,
        prediction_window: int | None = None,
        horizon: int = 1,
        *,
        group: str = "train",
        dtype: torch.dtype | str = "float64",
    ) -> None:
        if group not in dataset.shapes:
            raise InputError(
                f"{dataset.path} has no group '{group}'; it has {', '.join(dataset.shapes)}"
            )
        trajectories, length, self._dim = dataset.shapes[group]
        self._dataset, self._group = dataset, group
        self._dtype = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
        if not isinstance(self._dtype, torch.dtype):
            raise InputError(f"dtype = {dtype!r} is none; take float64 or float32")
        self.window = window
        self.shift = window if prediction_window is None else prediction_window
        self._starts = count_starts(length, window, self.shift, horizon)
        self.size = window + horizon * self.shift
        self._process, self._state = -1, None
        # if states are missing: numbers of the complete pairs among all pairs
        self._whole = None if dataset.is_complete else self._find_whole()
        self._count = trajectories * self._starts if self._whole is None else len(self._whole)
        if not self._count:
            raise InputError(
                f"{dataset.path}, {group}: no {self.size} consecutive states are all observed, as "
                f"a window of {window} and its prediction need"
            )

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int | Sequence[int] | np.ndarray) -> Pair:
        single = np.ndim(index) == 0
        chosen = np.atleast_1d(np.asarray(index, dtype=np.int64))
        if len(chosen) and not (-self._count <= chosen.min() and chosen.max() < self._count):
            raise IndexError(f"there are {self._count} pairs of windows")
        chosen = chosen % self._count
        if self._whole is not None:
            chosen = self._whole[chosen]
        states = torch.from_numpy(self._read(chosen // self._starts, chosen % self._starts))
        states = states.to(self._dtype)
        inputs, targets = states[:, : self.window], states[:, self.shift :]
        return (inputs[0], targets[0]) if single else (inputs, targets)

    def __getitems__(self, indices: Sequence[int]) -> list[Pair]:
        """Return several pairs, which a ``DataLoader`` asks for at once and stacks itself."""
        inputs, targets = self[indices]
        return list(zip(inputs, targets, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_process": -1, "_state": None, "_open": None}

    def __repr__(self) -> str:
        return (
            f"<WindowDataset {self._dataset.path}, {self._group}: {self._count} pairs of windows>"
        )

    def _states(self) -> Any:
        """Return ``state`` of the group, opened by this process."""
        if self._process != os.getpid():
            self._open = ExitStack()
            self._state = self._open.enter_context(self._dataset.open_states(self._group))
            self._process = os.getpid()
        return self._state

    def _read(self, rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """States (n, size, dim) of trajectories from times on, block by block of the file."""
        state = self._states()
        result = np.empty((len(rows), self.size, self._dim))
        length = state.shape[1]
        if state.chunks is not None:
            block = state.chunks[:2]
        else:
            block = (max(1, _BLOCK_BYTES // (8 * self._dim * length)), length)
        order = np.lexsort((starts, starts // block[1], rows // block[0]))
        keys = np.stack([rows // block[0], starts // block[1]], axis=-1)[order]
        ends = np.flatnonzero((np.diff(keys, axis=0) != 0).any(axis=1)) + 1
        for part in np.split(order, ends) if len(order) else []:
            r, t = rows[part], starts[part]
            first, begin = r.min(), t.min()
            values = state[first : r.max() + 1, begin : t.max() + self.size]
            steps = (t - begin)[:, None] + np.arange(self.size)
            result[part] = values[(r - first)[:, None], steps]
        return result

    def _find_whole(self) -> np.ndarray:
        state = self._states()
        rows, length, dim = state.shape
        part = max(1, _BUFFER_BYTES // (8 * dim * length))
        found = [
            observed_starts(state[first : first + part], self.size) + first * self._starts
            for first in range(0, rows, part)
        ]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def buffers(self, generator: torch.Generator) -> Iterator[HeldPairs]:
        """Parts of some 32 MiB, of blocks from all over the file; in each the order is random."""
        return (self.buffer(*part) for part in self.parts(generator))

    def parts(self, generator: torch.Generator | None = None) -> list[tuple[np.ndarray, int]]:
        """Return the parts that :meth:`buffer` reads: random blocks and a seed, or all in order."""
        rows, length, dim = self._states().shape
        chunk = (self._states().chunks or (1, length))[:2]
        bytes_of_row = 8 * dim * length
        if bytes_of_row * chunk[0] <= _BUFFER_BYTES:  # whole trajectories
            block = chunk[0] * max(1, _BLOCK_BYTES // (bytes_of_row * chunk[0])), self._starts
        else:
            # longer blocks, because every block also reads the chunk after its last
            block = 1, chunk[1] * max(1, 8 * _BLOCK_BYTES // (8 * dim * chunk[1]))
        first, start = np.mgrid[0 : rows : block[0], 0 : self._starts : block[1]].reshape(2, -1)
        ends = np.minimum(first + block[0], rows), np.minimum(start + block[1], self._starts)
        blocks = np.stack([first, ends[0], start, ends[1]], axis=-1)
        together = max(1, _BUFFER_BYTES // (8 * dim * block[0] * min(block[1] + self.size, length)))
        seeds = np.zeros(len(blocks), dtype=np.int64)
        if generator is not None:
            blocks = blocks[torch.randperm(len(blocks), generator=generator).numpy()]
            seeds = torch.randint(1, 1 << 62, (len(blocks),), generator=generator).numpy()
        return [(blocks[k : k + together], int(seeds[k])) for k in range(0, len(blocks), together)]

    def buffer(self, blocks: np.ndarray, seed: int = 0) -> HeldPairs:
        """The pairs that begin in blocks (block, 4), in a random order if there is a seed."""
        state = self._states()
        order = np.lexsort(blocks.T[::-1]) if seed else np.arange(len(blocks))
        read = [
            state[first:last, start : end + self.size - 1]
            for first, last, start, end in blocks[order]
        ]
        pairs = HeldPairs.of_states(read, self.window, self.shift, self.size)
        pairs.states = pairs.states.to(self._dtype)
        return pairs.shuffled(torch.Generator().manual_seed(seed)) if seed else pairs


class _Buffers(TorchDataset[HeldPairs]):
    """Parts of a file, as a ``DataLoader`` and its workers read them."""

    def __init__(self, pairs: WindowDataset) -> None:
        self.pairs = pairs

    def __getitem__(self, part: tuple[np.ndarray, int]) -> HeldPairs:
        return self.pairs.buffer(*part)


class _Order:
    """Order of the parts in an epoch of a ``DataLoader``."""

    def __init__(self, pairs: WindowDataset, generator: torch.Generator | None) -> None:
        self.pairs, self.generator = pairs, generator

    def __iter__(self) -> Iterator[tuple[np.ndarray, int]]:
        yield from self.pairs.parts(self.generator)  # not drawn before it is asked for

    def __len__(self) -> int:
        return len(self.pairs.parts())


class WindowLoader(DataLoader[Any]):
    """Batches of windows. Each block of the file is read once; workers read parts of many blocks.

    The order is random as far as that goes: blocks of about a MiB come in random order, and windows
    are shuffled among those of some 32 blocks.
    """

    def __init__(
        self,
        pairs: WindowDataset,
        batch: int,
        shuffle: bool,
        seed: int,
        workers: int,
        **options: Any,
    ) -> None:
        batch, workers = whole_number("batch", batch, 1), whole_number("workers", workers)
        generator = torch.Generator().manual_seed(seed)
        self.windows, self.count = batch, len(pairs)
        self._of_batch = options.pop("collate_fn", None)  # DataLoader would give it whole parts
        super().__init__(
            _Buffers(pairs),
            sampler=_Order(pairs, generator if shuffle else None),
            batch_size=None,  # a part is more than a batch
            num_workers=workers,
            generator=generator,
            **options,
        )

    def __iter__(self) -> Iterator[Pair]:  # type: ignore[override]
        pinned = self.pin_memory and torch.cuda.is_available()
        for inputs, targets in in_batches(super().__iter__(), self.windows):
            pair = (inputs.pin_memory(), targets.pin_memory()) if pinned else (inputs, targets)
            yield pair if self._of_batch is None else self._of_batch(pair)

    def __len__(self) -> int:
        return -(-self.count // self.windows)
