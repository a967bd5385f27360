"""Layers of many bodies, from the arguments of a model: sums over clusters of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vpintegrator.argument_values import plain
from vpintegrator.errors import InputError
from vpintegrator.models.arguments import FunctionArguments
from vpintegrator.models.declaration import argument
from vpintegrator.nn.basis_potential import BasisPotential
from vpintegrator.nn.canonical import canonical_blocks
from vpintegrator.nn.cluster_features import ClusterFeatures
from vpintegrator.nn.cluster_potential import ClusterPotential, PotentialSum
from vpintegrator.nn.clusters import LAYOUTS, Clusters, clusters, is_turned_round, moved_bodies
from vpintegrator.nn.gradient_coupling import GradientCoupling
from vpintegrator.nn.potentials import NeuronPotential
from vpintegrator.nn.symmetry import generated_group


@dataclass(frozen=True, kw_only=True)
class BodyArguments(FunctionArguments):
    """Of models of states (q, p) of bodies whose couplings are sums over clusters of them."""

    bodies: int = argument(
        0,
        "How many bodies a state is of, with the vectors of one after the other in q and in p; 0 "
        "where a state is taken as a whole. The weights do not know the number, see "
        "``vpintegrator.models.with_bodies``.",
        least=0,
        omitted=True,
    )
    layout: str = argument(
        "",
        "Which bodies form clusters that are alike: any (pairs), or neighbours along a ring, a "
        "chain with free ends or one between walls; none given, any two, and none are alike.",
        choices=["", *LAYOUTS],
        omitted=True,
    )
    kinds: Any = argument(
        (),
        "A number for each body, equal for like ones; by default all are alike.",
        kind="sequence of int",
        omitted=True,
    )
    translations: bool = argument(
        False,
        "Whether potentials see differences of positions only: total momentum is constant.",
        omitted=True,
    )
    rotations: bool = argument(
        False,
        "Whether potentials see lengths and inner products only: angular momentum is constant.",
        omitted=True,
    )
    reach: int = argument(
        2,
        "Neighbours along a ring or chain that a cluster of positions reaches to.",
        least=1,
        omitted=True,
    )
    bounded: bool = argument(
        False,
        "Whether what potentials see levels off beyond the range of the training states, so that "
        "polynomials do not run off where bodies meet more closely than they ever did there.",
        omitted=True,
    )
    lengths: str = argument(
        "logarithms",
        "What potentials of positions see of a length, for rotations: its logarithm, in which "
        "powers are smooth, or its square, smooth where it is zero.",
        choices=["logarithms", "squares"],
        omitted=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = self.kinds if isinstance(self.kinds, Sequence) else [self.kinds]
        self._set("kinds", tuple(plain("a kind of kinds", kind, (int,)) for kind in kinds))
        if not self.bodies:
            for name in ("layout", "kinds", "translations", "rotations"):
                if getattr(self, name):
                    raise InputError(f"{name} is of bodies: say how many there are by bodies")
            return
        if self.conserved:
            raise InputError(
                "functions of clusters of bodies read no conserved components; leave out bodies"
            )
        if self.dim % (2 * self.bodies):
            raise InputError(
                f"a state of {self.dim} components is not of {self.bodies} bodies with equally "
                "many positions as momenta"
            )
        if self.kinds and len(self.kinds) != self.bodies:
            raise InputError(
                f"kinds must name the kind of each of {self.bodies} bodies, not of "
                f"{len(self.kinds)}"
            )
        if self.translations and self.layout == "walls":
            raise InputError("between walls there are no translations; leave them out")
        if self.translations and self.bodies == 1:
            raise InputError("a single body has no symmetry of translations but where it is free")
        if self.expressions or self.periods:
            raise InputError(
                "functions of clusters of bodies take no expressions and no angles; leave out "
                "bodies, or these"
            )

    def stored(self) -> dict[str, Any]:
        """Kinds as a list."""
        stored = super().stored()
        return stored | ({"kinds": list(self.kinds)} if "kinds" in stored else {})

    @property
    def kind_of_each(self) -> Sequence[int]:
        """A number for each body; without a layout none are alike."""
        return self.kinds or [0] * self.bodies if self.layout else range(self.bodies)

    @property
    def vector(self) -> int:
        """Components of a body's vector."""
        return self.dim // 2 // self.bodies


def body_coupling(a: Any) -> GradientCoupling:
    """A gradient coupling of clusters, from ``BodyArguments``.

    Kinetic energies are of single bodies: with them and the clusters of positions alone, brackets
    give all that the flow of such a system is made of.
    """
    of_positions, of_momenta = canonical_blocks(a.group)
    reach = min(a.bodies, 2 if a.layout in ("", "pairs") else a.reach + 1)
    positions = range(1 + a.translations, reach + 1)
    lengths = {"translations": a.translations, "logarithms": a.lengths == "logarithms"}
    return GradientCoupling(
        _potential(a, of_momenta, [1]), _potential(a, of_positions, positions, **lengths)
    )


def _potential(a: Any, group: torch.Tensor, orders: Iterable[int], **features: Any) -> PotentialSum:
    """A sum over clusters of some orders, as invariant as is asked for."""
    layout, kinds = a.layout or "pairs", a.kind_of_each
    moved = moved_bodies(group, a.bodies)
    found = []
    for order in orders:
        for alike in clusters(layout, a.bodies, order, kinds):
            own = ClusterFeatures(
                order, a.vector, rotations=a.rotations, bounded=a.bounded, **features
            )
            symmetries = _symmetries(own, alike, layout, moved, kinds)
            function = _function(a, own, symmetries)
            found.append(ClusterPotential(alike, own, function, bodies=a.bodies, group=symmetries))
    return PotentialSum(found)


def _symmetries(
    features: ClusterFeatures,
    alike: Clusters,
    layout: str,
    moved: list[tuple[list[int], torch.Tensor]],
    kinds: Sequence[int],
) -> torch.Tensor:
    """What a function of the variables of a cluster has to be invariant under."""
    eye = torch.eye(features.dimension, dtype=torch.float64)
    moves = [(True, sign * eye) for sign in alike.turned]
    moves += [(is_turned_round(layout, places, kinds), Q) for places, Q in moved]
    return generated_group(features.group(moves), features.size)


def _function(a: Any, features: ClusterFeatures, group: torch.Tensor) -> nn.Module:
    if a.functions == "polynomial":
        return BasisPotential(
            features.size,
            a.degree,
            group=group,
            involved=features.ends if features.order > 1 else (),
            initial_scale=a.initial_scale / 10,
        )
    return NeuronPotential(
        features.size,
        a.width,
        group=group if len(group) > 1 else None,
        activation=a.activation,
        initial_scale=a.initial_scale,
    )
