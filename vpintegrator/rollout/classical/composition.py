"""Coordinate splitting, and what is composed of it and its adjoint to a higher order.

A composition has the same order for coordinate splitting, of any number of parts, as it has for a
splitting of the vector field in two (McLachlan, SIAM J. Sci. Comput. 16 (1995) 151-168;
Hairer, Lubich, Wanner, Geometric Numerical Integration, section III.3). All compositions here are
palindromes, so they are symmetric, and keep what coordinate splitting keeps: volume, and on
separable Hamiltonian systems symplecticity.
"""

from __future__ import annotations

from collections.abc import Sequence

from vpintegrator.rollout.classical.splitting import CoordinateSplitting


def _palindrome(half: Sequence[float]) -> tuple[float, ...]:
    """a_1, ..., a_k, 1 - 2 sum a, a_k, ..., a_1."""
    return (*half, 1 - 2 * sum(half), *reversed(half))


def _of_strang(factors: Sequence[float]) -> tuple[float, ...]:
    """Factors of Strang splittings as factors of chi and its adjoint."""
    return tuple(factor / 2 for factor in factors for _ in range(2))


def _of_two_flows(first: Sequence[float], second: Sequence[float]) -> tuple[float, ...]:
    """Factors of chi and its adjoint from those of a symmetric splitting of the field in two.

    In exp(a_1 A) exp(b_1 B) exp(a_2 A) ... each number is the sum of two neighbouring factors, as
    chi moves A and then B, and its adjoint B and then A. Given are a_1, ..., a_k and b_1, ...,
    b_{k-1}; the remaining b_k = 1/2 - b_1 - ... and the rest by symmetry.
    """
    numbers = [x for pair in zip(first, (*second, 0.5 - sum(second)), strict=True) for x in pair]
    factors, last = [], 0.0
    for number in numbers:
        last = number - last
        factors.append(last)
    return (*factors, *reversed(factors))


COORDINATE_SPLITTING = CoordinateSplitting(
    name="coordinate-splitting",
    title="Coordinate splitting",
    order=1,
    source="McLachlan and Quispel, Acta Numerica 11 (2002) 341-434, on splitting methods",
    factors=(1.0,),
)
STRANG_SPLITTING = CoordinateSplitting(
    name="strang-splitting",
    title="Strang splitting",
    order=2,
    symmetric=True,
    source="Strang, SIAM J. Numer. Anal. 5 (1968) 506-517; of coordinate splitting and its adjoint",
    factors=_of_strang((1.0,)),
)
YOSHIDA_4 = CoordinateSplitting(
    name="yoshida-4",
    title="Yoshida 4",
    order=4,
    symmetric=True,
    source="Yoshida, Phys. Lett. A 150 (1990) 262-268, the triple jump: 3 Strang splittings; also "
    "Suzuki, Phys. Lett. A 146 (1990) 319-323",
    factors=_of_strang(
        (1 / (2 - 2 ** (1 / 3)), -(2 ** (1 / 3)) / (2 - 2 ** (1 / 3)), 1 / (2 - 2 ** (1 / 3)))
    ),
)
YOSHIDA_6 = CoordinateSplitting(
    name="yoshida-6",
    title="Yoshida 6",
    order=6,
    symmetric=True,
    source="Yoshida, Phys. Lett. A 150 (1990) 262-268, table 1, solution A: 7 Strang splittings",
    factors=_of_strang(
        _palindrome(
            (
                0.78451361047755726381949763,
                0.23557321335935813368479318,
                -1.17767998417887100694641568,
            )
        )
    ),
)
# Yoshida's own five solutions of these equations have error constants larger by far
YOSHIDA_8 = CoordinateSplitting(
    name="yoshida-8",
    title="Yoshida 8",
    order=8,
    symmetric=True,
    source="15 Strang splittings; Yoshida's equations, Phys. Lett. A 150 (1990) 262-268, in the "
    "solution of Suzuki and Umeno (1993) and McLachlan (1995): Hairer, Lubich, Wanner, Geometric "
    "Numerical Integration, section V.3.2",
    factors=_of_strang(
        _palindrome(
            (
                0.74167036435061295344822780,
                -0.40910082580003159399730010,
                0.19075471029623837995387626,
                -0.57386247111608226665638773,
                0.29906418130365592384446354,
                0.33462491824529818378495798,
                0.31529309239676659663205666,
            )
        )
    ),
)
BLANES_MOAN_4 = CoordinateSplitting(
    name="blanes-moan-4",
    title="Blanes–Moan 4",
    order=4,
    symmetric=True,
    source="Blanes and Moan, J. Comput. Appl. Math. 142 (2002) 313-330, S_6 of order 4",
    factors=_of_two_flows(
        (0.0792036964311957, 0.353172906049774, -0.0420650803577195),
        (0.209515106613362, -0.143851773179818),
    ),
)
BLANES_MOAN_6 = CoordinateSplitting(
    name="blanes-moan-6",
    title="Blanes–Moan 6",
    order=6,
    symmetric=True,
    source="Blanes and Moan, J. Comput. Appl. Math. 142 (2002) 313-330, S_10 of order 6",
    factors=_of_two_flows(
        (
            0.0502627644003922,
            0.413514300428344,
            0.0450798897943977,
            -0.188054853819569,
            0.541960678450780,
        ),
        (0.148816447901042, -0.132385865767784, 0.067307604692185, 0.432666402578175),
    ),
)
