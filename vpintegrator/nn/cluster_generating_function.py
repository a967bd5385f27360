"""Generating functions of many bodies: sums over clusters of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.clusters import Clusters
from vpintegrator.nn.generating_function import GeneratingFunction
from vpintegrator.nn.layer import Layer
from vpintegrator.nn.phase_features import Move, PhaseFeatures
from vpintegrator.nn.univariate import RADIUS


class _OfVariables(GeneratingFunction):
    """Polynomial in the variables of a cluster, in the units of the variables."""

    def set_units(self, shift: torch.Tensor, scale: torch.Tensor) -> None:
        """Leave formulas in the units of the variables, which are no components of states."""
        if not hasattr(self, "box_shift"):  # while it is made
            super().set_units(shift, scale)


class ClusterTerm(Layer):
    r"""A function g of clusters of bodies that are alike, summed over these clusters.

    .. math:: S(q, p) = \sum_c w_c\, g(s_{c1} q_{c1}, \dots, s_{ck} q_{ck},
        s_{c1} p_{c1}, \dots, s_{ck} p_{ck})

    Parameters
    ----------
    clusters : Clusters
    features : PhaseFeatures
        Variables of a cluster.
    bodies, degree : int
        Bodies of a state; degree of the polynomial g in the variables.
    moves : iterable of Move
        Moves of a cluster under which g keeps its value, but for the sign given.

    Raises
    ------
    InputError
        If no polynomial is left by the moves, or there are too many terms.

    Examples
    --------
    >>> (springs,) = vp.nn.clusters("ring", 8, 2)
    >>> g = vp.nn.ClusterTerm(springs, vp.nn.PhaseFeatures(2, translations=True), 8, degree=2)
    >>> g.gradient(torch.rand(5, 16).double(), torch.rand(g.count).double()).shape
    torch.Size([5, 16])
    """

    places: torch.Tensor
    sign: torch.Tensor
    weight: torch.Tensor

    def __init__(
        self,
        clusters: Clusters,
        features: PhaseFeatures,
        bodies: int,
        degree: int,
        moves: Iterable[Move] = (),
    ) -> None:
        super().__init__()
        d = features.dimension
        self.features, self.size = features, 2 * bodies * d
        self.function = _OfVariables(
            features.size,
            degree,
            group=features.group(moves),
            expressions=features.expressions,
            cyclic=features.replaced,
            involved=features.ends if features.order > 1 else (),
        )
        self.count = self.function.coefficients.numel()
        del self.function.coefficients  # the sum owns the coefficients
        own = clusters.index.unsqueeze(-1) * d + torch.arange(d)  # (cluster, order, d)
        both = torch.cat([own, own + bodies * d], 1).flatten(1)
        sign = clusters.sign.repeat(1, 2).unsqueeze(-1)
        self.constant("places", both)
        self.constant("sign", sign)
        self.constant("weight", clusters.weight)

    def _vectors(self, x: torch.Tensor) -> torch.Tensor:
        """Return vectors (..., cluster, vector, dimension) of the clusters of x (..., size)."""
        own = x.index_select(-1, self.places.flatten()).unflatten(-1, self.places.shape)
        own = own.unflatten(-1, (2 * self.features.order, self.features.dimension))
        return self.features.matrix @ (own * self.sign)

    def _placed(self, values: torch.Tensor, places: torch.Tensor, size: int) -> torch.Tensor:
        """Sum values (..., cluster, part) by their places (cluster, part), to (..., size)."""
        empty = values.new_zeros(*values.shape[:-2], size)
        return empty.index_add(-1, places.flatten(), values.flatten(-2))

    def _by_states(self, slope: torch.Tensor) -> torch.Tensor:
        """Return weighted derivatives (..., cluster, part) by states from those by vectors."""
        own = (self.features.matrix.mT @ slope) * (self.sign * self.weight[:, None, None])
        return own.flatten(-2)

    def gradient(self, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        """Return the gradient (..., size) at x (..., size), with coefficients c."""
        u = self._vectors(x)
        slope = self.function.gradient(self.features(u), c)
        own = self._by_states(self.features.pulled_back(u, slope))
        return self._placed(own, self.places, self.size)

    def gradient_and_hessian(
        self, x: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gradient (..., size) and Hessian (..., size, size) at x (..., size)."""
        u, n = self._vectors(x), self.size
        slope, hessian = self.function.gradient_and_hessian(self.features(u), c)
        own = self._by_states(self.features.pulled_back(u, slope))
        second = self.features.second_pulled_back(u, slope, hessian)
        eye = torch.eye(self.features.dimension, dtype=x.dtype, device=x.device)
        T = torch.kron(self.features.matrix, eye)
        sign = self.sign.expand(-1, -1, len(eye)).flatten(1)
        factor = self.weight[:, None, None] * sign.unsqueeze(-1) * sign.unsqueeze(-2)
        second = (T.mT @ second @ T) * factor
        pairs = self.places.unsqueeze(-1) * n + self.places.unsqueeze(-2)
        placed = self._placed(second.flatten(-2), pairs.flatten(1), n * n)
        return self._placed(own, self.places, n), placed.unflatten(-1, (n, n))

    def gradient_features(self, x: torch.Tensor) -> torch.Tensor:
        """Return gradients (state, size, coefficient) of what each coefficient weighs."""
        u = self._vectors(x)
        variables = self.features(u)
        basis = self.function.gradient_features(variables.flatten(0, 1))
        basis = basis.mT.unflatten(0, u.shape[:2])  # (state, cluster, coefficient, variable)
        slope = self.features.pulled_back(u.unsqueeze(2), basis)
        own = (self.features.matrix.mT @ slope) * self.sign.unsqueeze(1)
        own = (own * self.weight[:, None, None, None]).flatten(-2).mT
        empty = x.new_zeros(len(x), self.size, self.count)
        return empty.index_add(1, self.places.flatten(), own.flatten(1, 2))

    def adapt(self, x: torch.Tensor) -> None:
        """Take the box of the variables that the clusters of states x (state, size) have."""
        self.function.adapt(self.features(self._vectors(x.double())).flatten(0, 1))


