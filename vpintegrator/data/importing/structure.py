"""Structure of measured states: symplectic, volume-preserving or none, as claimed or by names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from vpintegrator.arguments import one_of
from vpintegrator.data.importing.columns import plain_name
from vpintegrator.errors import InputError
from vpintegrator.names import STRUCTURES

_CLAIMS = {
    "symplectic": "symplectic = true\n",
    "volume-preserving": "divergence_free = true\n",
    "none": "divergence_free = false\n",
}


@dataclass(frozen=True)
class Structure:
    """Claims of a system of measured states, and the order of its components.

    Attributes
    ----------
    claim
        Lines of the system file.
    order
        Numbers of the components, positions before momenta where states are symplectic.
    told
        Assumptions and changes, a sentence each.
    """

    claim: str
    order: list[int]
    told: list[str] = field(default_factory=list)


def find_structure(
    asked: str | None, names: Sequence[str] | None, dim: int, where: str
) -> Structure:
    """Return the structure that is claimed, or proposed by the names of the components.

    Names such as q1, p1 or x, px propose symplectic. Where symplectic is asked for and the names
    do not tell positions from momenta, the first half of the components are positions.

    Raises
    ------
    InputError
        If the structure is unknown, or symplectic for an odd number of components.
    """
    order = list(range(dim))
    if asked is not None:
        one_of("structure", asked, STRUCTURES)
    paired = None if names is None else canonical_order(names)
    told = []
    if asked is None and paired is not None and names is not None:
        told.append(
            f"the components {', '.join(names)} are named as positions and momenta: the map is "
            "taken for symplectic (--structure says another)"
        )
    if asked is None and paired is None:
        return Structure("", order)
    if asked not in (None, "symplectic"):
        return Structure(_CLAIMS[asked or ""], order)
    if dim % 2:
        raise InputError(
            f"{where}: symplectic states are positions and as many momenta, but there are {dim} "
            "components"
        )
    if paired is None and dim > 2:
        half = dim // 2
        listed = names if names is not None else [f"z{k + 1}" for k in order]
        told.append(
            f"positions are {', '.join(listed[:half])}, momenta {', '.join(listed[half:])}, by "
            "their order (names such as x, px tell another)"
        )
    if paired is not None and paired != order and names is not None:
        moved = ", ".join(names[k] for k in paired)
        told.append(f"the components are stored as {moved}: positions, then momenta")
        order = paired
    return Structure(_CLAIMS["symplectic"], order, told)


def canonical_order(names: Sequence[str]) -> list[int] | None:
    """Return the numbers of positions, then of their momenta; None where names do not tell.

    Examples
    --------
    >>> canonical_order(["x", "px", "y", "py"])
    [0, 2, 1, 3]
    >>> canonical_order(["q1", "q2", "p1", "p2"])
    [0, 1, 2, 3]
    >>> canonical_order(["theta", "omega"]) is None
    True
    """
    plain = [plain_name(name) for name in names]
    places = {name: k for k, name in enumerate(plain)}
    if len(places) < len(plain) or len(plain) % 2 or not plain:
        return None
    partner: dict[int, int] = {}
    for k, name in enumerate(plain):
        rest = re.fullmatch(r"p_?(.*)", name, re.IGNORECASE)
        if rest is None:
            continue
        own = name[0] == "P"
        position = ("Q" if own else "q") + name[1:]
        for other in (position, rest[1], rest[1].lower()):
            if other in places and places[other] != k:
                partner[places[other]] = k
                break
    if len(plain) == 2 and "p" in places and not partner:  # theta, p
        partner = {1 - places["p"]: places["p"]}
    positions = sorted(partner)
    momenta = [partner[k] for k in positions]
    if sorted([*positions, *momenta]) != list(range(len(plain))):
        return None
    return [*positions, *momenta]
