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
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import torch

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
            weights.append(jnp.asarray(block.scores.matrix().detach().numpy()))
            continue
        assert isinstance(block, TriangularFeedForward)
        for layer in block:
            layers.append(_triangular(layer.dim, layer.shape, layer.activation is torch.tanh))
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


def window_rollout(model: VolumePreservingTransformer, calls: int) -> Callable[[Any], Any]:
    """The same as anybody would write it: of one window (3, dim) by matrices, under ``vmap``.

    The function is of windows (trajectory, 3, dim) and gives (trajectory, call, 3, dim).
    """
    _, weights = transformer(model)
    blocks = [
        layer
        for block in model.core
        for layer in ([block] if isinstance(block, VolumePreservingAttention) else block)
    ]

    def step(X: Any, _: None) -> tuple[Any, Any]:
        for layer, weight in zip(blocks, weights, strict=True):
            if isinstance(layer, VolumePreservingAttention):
                lower = jnp.tril(X @ weight @ X.T, -1)
                C = lower - lower.T
                once = C @ X
                X = X + 2 / (1 + (lower * lower).sum()) * (once + C @ once)
                continue
            rows, columns = np.tril_indices(layer.dim, -1)
            entries, bias = weight
            L = jnp.zeros((layer.dim, layer.dim), X.dtype).at[rows, columns].set(entries)
            Y = X @ (L.T if layer.shape == "lower" else L)
            Y = Y if bias is None else Y + bias
            X = X + (jnp.tanh(Y) if layer.activation is torch.tanh else Y)
        return X, X

    return jax.vmap(lambda X: jax.lax.scan(step, X, None, length=calls)[1])


def adam_step(
    model: VolumePreservingTransformer, inputs: np.ndarray, targets: np.ndarray
) -> Callable[[], float]:
    """Loss, gradient and Adam's update in one jitted function, for windows (pair, 3, dim).

    Each call makes a step of the rate 1e-6, waits for it and gives the loss, a mean square.
    """
    network, weights = transformer(model)
    # trajectories last, see above
    first, last = (jnp.asarray(np.moveaxis(windows, 0, -1)) for windows in (inputs, targets))
    tree = jax.tree_util.tree_map

    def loss(weights: Any) -> Any:
        return jnp.mean((network(weights, first) - last) ** 2)

    @jax.jit
    def step(weights: Any, first: Any, second: Any, count: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(weights)
        first = tree(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = tree(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)

        def update(w: Any, m: Any, v: Any) -> Any:
            size = jnp.sqrt(v / (1 - 0.999**count)) + 1e-8
            return w - 1e-6 * m / (1 - 0.9**count) / size

        return tree(update, weights, first, second), first, second, count + 1, value

    zeros = tree(jnp.zeros_like, weights)
    state = [(weights, zeros, zeros, jnp.ones((), first.dtype))]

    def call() -> float:
        *new, value = step(*state[0])
        state[0] = tuple(new)
        return float(value)

    return call


def newton_step(
    model: VolumePreservingTransformer, inputs: np.ndarray, targets: np.ndarray, damping: float
) -> Callable[[], float]:
    """A step of Levenberg and Marquardt in one jitted function, for windows (pair, 3, dim).

    Each call makes the same step, from J^T J by Cholesky, computes the loss after it, and gives the
    loss before, a mean square.
    """
    network, weights = transformer(model)
    vector, unravel = jax.flatten_util.ravel_pytree(weights)
    windows, wanted = jnp.asarray(inputs), jnp.asarray(targets)

    def residual(vector: Any, X: Any, Y: Any) -> Any:
        return (network(unravel(vector), X[..., None])[..., 0] - Y).ravel()

    @jax.jit
    def step(vector: Any) -> Any:
        J = jax.vmap(jax.jacrev(residual), (None, 0, 0))(vector, windows, wanted)
        J = J.reshape(-1, len(vector))
        r = jax.vmap(residual, (None, 0, 0))(vector, windows, wanted).ravel()
        gradient = J.T @ r
        matrix = J.T @ J + damping * jnp.eye(len(vector), dtype=J.dtype)
        delta = -jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(matrix), gradient)
        changed = jax.vmap(residual, (None, 0, 0))(vector + delta, windows, wanted)
        return (r**2).mean(), (changed**2).mean()

    return lambda: float(jax.block_until_ready(step(vector))[0])


def _attention(weight: Any, X: Any) -> Any:
    weighted = sum(X[:, a, None] * weight[a, :, None] for a in range(len(weight)))
    c10, c20, c21 = ((weighted[i] * X[j]).sum(0) for i, j in ((1, 0), (2, 0), (2, 1)))

    def product(Y: Any) -> Any:
        rows = [-c10 * Y[1] - c20 * Y[2], c10 * Y[0] - c21 * Y[2], c20 * Y[0] + c21 * Y[1]]
        return jnp.stack(rows)

    # cayley(C)^T X = X + 2 (C X + C C X) / (1 + |c|^2)
    once = product(X)
    return X + 2 / (1 + c10 * c10 + c20 * c20 + c21 * c21) * (once + product(once))


def _triangular(dim: int, shape: str, is_nonlinear: bool) -> Callable[..., Any]:
    rows, columns = np.tril_indices(dim, -1)
    # a strictly triangular matrix has a column of zeros
    filled = range(dim - 1) if shape == "lower" else range(1, dim)

    def layer(weight: tuple[Any, Any], X: Any) -> Any:
        entries, bias = weight
        L = jnp.zeros((dim, dim), X.dtype).at[rows, columns].set(entries)
        L = L if shape == "lower" else L.T
        Y = sum(L[:, j, None] * X[:, j, None] for j in filled)
        Y = Y if bias is None else Y + bias[:, None]
        return X + (jnp.tanh(Y) if is_nonlinear else Y)

    return layer
