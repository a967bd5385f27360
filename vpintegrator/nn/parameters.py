"""Parameters as the second argument of layers: the variables of functions, and fixed values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from vpintegrator.errors import InputError


def parameters_for(
    layer: nn.Module, parameters: torch.Tensor | None
) -> tuple[torch.Tensor | None, ...]:
    """Return the arguments of a layer after the states: the parameters, if it reads any."""
    return (parameters,) if getattr(layer, "parameter_count", 0) else ()


def beside(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return tensors (..., n) beside one another, whose leading axes broadcast."""
    if len(parts) < 2:
        return parts[0] if parts else torch.empty(0)
    shape = torch.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return torch.cat([part.expand(*shape, -1) for part in parts], -1)


def joined(z: torch.Tensor, parameters: torch.Tensor | None) -> torch.Tensor:
    """Return the variables (..., window, dim + m) of functions of states and parameters."""
    if parameters is None:
        return z
    return beside([z, parameters.unsqueeze(-2).to(z)])  # (..., window, dim + m)


def check_vanishing(vanishing: Sequence[int], parameters: int) -> None:
    """Raise InputError unless ``vanishing`` names some of so many parameters."""
    if not {*vanishing}.issubset(range(parameters)):
        raise InputError(
            f"vanishing must name parameters, of which there are {parameters}, not {[*vanishing]}"
        )


def factors_at_zero(vanishing: Sequence[int], dim: int, parameters: int) -> torch.Tensor | None:
    """Return factors (dim + m,): 0 of the vanishing parameters, 1 of others; None if all are 1."""
    check_vanishing(vanishing, parameters)
    if not len(vanishing):
        return None
    factors = torch.ones(dim + parameters, dtype=torch.float64)
    factors[[dim + i for i in vanishing]] = 0
    return factors


def neurons_at(
    parameters: torch.Tensor,
    W: torch.Tensor,
    b: torch.Tensor,
    A: torch.Tensor,
    base: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return weights of neurons of states at parameters (m,), which join the biases.

    Parameters
    ----------
    W, b, A : (dim + m, hidden), (hidden,), (..., hidden)
        Inner weights, biases and outer weights.
    base : (dim + m,), optional
        Factors of the variables in neurons that are subtracted, which double the hidden units.
    """
    k, m = parameters.to(W), len(parameters)
    bias = b + k @ W[-m:]
    if base is None:
        return W[:-m], bias, A
    bias = torch.cat([bias, b + (k * base[-m:]) @ W[-m:]])
    return torch.cat([W[:-m], W[:-m]], 1), bias, torch.cat([A, -A], -1)
