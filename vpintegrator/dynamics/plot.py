"""Table ``[plot]`` of a system file: planes, a sphere and a section for figures.

    [plot]
    planes = [["R", "z"], ["x", "y"]]    # pairs of components, or of the coordinates below
    equal = true                         # one scale on both axes of a plane
    sphere = ["g1", "g2", "g3"]          # three components of orbits on a sphere
    section = "y = 0"                    # Poincare section; "-y = 0" is passed downwards

    [plot.coordinates]
    R = "sqrt(x**2 + y**2)"

All keys are optional. The expressions obey the same limits as other expressions of the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions.nodes import Value
from vpintegrator.dynamics.expressions.parsing import parse, readable
from vpintegrator.dynamics.reading import check_table
from vpintegrator.errors import InputError, nearest, printable

_KEYS = {"planes": list, "equal": bool, "sphere": list, "section": str, "coordinates": Mapping}

SectionPlane = tuple[str, float, int]


@dataclass(frozen=True)
class Plot:
    """Options of the figures of a system.

    Attributes
    ----------
    planes
        Pairs of names of components or coordinates, the main plane first; may be empty.
    equal
        Whether both axes of a plane have one scale.
    sphere
        Names of three components of states on a sphere, or None.
    section
        Component, value and direction of the Poincare section, or None.
    coordinates
        Formulas of further coordinates by name.
    """

    planes: tuple[tuple[str, str], ...] = ()
    equal: bool = False
    sphere: tuple[str, str, str] | None = None
    section: SectionPlane | None = None
    coordinates: dict[str, Value] = field(default_factory=dict)


def read_plot(equations: Equations, source: str) -> Plot:
    """Read and check the table ``[plot]`` of a system file.

    Raises
    ------
    InputError
        If a key or name is unknown, a value is of another kind, or an expression not understood.
    """
    table = equations.table["plot"]
    where = f"{source}, [plot]"
    check_table(table, _KEYS, where)
    coordinates: dict[str, Value] = {}
    for name, text in table.get("coordinates", {}).items():
        place = f"{source}, [plot.coordinates] {printable(name)}"
        if name in equations.components:
            raise InputError(f"{place}: a component has this name; give the coordinate another")
        coordinates[readable(name, place)] = parse(text, equations.scope, place)
    names = [*equations.components, *coordinates]
    components = equations.components
    sphere = table.get("sphere")
    section = table.get("section")
    planes = (_names(pair, names, 2, f"{where} planes") for pair in table.get("planes", []))
    return Plot(
        planes=tuple((x, y) for x, y in planes),
        equal=table.get("equal", False),
        sphere=sphere and _names(sphere, components, 3, f"{where} sphere"),
        section=section and read_section(section, components, f"{where} section"),
        coordinates=coordinates,
    )


def read_section(text: Any, components: Sequence[str], where: str) -> SectionPlane:
    """Component, value and direction of ``"q[0] = 0"``, or of ``"-q[0] = 0"``, passed downwards.

    Raises
    ------
    InputError
        If the text is none, or names no component.
    """
    match = re.fullmatch(r"\s*(-?)\s*([^=\s]+)\s*=\s*(\S+)\s*", str(text))
    sign, name, number = match.groups() if match else ("", "", "")
    try:
        value = float(number)
    except ValueError:
        words = "expected a component and a value, as in q[0]=0"
        raise InputError(f"{where} {_shown(text)}: {words}") from None
    return check_section((name, value, -1 if sign else 1), components, where)


def check_section(section: SectionPlane, components: Sequence[str], where: str) -> SectionPlane:
    """Return the section with its names and numbers checked."""
    name, value, direction = section
    if name not in components:
        hint = nearest(name, components) or f"; there are {', '.join(components)}"
        raise InputError(f"{where}: the system has no component '{printable(str(name))}'{hint}")
    if not math.isfinite(value) or direction not in (-1, 0, 1):
        raise InputError(
            f"{where}: the value {value!r} of {name} must be a finite number, and the direction "
            f"{direction!r} must be 1 (up), -1 (down) or 0"
        )
    return str(name), float(value), int(direction)


def _names(value: Any, known: Sequence[str], count: int, where: str) -> Any:
    if not isinstance(value, list) or len(value) != count or len(set(map(str, value))) != count:
        raise InputError(f"{where}: expected {count} different names, found {_shown(value)}")
    if unknown := [name for name in value if name not in known]:
        hint = nearest(str(unknown[0]), known) or f"; there are {', '.join(list(known)[:12])}"
        raise InputError(f"{where}: there is no component or coordinate {_shown(unknown[0])}{hint}")
    return tuple(value)


def _shown(value: Any) -> str:
    return printable(repr(value), 60)
