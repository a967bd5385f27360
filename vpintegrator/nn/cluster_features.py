"""Variables of functions of a cluster of bodies that respect given invariances."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import torch

from vpintegrator.errors import InputError
from vpintegrator.nn.invariants import Invariants
from vpintegrator.nn.univariate import RADIUS

_MARGIN = 1.2  # relative to the range in the data: layers see states between those of the data
# bounded variables are unchanged up to this bound: polynomials still follow a smooth function there
_BOUND = 1.6 * RADIUS
_BEYOND = 0.4 * RADIUS  # largest increase of bounded variables beyond the bound


class ClusterFeatures(Invariants):
    r"""Variables of a cluster that are invariant under translations and rotations.

    Vectors :math:`x_1, \dots, x_k` of the bodies become the differences
    :math:`x_2 - x_1, x_3 - x_2, \dots` under translations, and vectors :math:`u_1, u_2, \dots`
    become all products :math:`u_a \cdot u_b` under rotations and reflections; the squared length of
    a vector may be given by its logarithm, in which powers of a length are smooth functions down to
    where bodies meet. All of them are shifted and scaled to where they are seen, see ``adapt``.

    Parameters
    ----------
    order : int
        Bodies of a cluster.
    dimension : int
        Components of a body's vector.
    translations, rotations : bool
    logarithms : bool
        Whether lengths enter by their logarithms, for rotations.
    bounded : bool
        Whether variables level off beyond the range that they are adapted to, twice continuously
        differentiably, so that no polynomial of them runs off. Within it they are as without.

    Attributes
    ----------
    size : int
        Number of variables.

    Raises
    ------
    InputError
        If a single body is to be seen up to translations.

    Examples
    --------
    >>> features = vp.nn.ClusterFeatures(2, 3, translations=True, rotations=True)
    >>> features(torch.tensor([[1.0, 0, 0], [1, 2, 0]], dtype=torch.float64))  # squared distance
    tensor([4.], dtype=torch.float64)
    """

    shown = (*Invariants.shown, "logarithms", "bounded")
    centre: torch.Tensor
    unit: torch.Tensor

    def __init__(
        self,
        order: int,
        dimension: int = 1,
        *,
        translations: bool = False,
        rotations: bool = False,
        logarithms: bool = False,
        bounded: bool = False,
    ) -> None:
        if translations and order < 2:
            raise InputError("a single body has nothing that translations leave alone")
        super().__init__(order, dimension, translations, rotations, momenta=False)
        self.logarithms, self.bounded = logarithms and rotations, bounded
        self.register_buffer("centre", torch.zeros(self.size, dtype=torch.float64))
        self.register_buffer("unit", torch.ones(self.size, dtype=torch.float64))

    def group(self, moves: Iterable[tuple[bool, torch.Tensor]]) -> torch.Tensor:
        """Return the action of moves of a cluster on its variables.

        Parameters
        ----------
        moves : iterable of (bool, Tensor (dimension, dimension))
            Whether the order of bodies is reversed, and the matrix that multiplies their vectors.

        Returns
        -------
        Tensor, (element, size, size)
        """
        return torch.stack([self.action(turned, Q) for turned, Q in moves])

    def _vectors(self, y: torch.Tensor) -> torch.Tensor:
        return y[..., 1:, :] - y[..., :-1, :] if self.translations else y

    def _variables(self, u: torch.Tensor) -> torch.Tensor:
        if not self.rotations:
            return u.flatten(-2)
        products = []
        for a, b in self._pairs:
            product = (u[..., a, :] * u[..., b, :]).sum(-1)
            products.append(0.5 * torch.log(product) if a == b and self.logarithms else product)
        return torch.stack(products, -1)

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """Return the variables (..., size) of clusters y (..., order, dimension)."""
        v = self._unbounded(self._vectors(y))
        if not self.bounded:
            return v
        inside = v.clamp(-_BOUND, _BOUND)
        beyond = v - inside
        return inside + beyond * torch.rsqrt(1 + (beyond * (1 / _BEYOND)).square())

    def _unbounded(self, u: torch.Tensor) -> torch.Tensor:
        return (self._variables(u) - self.centre) / self.unit

    def pulled_back(self, y: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        """Return derivatives (..., order, dimension) by y from those by the variables."""
        u, slope = self._vectors(y), slope / self.unit
        if self.bounded:
            v = self._unbounded(u)
            beyond = (v - v.clamp(-_BOUND, _BOUND)) * (1 / _BEYOND)
            slope = slope * torch.rsqrt(1 + beyond.square()) ** 3
        if self.rotations:
            parts: list[torch.Tensor | None] = [None] * self.vectors
            for n, (a, b) in enumerate(self._pairs):
                own = slope[..., n : n + 1]
                if a == b and self.logarithms:
                    length = (u[..., a, :] * u[..., a, :]).sum(-1, keepdim=True)
                    terms = [(a, own / length * u[..., a, :])]
                elif a == b:
                    terms = [(a, 2 * own * u[..., a, :])]
                else:
                    terms = [(a, own * u[..., b, :]), (b, own * u[..., a, :])]
                for place, term in terms:
                    before = parts[place]
                    parts[place] = term if before is None else before + term
            by_vectors = [part for part in parts if part is not None]
        else:
            by_vectors = list(slope.unflatten(-1, (self.vectors, self.dimension)).unbind(-2))
        if self.translations:
            inner = (a - b for a, b in pairwise(by_vectors))
            by_vectors = [-by_vectors[0], *inner, by_vectors[-1]]
        return torch.stack(by_vectors, -2)

    def adapt(self, y: torch.Tensor, group: torch.Tensor) -> None:
        """Shift and scale variables to the range that they have in clusters y.

        Parameters
        ----------
        y : Tensor, (..., order, dimension)
        group : Tensor, (element, size, size)
            Invariance group of functions of the variables; the range is invariant too.
        """
        seen = self._variables(self._vectors(y.double())).flatten(0, -2)
        images = seen @ group.mT  # (element, ..., size)
        least, most = images.amin((0, 1)), images.amax((0, 1))
        half = 0.5 * _MARGIN * (most - least) / RADIUS
        usual = torch.where(half > 1e-12 * (1 + most.abs()), half, torch.ones_like(half))
        with torch.no_grad():
            self.centre.copy_(0.5 * (least + most))
            self.unit.copy_(usual)
