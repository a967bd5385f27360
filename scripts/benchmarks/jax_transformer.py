"""The published volume-preserving transformer in JAX, written for speed on a CPU.

Trajectories are the last axis of all arrays, so that they fill the vectors of the machine; products
with small matrices are written as sums over their columns, without those that are zero, because XLA
fuses sums into one loop but not products of matrices; the Cayley transform of windows of three has
a closed form. Of nine ways of writing the network this was the fastest under ``jax.lax.scan``:
batch first under ``vmap`` and ``einsum`` are ten to thirty times slower for 1,000 trajectories; a
number at a time, XLA repeats the work of one layer in all that follow, and compiles for minutes.
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
    """A function of weights and windows (3, dim, trajectory), and the weights.

    ``model`` must have no normalisation.
    """
    layers: list[Callable[..., Any]] = []
    weights: list[Any] = []
    for block in model.core:
        if isinstance(block, VolumePreservingAttention):
            layers.append(_attention)
            weights.append(jnp.asarray((block.scale * block.weight()).detach().numpy()))
            continue
        assert isinstance(block, TriangularFeedForward)
        for layer in block:
            layers.append(_triangular(layer.dim, layer.shape, layer.activation))
            bias = None if layer.bias is None else jnp.asarray(layer.bias.detach().numpy())
            weights.append((jnp.asarray(layer.entries.detach().numpy()), bias))

    def network(weights: list[Any], X: Any) -> Any:
        for layer, weight in zip(layers, weights, strict=True):
            X = layer(weight, X)
        return X

    return network, weights


def rollout(model: VolumePreservingTransformer, calls: int) -> Callable[[Any], Any]:
    """A function, to be jitted, of windows (3, dim, trajectory).

    It gives all windows (call, 3, dim, trajectory). The weights are constants of it, which is
    faster than arguments are.
    """
    network, weights = transformer(model)

    def step(X: Any, _: None) -> tuple[Any, Any]:
        X = network(weights, X)
        return X, X

    def run(X: Any) -> Any:
        return jax.lax.scan(step, X, None, length=calls)[1]

    return run


def _attention(weight: Any, X: Any) -> Any:
    weighted = sum(X[:, a, None] * weight[a, :, None] for a in range(len(weight)))
    c10, c20, c21 = ((weighted[i] * X[j]).sum(0) for i, j in ((1, 0), (2, 0), (2, 1)))

    def product(Y: Any) -> Any:
        rows = [-c10 * Y[1] - c20 * Y[2], c10 * Y[0] - c21 * Y[2], c20 * Y[0] + c21 * Y[1]]
        return jnp.stack(rows)

    # cayley(C)^T X = X + 2 (C X + C C X) / (1 + |c|^2)
    once = product(X)
    return X + 2 / (1 + c10 * c10 + c20 * c20 + c21 * c21) * (once + product(once))


def _triangular(dim: int, shape: str, activation: str) -> Callable[..., Any]:
    rows, columns = np.tril_indices(dim, -1)
    # a strictly triangular matrix has a column of zeros
    filled = range(dim - 1) if shape == "lower" else range(1, dim)

    def layer(weight: tuple[Any, Any], X: Any) -> Any:
        entries, bias = weight
        L = jnp.zeros((dim, dim), X.dtype).at[rows, columns].set(entries)
        L = L if shape == "lower" else L.T
        Y = sum(L[:, j, None] * X[:, j, None] for j in filled)
        Y = Y if bias is None else Y + bias[:, None]
        return X + (jnp.tanh(Y) if activation == "tanh" else Y)

    return layer
