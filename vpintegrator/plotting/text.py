"""Texts of figures, captions and tables: names, numbers, Markdown and LaTeX.

Whatever a name from a file holds, it is shown as it is and never obeyed, and it is a single line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

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


def orbits(count: int) -> str:
    """Return ``1 orbit`` or ``4 orbits``."""
    return f"{count} orbit" if count == 1 else f"{count} orbits"


def listed(parts: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def capital(sentence: str) -> str:
    """Return a sentence with a capital letter at its beginning."""
    return sentence[:1].upper() + sentence[1:]


def markdown(text: str) -> str:
    """Return a plain text in Markdown: no links, images, HTML or code, and no new table cells."""
    return re.sub(r"[|<`]|(?<=\])(?=\()|(?<=\])(?=\[)", r"\\\g<0>", text)


_SPECIAL: dict[str, Any] = {character: "\\" + character for character in "{}&%#_"}
_SPECIAL |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_SPECIAL |= {"$": r"\textdollar{}"}  # Matplotlib takes the backslash away from \$
_SPECIAL |= {"–": "--", "…": r"\ldots{}", "µ": r"$\mu$", "±": r"$\pm$", "×": r"$\times$"}
_SPECIAL |= {"→": r"$\to$", "≤": r"$\leq$", "∞": r"$\infty$", "†": r"$\dagger$"}
_SPECIAL |= {character: f"${character}$" for character in "|<>"}
_INDEX = re.compile(r"(?<![\w$\\])([A-Za-z])\\_(\w)(?!\w)")
_POWER = re.compile(r"(?<![\w.])([+-]?\d(?:\.\d+)?)e\+?(-?)0*(\d+)(?!\w)")


def latex(text: str) -> str:
    """Return LaTeX of a plain text: ``2.0e-05`` becomes a power of ten, ``z_0`` an index."""
    text = escape(text).replace(escape("|log|det||"), r"$|\log|\det||$")
    return _POWER.sub(r"$\1\\cdot 10^{\2\3}$", _INDEX.sub(r"$\1_\2$", text))


def escape(text: str) -> str:
    """Return LaTeX of a plain text without mathematics."""
    return printable(text).translate(str.maketrans(_SPECIAL))
