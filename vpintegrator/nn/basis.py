"""Products of univariate functions of components, and combinations invariant under symmetries.

A *term* is a product of one function of each of some components, phi_e(z) = prod_j u_{e_j}(z_j).
The functions u_n of a component are those of a ``Univariate`` family, even or odd, so that a change
of a component's sign is a change of the term's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.nn.symmetry import orbit_parameters, signed_permutations
from vpintegrator.nn.univariate import Univariate

LARGEST_COUNT = 2_000  # terms of a block
LARGEST_DEGREE = 64

# images of things under each element of a group, and signs there: (element, thing) each
SignedPermutations = tuple[torch.Tensor, torch.Tensor]


def checked_degree(degree: int) -> int:
    """Return a degree, or InputError if it is none or too high."""
    degree = whole("degree", degree)
    if degree > LARGEST_DEGREE:
        raise InputError(f"degree must be at most {LARGEST_DEGREE}, not {degree}")
    return degree


def moves_of_terms(group: torch.Tensor) -> SignedPermutations:
    """Return the signed permutations by which a group maps terms to terms.

    Raises
    ------
    InputError
        If an element is not a signed permutation.
    """
    moves = signed_permutations(group)
    if moves is None:
        raise InputError(
            "functions = polynomial respect symmetries that are sign flips and permutations; "
            "for others take functions = neurons"
        )
    return moves


def terms(
    degree: int,
    kinds: Sequence[Univariate],
    absent: Sequence[bool] = (),
    most: int = LARGEST_COUNT,
) -> list[tuple[int, ...]]:
    """Return all terms of a total degree, as an index of a function for each component.

    Absent components have their first functions alone (``Univariate.cyclic``); others may follow
    the last of them. Where a family is ``required``, a term has a function of one such component
    that is not constant.

    Raises
    ------
    InputError
        If they are too many.
    """
    found: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for k, kind in enumerate(kinds):
        each = list(enumerate(kind.orders(degree)))
        if k < len(absent) and absent[k]:
            each = each[: kind.cyclic]
        found = [
            ((*e, index), total + order)
            for (e, total), (index, order) in product(found, each)
            if total + order <= degree
        ]
        if len(found) > most:
            raise InputError(
                f"degree = {degree} in {len(kinds)} components gives more than {most:,} terms; "
                "take a lower degree, or functions = neurons"
            )
    rates = [k for k, kind in enumerate(kinds) if kind.required]
    if rates:
        found = [(e, total) for e, total in found if any(e[k] for k in rates)]
    return [e for e, _ in sorted(found, key=lambda entry: (entry[1], entry[0]))]


def total_degrees(
    indices: Sequence[Sequence[int]], degree: int, kinds: Sequence[Univariate]
) -> list[int]:
    """Return the degree of each of the terms."""
    each = [kind.orders(degree) for kind in kinds]
    return [sum(orders[i] for i, orders in zip(e, each, strict=True)) for e in indices]


def restricted(moves: SignedPermutations, members: list[int]) -> SignedPermutations:
    """Return the action of a group on a subset of members that it maps to itself."""
    places, signs = moves
    number = torch.zeros(places.shape[1], dtype=torch.long)
    number[members] = torch.arange(len(members))
    return number[places[:, members]], signs[:, members]


def equivariant_coefficients(
    indices: list[tuple[int, ...]],
    kinds: Sequence[Univariate],
    variables: SignedPermutations,
    block: SignedPermutations,
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return coefficients of the terms for which g(S_bb u) = S_aa g(u) for every S of a group.

    g_k(u) = sum_e c_{e k} phi_e(u) for k in a block a, u being what it depends on. For signed
    permutations the condition says that coefficients are equal but for signs along orbits of the
    group, or zero; nothing needs to be averaged when g is evaluated.

    Parameters
    ----------
    indices
        The terms, see ``terms``.
    kinds
        Family of functions of each variable in u.
    variables, block
        Image of each variable, and of each component of the block, under each S, with signs.

    Returns
    -------
    sources, factors : Tensor, (term, component of the block)
        Index of the parameter that each coefficient takes, and its factor 1, -1 or 0.
    count : int
        Number of parameters.

    Raises
    ------
    InputError
        If the group exchanges variables of different families.
    """
    number = {e: n for n, e in enumerate(indices)}
    odd = torch.tensor(
        [[kind.is_odd(i) for i, kind in zip(e, kinds, strict=True)] for e in indices],
        dtype=torch.bool,
    ).view(len(indices), len(kinds))
    links = []
    for places, signs, columns, own in zip(*variables, *block, strict=True):
        # (S u)_{p(j)} = s_j u_j, so the function of u_j in a term is that of p(j) in its image
        target = places.tolist()
        if [kinds[j] for j in target] != [*kinds]:
            raise InputError(
                "the symmetries exchange angles with components that are none, or rates with others"
            )
        moved = [0] * len(indices)
        for n, e in enumerate(indices):
            image = [0] * len(target)
            for j, index in enumerate(e):
                image[target[j]] = index
            moved[n] = number[tuple(image)]
        sign = torch.where(odd, signs, torch.ones(())).prod(1)
        images = torch.tensor(moved).unsqueeze(1) * len(columns) + columns
        links.append((images, sign.unsqueeze(1) * own))
    return orbit_parameters(links)
