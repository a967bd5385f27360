"""Variables of a cluster of bodies that translations, rotations and reflections leave alone."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import ClassVar

import torch

from vpintegrator.errors import InputError
from vpintegrator.nn.layer import Layer
from vpintegrator.nn.symmetry import TOLERANCE


class Invariants(Layer):
    r"""Vectors of a cluster: its positions, or their differences, and its momenta.

    Variables are the components of all vectors, or under rotations and reflections the products
    :math:`u_a \cdot u_b` of two of them, row by row of their upper triangle.

    Parameters
    ----------
    order : int
        Bodies of a cluster.
    dimension : int
        Components of a body's vector.
    translations, rotations : bool
    momenta : bool
        Whether momenta follow the positions.

    Attributes
    ----------
    positions, vectors, size : int
        Number of vectors of positions, of all vectors, and of variables.
    """

    shown: ClassVar[tuple[str, ...]] = ("order", "dimension", "translations", "rotations")
    products: torch.Tensor

    def __init__(
        self, order: int, dimension: int, translations: bool, rotations: bool, momenta: bool
    ) -> None:
        super().__init__()
        self.order, self.dimension = order, dimension
        self.translations, self.rotations = translations, rotations
        self.positions = order - translations
        self._counts = [self.positions, order] if momenta else [self.positions]
        count = self.vectors = sum(self._counts)
        self._pairs = [(a, b) for a in range(count) for b in range(a, count)] if rotations else []
        self.size = len(self._pairs) if rotations else count * dimension
        products = torch.zeros(len(self._pairs), count, count, dtype=torch.float64)
        for n, (a, b) in enumerate(self._pairs):
            products[n, a, b] += 1.0
            products[n, b, a] += 1.0
        self.constant("products", products)

    @property
    def ends(self) -> list[list[int]]:
        """The variables that the first, and that the last body has part in."""
        blocks = [range(*ends) for ends in pairwise(accumulate(self._counts, initial=0))]
        found = []
        for end in (0, -1):
            own = {block[end] for block in blocks}
            if self.rotations:
                found.append([n for n, pair in enumerate(self._pairs) if own & {*pair}])
            else:
                d = self.dimension
                found.append([d * vector + i for vector in sorted(own) for i in range(d)])
        return found

    def action(self, turned: bool, *matrices: torch.Tensor) -> torch.Tensor:
        """Return the action (size, size) of a move of a cluster on its variables.

        Parameters
        ----------
        turned : bool
            Whether the order of bodies is reversed.
        matrices : Tensor, (dimension, dimension)
            Matrices that multiply positions and, where there are any, momenta.

        Raises
        ------
        InputError
            If a move treats positions and momenta differently, under rotations.
        """
        blocks = []
        for count in self._counts:
            sign = -1.0 if turned and count < self.order else 1.0
            eye = torch.eye(count, dtype=torch.float64)
            blocks.append(sign * (eye.flip(0) if turned else eye))
        if not self.rotations:
            return torch.block_diag(*map(torch.kron, blocks, matrices))
        Q, eye = matrices[0], torch.eye(self.dimension, dtype=torch.float64)
        factors = [float((Q * R).sum() / self.dimension) for R in matrices]
        pairs = zip(matrices, factors, strict=True)
        alike = all(bool((R - f * Q).abs().max() <= TOLERANCE) for R, f in pairs)
        if not alike or bool((Q @ Q.mT - eye).abs().max() > TOLERANCE):
            raise InputError(
                "the reversing symmetries turn positions and momenta differently; give fewer of "
                "them, or no rotations"
            )
        P = torch.block_diag(*(f * block for f, block in zip(factors, blocks, strict=True)))
        moved = P @ self.products @ P.mT
        sizes = self.products.square().sum((1, 2))
        return torch.einsum("nab,mab->nm", self.products, moved) / sizes[:, None]
