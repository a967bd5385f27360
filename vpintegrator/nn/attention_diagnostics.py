"""Weights of the attention layers of a model, and their distance from the identity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import nn

from vpintegrator.nn.layer import AttentionLayer


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
    result: dict[str, torch.Tensor] = {}

    def reader(place: str) -> Any:
        def read(layer: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            result.pop(place, None)  # the last call of a layer counts
            result[place] = layer.attention_weights(*inputs)

        return read

    training = model.training
    with ExitStack() as hooks, torch.no_grad():
        hooks.callback(model.train, training)
        for place, layer in model.named_modules():
            if hasattr(layer, "attention_weights"):
                hooks.callback(layer.register_forward_pre_hook(reader(place)).remove)
        model.eval()(window)
    return result


class AttentionChange(NamedTuple):
    """Change of states by the attention of a model, over some windows.

    Attributes
    ----------
    layers, weights
        Number of attention layers, and of their weights.
    change
        Root mean square of what the layers add to their inputs, relative to that of the inputs.
    angle
        Root mean square of the rotation angles in radians, of each rotation the largest one; nan
        where no weights are rotations.
    entropy
        Mean entropy of the rows of softmax weights, relative to that of equal weights: 0 where a
        row reads a single time step, 1 where it reads all alike. nan where there is no softmax.
    """

    layers: int
    weights: int
    change: float
    angle: float
    entropy: float

    @property
    def words(self) -> str:
        """The numbers as a sentence."""
        words = f"attention: {self.weights} weights, relative change {self.change:.1e}"
        if not math.isnan(self.angle):
            words += f", rotations by {self.angle:.1e} rad"
        if not math.isnan(self.entropy):
            words += f", entropy {self.entropy:.2f} of that of equal weights"
        return words


def attention_change(model: nn.Module, windows: torch.Tensor) -> AttentionChange | None:
    """Return how far the attention of a model is from the identity; None without attention.

    Parameters
    ----------
    model : Module
        Any network of layers of this package, such as an integrator.
    windows : Tensor, (pair, window, dim)
        Inputs of the model, in the units of its states.

    Examples
    --------
    >>> model = vp.models.VolumePreservingTransformer(dim=3, window=4, initial_scale=1e-3)
    >>> windows = torch.rand(5, 4, 3, dtype=torch.float64)
    >>> 0 < vp.nn.attention_change(model, windows).angle < 0.1
    True
    """
    layers = list(attention_layers(model))
    if not layers:
        return None
    squares: list[tuple[float, float]] = []

    def compare(layer: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if output.shape == inputs[0].shape:
            moved = output - inputs[0]
            squares.append((float(moved.square().mean()), float(inputs[0].square().mean())))

    with ExitStack() as hooks:
        for layer in layers:
            hooks.callback(layer.register_forward_hook(compare).remove)
        matrices = attention_weights(model, windows).values()
    angles = [windows.new_zeros(0)]
    entropies = [windows.new_zeros(0)]
    for weights in matrices:  # (..., time, time read)
        count = weights.shape[-1]
        one = torch.eye(count, dtype=weights.dtype, device=weights.device)
        if weights.shape[-2] == count and torch.allclose(weights @ weights.mT, one, atol=1e-4):
            # the largest singular value of a rotation minus the identity is 2 sin(angle / 2)
            distance = torch.linalg.matrix_norm(weights - one, 2)
            angles.append(2 * torch.asin((distance / 2).clamp(max=1)).flatten())
        elif count > 1 and bool(((weights.sum(-1) - 1).abs() < 1e-4).all()):
            entropies.append(torch.special.entr(weights).sum(-1).flatten() / math.log(count))
    moved, sizes = map(sum, zip(*squares, strict=True)) if squares else (0.0, 1.0)
    return AttentionChange(
        len(layers),
        sum(weight.numel() for layer in layers for weight in layer.parameters()),
        math.sqrt(moved / sizes) if sizes else 0.0,
        float(torch.cat(angles).square().mean().sqrt()),
        float(torch.cat(entropies).mean()),
    )


def attention_layers(model: nn.Module) -> Iterator[AttentionLayer]:
    """Yield the attention layers of a model, without the attention inside of others."""
    if isinstance(model, AttentionLayer):
        yield model
        return
    for part in model.children():
        yield from attention_layers(part)
