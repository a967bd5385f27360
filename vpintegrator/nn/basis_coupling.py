"""Additive couplings whose functions are linear combinations of given functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.basis import (
    LARGEST_DEGREE,
    chebyshev,
    equivariant_coefficients,
    harmonics,
    orders,
    terms,
)
from vpintegrator.nn.checks import as_dtype, last_size, positive
from vpintegrator.nn.split import Split, as_blocks, check_compatible, others
from vpintegrator.nn.symmetry import generated_group


class BasisCoupling(nn.Module):
    """A sweep of additive couplings by polynomials, and Fourier sums of angles, on every state.

    For each block a of components in turn, z_a -> z_a + sum_e c_e phi_e(z_b), b the components not
    in a, with products phi_e of Chebyshev polynomials of the components up to a total degree, or of
    sines and cosines of those that are angles. Like ``AdditiveCoupling`` each step is a shear, so
    volume is kept and the inverse explicit, whatever the coefficients. The parameters enter
    linearly, step by step: least squares find them in seconds, to rounding where the flow is
    smooth. Away from the states it was trained on, a polynomial runs off; a sum of neurons does
    not.

    Parameters
    ----------
    dim : int
        Components of a state, at least 2. The layer acts on the last axis of (..., dim).
    degree : int
        Largest total degree of a term; of an angle the order of the harmonic counts.
    periodic : sequence of int
        Components that are angles, in radians.
    split : "coordinates", "halves" or blocks of indices
        Blocks in the order of the sweep; "halves" for (q, p).
    symmetries : sequence of (dim, dim), optional
        The layer commutes with the group they generate, signed permutations. Only the terms that
        the group allows have parameters, so it costs nothing and saves most of them.
    initial_scale : float
        Size of the initial coefficients of degree 1; those of degree n are n^2 times smaller.

    Raises
    ------
    InputError
        If the symmetries mix blocks of the split, are other matrices than signed permutations, or
        leave no term.

    References
    ----------
    Dinh, Krueger, Bengio, NICE, arXiv 1410.8516, section 3.2, for the shear; Trefethen,
    Approximation Theory and Approximation Practice, SIAM 2013, chapter 3, for the polynomials.
    """

    volume_preserving = True

    def __init__(
        self,
        dim: int,
        degree: int = 6,
        *,
        periodic: Sequence[int] = (),
        split: Split = "coordinates",
        symmetries: Any = (),
        initial_scale: float = 1e-3,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        self.dim = positive("dim", dim)
        self.degree = positive("degree", degree)
        if degree > LARGEST_DEGREE:
            raise InputError(f"degree must be at most {LARGEST_DEGREE}, not {degree}")
        self.blocks = as_blocks(split, dim)
        self.periodic = [index in periodic for index in range(dim)]
        dtype = as_dtype(dtype)
        group = generated_group(symmetries, dim)
        check_compatible(self.blocks, group)
        counts: list[int] = []
        sizes: list[torch.Tensor] = []
        for a, block in enumerate(self.blocks):
            rest = others(block, dim)
            angles = [self.periodic[index] for index in rest]
            indices = terms(degree, angles)
            sources, factors, count = equivariant_coefficients(indices, angles, rest, block, group)
            used = (factors != 0).any(1)
            chosen = torch.tensor(indices)[used]
            size = torch.tensor(
                [
                    sum(orders(degree, angle)[i] for i, angle in zip(e, angles, strict=True))
                    for e in chosen.tolist()
                ]
            )
            sources, factors = sources[used], factors[used]
            # of each parameter, the degree of its first term
            first = torch.zeros(count).index_put(
                (sources[factors != 0],), size.unsqueeze(1).expand_as(sources)[factors != 0].float()
            )
            self._constant(f"block_{a}", torch.tensor(block))
            self._constant(f"chosen_{a}", chosen)
            self._constant(f"sources_{a}", sources + sum(counts))
            placed = torch.zeros(len(chosen), dim, dtype=torch.float64)
            placed[:, block] = factors
            self._constant(f"factors_{a}", placed.to(dtype))
            counts.append(count)
            sizes.append(first.clamp(min=1))
        if not sum(counts):
            raise InputError(
                f"no function of degree {degree} is allowed by the {len(group)} symmetries; take a "
                "higher degree"
            )
        scales = initial_scale / torch.cat(sizes) ** 2
        self.coefficients = nn.Parameter((scales * torch.randn(len(scales))).to(dtype))

    def _constant(self, name: str, value: torch.Tensor) -> None:
        self.register_buffer(name, value, persistent=False)

    def take(self, smaller: BasisCoupling) -> None:
        """Become the map of a layer of the same components and symmetries, of no higher degree."""
        with torch.no_grad():
            coefficients = torch.zeros_like(self.coefficients)
            for a in range(len(self.blocks)):
                known = {
                    tuple(e): row
                    for e, row in zip(
                        smaller.get_buffer(f"chosen_{a}").tolist(), smaller._matrix(a), strict=True
                    )
                }
                sources, factors = self.get_buffer(f"sources_{a}"), self.get_buffer(f"factors_{a}")
                for n, e in enumerate(self.get_buffer(f"chosen_{a}").tolist()):
                    if tuple(e) not in known:
                        continue
                    for k, component in enumerate(self.blocks[a]):
                        factor = factors[n, component]
                        if factor:
                            coefficients[sources[n, k]] = known[tuple(e)][component] / factor
            self.coefficients.copy_(coefficients)

    def _univariate(self, x: torch.Tensor, angle: bool) -> torch.Tensor:
        """The functions of one component, (...) to (..., function)."""
        return torch.stack((harmonics if angle else chebyshev)(x, self.degree), dim=-1)

    def _matrix(self, a: int) -> torch.Tensor:
        """Coefficients (term, dim) of a block, zero outside it."""
        sources, factors = self.get_buffer(f"sources_{a}"), self.get_buffer(f"factors_{a}")
        values = self.coefficients.index_select(0, sources.flatten()).view(sources.shape)
        block = self.blocks[a]
        if len(block) == 1:
            return values * factors
        return (
            torch.zeros_like(factors).index_copy(1, self.get_buffer(f"block_{a}"), values) * factors
        )

    def _shift(self, z: torch.Tensor, a: int) -> torch.Tensor:
        chosen = self.get_buffer(f"chosen_{a}")
        phi: torch.Tensor | None = None
        for j, index in enumerate(others(self.blocks[a], self.dim)):
            if not chosen[:, j].any():
                continue
            u = self._univariate(z[..., index], self.periodic[index])
            u = u.index_select(-1, chosen[:, j])
            phi = u if phi is None else phi * u
        matrix = self._matrix(a)
        if phi is None:  # at most a constant
            return matrix.sum(0).expand_as(z)
        return phi @ matrix

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        last_size("z", z, {"dim": self.dim})
        for a in range(len(self.blocks)):
            z = z + self._shift(z, a)
        return z

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """The states that ``forward`` maps to z."""
        last_size("z", z, {"dim": self.dim})
        for a in reversed(range(len(self.blocks))):
            z = z - self._shift(z, a)
        return z

    def extra_repr(self) -> str:
        return (
            f"dim={self.dim}, degree={self.degree}, blocks={self.blocks}, "
            f"parameters={self.coefficients.numel()}"
        )
