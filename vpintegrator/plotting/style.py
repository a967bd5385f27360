"""Style of figures, from Matplotlib's settings, and colour, line and marker of every method."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
from matplotlib.colors import to_hex, to_rgb

from vpintegrator.errors import InputError, nearest


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


_LONG = (0, (6, 1.8))
_DASH_DOT_DOT = (0, (4, 1.3, 1, 1.3, 1, 1.3))
# two of the same line differ in lightness, so that they differ in grey; no two markers are alike
LOOKS = (
    Look("#D55E00", "-", "o"),
    Look("#332288", "-", "P"),
    Look("#D98CB3", ":", "v"),
    Look("#882255", ":", "*"),
    Look("#E69F00", _DASH_DOT_DOT, "<"),
    Look("#8C3F99", _DASH_DOT_DOT, "p"),
    Look("#117733", _LONG, "h"),
    Look("#5A2D00", "-.", ">"),
    Look("#000000", "--", "d"),
    Look("#56B4E9", _LONG, "D"),
    Look("#009E73", "-.", "^"),
    Look("#0072B2", "--", "s"),
)
# a classical method takes this look in every rollout, or the next free one; others the last
_FAMILIES = {"rk4": 10, "stoermer-verlet": 9, "gauss-legendre-4": 8, "dormand-prince-8": 7}
_FAMILIES |= {"gauss-legendre-6": 6, "blanes-moan-4": 6, "blanes-moan-6": 5, "yoshida-4": 5}
_THICK = 1.6  # width of the line of a learned map
# colours of orbits beside one another, of any method
ORBIT_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255"]
ORBIT_COLOURS += ["#332288"]


def looks(methods: Iterable[tuple[str, str, str]]) -> dict[str, Look]:
    """Return the look of each run, given as name, ``learned`` or ``classical``, and method.

    Twelve methods have twelve looks. Learned models take theirs in the order given, a classical
    method the one of its family if it is free. Further dozens combine the colours with other lines
    and markers.
    """
    count = len(LOOKS)
    learned = "learned"
    result: dict[str, Look] = {}
    places: list[int] = []
    for number, (name, kind, method) in enumerate(methods):
        dozen = number // count
        first, way = (0, 1) if kind == learned else (_FAMILIES.get(method, count - 1), -1)
        order = ((first + way * k) % count for k in range(count))
        place = next(k for k in order if k not in places[dozen * count :])
        places.append(place)
        other = LOOKS[(place + 5 * dozen) % count]
        width = _THICK if kind == learned else other.width
        result[name] = replace(other, colour=LOOKS[place].colour, width=width)
    return result


# inches: widths of a figure in one column of a journal, and across a page
COLUMN = 3.4
PAGE = 7.0
LETTERS = 8.0  # points
_LINE = 1.1  # points
# inches
_NARROWEST = 2.0
_WIDEST = 40.0
_VISIBLE = 0.2  # least relative luminance of a line on a dark background
_BASE: Any = matplotlib.rc_params_from_file(
    Path(__file__).with_name("paper.mplstyle"), use_default_template=False
)


@dataclass(frozen=True)
class Style:
    """Widths, letters and colours of a set of figures.

    Attributes
    ----------
    settings
        Settings of Matplotlib that differ from those of the package.
    width
        Width of every figure in inches; None for each figure's own.
    letters
        Size of the letters in points.
    line
        Factor on the widths of all lines.
    background, foreground
        Colours of the paper and the letters.
    """

    settings: Any = ()
    width: float | None = None
    letters: float = LETTERS
    line: float = 1.0
    background: str = "#ffffff"
    foreground: str = "#000000"

    @classmethod
    def current(cls, **changes: Any) -> Style:
        """Return the style of Matplotlib's settings as they are, and of the ``changes``."""
        known: Any = matplotlib.rcParams
        letters = float(known["font.size"])
        line = float(known["lines.linewidth"]) / _LINE
        background = to_hex(known["axes.facecolor"])
        foreground = to_hex(known["text.color"])
        style = cls((), None, letters, line, background, foreground)
        return replace(style, **changes)

    @property
    def dark(self) -> bool:
        """Whether the background is darker than the lines."""
        return luminance(self.background) < luminance(self.foreground)

    @property
    def reference(self) -> str:
        """Grey of the reference solution."""
        return "0.62" if self.dark else "0.55"

    @property
    def em(self) -> float:
        """Size of the letters in inches."""
        return self.letters / 72

    @property
    def narrow(self) -> float:
        """Width of a figure of one panel, in inches."""
        return self.width or COLUMN

    @property
    def wide(self) -> float:
        """Width of a figure of several panels, in inches."""
        return self.width or PAGE

    @property
    def mark(self) -> float:
        """Size of the markers on lines, in points."""
        return 0.42 * self.letters

    def colour(self, colour: str) -> str:
        """Return a colour, mixed with white until it is visible on a dark background."""
        while self.dark and luminance(colour) < _VISIBLE:
            colour = mixed(colour, "white", 0.05)
        return colour

    def adapt(self, look: Look) -> Look:
        """Return a look with the line widths of this style, visible on its background."""
        return replace(look, colour=self.colour(look.colour), width=look.width * self.line)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply Matplotlib's settings within the block."""
        further: Any = {"text.usetex": False}  # names in a file must not reach TeX
        further |= {f"figure.constrained_layout.{side}_pad": 0.4 * self.em for side in "wh"}
        with matplotlib.rc_context(_BASE | dict(self.settings) | further):
            yield


PAPER = Style()


def find_style(
    style: str | os.PathLike[str] | None = None, width: str | float | None = None
) -> Style:
    """Return the style of a Matplotlib style, with all figures of one ``width`` if it is given.

    Parameters
    ----------
    style
        Path of a style file ``.mplstyle``, or the name of a style of Matplotlib, whose settings
        take the place of the package's own. A ``figure.figsize`` in it sets the width.
    width
        ``"column"``, ``"page"``, or inches.

    Raises
    ------
    InputError
        If there is no such style, or the width is none.
    """
    settings: Any = {}
    if style is not None:
        path = os.fspath(style)
        try:
            known = matplotlib.style.library
            settings = known.get(path) or matplotlib.rc_params_from_file(path, False, False)
        except (OSError, ValueError):
            words = f"'{path}' is neither a style file of Matplotlib nor one of its styles"
            raise InputError(f"style: {words}{nearest(path, known)}") from None
    with matplotlib.rc_context(_BASE | dict(settings)):
        inches = settings.get("figure.figsize", (None,))[0] if width is None else width
        return Style.current(settings=settings, width=None if inches is None else _inches(inches))


def _inches(width: str | float) -> float:
    with suppress(ValueError):
        inches = {"column": COLUMN, "page": PAGE}.get(str(width).lower()) or float(width)
        if _NARROWEST <= inches <= _WIDEST:
            return inches
    raise InputError(
        f"width: '{width}' is neither column nor page, nor a number of inches from "
        f"{_NARROWEST:g} to {_WIDEST:g}"
    )


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, from 0 for black to 1 for white (WCAG 2.1)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def mixed(colour: str, other: str, share: float) -> str:
    """Return a colour in which the other has a share."""
    pairs = zip(to_rgb(colour), to_rgb(other), strict=True)
    red, green, blue = ((1 - share) * first + share * added for first, added in pairs)
    return to_hex((red, green, blue))
