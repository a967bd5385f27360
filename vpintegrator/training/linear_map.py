"""Training of linear maps: one least-squares problem, regularised by the leave-one-out error."""

from __future__ import annotations

import time

import numpy as np
import torch

from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.nn.feed_forward import AffineMap
from vpintegrator.training.least_squares import LeftOut, SequentialQR
from vpintegrator.training.linear import LinearFit
from vpintegrator.training.residuals import reciprocal_spread


def linear_layer(model: Model) -> AffineMap | None:
    """Return the layer of a linear map, None for other models."""
    return model.core if isinstance(model.core, AffineMap) else None


def fit_linear_map(
    model: Model,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    folds: np.ndarray | None = None,
    most: int = 1 << 22,
) -> LinearFit:
    """Set matrix and offset of a linear map by least squares.

    Directions that the pairs do not determine stay as the identity has them. The leave-one-out
    error chooses how many these are, by the tolerance of singular values.

    Parameters
    ----------
    model
        A linear map, normalised.
    inputs, targets : (pair, dim)
        States before and after the step.
    folds : (pair,), optional
        Number of the fold of each pair: the pairs of a fold are left out together.
    most
        Numbers of the equations, by default 32 MB.

    Returns
    -------
    LinearFit
        Its ``error`` is the leave-one-out error.

    Raises
    ------
    InputError
        If the model is no linear map, or states are not finite.
    """
    start = time.perf_counter()
    layer = linear_layer(model)
    if layer is None:
        raise InputError(f"{model.name} is no linear map")
    z, y = (model.coordinates(each.double().cpu()).detach() for each in (inputs, targets))
    if len(z) < 2 or not bool(z.isfinite().all() and y.isfinite().all()):
        raise InputError("a linear map needs two or more pairs of finite states; give others")
    some = slice(max(most // (layer.dim + 1), 2))
    weight = reciprocal_spread(y).numpy()
    rows = torch.cat([z, torch.ones_like(z[:, :1])], 1)[some].numpy()
    right = (y - z)[some].numpy() * weight
    qr = SequentialQR(layer.dim + 1)
    qr.add(rows, right)
    left_out = LeftOut(rows[:, None], rows[:, None], right[:, None], folds)
    solutions = qr.truncated([1e-14, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2])
    choice = min(map(left_out.choice, solutions), key=lambda each: each.square)
    change = torch.from_numpy(choice.solution.coefficients[:-1] / weight)  # transposed
    with torch.no_grad():
        layer.matrix.copy_(torch.eye(layer.dim).double() + change.mT)
        layer.offset.copy_((y - z @ layer.matrix.mT).mean(0))
    return LinearFit.of(choice, len(z), start)
