"""Layers and generating functions of many bodies, from the arguments of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.generating_arguments import signs_of_symplectic
from vpintegrator.nn.basis_potential import BasisPotential, NoTermsError
from vpintegrator.nn.canonical import canonical_blocks
from vpintegrator.nn.cluster_features import ClusterFeatures
from vpintegrator.nn.cluster_generating_function import ClusterGeneratingFunction, ClusterTerm
from vpintegrator.nn.cluster_potential import ClusterPotential, PotentialSum
from vpintegrator.nn.clusters import Clusters, clusters, is_turned_round, moved_bodies
from vpintegrator.nn.gradient_coupling import GradientCoupling
from vpintegrator.nn.phase_features import Move, PhaseFeatures
from vpintegrator.nn.potentials import NeuronPotential
from vpintegrator.nn.symmetry import TOLERANCE, generated_group

# terms of k bodies come with the step to the power k - 1 or higher: degrees lower by 4 for each
# body beyond two give 6e-10 for Toda's ring where equal degrees give 2e-7, with as many terms
_LOWER, _LOWEST = 4, 2


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
    """Return a sum over clusters of some orders, with the symmetries asked for."""
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


def cluster_generating_function(a: Any) -> ClusterGeneratingFunction:
    """Return a sum over clusters, from ``SymmetriesOfBodies`` and ``GeneratingArguments``.

    Raises
    ------
    InputError
        If a reversing symmetry mixes bodies, or positions with momenta; if no term is left.
    """
    topology, species = a.topology or "pairs", a.species_of_each
    moves = _moves(a, topology, species)
    terms = []
    refusal: InputError | None = None
    for order in a.orders:
        for alike in clusters(topology, a.bodies, order, species):
            features = PhaseFeatures(
                order,
                a.vector,
                translations=a.translations,
                rotations=a.rotations,
                logarithms=a.lengths == "logarithms",
            )
            eye = torch.eye(a.vector, dtype=torch.float64)
            own = [(True, sign * eye, sign * eye, 1.0) for sign in alike.turned]
            degree = max(a.degree - _LOWER * max(order - 2, 0), min(_LOWEST, a.degree))
            try:
                terms.append(ClusterTerm(alike, features, a.bodies, degree, [*own, *moves]))
            except NoTermsError as error:  # these clusters have none; others may
                refusal = error
    if not terms:
        raise refusal or NoTermsError("there are no clusters of so few bodies")
    return ClusterGeneratingFunction(terms)


def _moves(a: Any, topology: str, species: Any) -> list[Move]:
    """Return moves of a cluster by the reversing symmetries of a model and their products."""
    group, signs = signs_of_symplectic(a)
    half = a.dim // 2
    if bool((group[:, :half, half:].abs() > TOLERANCE).any()):
        raise InputError(
            "the reversing symmetries mix positions and momenta of bodies; give fewer of them"
        )
    of_positions = moved_bodies(group[:, :half, :half], a.bodies)
    of_momenta = moved_bodies(group[:, half:, half:], a.bodies)
    found = []
    for (places, Q), (others, R), sign in zip(
        of_positions, of_momenta, signs.tolist(), strict=True
    ):
        if places != others:
            raise InputError(
                "the reversing symmetries take positions to other bodies than momenta; give fewer"
            )
        found.append((is_turned_round(topology, places, species), Q, R, sign))
    return found
