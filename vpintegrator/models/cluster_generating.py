"""Generating functions of clusters of bodies, from the arguments of a model."""

from __future__ import annotations

from typing import Any

import torch

from vpintegrator.errors import InputError
from vpintegrator.models.generating_arguments import signs_of_symplectic
from vpintegrator.nn.basis_potential import NoTermsError
from vpintegrator.nn.cluster_generating_function import ClusterGeneratingFunction, ClusterTerm
from vpintegrator.nn.clusters import clusters, is_turned_round, moved_bodies
from vpintegrator.nn.phase_features import Move, PhaseFeatures
from vpintegrator.nn.symmetry import TOLERANCE

# terms of k bodies come with the step to the power k - 1 or higher: degrees lower by 4 for each
# body beyond two give 6e-10 for Toda's ring where equal degrees give 2e-7, with as many terms
_LOWER, _LOWEST = 4, 2


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
