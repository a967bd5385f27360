"""Activation functions: by name, which a model's file stores, or any function of tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch

from vpintegrator.arguments import called, one_of

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


def activation(function: str | Activation) -> Activation:
    """Return an activation by its name, or the function or module itself.

    Raises
    ------
    InputError
        If there is none of that name, or it cannot be called.
    """
    if isinstance(function, str):
        return ACTIVATIONS[one_of("activation", function, ACTIVATIONS)]
    return called("activation", function, f"a function, or one of {', '.join(ACTIVATIONS)}")
