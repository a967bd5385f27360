"""Gradient couplings: shears by gradients of potentials, which are symplectic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.checks import as_dtype, last_size, positive
from vpintegrator.nn.potentials import BasisPotential, NeuronPotential
from vpintegrator.nn.symmetry import TOLERANCE, generated_group

FUNCTIONS = ("neurons", "polynomial")


def canonical_form(dim: int) -> torch.Tensor:
    """J (dim, dim) of states (q, p), with which Hamilton's equations are z' = J grad H(z)."""
    one = torch.eye(dim // 2, dtype=torch.float64)
    return torch.kron(torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64), one)


def canonical_blocks(group: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What the elements S of a group (element, dim, dim) do to q and to p.

    Raises
    ------
    InputError
        If an element mixes q and p, or does not keep the form: S^T J S = J.
    """
    half = group.shape[-1] // 2
    J = canonical_form(2 * half)
    if not bool(((group.mT @ J @ group - J).abs() < TOLERANCE).all()):
        raise InputError(
            "the symmetries do not keep the symplectic form, dq with dp; a symplectic map cannot "
            "respect them: give fewer symmetries"
        )
    if bool((group[:, :half, half:].abs() > TOLERANCE).any()):
        raise InputError(
            "the symmetries mix positions and momenta, which gradient couplings move in turn; give "
            "fewer symmetries"
        )
    return group[:, :half, :half], group[:, half:, half:]


class GradientCoupling(nn.Module):
    """q -> q + grad T(p), then p -> p - grad V(q), on states (q, p) with any functions T and V.

    Each of the two is a shear with a symmetric derivative, so the sweep is symplectic, D^T J D = J,
    at every time step of a window; with it volume is kept, and the inverse is explicit.

    Parameters
    ----------
    dim : int
        Components of a state, even: positions first, then momenta. Acts on the last axis.
    functions : {"neurons", "polynomial"}
        What T and V are made of: see ``NeuronPotential`` and ``BasisPotential``.
    width, activation
        Of neurons.
    degree, periodic
        Of polynomials, and the positions that are angles.
    symmetries : sequence of (dim, dim), optional
        The layer commutes with the group they generate, which must be symplectic and keep
        positions and momenta apart: T and V are invariant under it.
    initial_scale : float
        Size of the initial gradients; small, for a start near the identity.

    Raises
    ------
    InputError
        If dim is odd, or the symmetries are not of this kind.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750; Hairer, Lubich, Wanner,
    Geometric Numerical Integration, VI.2.
    """

    volume_preserving = True
    symplectic = True

    def __init__(
        self,
        dim: int,
        functions: str = "neurons",
        *,
        width: int = 16,
        degree: int = 6,
        periodic: Sequence[int] = (),
        symmetries: Any = (),
        activation: str = "tanh",
        initial_scale: float = 1e-2,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        self.dim = positive("dim", dim)
        if dim % 2:
            raise InputError(f"states (q, p) have an even number of components, not dim = {dim}")
        of_positions, of_momenta = canonical_blocks(generated_group(symmetries, dim))
        dtype = as_dtype(dtype)

        def potential(
            group: torch.Tensor, angles: Sequence[int]
        ) -> NeuronPotential | BasisPotential:
            if functions == "neurons":
                return NeuronPotential(
                    dim // 2,
                    width,
                    group=group,
                    activation=activation,
                    initial_scale=initial_scale,
                    dtype=dtype,
                )
            return BasisPotential(
                dim // 2,
                degree,
                periodic=angles,
                group=group,
                initial_scale=initial_scale / 10,
                dtype=dtype,
            )

        self.kinetic = potential(of_momenta, ())
        self.potential = potential(of_positions, [i for i in periodic if i < dim // 2])

    def _drift(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        q, p = z.chunk(2, -1)
        return torch.cat([torch.add(q, self.kinetic.gradient(p), alpha=sign), p], -1)

    def _kick(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        q, p = z.chunk(2, -1)
        return torch.cat([q, torch.add(p, self.potential.gradient(q), alpha=-sign)], -1)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        last_size("z", z, {"dim": self.dim})
        return self._kick(self._drift(z, 1), 1)

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """The states that ``forward`` maps to z."""
        last_size("z", z, {"dim": self.dim})
        return self._drift(self._kick(z, -1), -1)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
