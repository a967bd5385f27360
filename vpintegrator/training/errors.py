"""How far a model's predictions are from the true states."""

from __future__ import annotations

import torch

from vpintegrator.models import Integrator

_BLOCK = 8192  # windows evaluated at once


def prediction_residual(
    model: Integrator, inputs: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """Predicted minus true new states, shape (..., prediction_window, dim)."""
    return model.predict(inputs) - targets[..., model.window - model.prediction_window :, :]


@torch.no_grad()
def relative_error(model: Integrator, inputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Relative L2 error one window ahead, ||predicted - true|| / ||true|| over all new states.

    Parameters
    ----------
    inputs, targets
        Pairs of windows, shape (pair, window, dim), see :func:`vpintegrator.data.windows`.
    """
    residual = size = 0.0
    for x, y in zip(inputs.split(_BLOCK), targets.split(_BLOCK), strict=True):
        residual += prediction_residual(model, x, y).square().sum().item()
        size += y[..., model.window - model.prediction_window :, :].square().sum().item()
    return (residual / size) ** 0.5 if size > 0 else residual**0.5
