"""Variables of a cluster of bodies: its positions and momenta, up to translations and rotations."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from vpintegrator.nn.canonical import SignedGroup
from vpintegrator.nn.invariants import Invariants
from vpintegrator.nn.symmetry import generated_group

# move of a cluster: whether the order of bodies is reversed, what positions and momenta are
# multiplied by, and the sign that a function takes
Move = tuple[bool, torch.Tensor, torch.Tensor, float]


class PhaseFeatures(Invariants):
    r"""Vectors of a cluster of bodies, and their inner products under rotations.

    The vectors :math:`u_1, u_2, \dots` are the positions, or under translations the differences
    :math:`q_2 - q_1, q_3 - q_2, \dots`, then the momenta :math:`p_1, p_2, \dots`. Variables are the
    components of all vectors, or under rotations and reflections the products
    :math:`s_{ab} = u_a \cdot u_b`, row by row of their upper triangle. With ``logarithms``
    polynomials are of :math:`\log s_{aa}` and of products divided by the lengths of the positions
    in them, which are smooth functions where bodies do not meet.

    Parameters
    ----------
    order : int
        Bodies of a cluster.
    dimension : int
        Components of a body's vector.
    translations, rotations, logarithms : bool

    Attributes
    ----------
    size : int
        Number of variables.
    vectors : int
        Number of vectors.
    expressions : list of str
        Functions of the variables ``z[i]`` that replace some of these as variables of polynomials.
    replaced : list of int
        Numbers of the variables they replace.

    Examples
    --------
    >>> features = vp.nn.PhaseFeatures(2, 2, translations=True, rotations=True)
    >>> features.size, features.expressions
    (6, ['log(z[0])', 'z[1]/sqrt(z[0])', 'z[2]/sqrt(z[0])'])
    """

    matrix: torch.Tensor

    def __init__(
        self,
        order: int,
        dimension: int = 1,
        *,
        translations: bool = False,
        rotations: bool = False,
        logarithms: bool = True,
    ) -> None:
        super().__init__(order, dimension, translations, rotations, momenta=True)
        eye = torch.eye(order, dtype=torch.float64)
        positions = eye[1:] - eye[:-1] if translations else eye
        self.constant("matrix", torch.block_diag(positions, eye))
        self.replaced = [n for n, (a, _) in enumerate(self._pairs) if a < self.positions]
        self.replaced = self.replaced if logarithms else []
        self.expressions = [self._smooth(n) for n in self.replaced]

    def _smooth(self, n: int) -> str:
        """Return the formula that replaces a product with a position."""
        a, b = self._pairs[n]
        squares = [f"z[{self._pairs.index((c, c))}]" for c in (a, b) if c < self.positions]
        return f"log({squares[0]})" if a == b else f"z[{n}]/sqrt({'*'.join(squares)})"

    @property
    def ends(self) -> list[list[int]]:
        """Variables of polynomials that the first, and that the last body has part in.

        Functions of the variables come after the ``size`` variables themselves.
        """
        own = {n: self.size + k for k, n in enumerate(self.replaced)}
        return [[own.get(n, n) for n in end] for end in super().ends]

    def group(self, moves: Iterable[Move]) -> SignedGroup:
        """Return matrices (element, size, size) of moves of a cluster, and signs of functions.

        Raises
        ------
        InputError
            If a move treats positions and momenta differently, under rotations.
        """
        one = torch.ones(1, 1, dtype=torch.float64)
        generators = [
            torch.block_diag(self.action(turned, Q, R), sign * one) for turned, Q, R, sign in moves
        ]
        found = generated_group(generators, self.size + 1)
        return found[:, :-1, :-1], found[:, -1, -1]

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        """Return the variables (..., size) of vectors u (..., vectors, dimension)."""
        if not self.rotations:
            return u.flatten(-2)
        vectors = u.unbind(-2)
        return torch.stack([(vectors[a] * vectors[b]).sum(-1) for a, b in self._pairs], -1)

    def slopes(self, u: torch.Tensor) -> torch.Tensor:
        """Return derivatives of products (..., size, vectors * dimension) by the vectors."""
        return (self.products @ u.unsqueeze(-3)).flatten(-2)

    def pulled_back(self, u: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        """Return derivatives (..., vectors, dimension) by u from those by the variables."""
        if self.rotations:
            slope = (slope.unsqueeze(-2) @ self.slopes(u)).squeeze(-2)
        return slope.unflatten(-1, (self.vectors, self.dimension))

    def second_pulled_back(
        self, u: torch.Tensor, slope: torch.Tensor, hessian: torch.Tensor
    ) -> torch.Tensor:
        """Return the Hessian by u from derivatives by the variables."""
        if not self.rotations:
            return hessian
        D = self.slopes(u)
        bent = torch.tensordot(slope, self.products, 1)
        eye = torch.eye(self.dimension, dtype=u.dtype, device=u.device)
        bent = (bent[..., :, None, :, None] * eye[:, None, :]).flatten(-4, -3).flatten(-2)
        return D.mT @ hessian @ D + bent
