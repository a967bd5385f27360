"""Layers in rotated coordinates: shears along directions that are none of the coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.canonical import form_signs
from vpintegrator.nn.composition import is_invertible
from vpintegrator.nn.layer import InvertibleLayer, factory_like, on_cpu, preserves
from vpintegrator.nn.parameters import parameters_for
from vpintegrator.nn.shears import LinearShear, is_prolongable
from vpintegrator.nn.symmetry import TOLERANCE, as_matrices

_GOLDEN = (math.sqrt(5) - 1) / 2


class Rotated(InvertibleLayer):
    r"""Layer in rotated coordinates.

    .. math:: z \mapsto Q^T \ell(Q z), \qquad Q^T Q = I

    for a layer :math:`\ell`.

    Couplings along the coordinates can follow, to first order in time, only vector fields whose
    components do not depend on themselves. Shears along enough directions follow all vector fields
    without divergence: polynomial fields are sums of shears (McLachlan, Quispel, Splitting methods,
    Acta Numerica 11, 2002, section 3.9).

    Parameters
    ----------
    layer : Module
        Layer of states (..., dim), explicitly invertible.
    rotation : (dim, dim)
        Orthogonal matrix Q. The builder of the layer gives Q again; Q is not stored with weights.

    Raises
    ------
    InputError
        If Q is not orthogonal, or the layer has no inverse.

    Examples
    --------
    >>> Q = vp.nn.spread_rotation(1, dim=3)
    >>> layer = vp.nn.Rotated(vp.nn.BasisCoupling(dim=3, initial_scale=0.1), Q)
    >>> z = torch.rand(5, 3)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    rotation: torch.Tensor

    @on_cpu
    def __init__(self, layer: nn.Module, rotation: Any) -> None:
        super().__init__(**factory_like(layer))
        if not is_invertible(layer):
            raise InputError(f"{type(layer).__name__} has no explicit inverse to be rotated")
        Q = as_matrices([rotation], len(rotation), "rotation")[0]
        if not torch.allclose(Q @ Q.mT, torch.eye(len(Q)).to(Q), rtol=0, atol=TOLERANCE):
            raise InputError("rotation must be an orthogonal matrix")
        self.layer: Any = layer
        self.exact, self.dim = Q, len(Q)
        self.parameter_count = getattr(layer, "parameter_count", 0)
        keeps = len(Q) % 2 == 0 and bool((form_signs(Q[None]) == 1).all())
        self.symplectic = keeps and preserves("symplectic", layer)
        self.constant("rotation", Q)

    @property
    def prolongable(self) -> bool:
        """Whether the layer can take the terms of a smaller one."""
        return is_prolongable(self.layer)

    def shears(self) -> list[LinearShear]:
        """Return the shears of the layer, rotated."""
        one = torch.eye(self.parameter_count, dtype=torch.float64)
        Q = torch.block_diag(self.rotation.cpu().double(), one)
        return [replace(shear, rotation=Q) for shear in self.layer.shears()]

    def at(self, parameters: torch.Tensor) -> Rotated:
        """Return the rotated layer at parameters (m,), which are multiplied out."""
        return Rotated(self.layer.at(parameters), self.exact)

    def transform(
        self, z: torch.Tensor, sign: int, parameters: torch.Tensor | None = None
    ) -> torch.Tensor:
        layer = self.layer if sign > 0 else self.layer.inverse
        k = parameters_for(self.layer, parameters)
        return layer(z @ self.rotation.mT, *k) @ self.rotation  # (..., dim)


@on_cpu
def spread_rotation(number: int, dim: int, components: Sequence[int] | None = None) -> torch.Tensor:
    """Return member ``number`` of a sequence of rotations (dim, dim) with well spread axes.

    Parameters
    ----------
    number : int
        0 for the identity.
    dim : int
    components : sequence of int, optional
        Components that the rotation mixes, all by default; others are unchanged.

    Returns
    -------
    Tensor, (dim, dim)
        A product of rotations in the planes of two components each, by angles of a golden-ratio
        sequence: the same in every version, as files of models rely on it.

    Examples
    --------
    >>> Q = vp.nn.spread_rotation(2, dim=4, components=[0, 2])
    >>> bool(torch.allclose(Q @ Q.mT, torch.eye(4).double()))
    True
    """
    mixed = list(range(dim)) if components is None else list(components)
    Q = torch.eye(dim, dtype=torch.float64)
    pairs = [(i, j) for n, i in enumerate(mixed) for j in mixed[n + 1 :]]
    for n, (i, j) in enumerate(pairs if number else []):
        angle = math.pi / 2 * ((number + n * len(pairs)) * _GOLDEN % 1)
        c, s = math.cos(angle), math.sin(angle)
        Q[[i, j]] = torch.tensor([[c, s], [-s, c]], dtype=torch.float64) @ Q[[i, j]]
    return Q
