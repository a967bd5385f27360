"""Products of functions of one component each, and which combinations of them symmetries allow.

A *term* is a product of one function of each of some components, phi_e(z) = prod_j u_{e_j}(z_j).
The functions u_n of a component are Chebyshev polynomials or, of an angle, sines and cosines; both
are even or odd, so that a change of a component's sign is a change of the term's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch

from vpintegrator.argument_values import whole
from vpintegrator.errors import InputError
from vpintegrator.nn.symmetry import orbit_parameters, signed_permutations

RADIUS = 3.0  # standard deviations that Chebyshev polynomials take for their interval [-1, 1]
LARGEST_COUNT = 2_000  # terms of a block
LARGEST_DEGREE = 64

# of each element of a group, where it takes things and their signs there: (element, thing) each
SignedPermutations = tuple[torch.Tensor, torch.Tensor]


def checked_degree(degree: int) -> int:
    """A degree, or InputError if it is none or too high."""
    degree = whole("degree", degree)
    if degree > LARGEST_DEGREE:
        raise InputError(f"degree must be at most {LARGEST_DEGREE}, not {degree}")
    return degree


def moves_of_terms(group: torch.Tensor) -> SignedPermutations:
    """What a group of signed permutations does: by it every term is taken to one, but for its sign.

    Raises
    ------
    InputError
        If it holds other matrices.
    """
    moves = signed_permutations(group)
    if moves is None:
        raise InputError(
            "functions = polynomial respect symmetries that are sign flips and permutations; "
            "for others take functions = neurons"
        )
    return moves


def chebyshev(x: torch.Tensor, degree: int) -> list[torch.Tensor]:
    """T_0 ... T_degree of x / RADIUS, by T_{n+2} = 2 T_2 T_n - T_{n-2}.

    Even and odd ones are computed apart: where symmetries leave one kind, the other costs nothing.
    """
    double = (4 / RADIUS**2) * (x * x) - 2  # 2 T_2
    x = x * (1 / RADIUS)
    values = [torch.ones_like(x), x, 0.5 * double]
    while len(values) <= degree:
        values.append(double * values[-2] - values[abs(len(values) - 4)])
    return values[: degree + 1]


def harmonics(x: torch.Tensor, degree: int) -> list[torch.Tensor]:
    """1, cos x, sin x, cos 2x, sin 2x, ... to the order ``degree``, by addition theorems."""
    cosine, sine = torch.cos(x), torch.sin(x)
    values = [torch.ones_like(x)]
    c, s = cosine, sine
    for n in range(degree):
        if n:
            c, s = c * cosine - s * sine, s * cosine + c * sine
        values += [c, s]
    return values


def chebyshev_derivatives(x: torch.Tensor, values: list[torch.Tensor]) -> list[torch.Tensor]:
    """Derivatives by x of the ``values`` of ``chebyshev``, by the derivative of its recursion."""
    slope = (8 / RADIUS**2) * x
    double = (4 / RADIUS**2) * (x * x) - 2
    found = [torch.zeros_like(x), torch.full_like(x, 1 / RADIUS), 0.5 * slope]
    for n in range(1, len(values) - 2):
        found.append(slope * values[n] + double * found[n] - found[abs(n - 2)])
    return found[: len(values)]


def harmonic_derivatives(x: torch.Tensor, values: list[torch.Tensor]) -> list[torch.Tensor]:
    """Derivatives by x of the ``values`` of ``harmonics``."""
    found = [torch.zeros_like(x)]
    for n in range(1, len(values) // 2 + 1):
        found += [-n * values[2 * n], n * values[2 * n - 1]]
    return found


def orders(degree: int, periodic: bool) -> list[int]:
    """Order of each function of one component: what a term's degree is the sum of."""
    if periodic:
        return [0, *(n for n in range(1, degree + 1) for _ in range(2))]
    return list(range(degree + 1))


def is_odd(index: int, periodic: bool) -> bool:
    """Whether the function of this index changes its sign with its argument."""
    return index > 0 and index % 2 == 0 if periodic else index % 2 == 1


def terms(degree: int, periodic: list[bool], absent: Sequence[bool] = ()) -> list[tuple[int, ...]]:
    """All terms of a total degree, as an index of a function for each component.

    Of components that are absent there is the constant alone; others may follow the last of them.

    Raises
    ------
    InputError
        If they are too many.
    """
    found: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for k, angle in enumerate(periodic):
        left_out = k < len(absent) and absent[k]
        each = list(enumerate([0] if left_out else orders(degree, angle)))
        found = [
            ((*e, index), total + order)
            for (e, total), (index, order) in product(found, each)
            if total + order <= degree
        ]
        if len(found) > LARGEST_COUNT:
            raise InputError(
                f"degree = {degree} in {len(periodic)} components gives more than "
                f"{LARGEST_COUNT:,} terms; take a lower degree, or functions = neurons"
            )
    return [e for e, _ in sorted(found, key=lambda entry: (entry[1], entry[0]))]


def restricted(moves: SignedPermutations, members: list[int]) -> SignedPermutations:
    """What a group does to some of the things, which it does not take to others."""
    places, signs = moves
    number = torch.zeros(places.shape[1], dtype=torch.long)
    number[members] = torch.arange(len(members))
    return number[places[:, members]], signs[:, members]


def equivariant_coefficients(
    indices: list[tuple[int, ...]],
    periodic: list[bool],
    variables: SignedPermutations,
    block: SignedPermutations,
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Coefficients of the terms for which g(S_bb u) = S_aa g(u) for every S of a group.

    g_k(u) = sum_e c_{e k} phi_e(u) for k in a block a, u being what it depends on. For signed
    permutations the condition says that coefficients are equal but for signs along orbits of the
    group, or zero; nothing needs to be averaged when g is evaluated.

    Parameters
    ----------
    indices
        The terms, see ``terms``.
    periodic
        Of each variable in u, whether it is an angle.
    variables, block
        Of each S, where it takes each variable and each component of the block, and their signs.

    Returns
    -------
    sources, factors : Tensor, (term, component of the block)
        Index of the parameter that each coefficient takes, and its factor 1, -1 or 0.
    count : int
        Number of parameters.

    Raises
    ------
    InputError
        If the group exchanges angles with others.
    """
    number = {e: n for n, e in enumerate(indices)}
    odd = torch.tensor(
        [[is_odd(i, angle) for i, angle in zip(e, periodic, strict=True)] for e in indices]
    ).view(len(indices), len(periodic))
    links = []
    for places, signs, columns, own in zip(*variables, *block, strict=True):
        # (S u)_{p(j)} = s_j u_j, so the function of u_j in a term is that of p(j) in its image
        target = places.tolist()
        if [periodic[j] for j in target] != periodic:
            raise InputError("the symmetries exchange angles with components that are none")
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
