"""Weights on the Stiefel manifold: matrices with orthonormal rows."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.parametrizations import orthogonal

from vpintegrator.errors import InputError


def stiefel(module: nn.Module, name: str) -> nn.Module:
    r"""Keep the weight ``name`` (..., n, m), n <= m, of a module on the Stiefel manifold.

    .. math:: \mathrm{St}(n, m) = \{ W \in \mathbb{R}^{n \times m} : W W^T = I \}

    The rows of the weight (of each one, with leading axes) are orthonormal from now on, to
    rounding, whatever optimizer trains it: the optimizer sees an unconstrained tensor, and the
    weight is computed from it by torch's orthogonal parametrization (Householder reflections, or
    the matrix exponential for n = m). Assigning an orthonormal matrix to the attribute sets it.

    Parameters
    ----------
    module : Module
    name : str
        Name of one of its parameters.

    Returns
    -------
    Module
        Module itself.

    Raises
    ------
    InputError
        If the weight has more rows than columns.

    References
    ----------
    Lezcano-Casado, Trivializations for gradient-based optimization on manifolds, arXiv 1909.09501;
    Stiefel weights in transformers: Brantner, arXiv 2305.16901.

    Examples
    --------
    >>> layer = vp.nn.stiefel(torch.nn.Linear(4, 2).double(), "weight")
    >>> vp.nn.orthonormality_error(layer.weight) < 1e-14
    True
    """
    weight = getattr(module, name)
    rows, columns = weight.shape[-2:]
    if rows > columns:
        raise InputError(
            f"{name} has {rows} rows of {columns} entries: more rows than entries cannot be "
            "orthonormal"
        )
    return orthogonal(module, name)


def orthonormality_error(weight: torch.Tensor) -> float:
    r"""Return the deviation of rows of weights from orthonormality: 0 on the Stiefel manifold.

    The largest entry of :math:`|W W^T - I|` for weights W (..., n, m).

    Parameters
    ----------
    weight : Tensor, (..., n, m)

    Examples
    --------
    >>> vp.nn.orthonormality_error(torch.eye(3)[:2])
    0.0
    """
    identity = torch.eye(weight.shape[-2], dtype=weight.dtype, device=weight.device)
    return float((weight @ weight.mT - identity).detach().abs().max())
