"""Initial weights of the networks of arXiv 2312.11166."""

from __future__ import annotations

import math
from typing import TypeVar

import torch

from vpintegrator.models.base import Integrator

Model = TypeVar("Model", bound=Integrator)


@torch.no_grad()
def with_glorot_weights(model: Model) -> Model:
    """Draw the weights of a model uniformly by the rule of Glorot and Bengio; biases are zero.

    Entries of a matrix (rows, columns) lie within sqrt(6 / (rows + columns)). Of a triangular or
    skew matrix the n free entries are a vector, and lie within sqrt(6 / n).

    References
    ----------
    Glorot, Bengio, AISTATS 2010, eq. (16); GeometricMachineLearning.jl, ``GlorotUniform``.
    """
    for name, weight in model.core.named_parameters():
        if name.endswith("bias"):
            weight.zero_()
        else:
            bound = math.sqrt(6 / sum(weight.shape[-2:]))
            draw = torch.empty(weight.shape, dtype=torch.float64).uniform_(-bound, bound)
            weight.copy_(draw)
    return model
