"""The order of a Runge-Kutta method from its tableau, by Butcher's rooted trees."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np

LARGEST_ORDER = 10  # 1,205 trees in all, in seconds; each order more takes some six times longer
# relative to the sum of the sizes of a condition's terms: coefficients may lose two last digits;
# tableaus of the literature, rounded once, miss none by more than a unit of rounding
_ROUNDING = 64 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Tree:
    """Rooted tree: the trees that hang from its root, in a fixed order."""

    branches: tuple[Tree, ...] = ()

    @cached_property
    def order(self) -> int:
        """Number of vertices."""
        return 1 + sum(branch.order for branch in self.branches)

    @cached_property
    def density(self) -> int:
        """gamma(t): the order times the densities of the branches."""
        return self.order * math.prod(branch.density for branch in self.branches)

    def stage_weights(self, matrix: np.ndarray) -> np.ndarray:
        """Return the product over the branches of sum_j a_ij (weights of the branch)_j."""
        product = np.ones(len(matrix))
        for branch in self.branches:
            product = product * (matrix @ branch.stage_weights(matrix))
        return product

    def __str__(self) -> str:
        return f"[{''.join(map(str, self.branches))}]"


@cache
def trees(order: int) -> tuple[Tree, ...]:
    """Return all rooted trees with that many vertices."""
    smaller = [tree for size in range(1, order) for tree in trees(size)]
    return tuple(Tree(branches) for branches in _forests(smaller, order - 1))


def _forests(choice: list[Tree], vertices: int) -> Iterator[tuple[Tree, ...]]:
    """Yield all multisets of these trees with ``vertices`` vertices in all."""
    if vertices == 0:
        yield ()
    for i, tree in enumerate(choice):
        if tree.order <= vertices:
            for rest in _forests(choice[i:], vertices - tree.order):
                yield (tree, *rest)


@dataclass(frozen=True)
class Failure:
    """Violated order condition: the value of its sum, and the required value."""

    tree: Tree
    value: float
    expected: Fraction


def first_failure(matrix: np.ndarray, weights: np.ndarray, order: int) -> Failure | None:
    """Return the first condition up to ``order`` that a tableau violates beyond rounding.

    sum_i b_i phi_i(t) = 1/gamma(t) for every tree t with at most ``order`` vertices (Butcher;
    Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, theorem II.2.13).
    """
    for vertices in range(1, order + 1):
        for tree in trees(vertices):
            value = float(weights @ tree.stage_weights(matrix))
            size = float(np.abs(weights) @ tree.stage_weights(np.abs(matrix)))
            if not abs(value - 1 / tree.density) <= _ROUNDING * max(size, 1 / tree.density):
                return Failure(tree, value, Fraction(1, tree.density))
    return None
