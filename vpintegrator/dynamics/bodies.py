"""Many bodies alike: what a system file says of them, in tables ``[[symmetry]]``.

    [[symmetry]]
    translate = ["q"]        # all bodies moved by the same vector: total momentum is constant
    dimension = 2            # components of a vector, 1 by default

    [[symmetry]]
    rotate = ["q", "p"]      # all vectors turned together: angular momentum is constant
    dimension = 2            # the plane, or 3, space

    [[symmetry]]
    permute = ["q", "p"]     # any two bodies that are alike exchanged
    dimension = 2
    like = "m"               # a parameter with a number for each body: equal ones are alike
    # along = "ring"         # or, instead of like: bodies in a row, and "chain", "walls"

A state is an array of positions and one of momenta, each with the components of one body after the
other. Along a ring all bodies may move on by a place; along a chain, whose ends are free, the force
on a body is that on any other with the same neighbours; walls are fixed ends, beyond which a chain
goes on as its odd mirror image: x[-1] = 0, x[-1 - k] = -x[-1 + k].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vpintegrator.dynamics.equations import Equations
from vpintegrator.errors import InputError, nearest, printable
from vpintegrator.storage.toml import check_keys

TOPOLOGIES = {
    "pairs": "like bodies exchanged",
    "ring": "all bodies moved on along a ring",
    "chain": "bodies moved on along a chain with free ends",
    "walls": "bodies moved on along a chain between walls",
}
_ALONG = ("ring", "chain", "walls")
_ACTIONS = ("translate", "rotate", "permute")
_KEYS = (*_ACTIONS, "dimension", "like", "along")


@dataclass(frozen=True)
class Bodies:
    """The bodies of a system with symmetries; a state holds positions, then momenta, body by body.

    Attributes
    ----------
    count
        Number of bodies.
    dimension
        Components of the position of one.
    topology
        "pairs" where like bodies may be exchanged, "ring", "chain" (with free ends) or "walls"
        (fixed ends) where bodies in a row may move on; empty where they may not change places.
    species
        A number for each body, equal for like ones.
    translations
        Whether all bodies may be moved by the same vector.
    rotations
        Whether all vectors may be turned together, in the plane or in space.

    Examples
    --------
    >>> bodies = vp.load_system("toda", n=3).bodies
    >>> bodies.count, bodies.topology, bodies.species, bodies.translations
    (3, 'ring', (0, 0, 0), True)
    """

    count: int
    dimension: int
    topology: str = ""
    species: tuple[int, ...] = ()
    translations: bool = False
    rotations: bool = False

    @property
    def symmetries(self) -> list[str]:
        """Names of the symmetries in words.

        Examples
        --------
        >>> vp.load_system("kepler").bodies.symmetries
        ['all vectors turned together in the plane']
        """
        words = []
        if self.translations:
            words.append("all bodies moved by the same")
        if self.rotations:
            where = "in the plane" if self.dimension == 2 else "in space"
            words.append(f"all vectors turned together {where}")
        if self.topology and len({*self.species}) < self.count:
            words.append(TOPOLOGIES[self.topology])
        return words


@dataclass(frozen=True)
class _Entry:
    """Table ``[[symmetry]]``."""

    action: str
    dimension: int
    like: tuple[float, ...] | None
    along: str | None


def read_bodies(equations: Equations, source: str) -> Bodies | None:
    """Read the tables ``[[symmetry]]`` of a system file; return None if there are none.

    Raises
    ------
    InputError
        If a table is not understood, or does not fit the state or the others.
    """
    tables = equations.table.get("symmetry", [])
    if not isinstance(tables, list) or not all(isinstance(entry, Mapping) for entry in tables):
        raise InputError(f"{source}: write each symmetry as a table [[symmetry]]")
    if tables and equations.explicit_time is not None:
        raise InputError(
            f"{source}: symmetries of bodies are for equations that do not depend on time; leave "
            "out the tables [[symmetry]]"
        )
    found: dict[str, _Entry] = {}
    for number, table in enumerate(tables, start=1):
        where = f"{source}, [[symmetry]] {number}"
        entry = _read(table, equations, where)
        if entry.action in found:
            raise InputError(f"{where}: {entry.action} is given twice")
        if any(entry.dimension != other.dimension for other in found.values()):
            raise InputError(f"{where}: all symmetries are of bodies of the same dimension")
        found[entry.action] = entry
    if not found:
        return None
    dimension = next(iter(found.values())).dimension
    count = len(equations.components) // 2 // dimension
    topology, species = "", tuple(range(count))
    if (permuted := found.get("permute")) is not None:
        topology = permuted.along or "pairs"
        numbers = permuted.like or (0.0,) * count
        first = {number: index for index, number in enumerate(dict.fromkeys(numbers))}
        species = tuple(first[number] for number in numbers)
    return Bodies(count, dimension, topology, species, "translate" in found, "rotate" in found)


def _read(table: Mapping[str, Any], equations: Equations, where: str) -> _Entry:
    check_keys(table, _KEYS, where)
    actions = [key for key in _ACTIONS if key in table]
    if len(actions) != 1:
        raise InputError(f"{where}: expected one of {', '.join(_ACTIONS)}, as in rotate = ['q']")
    action = actions[0]
    arrays = list(equations.arrays)
    lengths = [len(indices) for indices in equations.arrays.values()]
    if len(arrays) != 2 or lengths[0] != lengths[1]:
        raise InputError(
            f"{where}: symmetries of bodies need a state of two arrays of one length, positions "
            "and momenta, as in state = { q = 8, p = 8 }"
        )
    named = arrays[:1] if action == "translate" else arrays
    if table[action] != named:
        wanted = ", ".join(f'"{name}"' for name in named)
        raise InputError(
            f"{where}, {action}: write {action} = [{wanted}], not {_shown(table[action])}"
        )
    dimension = table.get("dimension", 1)
    if type(dimension) is not int or dimension < 1 or lengths[0] % dimension:
        raise InputError(
            f"{where}, dimension: {arrays[0]} has {lengths[0]} components, which are no vectors of "
            f"{_shown(dimension)}"
        )
    if action == "rotate" and dimension not in (2, 3):
        raise InputError(
            f"{where}, dimension: vectors turn in the plane or in space, dimension = 2 or 3, not "
            f"{dimension}"
        )
    if action != "permute" and (strange := {"like", "along"} & {*table}):
        raise InputError(f"{where}: {min(strange)} belongs to permute, not to {action}")
    if {"like", "along"} <= {*table}:
        raise InputError(f"{where}: bodies in a row are all alike; give like or along, not both")
    along = table.get("along")
    if along is not None and along not in _ALONG:
        raise InputError(f"{where}, along: expected {', '.join(_ALONG)}, found {_shown(along)}")
    like = None
    if "like" in table:
        like = _numbers(table["like"], equations, lengths[0] // dimension, f"{where}, like")
    return _Entry(action, dimension, like, along)


def _numbers(name: Any, equations: Equations, count: int, where: str) -> tuple[float, ...]:
    """Return the parameter that says which bodies are alike."""
    known: Sequence[str] = [*equations.definitions]
    if name not in known:
        hint = nearest(name, known) if isinstance(name, str) else ""
        raise InputError(f"{where}: there is no parameter {_shown(name)}{hint}")
    values = equations.scope.values[name]
    if not isinstance(values, tuple) or len(values) != count:
        raise InputError(
            f"{where}: the parameter {name} must hold a number for each of {count} bodies"
        )
    return tuple(float(value) for value in values)  # type: ignore[arg-type]


def _shown(value: Any) -> str:
    return printable(repr(value), 60)
