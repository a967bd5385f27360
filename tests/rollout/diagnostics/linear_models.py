"""Models that are matrices, so that everything about them is known in closed form."""

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from vpintegrator.models.model import Model


class Matrix(nn.Module):
    """Windows (..., window, dim), flattened, times a matrix."""

    def __init__(self, matrix: np.ndarray) -> None:
        super().__init__()
        self.matrix: torch.Tensor
        self.register_buffer("matrix", torch.tensor(matrix, dtype=torch.float64))
        # only such maps of this package have an inverse
        self.volume_preserving = bool(abs(abs(np.linalg.det(matrix)) - 1) < 1e-12)

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        return (window.flatten(-2) @ self.matrix.mT).reshape(window.shape)

    def inverse(self, window: torch.Tensor) -> torch.Tensor:
        inverse = torch.linalg.inv(self.matrix)
        return (window.flatten(-2) @ inverse.mT).reshape(window.shape)


class LinearModel(Model):
    name = "linear"
    description = "a matrix"


def linear_model(
    matrix: np.ndarray, dim: int, step: float, prediction_window: int | None = None
) -> Model:
    model = LinearModel(
        Matrix(matrix), dim, window=len(matrix) // dim, prediction_window=prediction_window
    )
    model.origin = replace(model.origin, step=step)
    return model


def rotation(angle: float) -> np.ndarray:
    """The flow of the harmonic oscillator (q, p) with unit mass and stiffness."""
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
