"""Continuation in the map to be learned, from the identity to a map that is far from it.

Least squares for polynomials that begin near the identity stall if the flow rotates states by more
than about a right angle. With A the linear map that fits the data best and L = log A, the targets

    y_s = exp(s L) z + s (y - A z),  0 <= s <= 1,

lead from the identity to the data. Each value of s is slightly larger than the one before
(Allgower, Georg, Introduction to Numerical Continuation Methods, SIAM 2003, chapter 1).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch

from vpintegrator.data.pairs import HeldPairs, Pairs
from vpintegrator.models import Integrator
from vpintegrator.models.one_step import one_step
from vpintegrator.training.levenberg_marquardt import LevenbergMarquardt

FAR = 0.1  # relative error at which a training near the identity has stalled
_STEPS, _EPOCHS = 8, 5  # values of s, and iterations for each
_WINDOWS = 4_000
_LOST = 10.0  # relative error from which there is no way back


def continued(model: Integrator, pairs: Pairs) -> None:
    """Train a model, in place, along the way from the identity to its data.

    Parameters
    ----------
    model
        Normalised, and near the identity.
    pairs
        Windows of whole observations, one call ahead.
    """
    generator = torch.Generator().manual_seed(0)
    inputs, targets = (states.to(model.scale) for states in pairs.sample(_WINDOWS, generator))
    targets = targets[:, -model.prediction_window :]
    last = inputs[:, -model.prediction_window :]
    if (alone := one_step(model, fixed=True)) is not None:
        model, inputs = alone, last
    z = model.normalised(last)
    y = model.normalised(targets, near=z)
    flat = [states.reshape(-1, model.dim).cpu() for states in (z, y)]
    matrix = torch.linalg.lstsq(*flat).solution.mT
    logarithm = np.real(scipy.linalg.logm(matrix.numpy()))
    rest = y - z @ matrix.to(z).mT
    if not np.isfinite(logarithm).all():
        return
    for s in np.linspace(0, 1, _STEPS + 1)[1:]:
        linear = torch.from_numpy(scipy.linalg.expm(s * logarithm)).to(z)
        between = model.denormalised(z @ linear.mT + s * rest)
        if model.clock:  # the time advances at its own rate from the beginning
            between[..., -1] = targets[..., -1]
        pairs = HeldPairs.of_tensors(inputs, between)
        optimizer = LevenbergMarquardt(model, pairs, generator=generator)
        for _ in range(_EPOCHS):
            if not optimizer.epoch(0.0) < _LOST:
                return
