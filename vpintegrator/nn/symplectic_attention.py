"""Attention by rotations that is symplectic on the space of windows."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.nn.canonical import canonical_blocks, check_even
from vpintegrator.nn.cayley import cayley, cayley_increment
from vpintegrator.nn.layer import AttentionLayer, Device, Dtype, InvertibleLayer, on_cpu
from vpintegrator.nn.symmetry import generated_group, signed_permutations


class SymplecticAttention(InvertibleLayer, AttentionLayer):
    r"""Windows of each degree of freedom, rotated in time by the Cayley transform of their areas.

    With :math:`X_i = (q_i, p_i)` (window, 2) the degree of freedom i of a window of states (q, p),
    and :math:`C_i` the areas between its time steps:

    .. math:: X_i \mapsto \Lambda(C_i)^T X_i, \qquad C_i = a_i X_i J X_i^T, \qquad
        (C_i)_{ts} = a_i \left( q_i(t)\, p_i(s) - p_i(t)\, q_i(s) \right),

    with the Cayley transform :math:`\Lambda(C) = (I - C)(I + C)^{-1}`. :math:`C_i` is an invariant
    of that map, so it is the flow of a function of the areas alone and keeps
    :math:`dq_i \wedge dp_i` summed over time; a sum of areas would rotate all degrees of freedom
    alike, and is symplectic only if they all count the same: the last head here,
    :math:`C = a_0 X J X^T`.

    Parameters
    ----------
    dim : int
        Components of a state, even: positions first, then momenta.
    symmetries : sequence of (dim, dim), optional
        The layer commutes with the group they generate. Degrees of freedom that it exchanges have
        an :math:`a_i` in common; where it mixes them otherwise, only the last head is there.
    initial_scale : float
        Standard deviation of the :math:`a_i`.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If dim is odd, or the symmetries mix positions and momenta or do not keep the form.

    Examples
    --------
    >>> layer = vp.nn.SymplecticAttention(dim=4)
    >>> Z = torch.rand(5, 3, 4)
    >>> bool(torch.allclose(layer.inverse(layer(Z)), Z))
    True
    """

    owner: torch.Tensor
    identity_at_zero = True
    symplectic = True
    shown = ("dim",)
    attention_part = "pair"  # of a position and its momentum

    @on_cpu
    def __init__(
        self,
        dim: int,
        *,
        symmetries: Any = (),
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        check_even(whole("dim", dim))
        self.dim = dim
        of_positions, _ = canonical_blocks(generated_group(symmetries, dim))
        count, owner = _owners(of_positions)
        self.constant("owner", owner)
        self.each = nn.Parameter(initial_scale * torch.randn(count, **self.factory_kwargs))
        self.common = nn.Parameter(initial_scale * torch.randn((), **self.factory_kwargs))

    def _areas(self, X: torch.Tensor) -> torch.Tensor:
        """Return areas (..., degree of freedom, window, window) between time steps."""
        # (..., degree, window, 1)
        q, p = (half.unsqueeze(-1).transpose(-2, -3) for half in X.chunk(2, -1))
        return q @ p.mT - p @ q.mT  # (..., degree, window, window)

    def _own(self, X: torch.Tensor) -> torch.Tensor:
        return self.each.index_select(0, self.owner)[:, None, None] * self._areas(X)

    def attention_weights(self, X: torch.Tensor) -> torch.Tensor:
        """Return the rotations (..., degree of freedom, window, window), by all heads together."""
        areas = self._areas(X).sum(-3)  # (..., window, window)
        common = cayley(self.common * areas).mT.unsqueeze(-3)  # (..., 1, window, window)
        if not len(self.each):
            return common
        return common @ cayley(self._own(X)).mT  # (..., degree, window, window)

    def _by_own(self, X: torch.Tensor, sign: int) -> torch.Tensor:
        if not len(self.each):
            return X
        pairs = torch.stack(X.chunk(2, -1), -1).transpose(-2, -3)  # (..., degree, window, q and p)
        moved = pairs + cayley_increment(sign * self._own(X), pairs)  # (..., degree, window, 2)
        q, p = moved.transpose(-2, -3).unbind(-1)  # (..., window, degree) each
        return torch.cat([q, p], -1)  # (..., window, dim)

    def _by_all(self, X: torch.Tensor, sign: int) -> torch.Tensor:
        # (..., window, dim)
        return X + cayley_increment(sign * self.common * self._areas(X).sum(-3), X)

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        steps = (self._by_own, self._by_all)  # each leaves its own areas as they are
        for step in steps[::sign]:
            z = step(z, sign)
        return z


def _owners(of_positions: torch.Tensor) -> tuple[int, torch.Tensor]:
    """Return the number of free a_i under a group, and the number that each degree uses."""
    moves = signed_permutations(of_positions)
    if moves is None:
        return 0, torch.zeros(of_positions.shape[-1], dtype=torch.long)
    result, owner = moves[0].amin(0).unique(return_inverse=True)  # the least of the orbit of each
    return len(result), owner
