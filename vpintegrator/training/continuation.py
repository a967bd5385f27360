"""From the identity to a map that is far from it: continuation in the map that is to be learned.

Least squares for polynomials that begin near the identity stall where the flow turns states by more
than about a right angle. With A the linear map that fits the data best and L = log A, the targets

    y_s = exp(s L) z + s (y - A z),  0 <= s <= 1,

lead from the identity to the data, and each s is little more than the one before (Allgower, Georg,
Introduction to Numerical Continuation Methods, SIAM 2003, chapter 1).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch

from vpintegrator.models import Integrator
from vpintegrator.training.levenberg_marquardt import LevenbergMarquardt
from vpintegrator.training.objective import Objective

FAR = 0.1  # relative error at which a training near the identity has stalled
_STEPS, _EPOCHS = 8, 5  # values of s, and iterations for each
_WINDOWS = 4_000
_LOST = 10.0  # relative error from which there is no way back


def continued(model: Integrator, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    """Train a model, in place, along the way from the identity to its data.

    Parameters
    ----------
    model
        Normalised, and near the identity.
    inputs, targets
        (pair, window, dim) and (pair, time, dim) of whole observations, one call ahead.
    """
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(inputs), generator=generator)[:_WINDOWS].to(inputs.device)
    inputs, targets = inputs[chosen], targets[chosen]
    last = inputs[:, -targets.shape[1] :]
    z, y = ((states - model.shift) / model.scale for states in (last, targets))
    flat = [states.reshape(-1, model.dim).cpu() for states in (z, y)]
    matrix = torch.linalg.lstsq(*flat).solution.mT
    logarithm = np.real(scipy.linalg.logm(matrix.numpy()))
    rest = y - z @ matrix.to(z).mT
    if not np.isfinite(logarithm).all():
        return
    for s in np.linspace(0, 1, _STEPS + 1)[1:]:
        linear = torch.from_numpy(scipy.linalg.expm(s * logarithm)).to(z)
        between = (z @ linear.mT + s * rest) * model.scale + model.shift
        optimizer = LevenbergMarquardt(model, inputs, between, Objective(), generator=generator)
        for _ in range(_EPOCHS):
            if not optimizer.epoch(0.0) < _LOST:
                return