class ClusterGeneratingFunction(Layer):
    r"""Generating function of many bodies: a sum over clusters of each order and species.

    Where the variables are those that translations or rotations leave alone, the symplectic map of
    the midpoint conserves total momentum or angular momentum to rounding. Coefficients do not know
    how many bodies there are.

    Parameters
    ----------
    terms : sequence of ClusterTerm
        Terms of the same bodies.

    Attributes
    ----------
    coefficients : Parameter (coefficient,)
        Coefficients of all terms, one term after the other; zero at first.

    Raises
    ------
    InputError
        If terms are of states of different sizes.

    Examples
    --------
    >>> seen = vp.nn.PhaseFeatures(2, translations=True)
    >>> (springs,) = vp.nn.clusters("ring", 8, 2)
    >>> S = vp.nn.ClusterGeneratingFunction([vp.nn.ClusterTerm(springs, seen, 8, degree=4)])
    >>> _ = S.coefficients.data.normal_(0, 0.01)
    >>> layer, z = vp.nn.SymplecticGeneratingFunction(S), torch.rand(16, dtype=torch.float64)
    >>> bool(abs((layer(z) - z)[8:].sum()) < 1e-14)  # total momentum is kept
    True
    """

    conserved = 0
    half_scale: torch.Tensor

    def __init__(self, terms: Sequence[ClusterTerm]) -> None:
        super().__init__()
        sizes = {term.size for term in terms}
        if len(sizes) != 1:
            raise InputError(f"terms must be of states of one size, not of {sorted(sizes)}")
        (self.size,) = sizes
        self.kinds = nn.ModuleList(terms)
        count = sum(term.count for term in terms)
        self.coefficients = nn.Parameter(torch.zeros(count, dtype=torch.float64))
        self.register_buffer("half_scale", torch.ones(2, dtype=torch.float64))

    @property
    def terms(self) -> list[ClusterTerm]:
        """The sums over clusters that are alike."""
        return list(self.kinds)  # type: ignore[arg-type]

    @property
    def box_scale(self) -> torch.Tensor:
        """Scale (size,) of states, the same for all positions and for all momenta."""
        return self.half_scale.repeat_interleave(self.size // 2)

    @property
    def numbers(self) -> int:
        """Numbers that an evaluation for one state needs: all terms, and the Hessian."""
        return self.size**2 + sum(len(term.places) * term.count for term in self.terms)

    @property
    def degrees(self) -> torch.Tensor:
        """Total degree of what each coefficient multiplies (coefficient,)."""
        return torch.cat([term.function.terms.degrees for term in self.terms])

    def _parts(self, c: torch.Tensor | None) -> list[tuple[ClusterTerm, torch.Tensor]]:
        c = self.coefficients if c is None else c
        parts = c.split([term.count for term in self.terms])
        return list(zip(self.terms, parts, strict=True))

    def gradient(self, x: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
        """Return the gradient (..., size) at x (..., size), with coefficients c."""
        return torch.stack([term.gradient(x, part) for term, part in self._parts(c)]).sum(0)

    def gradient_and_hessian(
        self, x: torch.Tensor, c: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gradient (..., size) and Hessian (..., size, size) at x (..., size)."""
        found = [term.gradient_and_hessian(x, part) for term, part in self._parts(c)]
        slopes, hessians = zip(*found, strict=True)
        return torch.stack(slopes).sum(0), torch.stack(hessians).sum(0)

    def gradient_features(self, x: torch.Tensor) -> torch.Tensor:
        """Return gradients (state, size, coefficient) of what each coefficient weighs."""
        return torch.cat([term.gradient_features(x) for term in self.terms], 2)

    def adapt(self, x: torch.Tensor) -> None:
        """Take the boxes of the variables of states x (state, size)."""
        for term in self.terms:
            term.adapt(x)
        half = (x.amax(0) - x.amin(0)).double().unflatten(0, (2, -1)).amax(1) / (2 * RADIUS)
        self.half_scale.copy_(torch.where(half > 0, half, torch.ones(()).double()))

    @torch.no_grad()
    def prolong(self, smaller: ClusterGeneratingFunction) -> None:
        """Take coefficients and boxes of a function of the same clusters and no higher degree."""
        self.adapt_like(smaller)
        parts = [
            own.function.terms.prolonged(other.function.terms, c)
            for own, (other, c) in zip(self.terms, smaller._parts(None), strict=True)
        ]
        self.coefficients.copy_(torch.cat(parts))

    def at(self, values: torch.Tensor) -> ClusterGeneratingFunction:
        """Return the function itself, since states have no constants of motion."""
        return self
