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

from vpintegrator.models import VolumePreservingTransformer
from vpintegrator.nn import TriangularFeedForward, VolumePreservingAttention

jax.config.update("jax_enable_x64", True)


def rollout(model: VolumePreservingTransformer, calls: int) -> Callable[[Any], Any]:
    """A function, to be jitted, of windows (3, dim, trajectory).

    It gives all windows (call, 3, dim, trajectory). The weights are constants of it, which is
    faster than arguments are. ``model`` must have no normalisation.
    """
    layers: list[Callable[[Any], Any]] = []
    for block in model.core:
        if isinstance(block, VolumePreservingAttention):
            layers.append(_attention(jnp.asarray((block.scale * block.weight()).detach().numpy())))
        else:
            assert isinstance(block, TriangularFeedForward)
            layers += [_triangular(layer) for layer in block]

    def step(X: Any, _: None) -> tuple[Any, Any]:
        for layer in layers:
            X = layer(X)
        return X, X

    def run(X: Any) -> Any:
        return jax.lax.scan(step, X, None, length=calls)[1]

    return run


def _attention(weight: Any) -> Callable[[Any], Any]:
    def layer(X: Any) -> Any:
        weighted = sum(X[:, a, None] * weight[a, :, None] for a in range(len(weight)))
        c10, c20, c21 = ((weighted[i] * X[j]).sum(0) for i, j in ((1, 0), (2, 0), (2, 1)))

        def product(Y: Any) -> Any:
            rows = [-c10 * Y[1] - c20 * Y[2], c10 * Y[0] - c21 * Y[2], c20 * Y[0] + c21 * Y[1]]
            return jnp.stack(rows)

        # cayley(C)^T X = X + 2 (C X + C C X) / (1 + |c|^2)
        once = product(X)
        return X + 2 / (1 + c10 * c10 + c20 * c20 + c21 * c21) * (once + product(once))

    return layer


def _triangular(module: Any) -> Callable[[Any], Any]:
    L = jnp.asarray(module.matrix().detach().numpy())
    bias = None if module.bias is None else jnp.asarray(module.bias.detach().numpy())[:, None]
    # a strictly triangular matrix has a column of zeros
    columns = range(module.dim - 1) if module.shape == "lower" else range(1, module.dim)

    def layer(X: Any) -> Any:
        Y = sum(L[:, j, None] * X[:, j, None] for j in columns)
        Y = Y if bias is None else Y + bias
        return X + (jnp.tanh(Y) if module.activation == "tanh" else Y)

    return layer
