"""Symplectic attention whose rotations are steered by constants of motion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.nn.canonical import canonical_blocks_beside
from vpintegrator.nn.cayley import cayley, cayley_increment
from vpintegrator.nn.folding import given, remaining
from vpintegrator.nn.linear_functions import LinearFunctions
from vpintegrator.nn.symmetry import generated_group, signed_permutations
from vpintegrator.nn.symplectic_attention import SymplecticAttention
from vpintegrator.nn.tensor_arguments import as_dtype, last_size


class SteeredSymplecticAttention(nn.Module):
    """``SymplecticAttention`` of states (q, p, k) whose factors a_i are linear functions of k.

    Each a_i(k) = a_i0 + sum_j k_j a_ij, or the sum over the rates among the k alone. The k are the
    same in all time steps of a window, and stay as they are.

    Parameters
    ----------
    dim : int
        Components of a state: positions, as many momenta, and what is conserved.
    conserved : int
        Components that are conserved.
    rates : sequence of int
        Constants of motion with which rotations vanish, by their number in a state.
    symmetries : sequence of (dim, dim), optional
        The layer commutes with the group they generate, signed permutations. Where one turns the
        sign of the form, the a_i turn theirs.
    initial_scale : float
        Standard deviation of the coefficients.

    Raises
    ------
    InputError
        If the symmetries mix positions, momenta and what is conserved, or are other matrices.

    Examples
    --------
    >>> from vpintegrator.nn.steered_attention import SteeredSymplecticAttention
    >>> layer = SteeredSymplecticAttention(dim=5, conserved=1, rates=[4])
    >>> Z = torch.rand(3, 5, dtype=torch.float64)
    >>> Z[:, 4] = 0  # where the rate is zero nothing moves
    >>> bool(torch.equal(layer(Z), Z))
    True
    """

    volume_preserving = True
    identity_at_zero = True
    symplectic = True
    attention_part = "pair"  # of a position and its momentum

    def __init__(
        self,
        dim: int,
        *,
        conserved: int,
        rates: Sequence[int] = (),
        symmetries: Any = (),
        initial_scale: float = 1e-2,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        self.dim, self.conserved = whole("dim", dim), whole("conserved", conserved)
        self.freedoms = (dim - conserved) // 2
        if dim - conserved != 2 * self.freedoms:
            raise InputError(f"states (q, p) have an even number of components, not {dim}")
        group = generated_group(symmetries, dim)
        (of_positions, signs), _ = canonical_blocks_beside(group, conserved)
        moves = signed_permutations(of_positions[:, : self.freedoms, : self.freedoms])
        if moves is None:
            raise InputError(
                "attention that reads conserved components respects symmetries that are sign "
                "flips and permutations; give fewer symmetries"
            )
        of_constants = group[:, dim - conserved :, dim - conserved :]
        options: dict[str, Any] = {
            "rates": [index - (dim - conserved) for index in rates],
            "initial_scale": initial_scale,
            "dtype": as_dtype(dtype),
        }
        turns = signs[:, None]
        self.each = LinearFunctions(of_constants, moves[0], turns.expand(moves[0].shape), **options)
        self.common = LinearFunctions(
            of_constants, torch.zeros(len(group), 1).long(), turns, **options
        )
        self.kept = remaining(group, torch.zeros(conserved).double(), signs).kept

    def at(self, values: torch.Tensor) -> SymplecticAttention:
        """Return the attention of (q, p) where the conserved components have these values."""
        like = self.each.factors
        k = given(values, self.conserved).to(like)
        found = SymplecticAttention(2 * self.freedoms, symmetries=self.kept)
        with torch.no_grad():
            found.each.index_copy_(0, found.owner, self.each(k).to(found.each))
            found.common.copy_(self.common(k)[0])
        return found.to(like)

    def _areas(self, X: torch.Tensor) -> torch.Tensor:
        """Return areas (..., degree of freedom, window, window) between time steps."""
        q, p = (half.mT.unsqueeze(-1) for half in X[..., : 2 * self.freedoms].chunk(2, -1))
        return q @ p.mT - p @ q.mT

    def _factors(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the factors of rotations: for each degree of freedom, and for all together."""
        k = X[..., 2 * self.freedoms :].mean(-2)  # constant in a window
        return self.each(k)[..., None, None], self.common(k)[..., None]

    def attention_weights(self, X: torch.Tensor) -> torch.Tensor:
        """Return the rotations (..., degree of freedom, window, window), by all heads together."""
        areas, (each, common) = self._areas(X), self._factors(X)
        together = cayley(common * areas.sum(-3)).mT.unsqueeze(-3)
        return together @ cayley(each * areas).mT

    def _by_own(self, X: torch.Tensor, sign: int) -> torch.Tensor:
        n = self.freedoms
        pairs = torch.stack([X[..., :n], X[..., n : 2 * n]], -1).transpose(-2, -3)
        C = sign * self._factors(X)[0] * self._areas(X)
        moved = (pairs + cayley_increment(C, pairs)).transpose(-2, -3)
        return torch.cat([moved[..., 0], moved[..., 1], X[..., 2 * n :]], -1)

    def _by_all(self, X: torch.Tensor, sign: int) -> torch.Tensor:
        n = self.freedoms
        C = sign * self._factors(X)[1] * self._areas(X).sum(-3)
        moved = X[..., : 2 * n] + cayley_increment(C, X[..., : 2 * n])
        return torch.cat([moved, X[..., 2 * n :]], -1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        last_size("X", X, {"dim": self.dim})
        return self._by_all(self._by_own(X, 1), 1)

    def inverse(self, Y: torch.Tensor) -> torch.Tensor:
        """Return the windows that ``forward`` maps to Y: the areas are the same there."""
        last_size("Y", Y, {"dim": self.dim})
        return self._by_own(self._by_all(Y, -1), -1)
