"""Units of measured components where they matter: the angles of a system are in radians."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from vpintegrator.data.importing.arrays import Arrays

_DEGREES = re.compile(r"(?:deg(?:rees?)?|°)(\W.*)?", re.IGNORECASE)


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
