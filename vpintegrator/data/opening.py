"""Datasets of anything that holds states, with the structure that holds at the states."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vpintegrator.data.dataset import Dataset, open_dataset
from vpintegrator.data.importing.import_dataset import import_dataset
from vpintegrator.data.importing.readers import SEPARATORS, ending_of
from vpintegrator.errors import InputError
from vpintegrator.storage.reading import kind_of
from vpintegrator.storage.toml import read_toml

_JUDGED = 512  # states at which structure is measured
_ACCURACY = 1e-9  # of states whose accuracy is not known


def is_dataset(data: Any) -> bool:
    """Whether data are a dataset or the path of a file that is no source of an import.

    Raises
    ------
    InputError
        If there is no file of this path, or it is damaged.
    """
    if not isinstance(data, str | os.PathLike):
        return isinstance(data, Dataset)
    kind = kind_of(data)
    is_text = kind is None and ending_of(Path(data)) in SEPARATORS
    return not (is_text or kind in ("arrays", "hdf5"))


@contextmanager
def opened(data: Any, step: float | None = None, structure: str | None = None) -> Iterator[Dataset]:
    """Give a dataset, or states imported into a temporary one; notes of the import are warnings.

    Parameters
    ----------
    data
        A dataset or its path; a source of :func:`vpintegrator.import_dataset`; or a tuple of two
        arrays, the states before and after a step.
    step, structure
        Arguments of the import.

    Raises
    ------
    InputError
        If the data are no states, or ``step`` or ``structure`` are given beside a dataset.

    Examples
    --------
    >>> from vpintegrator.data.opening import opened
    >>> runs = [np.random.default_rng(k).normal(size=(20 + k, 2)) for k in range(6)]
    >>> with opened(runs, step=0.1) as dataset:
    ...     dataset.step, dataset.shapes["train"]
    (0.1, (4, 25, 2))
    """
    if is_dataset(data):
        if step is not None or structure is not None:
            raise InputError("step and structure are arguments of states; a dataset has its own")
        yield data if isinstance(data, Dataset) else open_dataset(data)
        return
    is_pair = isinstance(data, tuple) and len(data) == 2
    with tempfile.TemporaryDirectory(prefix="vp-states-") as folder:
        path = Path(folder, "states.h5")
        pairs: Literal[True] | None = True if is_pair else None
        dataset = import_dataset(data, path, step=step, structure=structure, pairs=pairs)
        for note in read_toml(dataset.recipe, "")["imported"]["notes"]:
            warnings.warn(note, stacklevel=4)
        yield dataset


def without_broken_structure(dataset: Dataset | str | os.PathLike[str]) -> Dataset:
    """Return a dataset whose system has the structure that holds at its training states.

    Structure that fails there by more than the accuracy of the states is left out with a warning.
    """
    dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    if dataset.is_family or dataset.system.is_measured:
        return dataset
    count = dataset.shapes["train"][0]
    few = np.unique(np.linspace(0, count - 1, min(count, _JUDGED)).astype(int))
    states = dataset.states("train", few).reshape(-1, dataset.dim)
    states = states[np.isfinite(states).all(axis=1)]
    sample = np.random.default_rng(0).choice(len(states), min(len(states), _JUDGED), replace=False)
    accuracy = max(dataset.accuracy.get("estimated_error", 0.0), _ACCURACY)
    system = dataset.system.holding_at(states[sample], accuracy)
    if system is dataset.system:
        return dataset
    warnings.warn(
        f"{dataset.path}: the training states do not have structure of {system.name}, which the "
        f"models leave out: {'; '.join(system.definition.broken)}",
        stacklevel=2,
    )
    return dataset.attached(system)
