"""The published volume-preserving transformer written in JAX, as a user of JAX would.

Attention with the arbitrary weighting over windows of three, whose Cayley transform has a closed
form, and triangular feed-forward layers. Weights come from a model of this package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vpintegrator.models import VolumePreservingTransformer
from vpintegrator.nn import TriangularFeedForward, VolumePreservingAttention

jax.config.update("jax_enable_x64", True)


def transformer(model: VolumePreservingTransformer) -> tuple[Callable[..., Any], list[Any]]:
    """A function of weights and windows (..., 3, dim), and the weights.

    ``model`` must have no normalisation.
    """
    layers: list[Callable[..., Any]] = []
    weights: list[Any] = []
    for block in model.core:
        if isinstance(block, VolumePreservingAttention):
            layers.append(_attention)
            weights.append(jnp.asarray(block.weight().detach().numpy()))
            continue
        assert isinstance(block, TriangularFeedForward)
        for layer in block:
            shape, activation = layer.shape, layer.activation
            layers.append(_triangular(model.dim, shape, activation))
            bias = None if layer.bias is None else jnp.asarray(layer.bias.detach().numpy())
            weights.append((jnp.asarray(layer.entries.detach().numpy()), bias))

    def network(weights: list[Any], windows: Any) -> Any:
        for layer, weight in zip(layers, weights, strict=True):
            windows = layer(weight, windows)
        return windows

    return network, weights


def _attention(weight: Any, X: Any) -> Any:
    S = X @ weight @ jnp.swapaxes(X, -1, -2)
    lower = jnp.tril(S, -1)
    C = lower - jnp.swapaxes(lower, -1, -2)
    size = 1 + C[..., 1, 0] ** 2 + C[..., 2, 0] ** 2 + C[..., 2, 1] ** 2
    # cayley(C)^T = I + 2 (C + C^2) / (1 + |c|^2)
    return X + 2 * ((C + C @ C) @ X) / size[..., None, None]


def _triangular(dim: int, shape: str, activation: str) -> Callable[..., Any]:
    rows, columns = np.tril_indices(dim, -1)
    sigma = {"tanh": jnp.tanh, "identity": lambda x: x}[activation]

    def layer(weight: tuple[Any, Any], X: Any) -> Any:
        entries, bias = weight
        L = jnp.zeros((dim, dim), X.dtype).at[rows, columns].set(entries)
        Y = X @ (L.T if shape == "lower" else L)
        return X + sigma(Y if bias is None else Y + bias)

    return layer
