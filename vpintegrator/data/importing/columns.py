"""Names and units of columns, and angles in radians where a system has them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from vpintegrator.data.importing.arrays import Arrays

# units that xarray would decode as a length of time become the unit's symbol
_SYMBOLS = {
    "second": "s",
    "sec": "s",
    "millisecond": "ms",
    "microsecond": "us",
    "nanosecond": "ns",
    "minute": "min",
    "hour": "h",
    "day": "d",
}
_TIME_UNIT = re.compile(r"(t|time|timestamp)(?:_|\s*/\s*)(s|ms|us|ns|min|h)", re.IGNORECASE)
_ANGLE_UNIT = re.compile(r"(.+?)(?:_|\s*/\s*)((?:deg(?:rees?)?|°)(?:/s)?)", re.IGNORECASE)
_DEGREES = re.compile(r"(?:deg(?:rees?)?|°)(\W.*)?", re.IGNORECASE)


def split_unit(name: str) -> tuple[str, str]:
    """Return the name of a column and its unit, as in ``x [m]``, ``time_ms`` or ``q/deg``.

    Examples
    --------
    >>> [split_unit(name) for name in ("v [m/s]", "time (seconds)", "q_deg", "q_m")]
    [('v', 'm/s'), ('time', 's'), ('q', 'deg'), ('q_m', '')]
    """
    found = re.fullmatch(r"(.*\S)\s*[\[(]([^\[\]()]*)[\])]", name)
    found = found or _TIME_UNIT.fullmatch(name) or _ANGLE_UNIT.fullmatch(name)
    if found is None:
        return name, ""
    unit = found[2].strip()
    return found[1], _SYMBOLS.get(unit.lower().removesuffix("s"), unit)


def plain_name(name: str) -> str:
    """Return a column's name without its unit, and with letters, digits and _ only."""
    name = re.sub(r"[\[(].*", "", name)
    return re.sub(r"\W+", "_", name.strip()).strip("_")


def in_radians(arrays: Arrays, periods: Mapping[int, float]) -> tuple[Arrays, list[str]]:
    """The arrays with degrees, and degrees a second, in radians, and what was done, in a sentence.

    Only where an angle is among them that comes round in 2 pi, as the system with these ``periods``
    says: states of an unknown system, or one whose angle comes round in 360, stay as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from vpintegrator.data.importing.arrays import Arrays
    >>> seen = Arrays(np.full((1, 2, 2), 180.0), names=("q", "x"), units=("deg", "m"))
    >>> turned, told = in_radians(seen, {0: 2 * np.pi})
    >>> turned.states[0, 0].tolist(), turned.units, told
    ([3.141592653589793, 180.0], ('rad', 'm'), ['degrees are brought to radians: q'])
    """
    found = {k: _DEGREES.fullmatch(unit) for k, unit in enumerate(arrays.units)}
    turned = {k: match[1] or "" for k, match in found.items() if match is not None}
    if not any(math.isclose(periods.get(k, 0.0), 2 * math.pi) for k in turned):
        return arrays, []
    states, units = arrays.states.copy(), list(arrays.units)
    for k, rest in turned.items():
        states[..., k] *= math.pi / 180
        units[k] = f"rad{rest}"
    names = arrays.names or [f"component {k + 1}" for k in range(states.shape[-1])]
    told = f"degrees are brought to radians: {', '.join(names[k] for k in turned)}"
    return replace(arrays, states=states, units=tuple(units)), [told]
