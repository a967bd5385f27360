"""Style of figures on paper and on slides, and colour, line and marker of every method."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
from matplotlib.colors import to_hex, to_rgb

from vpintegrator.errors import InputError
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


_NARROWEST, _WIDEST = 2.0, 40.0  # inches
_DARK = "#15181d"
_VISIBLE = 0.2  # least relative luminance of a line on the dark background


@dataclass(frozen=True)
class Style:
    """Widths, letters and colours of a set of figures.

    Attributes
    ----------
    name
        ``paper``, ``talk`` or ``dark``.
    column, page
        Widths in inches of a narrow and of a wide figure.
    letters
        Size of the letters in points.
    line
        Factor on the widths of all lines.
    dots_per_inch
        Resolution of PNG files, and of the clouds of dots inside PDF files.
    background, foreground, grid, reference
        Colours of the paper, the letters, the grid and the reference solution.
    ball
        Greys of the shaded and the lit side of a sphere.
    width
        Width of every figure in inches; None for each figure's own.
    """

    name: str
    column: float
    page: float
    letters: float
    line: float
    dots_per_inch: int
    background: str = "white"
    foreground: str = "black"
    grid: str = "0.9"
    reference: str = "0.55"
    ball: tuple[float, float] = (0.80, 0.99)
    width: float | None = None

    @property
    def dark(self) -> bool:
        """Whether the background is darker than the lines."""
        return luminance(self.background) < luminance(self.foreground)

    @property
    def em(self) -> float:
        """Size of the letters in inches."""
        return self.letters / 72

    @property
    def narrow(self) -> float:
        """Width of a figure of one panel, in inches."""
        return self.width or self.column

    @property
    def wide(self) -> float:
        """Width of a figure of several panels, in inches."""
        return self.width or self.page

    def adapt(self, look: Look) -> Look:
        """Return a line style with the line widths of this style, visible on its background."""
        colour = _lightened(look.colour) if self.dark else look.colour
        return replace(look, colour=colour, width=look.width * self.line)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply Matplotlib's settings within the block."""
        with matplotlib.rc_context(self._parameters()):
            yield

    def _parameters(self) -> Any:
        letters, line = self.letters, self.line
        colours = dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"),
            self.foreground,
        )
        widths = {
            "axes.linewidth": 0.6,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "xtick.minor.width": 0.4,
            "ytick.minor.width": 0.4,
            "grid.linewidth": 0.5,
            "lines.linewidth": 1.1,
        }
        return {
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],  # comes with Matplotlib: the same everywhere
            "font.size": letters,
            "axes.titlesize": 1.05 * letters,
            "axes.labelsize": letters,
            "xtick.labelsize": 0.88 * letters,
            "ytick.labelsize": 0.88 * letters,
            "legend.fontsize": 0.92 * letters,
            "legend.frameon": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": self.grid,
            "figure.facecolor": self.background,
            "axes.facecolor": self.background,
            "savefig.facecolor": self.background,
            "savefig.dpi": self.dots_per_inch,
            "pdf.fonttype": 42,  # embedded as TrueType, which journals ask for
            "svg.hashsalt": "vpintegrator",  # or the names in it are random
            "axes.formatter.useoffset": False,
            "figure.constrained_layout.w_pad": 0.4 * self.em,
            "figure.constrained_layout.h_pad": 0.4 * self.em,
            **colours,
            **{key: line * width for key, width in widths.items()},
        }


PAPER = Style("paper", column=3.4, page=7.0, letters=8, line=1.0, dots_per_inch=300)
TALK = Style("talk", column=6.0, page=12.0, letters=15, line=1.8, dots_per_inch=160)
DARK = replace(
    TALK,
    name="dark",
    background=_DARK,
    foreground="0.92",
    grid="0.24",
    reference="0.62",
    ball=(0.14, 0.34),
)
STYLES = {style.name: style for style in (PAPER, TALK, DARK)}


def find_style(name: str = "paper", width: str | float | None = None) -> Style:
    """Return the style of a name, with all figures of one ``width`` if it is given.

    Parameters
    ----------
    name
        ``paper``, ``talk`` or ``dark``.
    width
        ``"column"``, ``"page"``, or inches.

    Raises
    ------
    InputError
        If there is no such style, or the width is none.
    """
    if name not in STYLES:
        raise InputError(f"style: '{name}' is none of {', '.join(STYLES)}")
    style = STYLES[name]
    if width is None:
        return style
    named = {"column": style.column, "page": style.page}
    inches = named.get(str(width).lower())
    if inches is None:
        try:
            inches = float(width)
        except ValueError:
            inches = float("nan")
        if not _NARROWEST <= inches <= _WIDEST:
            raise InputError(
                f"width: '{width}' is neither column nor page, nor a number of inches from "
                f"{_NARROWEST:g} to {_WIDEST:g}"
            )
    return replace(style, width=inches)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, from 0 for black to 1 for white (WCAG 2.1)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _lightened(colour: str) -> str:
    """Return the same hue, visible on a dark background; greys are inverted."""
    red, green, blue = to_rgb(colour)
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    if saturation < 0.05:
        return to_hex((1 - red, 1 - green, 1 - blue))
    while luminance(to_hex(colorsys.hls_to_rgb(hue, lightness, saturation))) < _VISIBLE:
        lightness += 0.01
    return to_hex(colorsys.hls_to_rgb(hue, lightness, saturation))
