"""Bodies of a state, and small clusters of bodies over which potentials sum.

A half of a state, all positions or all momenta, holds ``dimension`` components of one body after
the other. A *topology* says which bodies are near each other and which clusters are alike:

- "pairs": any two; those of bodies of the same species are alike.
- "ring": neighbours along a ring, alike all round.
- "chain": neighbours along a chain with free ends, which lack a neighbour.
- "walls": neighbours along a chain that goes on beyond fixed ends as its odd mirror image,
  x[-1] = 0, x[-1 - k] = -x[-1 + k], as the exact flow of such a chain does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import torch

from vpintegrator.arguments import one_of, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.symmetry import TOLERANCE

TOPOLOGIES = ("pairs", "ring", "chain", "walls")
LARGEST_COUNT = 600_000  # clusters, whether they are alike or not

_Rows = list[tuple[list[int], list[int], float]]


@dataclass(frozen=True)
class Clusters:
    """Clusters of bodies that are alike.

    Attributes
    ----------
    index : Tensor, (cluster, order)
        The bodies of each.
    sign : Tensor, (cluster, order)
        Sign of each body in a cluster: -1 for a mirror image, 0 for a wall.
    weight : Tensor, (cluster,)
        Weight of each cluster in a sum.
    turned : tuple of (1 or -1)
        A cluster means the same when the order of its bodies is turned round and all of them are
        multiplied by such a number.

    Examples
    --------
    >>> (ends, *others) = vp.nn.clusters("chain", 3, 2, species=[0, 0, 1])
    >>> ends.order, ends.index.tolist(), len(others)
    (2, [[0, 1]], 1)
    """

    index: torch.Tensor
    sign: torch.Tensor
    weight: torch.Tensor
    turned: tuple[int, ...] = ()

    @property
    def order(self) -> int:
        """Bodies of a cluster."""
        return self.index.shape[1]


def clusters(
    topology: str, bodies: int, order: int, species: Sequence[int] | None = None
) -> list[Clusters]:
    """Return all clusters of an order, those that are alike together.

    Parameters
    ----------
    topology : str
    bodies : int
    order : int
        Bodies in a cluster, in rows along a ring or a chain, at most 2 for "pairs".
    species : sequence of int, optional
        A number for each body, equal for like ones; by default all are alike.

    Returns
    -------
    list of Clusters
        Clusters of each sequence of species.

    Raises
    ------
    InputError
        For a topology that is not known, species that do not fit, a ring of too few bodies, or more
        clusters than 600,000.

    Examples
    --------
    >>> (found,) = vp.nn.clusters("ring", 4, 2)
    >>> found.index.tolist()
    [[0, 1], [1, 2], [2, 3], [3, 0]]
    """
    one_of("topology", topology, TOPOLOGIES)
    n, k = whole("bodies", bodies), whole("order", order)
    species = (0,) * n if species is None else tuple(species)
    if len(species) != n:
        raise InputError(f"species must name that of each of {n} bodies, not of {len(species)}")
    if topology == "ring" and n < max(3, k):
        raise InputError(f"a ring needs {max(3, k)} bodies or more, not {n}")
    if n > LARGEST_COUNT or (topology == "pairs" and math.comb(n, k) > LARGEST_COUNT):
        raise InputError(f"{n} bodies have more than {LARGEST_COUNT:,} clusters of {k}")
    turned = {"pairs": (1,), "walls": (-1,)}.get(topology, ())
    return [
        Clusters(
            torch.tensor([index for index, _, _ in alike]),
            torch.tensor([sign for _, sign, _ in alike], dtype=torch.float64),
            torch.tensor([weight for _, _, weight in alike], dtype=torch.float64),
            turned if own == own[::-1] else (),
        )
        for own, alike in _alike(topology, n, k, species).items()
    ]


@lru_cache(maxsize=16)  # each layer of a model asks for the same
def _alike(topology: str, n: int, k: int, species: tuple[int, ...]) -> dict[tuple[int, ...], _Rows]:
    """Return bodies, signs and weight of each cluster, by the species of its bodies."""
    found: dict[tuple[int, ...], _Rows] = {}
    for places, weight in _PLACES[topology](n, k):
        members = [_mirrored(place, n) if topology == "walls" else (place, 1) for place in places]
        if topology == "pairs":  # in the order of their species
            members.sort(key=lambda member: species[member[0]])
        index, sign = [i for i, _ in members], [s for _, s in members]
        found.setdefault(tuple(species[i] for i in index), []).append((index, sign, weight))
    return found


def _any(n: int, k: int) -> list[tuple[tuple[int, ...], float]]:
    if k > 2:
        raise InputError(f"clusters of any bodies are single ones and pairs, not of {k}")
    return [(members, 1.0) for members in combinations(range(n), k)]


def _round_a_ring(n: int, k: int) -> list[tuple[tuple[int, ...], float]]:
    return [(tuple((i + j) % n for j in range(k)), 1.0) for i in range(n)]


def _along_a_chain(n: int, k: int) -> list[tuple[tuple[int, ...], float]]:
    return [(tuple(range(i, i + k)), 1.0) for i in range(n - k + 1)]


def _between_walls(n: int, k: int) -> list[tuple[tuple[int, ...], float]]:
    # half of the clusters of the ring of n bodies, two walls and n images, which come in pairs of
    # mirror images; those that are their own image count half
    found = []
    for i in range(-((k + 1) // 2), (2 * n - k + 1) // 2 + 1):
        own = 2 * i + k - 1 in (-2, 2 * n)  # the places of the ends, where the middle is a wall
        found.append((tuple(range(i, i + k)), 0.5 if own else 1.0))
    return [(places, weight) for places, weight in found if any(0 <= p < n for p in places)]


_PLACES = {
    "pairs": _any,
    "ring": _round_a_ring,
    "chain": _along_a_chain,
    "walls": _between_walls,
}


def _mirrored(place: int, n: int) -> tuple[int, int]:
    """Return the body at a place of a mirrored chain, and its sign: 0 at a wall."""
    place = (place + 1) % (2 * n + 2)  # walls are at 0 and n + 1
    if place in (0, n + 1):
        return 0, 0
    return (place - 1, 1) if place <= n else (2 * n + 1 - place, -1)


def moved_bodies(group: torch.Tensor, bodies: int) -> list[tuple[list[int], torch.Tensor]]:
    """Return the permutation of the bodies, and the matrix of their vectors, for each element.

    Parameters
    ----------
    group : Tensor, (element, size, size)
        Group of matrices of the components of half a state.
    bodies : int

    Returns
    -------
    list of (places, matrix (dimension, dimension))
        Body i takes the place of ``places[i]``, its vector multiplied by the matrix.

    Raises
    ------
    InputError
        If an element mixes bodies, or turns their vectors in different ways.
    """
    d = group.shape[-1] // bodies
    found = []
    for S in group:
        blocks = S.unflatten(0, (bodies, d)).unflatten(-1, (bodies, d)).transpose(1, 2)
        there = (blocks.abs() > TOLERANCE).flatten(-2).any(-1)  # (to, from)
        places = there.double().argmax(0)
        own = blocks[places, torch.arange(bodies)]
        if int(there.sum()) != bodies or bool((own - own[0]).abs().max() > TOLERANCE):
            raise InputError(
                "the reversing symmetries mix bodies, or treat them differently; give fewer "
                "reversing symmetries, or none of the others"
            )
        found.append((places.tolist(), own[0]))
    return found


def is_turned_round(topology: str, places: Sequence[int], species: Sequence[int]) -> bool:
    """Whether bodies that change places meet the clusters of a topology in the opposite order.

    Raises
    ------
    InputError
        If clusters become others that are not alike.
    """
    n = len(places)
    fits = all(species[place] == own for place, own in zip(places, species, strict=True))
    if topology == "pairs" and fits:
        return False
    steps = {places[i + 1] - places[i] for i in range(n - 1)}
    if topology == "ring":
        steps = {step % n for step in steps} | {(places[0] - places[-1]) % n}
        steps = {-1 if step == n - 1 else step for step in steps}
    if not fits or steps not in ({1}, {-1}, set()):
        raise InputError(
            "the reversing symmetries exchange bodies that are not alike, or not neighbours as "
            "before; give fewer reversing symmetries"
        )
    return steps == {-1}
