"""Potentials of many bodies: sums over clusters of few of them, with weights in common."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.cluster_features import ClusterFeatures
from vpintegrator.nn.clusters import Clusters


class ClusterPotential(nn.Module):
    r"""One function g of each of the clusters of some bodies, summed.

    .. math:: V(x) = \sum_c w_c\, g(s_c x_c)

    over clusters c of weight :math:`w_c`, whose bodies have the vectors :math:`x_c` and the signs
    :math:`s_c`. With g of variables that translations or rotations leave alone, V is invariant
    under them, and what V generates keeps the momentum or the angular momentum (Noether). The
    weights are those of g: they do not know how many bodies there are.

    Parameters
    ----------
    clusters : Clusters
        See ``clusters``.
    features : ClusterFeatures
        The variables of a cluster.
    function : Module
        g, a potential of as many variables, which has to be invariant under ``group``.
    bodies : int
    group : Tensor, (element, size, size), optional
        Of the variables.

    Raises
    ------
    InputError
        If the function is not of the variables.

    Examples
    --------
    >>> (springs,) = vp.nn.clusters("ring", 8, 2)
    >>> features = vp.nn.ClusterFeatures(2, translations=True)
    >>> V = vp.nn.ClusterPotential(springs, features, vp.nn.BasisPotential(1, degree=4), bodies=8)
    >>> force = V.gradient(torch.rand(5, 8, dtype=torch.float64))
    >>> bool(force.sum(-1).abs().max() < 1e-15)  # total momentum is kept
    True
    """

    index: torch.Tensor
    sign: torch.Tensor
    weight: torch.Tensor
    group: torch.Tensor
    memberships: torch.Tensor

    def __init__(
        self,
        clusters: Clusters,
        features: ClusterFeatures,
        function: nn.Module,
        *,
        bodies: int,
        group: torch.Tensor | None = None,
    ) -> None:
        super().__init__()
        if function.size != features.size or clusters.order != features.order:
            raise InputError(
                f"a function of {function.size} variables does not fit clusters of "
                f"{clusters.order} bodies with {features.size} variables of {features.order}"
            )
        self.bodies, self.size = bodies, bodies * features.dimension
        self.features, self.function = features, function
        dtype = features.centre.dtype
        if group is None:
            group = torch.eye(features.size, dtype=torch.float64).unsqueeze(0)
        self.register_buffer("index", clusters.index, persistent=False)
        self.register_buffer("sign", clusters.sign.to(dtype), persistent=False)
        self.register_buffer("weight", clusters.weight.to(dtype), persistent=False)
        self.register_buffer("group", group, persistent=False)
        memberships, self.missing = _memberships(clusters.index, bodies)
        self.register_buffer("memberships", memberships, persistent=False)

    @property
    def polynomial(self) -> bool:
        """Whether it can take the terms of a smaller one."""
        return getattr(self.function, "polynomial", False)

    def _gathered(self, x: torch.Tensor) -> torch.Tensor:
        """The clusters (..., cluster, order, dimension) of x (..., size)."""
        bodies = x.unflatten(-1, (self.bodies, self.features.dimension))
        chosen = bodies.index_select(-2, self.index.flatten())
        return chosen.unflatten(-2, self.index.shape) * self.sign.unsqueeze(-1)

    def cluster_gradient(self, y: torch.Tensor) -> torch.Tensor:
        """grad g at clusters y (..., order, dimension)."""
        slope = self.function.gradient(self.features(y))  # type: ignore[operator]
        return self.features.pulled_back(y, slope)

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        r""":math:`\nabla V` at x (..., size)."""
        factor = (self.weight.unsqueeze(-1) * self.sign).unsqueeze(-1)
        parts = (self.cluster_gradient(self._gathered(x)) * factor).flatten(-3, -2)
        if self.missing:
            parts = torch.cat([parts, torch.zeros_like(parts[..., :1, :])], -2)
        each = parts.index_select(-2, self.memberships.flatten())
        return each.unflatten(-2, self.memberships.shape).sum(-2).flatten(-2)

    def adapt(self, x: torch.Tensor) -> None:
        """Shift and scale the variables to the range that they have in states x (..., size)."""
        self.features.adapt(self._gathered(x), self.group.to(torch.float64))

    def adapt_like(self, other: ClusterPotential) -> None:
        """Scale the variables as those of another potential of such clusters."""
        self.features.load_state_dict(other.features.state_dict())

    def take(self, smaller: ClusterPotential) -> None:
        """Become the potential of the same clusters, by polynomials of no higher degree."""
        self.adapt_like(smaller)
        self.function.take(smaller.function)  # type: ignore[operator]

    def extra_repr(self) -> str:
        return f"bodies={self.bodies}, clusters={len(self.index)}"


def _memberships(index: torch.Tensor, bodies: int) -> tuple[torch.Tensor, bool]:
    """Of each body its places in the flattened clusters (body, most), and whether some are missing.

    One after the last place stands for those.
    """
    places: list[list[int]] = [[] for _ in range(bodies)]
    for place, body in enumerate(index.flatten().tolist()):
        places[body].append(place)
    most = max(map(len, places))
    missing = any(len(own) < most for own in places)
    return torch.tensor([own + [index.numel()] * (most - len(own)) for own in places]), missing


class PotentialSum(nn.Module):
    r"""A sum of potentials, such as those of clusters of several orders and kinds.

    .. math:: V(x) = \sum_k V_k(x)

    Parameters
    ----------
    potentials : iterable of Module
        Of the same size.

    Examples
    --------
    >>> V = vp.nn.PotentialSum([vp.nn.NeuronPotential(2), vp.nn.QuadraticPotential(2)])
    >>> V.gradient(torch.zeros(5, 2, dtype=torch.float64)).shape
    torch.Size([5, 2])
    """

    def __init__(self, potentials: Iterable[nn.Module]) -> None:
        super().__init__()
        self.potentials = nn.ModuleList(potentials)
        sizes = [potential.size for potential in self.potentials]
        if len(set(sizes)) != 1:
            raise InputError(f"a sum of potentials needs some of one size, not of sizes {sizes}")
        self.size = sizes[0]

    @property
    def polynomial(self) -> bool:
        """Whether it can take the terms of a smaller one."""
        return all(getattr(potential, "polynomial", False) for potential in self.potentials)

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        r""":math:`\nabla V` at x (..., size)."""
        first, *others = (p.gradient(x) for p in self.potentials)  # type: ignore[operator]
        return sum(others, first)

    def adapt(self, x: torch.Tensor) -> None:
        """See ``ClusterPotential``, for all that are it."""
        for potential in self.potentials:
            if isinstance(potential, ClusterPotential):
                potential.adapt(x)

    def adapt_like(self, other: PotentialSum) -> None:
        """See ``ClusterPotential``, for all that are it."""
        for own, theirs in zip(self.potentials, other.potentials, strict=True):
            if isinstance(own, ClusterPotential):
                own.adapt_like(theirs)  # type: ignore[arg-type]

    def take(self, smaller: PotentialSum) -> None:
        """Become the sum of others, by polynomials of no higher degree."""
        for own, other in zip(self.potentials, smaller.potentials, strict=True):
            own.take(other)  # type: ignore[operator]
