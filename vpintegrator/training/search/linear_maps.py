"""Linear maps in a search: one least-squares problem."""

from __future__ import annotations

import math

import torch

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.training.history import History
from vpintegrator.training.linear import FEWEST, ROWS
from vpintegrator.training.linear_map import fit_linear_map
from vpintegrator.training.search.options import Make, SearchOptions
from vpintegrator.training.search.result import SearchResult
from vpintegrator.training.search.size_search import SizeSearch
from vpintegrator.training.training_data import TrainingData


def find_linear_map(make: Make, data: TrainingData, options: SearchOptions) -> SearchResult:
    """Return the linear map of least squares; of few data from all pairs that are not of the test.

    Parameters
    ----------
    make, data, options
        See :class:`~vpintegrator.training.search.size_search.SizeSearch`.

    Returns
    -------
    SearchResult
        ``error`` is the validation error, of few data the leave-one-out error.

    Raises
    ------
    InputError
        If some states are not finite, or the pairs are too few.
    """
    search = SizeSearch(make, data, options)
    model = search.make({})
    data.normalise(model)
    fit = fit_linear_map(model, *_tensors(model, data, options))
    if not math.isfinite(fit.error):
        raise InputError(
            "there are too few pairs for a linear map: some components are determined by one pair "
            "alone"
        )
    search.note(
        f"{fit.coefficients} coefficients from {fit.pairs:,} pairs, leave-one-out error "
        f"{fit.error:.1e}"
    )
    history = History("linear", options.method.seed, fit.coefficients)
    history.windows = fit.pairs
    history.add(options.used, fit.error, fit.error)
    history.best_epoch = 1
    options.show(history, 1)
    error = fit.error if data.is_few else search.validation_error(model)
    return search.solved(model, error, history, "")


def _tensors(
    model: Integrator, data: TrainingData, options: SearchOptions
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return states before and after a step (pair, dim)."""
    if data.is_few:
        known = data.known_pairs
        return known.before, known.after
    generator = torch.Generator().manual_seed(options.method.seed)
    inputs, targets = data.pairs(model).sample(max(FEWEST, ROWS * (model.dim + 1)), generator)
    return inputs[:, -1], targets[:, -1]
