"""Compositions of a step and its adjoint: the factors of palindromic splitting methods.

chi_h moves the parts of a splitting one after the other, and its adjoint in reverse order. Methods
are chi_{a_1 h}, its adjoint with a_2 h, chi_{a_3 h}, and so on; adding up to one. A composition has
the same order for any number of parts as it has for two (McLachlan, SIAM J. Sci. Comput. 16 (1995)
151-168; Hairer, Lubich, Wanner, Geometric Numerical Integration, section III.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache


def _palindrome(half: Sequence[float]) -> tuple[float, ...]:
    """Return a_1, ..., a_k, 1 - 2 sum a, a_k, ..., a_1."""
    return (*half, 1 - 2 * sum(half), *reversed(half))


def _of_strang(factors: Sequence[float]) -> tuple[float, ...]:
    """Return factors of Strang splittings as factors of chi and its adjoint."""
    return tuple(factor / 2 for factor in factors for _ in range(2))


def _of_two_flows(first: Sequence[float], second: Sequence[float]) -> tuple[float, ...]:
    """Return factors of chi and its adjoint from those of a symmetric splitting in two fields.

    In exp(a_1 A) exp(b_1 B) exp(a_2 A) ... each number is the sum of two neighbouring factors, as
    chi moves A and then B, and its adjoint B and then A. Given are a_1, ..., a_k and b_1, ...,
    b_{k-1}; the remaining b_k = 1/2 - b_1 - ... and the rest by symmetry.
    """
    numbers = [x for pair in zip(first, (*second, 0.5 - sum(second)), strict=True) for x in pair]
    factors = []
    last = 0.0
    for number in numbers:
        last = number - last
        factors.append(last)
    return (*factors, *reversed(factors))


FACTORS: dict[str, tuple[float, ...]] = {
    "coordinate-splitting": (1.0,),
    "strang-splitting": _of_strang((1.0,)),
    "yoshida-4": _of_strang(
        (1 / (2 - 2 ** (1 / 3)), -(2 ** (1 / 3)) / (2 - 2 ** (1 / 3)), 1 / (2 - 2 ** (1 / 3)))
    ),
    "yoshida-6": _of_strang(
        _palindrome(
            (
                0.78451361047755726381949763,
                0.23557321335935813368479318,
                -1.17767998417887100694641568,
            )
        )
    ),
    "yoshida-8": _of_strang(
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
    "blanes-moan-4": _of_two_flows(
        (0.0792036964311957, 0.353172906049774, -0.0420650803577195),
        (0.209515106613362, -0.143851773179818),
    ),
    "blanes-moan-6": _of_two_flows(
        (
            0.0502627644003922,
            0.413514300428344,
            0.0450798897943977,
            -0.188054853819569,
            0.541960678450780,
        ),
        (0.148816447901042, -0.132385865767784, 0.067307604692185, 0.432666402578175),
    ),
}


@cache
def moves_of(factors: tuple[float, ...], parts: int) -> tuple[tuple[int, float], ...]:
    """Return the parts in the order in which they move, each with its share of the step."""
    moves: list[tuple[int, float]] = []
    for k, factor in enumerate(factors):
        for part in range(parts) if k % 2 == 0 else reversed(range(parts)):
            # the rates of a part do not change while it moves
            if moves and moves[-1][0] == part:
                moves[-1] = (part, moves[-1][1] + factor)
            else:
                moves.append((part, factor))
    return tuple(moves)
