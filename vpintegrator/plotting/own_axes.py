"""Shared code of the functions that draw a single panel into Axes of the caller.

Fonts and colours follow the Axes and Matplotlib's settings; a method keeps its colour, line and
marker. The label of every line is the method, so that ``ax.legend()`` names the methods.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import matplotlib
from matplotlib.colors import to_hex

from vpintegrator.arguments import of_kind
from vpintegrator.errors import InputError
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import PAPER, Style
from vpintegrator.rollout import Report, open_rollout

_HEIGHT = 0.75  # height of a single panel, relative to its width
_WORDS = {
    "{report}": "report\n        A report, or the path of a rollout file.",
    "{ax}": "ax\n        Matplotlib's Axes; a new figure if None.\n\n"
    "    Returns\n    -------\n    matplotlib.axes.Axes\n        ``ax``.",
}
Rollout = Report | str | os.PathLike[str]
Function = TypeVar("Function", bound=Callable[..., Any])


def takes_axes(function: Function) -> Function:
    """Write out, in its docstring, the arguments that all functions of a panel share."""
    for mark, words in _WORDS.items():
        function.__doc__ = (function.__doc__ or "").replace(mark, words)
    return function


def own_scene(report: Rollout, ax: Any) -> Scene:
    """Return the scene of a rollout in the style of given Axes, or of new Axes if None.

    Raises
    ------
    InputError
        If the file is no rollout.
    """
    if not isinstance(report, Report):
        kinds, words = (str, os.PathLike), "a report, or the path of a rollout file"
        report = open_rollout(of_kind("report", report, kinds, words))
    return Scene(report, own_style(ax))


def own_style(ax: Any) -> Style:
    """Return a style with the font size and colours of given Axes, or of new Axes if None."""
    letters = float(matplotlib.rcParams["font.size"])
    background = matplotlib.rcParams["axes.facecolor"] if ax is None else ax.get_facecolor()
    return replace(
        PAPER,
        name="own",
        letters=letters,
        line=letters / PAPER.letters,
        background=to_hex(background),
        foreground=to_hex(matplotlib.rcParams["text.color"]),
    )


def drawn_into(
    ax: Any, draw: Callable[..., None], *arguments: Any, projection: str | None = None
) -> Any:
    """Call ``draw(ax, *arguments)`` and return the Axes, in a new figure if ``ax`` is None."""
    if ax is None:
        from matplotlib import pyplot

        size = (PAPER.column * 1.4, PAPER.column * 1.4 * _HEIGHT)
        figure = pyplot.figure(figsize=size, layout="constrained")
        ax = figure.add_subplot(projection=projection)
    draw(ax, *arguments)
    return ax


def choose(what: str, name: str, names: Iterable[str]) -> None:
    """Refuse a name that is none of the names."""
    if name not in names:
        raise InputError(f"{what}: '{name}' is none of {', '.join(names)}")
