"""Registry of the classical methods by name, in the order of the families' modules.

A method of a family that is there is an entry in its module; a new family is a module, named here.
"""

from __future__ import annotations

import re

from vpintegrator.arguments import of_kind
from vpintegrator.errors import InputError, nearest
from vpintegrator.maps import (
    adaptive,
    boris,
    explicit,
    gauss_legendre,
    splitting,
)
from vpintegrator.maps.base import ClassicalMethod

_FAMILIES = (explicit, gauss_legendre, splitting, boris, adaptive)
METHODS: dict[str, ClassicalMethod] = {
    method.name: method
    for family in _FAMILIES
    for value in vars(family).values()
    for method in (value if isinstance(value, list) else [value])
    if isinstance(method, ClassicalMethod)
}


_WITH_TOLERANCE = re.compile(r"(.+?)-(\d+(?:\.\d+)?(?:e-\d+)?)")


def find_method(name: str) -> ClassicalMethod:
    """Return the classical method of a name, which may end in a tolerance.

    Parameters
    ----------
    name
        Such as ``rk4``, or ``dop853-1e-10``.

    Raises
    ------
    InputError
        If there is none; the message names the nearest, or all of them.

    Examples
    --------
    >>> vp.rollout.find_method("rk4").order
    4
    >>> vp.rollout.find_method("dop853-1e-10").rtol
    1e-10
    """
    of_kind("method", name, str, "the name of a classical method")
    if name in METHODS:
        return METHODS[name]
    parts = _WITH_TOLERANCE.fullmatch(name)
    if parts and parts[1] in METHODS:
        return METHODS[parts[1]].at_tolerance(float(parts[2]), name)
    hint = nearest(name.lower().replace("_", "-"), METHODS) or f"; there are {', '.join(METHODS)}"
    raise InputError(f"there is no classical method '{name}'{hint}")
