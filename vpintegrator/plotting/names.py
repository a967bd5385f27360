"""Names of components, methods and invariants as labels."""

from __future__ import annotations

import re

from vpintegrator.errors import printable

_LONGEST_TITLE = 120


def mathtext(component: str) -> str:
    """Return a component's name as a label: ``z1`` as z with index 1, ``q[0]`` as q index 0."""
    component = shortened(component)
    match = re.fullmatch(r"([A-Za-z])_?\[?(\d*)\]?", component)
    if match:
        return f"${match[1]}_{{{match[2]}}}$" if match[2] else f"${match[1]}$"
    match = re.fullmatch(r"([A-Za-z]\w*)\[(\d+)\]", component)
    word, index = (match[1], f"_{{{match[2]}}}") if match else (component, "")
    return rf"$\mathrm{{{word.replace('_', ' ')}}}{index}$".replace(" ", r"\ ")


def plain(title: str) -> str:
    """Return a title or a name with its special characters escaped for Matplotlib."""
    title = printable(title, _LONGEST_TITLE).replace("$", r"\$")
    return f" {title}" if title.startswith("_") else title  # a legend leaves out "_name"


def shortened(title: str, longest: int = 34) -> str:
    """Return a title that fits a legend, without the middle of a long one."""
    if len(title) <= longest:
        return title
    half = (longest - 1) // 2
    return f"{title[:half]}…{title[-half:]}"


def grouped(number: float) -> str:
    """Return a number with separated thousands: 200,000 and not 200000 or 2e+05."""
    whole = float(number).is_integer() and abs(number) < 1e15
    return f"{number:,.0f}" if whole else f"{number:,g}"


def spoken(name: str) -> str:
    """Return a name as words: ``squared_momentum`` becomes ``squared momentum``."""
    return name.replace("_", " ")


def orbits(count: int) -> str:
    """Return ``1 orbit`` or ``4 orbits``."""
    return f"{count} orbit" if count == 1 else f"{count} orbits"
