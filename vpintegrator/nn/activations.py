"""Activation functions by name, so that a model's arguments can be stored as text."""

from __future__ import annotations

from collections.abc import Callable

import torch

from vpintegrator.arguments import one_of

Activation = Callable[[torch.Tensor], torch.Tensor]


def identity(x: torch.Tensor) -> torch.Tensor:
    """Return the activation of a linear layer."""
    return x


ACTIVATIONS: dict[str, Activation] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "sin": torch.sin,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "softplus": torch.nn.functional.softplus,
    "identity": identity,
}


def activation(name: str) -> Activation:
    """Return the function of that name.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    return ACTIVATIONS[one_of("activation", name, ACTIVATIONS)]
