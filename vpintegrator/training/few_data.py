"""Small datasets of measured states: all pairs but those of the test group are fitted.

Models are chosen by cross-validation. Pairs that belong together are left out together: those of a
trajectory, or of a part in time where there are few trajectories.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from vpintegrator.training.training_data import TrainingData

FEW_WORDS = "all {:,} pairs but those of the test group are fitted; errors are cross-validated"
FOLDS = 5  # parts in time of few trajectories


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
