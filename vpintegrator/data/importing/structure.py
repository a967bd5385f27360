"""Structure of measured states: symplectic, volume-preserving or none, as claimed or by names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vpintegrator.arguments import one_of
from vpintegrator.data.importing.columns import plain_name
from vpintegrator.dynamics.conjugate import conjugate_pairs
from vpintegrator.errors import InputError
from vpintegrator.names import ROWS, STRUCTURES

_CLAIMS = {
    "symplectic": "symplectic = true\n",
    "volume-preserving": "divergence_free = true\n",
    "none": "divergence_free = false\n",
}


_FEWEST_SITES = 3
_NUMBERED = re.compile(r"(.*?)_?(\d+)")


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
    pairs = None if names is None else _pairs(names, asked)
    paired = None if pairs is None else [k for side in zip(*pairs, strict=True) for k in side]
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


def _pairs(names: Sequence[str], asked: str | None) -> list[tuple[int, int]] | None:
    """Return the positions and momenta that names of columns tell; velocities do if asked for."""
    return conjugate_pairs([plain_name(name) for name in names], velocities=asked == "symplectic")


def in_a_row(
    topology: str, found: Structure, names: Sequence[str] | None, dim: int, where: str
) -> tuple[Structure, str]:
    """Return the structure of states along a row of sites, and the lines of the system file.

    Parameters
    ----------
    topology
        ``"ring"`` or ``"chain"``.
    found
        Structure without the row.
    names, dim, where
        Names of the components if known, their number, and the name of the source.

    Raises
    ------
    InputError
        If the topology is unknown, or there are fewer than three sites.
    """
    one_of("topology", topology, ROWS)
    if "symplectic" in found.claim:
        fields, order = ["q", "p"], found.order
    else:
        fields, order = _fields(names, dim)
    sites = dim // len(fields)
    if sites < _FEWEST_SITES:
        raise InputError(
            f"{where}: a {topology} needs {_FEWEST_SITES} sites or more, but {dim} components are "
            f"those of {sites}"
        )
    told = f"the components are those of {sites} sites of a {topology}: {', '.join(fields)}"
    state = ", ".join(f"{name} = {sites}" for name in fields)
    named = ", ".join(f'"{name}"' for name in fields)
    text = f'state = {{ {state} }}\n\n[[symmetry]]\npermute = [{named}]\nalong = "{topology}"\n'
    return replace(found, order=order, told=[*found.told, told]), text


def _fields(names: Sequence[str] | None, dim: int) -> tuple[list[str], list[int]]:
    """Return names of the fields, and the numbers of the components field by field."""
    matches = [_NUMBERED.fullmatch(plain_name(name)) for name in names or ()]
    order = list(range(dim))
    if len(matches) != dim or not all(matches):
        return ["z"], order
    keys = [(match[1] or "z", int(match[2])) for match in matches if match is not None]
    fields = list(dict.fromkeys(field for field, _ in keys))
    lengths = {sum(own == field for own, _ in keys) for field in fields}
    if len(lengths) > 1 or len(set(keys)) < dim:
        return ["z"], order
    return fields, sorted(order, key=lambda k: (fields.index(keys[k][0]), keys[k][1]))
