"""Small datasets of measured states: all pairs but those of the test group are fitted.

Models are chosen by cross-validation. Pairs that belong together are left out together: those of a
trajectory, or of a part in time where there are few trajectories.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.training.training_data import TrainingData

FEW_WORDS = "all {:,} pairs but those of the test group are fitted; errors are cross-validated"
FOLDS = 5  # parts in time of few trajectories, and parts of the pairs in cross-validation


class KnownPairs(NamedTuple):
    """Pairs of states that are not of the test group.

    Attributes
    ----------
    before, after : (pair, dim)
        States before and after a step.
    folds : (pair,)
        Number of the fold of each pair; the pairs of a fold are left out together.
    """

    before: torch.Tensor
    after: torch.Tensor
    folds: np.ndarray

    @property
    def are_single(self) -> bool:
        """Whether each pair is a trajectory of its own."""
        return len(set(self.folds)) == len(self.folds)


def known_pairs(data: TrainingData) -> KnownPairs:
    """Return the pairs of the training and validation groups.

    Examples
    --------
    >>> from vpintegrator.training.few_data import known_pairs
    >>> from vpintegrator.training.training_data import TrainingData
    >>> states = np.random.default_rng(0).normal(size=(20, 2, 3))
    >>> dataset = vp.import_dataset(states, "few.h5", step=1.0, overwrite=True)
    >>> before, after, folds = known_pairs(TrainingData(dataset))
    >>> before.shape, len(set(folds.tolist()))  # three trajectories are the test group
    (torch.Size([17, 3]), 17)
    """
    dataset = data.dataset
    groups = [data.held(name) for name in ("train", "validation") if data.has(name)]
    before = np.concatenate([states[:, :-1].reshape(-1, dataset.dim) for states in groups])
    after = np.concatenate([states[:, 1:].reshape(-1, dataset.dim) for states in groups])
    lengths = np.concatenate([np.full(len(s), s.shape[1] - 1) for s in groups])
    folds = np.repeat(np.arange(len(lengths)), lengths)
    if len(lengths) < FOLDS:
        folds = np.arange(len(before)) * FOLDS // len(before)
    return KnownPairs(torch.from_numpy(before), torch.from_numpy(after), folds)


def cross_validated(
    model: Integrator,
    known: KnownPairs,
    fit: Callable[[Integrator, torch.Tensor, torch.Tensor], object],
) -> float:
    """Return the relative error of fits to four fifths of the folds on the others.

    Parameters
    ----------
    model
        Model to begin with; it stays as it is.
    known
        Pairs of states.
    fit
        Fits a copy of the model in place to states before and after a step.

    Returns
    -------
    float
        Root mean square in units of the spread of each component; infinite where four fifths of
        the folds are too few pairs.
    """
    squares, spread = 0.0, known.after.var(0)
    groups = np.array_split(np.random.default_rng(0).permutation(np.unique(known.folds)), FOLDS)
    try:
        for group in groups:
            left = torch.from_numpy(np.isin(known.folds, group))
            other = copy.deepcopy(model)
            fit(other, known.before[~left], known.after[~left])
            with torch.no_grad():
                images = other(known.before[left][:, None])[:, 0]
            squares += float(((images - known.after[left]).square() / spread).sum())
    except InputError:  # too few pairs
        return math.inf
    error = math.sqrt(squares / known.after.numel())
    return error if math.isfinite(error) else math.inf
