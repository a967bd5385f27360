"""Rotations of a window in time: attention by rotations, and constant mixing of time steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import one_of, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.cayley import (
    cayley,
    cayley_increment,
    lower_places,
    skew_correlations,
    skew_matrix,
)
from vpintegrator.nn.layer import Attention, InvertibleLayer
from vpintegrator.nn.split import Blocks, as_blocks, check_compatible, others, placement
from vpintegrator.nn.symmetry import InvariantWeight, generated_group
from vpintegrator.nn.tensor_arguments import last_size


class VolumePreservingAttention(InvertibleLayer, Attention):
    r"""Windows rotated in time by the Cayley transform of their own correlations.

    For a window X (..., window, dim), a row per time step, with the Cayley transform
    :math:`\Lambda(C) = (I - C)(I + C)^{-1}`:

    .. math:: X \mapsto \Lambda(C)^T X, \qquad C = s X A X^T, \quad A = -A^T.

    This is the skew weighting. The layer preserves the volume of the space of windows exactly, for
    any A: with :math:`Y = \Lambda(C)^T X`, the correlations :math:`s Y A Y^T` are again C, because
    :math:`\Lambda(C)` commutes with C. C is an invariant of the layer, and its inverse is
    :math:`X = \Lambda(C(Y))\, Y`.

    With the arbitrary weighting, which is the published form, A is any matrix and

    .. math:: C = s \left( \operatorname{tril}(S, -1) - \operatorname{tril}(S, -1)^T \right),
        \qquad S = X A X^T.

    It rotates every window, but by an angle that depends on the window in a way that does **not**
    preserve volume (determinants between -10 and 200 are common for weights of size one), and it
    has no explicit inverse. ``CoupledAttention`` is the alternative that keeps an arbitrary
    weighting and the volume.

    Parameters
    ----------
    dim : int
        Components of a state, at least 2 (skew).
    weighting : {"skew", "arbitrary"}
    scale : float, optional
        Factor s of the correlations; by default 1. GeometricMachineLearning.jl takes 1/sqrt(dim)
        with the arbitrary weighting and 1 with the skew one.
    symmetries : sequence of (dim, dim), optional
        Matrices S; A is kept invariant under the group they generate, :math:`A = S^T A S`, so
        that the layer commutes with every S.
    initial_scale : float
        Standard deviation of the initial weights; small, for a start near the identity.

    Raises
    ------
    InputError
        If the symmetries leave no weighting of the kind but zero.

    Notes
    -----
    :math:`X A X^T` has at most the rank of A, so with the skew weighting and up to three components
    the rotation has a closed form however long the window is; otherwise windows of more than three
    steps take one matrix inversion each.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, Volume-preserving transformers for learning time series data
    with structure, arXiv 2312.11166.

    Examples
    --------
    >>> attention = vp.nn.VolumePreservingAttention(dim=3)
    >>> Z = torch.rand(4, 3, dtype=torch.float64)  # a window of four states
    >>> D = torch.func.jacrev(attention)(Z).reshape(12, 12)
    >>> round(D.det().abs().item(), 12)
    1.0
    """

    identity_at_zero = True
    shown = ("dim", "weighting", "scale")

    def __init__(
        self,
        dim: int,
        weighting: str = "skew",
        *,
        scale: float | None = None,
        symmetries: Any = (),
        initial_scale: float = 1e-2,
    ) -> None:
        super().__init__()
        self.weighting = one_of("weighting", weighting, ["skew", "arbitrary"])
        self.dim = whole("dim", dim, 2 if weighting == "skew" else 1)
        self.scale = 1.0 if scale is None else float(scale)
        group = generated_group(symmetries, dim)
        self.weight = InvariantWeight(dim, weighting, group, initial_scale=initial_scale)
        self.volume_preserving = weighting == "skew"

    def correlations(self, X: torch.Tensor) -> torch.Tensor:
        """Return the skew-symmetric C (..., window, window) of windows X (..., window, dim)."""
        A = self.scale * self.weight()
        if self.weighting == "skew":
            return X @ A @ X.mT
        return skew_correlations(X, A)

    def attention_weights(self, X: torch.Tensor) -> torch.Tensor:
        r"""Return the rotations :math:`\Lambda(C)^T` (..., window, window) of windows X.

        Step t of the output is the sum over s of weight (t, s) times step s of the window.
        """
        return cayley(self.correlations(X)).mT

    def moved(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        if sign < 0 and not self.volume_preserving:
            raise InputError(
                "attention with the arbitrary weighting has no explicit inverse; use "
                'weighting="skew", or CoupledAttention'
            )
        # the rank of X A X^T is at most dim, however long the window
        rank = self.dim if self.volume_preserving else None
        return z + cayley_increment(sign * self.correlations(z), z, rank)


class CoupledAttention(InvertibleLayer, Attention):
    r"""Attention inside a coupling: arbitrary weighting, volume preserved, explicitly invertible.

    For each block of components in turn, the values of that block over the window, :math:`X_a`
    (window, size), are rotated in time by the correlations of the other components :math:`X_b`:

    .. math:: X_a \mapsto \Lambda(C_a)^T X_a, \qquad C_a = B_a + \operatorname{tril}(S_a, -1)
        - \operatorname{tril}(S_a, -1)^T, \quad S_a = X_b A_a X_b^T,

    with the Cayley transform :math:`\Lambda(C) = (I - C)(I + C)^{-1}`. :math:`B_a` is a constant
    skew matrix, and :math:`A_a` is arbitrary. The Jacobian of each step is block triangular with
    orthogonal blocks, so the determinant is exactly 1; the inverse takes the steps backwards.
    Where symmetries leave no skew weighting (the sign flips of the rigid body), this is the
    attention that remains.

    Parameters
    ----------
    dim, window : int
        Components of a state, time steps in a window (at least 2).
    split : "coordinates", "halves" or blocks of indices
    symmetries : sequence of (dim, dim), optional
        The layer commutes with the group they generate: :math:`C_a` is averaged over it.
    initial_scale : float
        Size of the initial :math:`A_a` and :math:`B_a`; small, for a start near the identity.

    Raises
    ------
    InputError
        If the symmetries mix blocks of the split.

    References
    ----------
    The coupling of Dinh, Krueger, Bengio (NICE, arXiv 1410.8516), with the attention of Brantner et
    al. (arXiv 2312.11166) in place of the shift.

    Examples
    --------
    >>> layer = vp.nn.CoupledAttention(dim=4, window=3)
    >>> Z = torch.rand(5, 3, 4, dtype=torch.float64)
    >>> bool(torch.allclose(layer.inverse(layer(Z)), Z))
    True
    """

    identity_at_zero = True
    axes = shown = ("window", "dim")
    attention_part = "block"  # name of the parts in figures of the weights
    places: torch.Tensor

    def __init__(
        self,
        dim: int,
        window: int,
        *,
        split: Blocks = "coordinates",
        symmetries: Any = (),
        initial_scale: float = 1e-2,
    ) -> None:
        super().__init__()
        self.dim = whole("dim", dim)
        self.window = whole("window", window, 2)
        self.blocks = as_blocks(split, dim)
        group = generated_group(symmetries, dim)
        check_compatible(self.blocks, group)
        self.constant("places", lower_places(window))
        angles = torch.randn(len(self.blocks), window * (window - 1) // 2, dtype=torch.float64)
        self.constants = nn.Parameter(initial_scale * angles)
        self.weights = nn.ModuleList()
        for index, block in enumerate(self.blocks):
            rest = others(block, dim)
            self.constant(f"block_{index}", torch.tensor(block))
            self.constant(f"others_{index}", torch.tensor(rest))
            self.constant(f"placement_{index}", placement(block, dim))
            own = group[:, rest][:, :, rest]
            self.weights.append(
                InvariantWeight(len(rest), "arbitrary", own, initial_scale=initial_scale)
            )

    def _correlations(self, X: torch.Tensor, index: int) -> torch.Tensor:
        """Return C_a: correlations of the components outside a block, and the constant B_a."""
        constant = skew_matrix(self.constants[index], self.window, self.places)
        rest = X.index_select(-1, self.get_buffer(f"others_{index}"))
        return constant + skew_correlations(rest, self.weights[index]())

    def attention_weights(self, X: torch.Tensor) -> torch.Tensor:
        """Return the rotations (..., block, window, window) of the blocks of windows X, in order.

        Step t of a block becomes the sum over s of weight (t, s) times step s of that block; the
        blocks before it have been rotated by then.
        """
        rotations = []
        for index in range(len(self.blocks)):
            rotations.append(cayley(self._correlations(X, index)).mT)
            X = self._rotated(X, index, 1)
        return torch.stack(rotations, -3)

    def _rotated(self, X: torch.Tensor, index: int, sign: int) -> torch.Tensor:
        block = X.index_select(-1, self.get_buffer(f"block_{index}"))
        increment = cayley_increment(sign * self._correlations(X, index), block)
        return X + increment @ self.get_buffer(f"placement_{index}")

    def moved(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        for index in range(len(self.blocks))[::sign]:
            z = self._rotated(z, index, sign)
        return z


class TimeMixing(InvertibleLayer):
    r"""The time steps of a window mixed by a constant rotation.

    .. math:: X \mapsto \Lambda(B)^T X, \qquad \Lambda(B) = (I - B)(I + B)^{-1}, \quad B = -B^T

    Linear with determinant 1. Two such maps, or one and ``VolumePreservingAttention``, preserve
    volume one after the other; :math:`\Lambda(C(X) + B)` in one transform does not.

    Parameters
    ----------
    window : int
        Time steps, at least 2. Acts on (..., window, any).
    initial_scale : float
        Standard deviation of the initial entries of B.

    Examples
    --------
    >>> layer = vp.nn.TimeMixing(window=3)
    >>> Z = torch.rand(5, 3, 4, dtype=torch.float64)
    >>> bool(torch.allclose(layer(Z).square().sum(), Z.square().sum()))  # it rotates
    True
    """

    identity_at_zero = True
    shown = ("window",)
    places: torch.Tensor

    def __init__(
        self,
        window: int,
        *,
        initial_scale: float = 1e-2,
    ) -> None:
        super().__init__()
        self.window = whole("window", window, 2)
        self.constant("places", lower_places(window))
        entries = torch.randn(window * (window - 1) // 2, dtype=torch.float64)
        self.entries = nn.Parameter(initial_scale * entries)

    def _checked(self, z: torch.Tensor) -> torch.Tensor:
        last_size("z", z[..., 0], {"window": self.window})
        return z

    def moved(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        B = sign * skew_matrix(self.entries, self.window, self.places)
        return z + cayley_increment(B, z)
