"""Discrete Lagrangians from positions alone: one linear least-squares solve."""

from __future__ import annotations

import warnings

import torch

from vpintegrator.data.pairs import Pair
from vpintegrator.errors import InputError
from vpintegrator.models.discrete_lagrangian import DiscreteLagrangianMap
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.linear import LinearEquations, LinearFit, enough_pairs
from vpintegrator.training.training_data import TrainingData

BADLY_CONDITIONED = 1e6


def solve_lagrangian(
    model: DiscreteLagrangianMap, data: TrainingData, seed: int = 0, number: int | None = None
) -> LinearFit:
    """Set the coefficients of a discrete Lagrangian by windows of a dataset of positions.

    Parameters
    ----------
    model
        The model, which is normalised here.
    data
        Training data.
    seed, number
        Seed of the choice of windows, and their number; by default twenty equations for each
        coefficient.

    Returns
    -------
    LinearFit
        Its ``error`` is the leave-one-out error.

    Raises
    ------
    InputError
        As ``fit_windows``.
    """
    data.normalise(model)
    generator = torch.Generator().manual_seed(seed)
    pair = data.pairs(model).sample(number or enough_pairs(model), generator)
    return fit_windows(model, pair)


def fit_windows(model: DiscreteLagrangianMap, pair: Pair, most: int = 10_000) -> LinearFit:
    """Set the coefficients of a discrete Lagrangian by windows and the positions after them.

    Parameters
    ----------
    model
        Normalised.
    pair
        Windows (pair, 2, dim), those one step later, and parameters of a family.
    most
        Largest number of coefficients.

    Returns
    -------
    LinearFit
        Its ``error`` is the leave-one-out error.

    Raises
    ------
    InputError
        If positions are not finite, or there are too few for the coefficients.

    Warns
    -----
    UserWarning
        If D1 D2 L is badly conditioned at some windows.

    Examples
    --------
    >>> from vpintegrator.data.pairs import Pairs
    >>> from vpintegrator.training.lagrangian import fit_windows
    >>> t = np.linspace(0, 2, 11) + np.arange(20.0)[:, None]
    >>> q = np.cos(t)[:, :, None] * np.linspace(0.1, 1, 20)[:, None, None]
    >>> model = vp.models.DiscreteLagrangianMap(dim=1, degree=2, reversing_symmetries=[[[1.0]]])
    >>> fit = fit_windows(model, Pairs.of_states(q, 2, 1).pair(slice(None)))
    >>> fit.error < 1e-13
    True
    """
    layer = model.core
    inputs, targets, k = pair.to(torch.empty(0, dtype=torch.float64))
    windows = torch.cat([inputs, targets[:, -1:]], 1)  # (pair, 3, dim)
    if not bool(windows.isfinite().all()):
        raise InputError("some positions of the training windows are not finite; leave these out")
    count = sum(p.numel() for p in layer.parameters())
    equations = len(windows) * model.dim
    if count > most:
        raise InputError(f"{count:,} coefficients are too many for a solve; take a lower degree")
    if equations < count:
        raise InputError(
            f"{len(windows):,} windows of three positions give {equations:,} equations for "
            f"{count:,} coefficients; give more orbits, or a lower degree"
        )
    with torch.no_grad(), one_blas_thread():
        own = model.coefficients(None if k is None else k)
        before, after = (
            layer.joined(model.coordinates(windows[:, i : i + 2]), own) for i in (0, 1)
        )
        layer.adapt_to(torch.cat([before, after]))
        choice = LinearEquations(layer, before, after).solve()
        solution = torch.from_numpy(choice.solution.coefficients)
        for each, part in zip(
            layer.coefficients(),
            solution.split([c.numel() for c in layer.coefficients()]),
            strict=True,
        ):
            each.copy_(part)
        layer.settle(before[:100].to(model.scale))
    if k is None:
        model.set_momentum_unit(inputs[:200].to(model.scale))
    check_condition(model, next(Pair(inputs, targets, k).split(2_000)))
    return LinearFit.of(choice, len(windows))


def check_condition(
    model: DiscreteLagrangianMap, pair: Pair, most: float = BADLY_CONDITIONED
) -> None:
    """Warn where D1 D2 L is badly conditioned: the next position is barely determined there."""
    condition = model.condition(pair.inputs.numpy(), pair.parameters)
    if not condition <= most:
        warnings.warn(
            f"D1 D2 L of the discrete Lagrangian is badly conditioned on the data, by "
            f"{condition:.1e}: the next position is barely determined there; take a lower degree, "
            "or more orbits",
            stacklevel=3,
        )
