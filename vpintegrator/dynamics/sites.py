"""Sites in a row along which the components of measured states stand.

    measured = true
    state = { u = 36 }

    [[symmetry]]
    permute = ["u"]          # all arrays of the state: a number of each for each site
    along = "ring"           # the same at each site of a ring; "chain": neighbours alone

Bodies in a row are such sites, too, with a position and a momentum each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vpintegrator.dynamics.bodies import Bodies
from vpintegrator.dynamics.equations import Equations
from vpintegrator.errors import InputError
from vpintegrator.names import ROWS


@dataclass(frozen=True)
class Sites:
    """Sites in a row; a state holds fields one after the other, each with a number for each site.

    Attributes
    ----------
    count, fields
        Number of sites, and of numbers at each.
    topology
        "ring" where all sites are alike, or "chain", where sites have neighbours.

    Examples
    --------
    >>> vp.load_system("toda", n=3).sites
    Sites(count=3, fields=2, topology='ring')
    """

    count: int
    fields: int
    topology: str


def is_of_sites(equations: Equations) -> bool:
    """Whether the symmetries of measured states are those of sites without momenta."""
    if equations.vector_field or equations.is_map or equations.symplectic:
        return False
    if {"q", "p"} == {*equations.arrays}:  # bodies
        return False
    tables = equations.table.get("symmetry")
    if not isinstance(tables, list) or len(tables) != 1 or not isinstance(tables[0], Mapping):
        return False
    return set(tables[0]) == {"permute", "along"}


def read_sites(equations: Equations, bodies: Bodies | None, source: str) -> Sites | None:
    """Return the sites of a row of bodies, or of measured states; None if there are none.

    Raises
    ------
    InputError
        If the table of measured states names other arrays, or they differ in length.
    """
    if bodies is not None:
        alike = bodies.dimension == 1 and len({*bodies.species}) == 1
        in_a_row = alike and bodies.topology in ROWS
        return Sites(bodies.count, 2, bodies.topology) if in_a_row else None
    if not is_of_sites(equations):
        return None
    table, arrays = equations.table["symmetry"][0], equations.arrays
    where = f"{source}, [[symmetry]]"
    if not arrays or table["permute"] != list(arrays):
        named = ", ".join(f'"{name}"' for name in arrays) or '"u"'
        raise InputError(
            f"{where}, permute: name all arrays of the state, permute = [{named}], of a state "
            "such as state = { u = 36 }"
        )
    if table["along"] not in ROWS:
        raise InputError(f"{where}, along: expected {' or '.join(ROWS)}")
    lengths = {len(places) for places in arrays.values()}
    if len(lengths) != 1:
        raise InputError(f"{where}: the arrays of the state differ in length")
    return Sites(lengths.pop(), len(arrays), table["along"])
