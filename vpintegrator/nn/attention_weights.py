"""The attention weights of every layer of a network, read off as it maps a window."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from vpintegrator.nn.layer import Attention


def attention_weights(model: nn.Module, window: torch.Tensor) -> dict[str, torch.Tensor]:
    r"""Return the weights of every attention layer of a model that maps a window in ``eval`` mode.

    Parameters
    ----------
    model : Module
        Any network of layers of this package, such as an integrator.
    window : Tensor, (..., window, dim)
        Input of the model, in the units of its states.

    Returns
    -------
    dict of str to Tensor, (..., time, time)
        Weights by the layer's place in the model, in the order of evaluation: the place
        ``"core.0"`` is that of ``model.get_submodule("core.0")``. Heads, or the blocks that a
        ``CoupledAttention`` rotates, come before time. Rows are the new time steps, columns the
        time steps read. A row of softmax weights sums to 1. The weights of a
        ``VolumePreservingAttention`` are rotations, so the squares of a row sum to 1. Empty if
        there is no attention.

    Notes
    -----
    Of a reversible map :math:`\psi R \psi^{-1} R` they are those of :math:`\psi`, which comes
    last. Where a coupling
    averages over symmetries, the elements of the group come first in the shape.

    Examples
    --------
    >>> import torch, vpintegrator as vp
    >>> model = vp.models.VolumePreservingTransformer(dim=3, window=4)
    >>> weights = vp.nn.attention_weights(model, torch.ones(4, 3, dtype=torch.float64))
    >>> {place: tuple(matrix.shape) for place, matrix in weights.items()}
    {'core.0': (4, 4), 'core.2': (4, 4)}
    """
    found: dict[str, torch.Tensor] = {}

    def reader(place: str) -> Any:
        def read(layer: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            found.pop(place, None)  # the last call of a layer counts
            found[place] = layer.attention_weights(*inputs)

        return read

    training = model.training
    with ExitStack() as hooks, torch.no_grad():
        hooks.callback(model.train, training)
        for place, layer in model.named_modules():
            if hasattr(layer, "attention_weights"):
                hooks.callback(layer.register_forward_pre_hook(reader(place)).remove)
        model.eval()(window)
    return found


def attention_layers(model: nn.Module) -> Iterator[Attention]:
    """Yield the attention layers of a model, without the attention inside of others."""
    if isinstance(model, Attention):
        yield model
        return
    for part in model.children():
        yield from attention_layers(part)
