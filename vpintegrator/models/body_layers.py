"""Layers of many bodies, from the arguments of a model: sums over clusters of bodies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.nn.basis_potential import BasisPotential
from vpintegrator.nn.canonical import canonical_blocks
from vpintegrator.nn.cluster_features import ClusterFeatures
from vpintegrator.nn.cluster_potential import ClusterPotential, PotentialSum
from vpintegrator.nn.clusters import Clusters, clusters, is_turned_round, moved_bodies
from vpintegrator.nn.gradient_coupling import GradientCoupling
from vpintegrator.nn.potentials import NeuronPotential
from vpintegrator.nn.symmetry import generated_group


def body_coupling(a: Any) -> GradientCoupling:
    """Return a gradient coupling of clusters, from ``BodyArguments``.

    Kinetic energies are of single bodies: with them and the clusters of positions alone, brackets
    give all that the flow of such a system is made of.
    """
    of_positions, of_momenta = canonical_blocks(a.group)
    positions = a.orders[a.translations :]
    lengths = {"translations": a.translations, "logarithms": a.lengths == "logarithms"}
    return GradientCoupling(
        _potential(a, of_momenta, [1]), _potential(a, of_positions, positions, **lengths)
    )


def _potential(a: Any, group: torch.Tensor, orders: Iterable[int], **features: Any) -> PotentialSum:
    """Return a sum over clusters of some orders, as invariant as is asked for."""
    topology, species = a.topology or "pairs", a.species_of_each
    moved = moved_bodies(group, a.bodies)
    found = []
    for order in orders:
        for alike in clusters(topology, a.bodies, order, species):
            own = ClusterFeatures(
                order, a.vector, rotations=a.rotations, bounded=a.bounded, **features
            )
            symmetries = _symmetries(own, alike, topology, moved, species)
            function = _function(a, own, symmetries)
            found.append(ClusterPotential(alike, own, function, bodies=a.bodies, group=symmetries))
    return PotentialSum(found)


def _symmetries(
    features: ClusterFeatures,
    alike: Clusters,
    topology: str,
    moved: list[tuple[list[int], torch.Tensor]],
    species: Sequence[int],
) -> torch.Tensor:
    """Return the invariance group of a function of the variables of a cluster."""
    eye = torch.eye(features.dimension, dtype=torch.float64)
    moves = [(True, sign * eye) for sign in alike.turned]
    moves += [(is_turned_round(topology, places, species), Q) for places, Q in moved]
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
