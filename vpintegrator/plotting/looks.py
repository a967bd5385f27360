"""Colour, line and marker of every method, the same in all figures.

Methods of one family share a colour and differ in line and marker. The first colours are Okabe and
Ito's (Color Universal Design, 2008); those of the methods that are most often drawn together stay
apart for colour-blind readers too. Learned models are drawn thicker and unbroken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vpintegrator.rollout import METHODS


@dataclass(frozen=True)
class Look:
    """Colour, line and marker of one method; ``line`` is a line style of Matplotlib."""

    colour: str
    line: Any
    marker: str
    width: float = 1.1

    def strokes(self, marker_size: float = 0.0) -> dict[str, Any]:
        """Return keywords of Matplotlib for a line, with markers of a size in points."""
        marker = self.marker if marker_size else ""
        line = {"color": self.colour, "ls": self.line, "lw": self.width}
        return {**line, "marker": marker, "ms": marker_size}


_DASH, _DASH_DOT, _DOT = "--", "-.", ":"
_LONG, _DASH_DOT_DOT = (0, (7, 2)), (0, (4, 1, 1, 1, 1, 1))

CLASSICAL = {
    "explicit-euler": Look("#5C3D0A", _DOT, "x"),
    "explicit-midpoint": Look("#8C6D46", _DASH_DOT, "<"),
    "heun": Look("#8C6D46", _DASH, ">"),
    "rk4": Look("#009E73", _DASH_DOT, "^"),
    "dormand-prince-8": Look("#009E73", _DOT, "*"),
    "implicit-midpoint": Look("#0072B2", _DASH, "s"),
    "gauss-legendre-2": Look("#0072B2", _DOT, "D"),
    "gauss-legendre-4": Look("#56B4E9", _DASH, "D"),
    "gauss-legendre-6": Look("#56B4E9", _DOT, "p"),
    "stoermer-verlet": Look("#E69F00", _DASH, "v"),
    "coordinate-splitting": Look("#332288", _DOT, "1"),
    "strang-splitting": Look("#332288", _DASH, "2"),
    "yoshida-4": Look("#7B61FF", _DASH, "h"),
    "yoshida-6": Look("#7B61FF", _DASH_DOT, "H"),
    "yoshida-8": Look("#7B61FF", _DOT, "8"),
    "blanes-moan-4": Look("#44AA99", _LONG, "d"),
    "blanes-moan-6": Look("#44AA99", _DOT, "*"),
    "boris": Look("#882255", _DASH, "3"),
    "rk45": Look("#000000", _DOT, "+"),
    "dop853": Look("#000000", _DASH, "x"),
    "radau": Look("#555555", _DASH_DOT, "+"),
    "lsoda": Look("#555555", _DASH_DOT_DOT, "x"),
    "dormand-prince-853": Look("#000000", _LONG, "*"),
}
# colours of methods without a name above, in turn; none is like one of those
OTHER = [
    Look(colour, line, marker)
    for line, marker in ((_LONG, "d"), (_DASH_DOT_DOT, "*"), (_DOT, "D"), (_DASH, "v"))
    for colour in ("#117733", "#999933", "#AA4499", "#CC6677")
]
# colours of orbits beside one another, for any method
ORBIT_COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#882255",
    "#332288",
)
LEARNED = [
    Look("#D55E00", "-", "o", 1.6),
    Look("#CC79A7", "-", "P", 1.6),
    Look("#B59A00", "-", "X", 1.6),
    Look("#4A4A00", "-", "8", 1.6),
    Look("#000000", "-", "s", 1.6),
    Look("#7A0F5B", "-", "^", 1.6),
]


def looks(methods: Iterable[tuple[str, str, str]]) -> dict[str, Look]:
    """Return the line style of each run, given as name, ``learned`` or ``classical``, and method.

    A classical method has one look, whatever it is drawn with; learned models take theirs in the
    order given, as their names are their users' own.
    """
    result, learned = {}, 0
    others = [name for name in METHODS if name not in CLASSICAL]
    for name, kind, method in methods:
        if kind == "learned":
            result[name] = LEARNED[learned % len(LEARNED)]
            learned += 1
        elif method in CLASSICAL:
            result[name] = CLASSICAL[method]
        else:
            if method not in others:  # a method in a file of another version
                others.append(method)
            result[name] = OTHER[others.index(method) % len(OTHER)]
    return result
