"""Training of linear maps: one least-squares problem, regularised by the leave-one-out error."""

from __future__ import annotations

import math
import time

import numpy as np
import torch

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.nn.affine_map import AffineMap
from vpintegrator.training.linear import LinearFit

# singular values, relative to the largest, below which a direction is not determined: the
# leave-one-out error chooses
_TOLERANCES = [1e-14, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2]
_DETERMINED = 1e-10  # distance of a leverage from one
_NUMBERS = 1 << 22  # of the equations: 32 MB, a second


def linear_layer(model: Integrator) -> AffineMap | None:
    """Return the layer of a linear map, None for other models."""
    return model.core if isinstance(model.core, AffineMap) else None


def fit_linear_map(model: Integrator, inputs: torch.Tensor, targets: torch.Tensor) -> LinearFit:
    """Set matrix and offset of a linear map by least squares.

    Directions that the pairs do not determine stay as the identity has them.

    Parameters
    ----------
    model
        A linear map, normalised.
    inputs, targets : (pair, dim)
        States before and after the step.

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
    z, y = (model.normalised(each.double().cpu()).detach().numpy() for each in (inputs, targets))
    if len(z) < 2 or not (np.isfinite(z).all() and np.isfinite(y).all()):
        raise InputError("a linear map needs two or more pairs of finite states; give others")
    most = max(_NUMBERS // (layer.dim + 1), 2)
    change, rank, error, deviation = _least_squares(z[:most], y[:most])
    with torch.no_grad():
        layer.matrix.copy_(torch.from_numpy(np.eye(layer.dim) + change))
        rest = torch.from_numpy(y) - torch.from_numpy(z) @ layer.matrix.double().mT
        layer.offset.copy_(rest.mean(0))
    return LinearFit(
        coefficients=layer.dim * (layer.dim + 1),
        rank=rank,
        pairs=len(z),
        error=error,
        penalty=0.0,
        deviation=deviation,
        seconds=time.perf_counter() - start,
    )


def _least_squares(z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, int, float, float]:
    """Return the matrix less the identity, its rank, the leave-one-out error and its deviation."""
    rows = np.hstack([z, np.ones((len(z), 1))])
    U, sizes, V = np.linalg.svd(rows, full_matrices=False)
    projected = U.T @ (y - z)
    spread = y.std(0)
    weight = 1 / np.where(spread > 0, spread, 1.0)
    best: tuple[np.ndarray, int, float, float] | None = None
    for tolerance in _TOLERANCES:
        kept = sizes > tolerance * sizes[0]
        basis = U[:, kept]
        residual = y - z - basis @ projected[kept]
        determined = 1 - (basis**2).sum(1)  # less the leverage of each pair
        with np.errstate(divide="ignore", invalid="ignore"):
            left_out = np.where(
                determined[:, None] > _DETERMINED, residual / determined[:, None], np.inf
            )
        squares = ((left_out * weight) ** 2).mean(1)
        square = float(squares.mean())
        error = math.sqrt(square) if math.isfinite(square) else math.inf
        if best is None or error < best[2]:
            finite = math.isfinite(error)
            noise = float(squares.std()) / math.sqrt(len(squares)) if finite else 0.0
            change = V[kept].T @ (projected[kept] / sizes[kept, None])
            best = change[:-1].T, int(kept.sum()), error, noise / max(square, 1e-300)
    assert best is not None
    return best
