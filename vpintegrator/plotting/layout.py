"""Layout of figures in em: declaration, panels in a width, and a legend below."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath

from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import ORBIT_COLOURS, Style
from vpintegrator.plotting.views import orbit_colours

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class FigureDeclaration(Generic[Subject]):
    """Figure of a scene, which shows a rollout or a model.

    Attributes
    ----------
    name
        Name of the figure, its files and its caption.
    draw
        Function that draws the figure.
    caption
        Function that returns sentences in plain text, with numbers like ``1.2e-05``.
    applies
        Whether the scene has something to show. A measurement may be missing from a file, for some
        methods or for all. Then ``lambda scene: bool(scene.measured(name))`` is the condition, and
        the figure draws the values of ``scene.measured(name)``.
    whole
        Whether the figure shows the whole rollout, whose time and step the caption gives.
    """

    name: str
    draw: Callable[[Subject], matplotlib.figure.Figure]
    caption: Callable[[Subject], Iterable[str]]
    applies: Callable[[Subject], bool] = lambda _: True
    whole: bool = True


ROW = 1.55  # em: height of a row
_LINE, _PAD, _GAP = 2.6, 0.5, 0.9  # em: line beside a title of the legend, space, and between both


def entry(label: str, **look: Any) -> Line2D:
    """Return an entry of a legend."""
    return Line2D([], [], label=label, **look)


def legend_lines(scene: Scene, marked: bool = True) -> list[Line2D]:
    """Return one legend entry for each method."""
    return [
        entry(
            scene.legend_title(name),
            **look.strokes(marker_size(scene) if marked else 0.0),
        )
        for name, look in scene.looks.items()
    ]


def reference_line(scene: Scene, **look: Any) -> list[Line2D]:
    """Return the legend entry of the reference, if there is one."""
    if not scene.referenced:
        return []
    style = scene.style
    look = {"lw": 2.4 * style.line, "alpha": 0.5, "color": style.reference} | look
    return [entry("reference", **look)]


def orbit_legend(scene: Scene, orbits: Collection[int] | None = None) -> list[Line2D]:
    """Return the colours of some orbits, by default all; none if there are too many, or one."""
    count = len(scene.report.reference)
    orbits = range(count) if orbits is None else orbits
    if not len(orbits) > 1 or count > len(ORBIT_COLOURS):
        return []
    look: dict[str, Any] = {"ls": "", "marker": "o", "ms": marker_size(scene)}
    colours = orbit_colours(count, scene.style)
    return [entry(f"orbit {k + 1}", color=colours[k], **look) for k in orbits]


def marker_size(scene: Scene) -> float:
    """Return the size of the markers on lines, in points."""
    return 0.42 * scene.style.letters


_MARKS = 4  # on a line
_PORTRAIT, _SMALL, _CURVES = 12.5, 9.8, 24  # em: least widths of panels
PORTRAIT_COLUMNS, _MANY, _ROWS = 4, 12, 3


def columns_that_fit(style: Style, width: float, panel: float) -> int:
    """Return the number of panels, at least ``panel`` em wide, that fit in ``width`` inches."""
    return max(1, int(width / (panel * style.em)))


def grid_of_portraits(style: Style, count: int) -> tuple[int, int]:
    """Return columns and rows for a number of portraits; for many, rows of more and smaller."""
    most = PORTRAIT_COLUMNS if count <= _MANY else PORTRAIT_COLUMNS + 1
    columns = min(count, most, columns_that_fit(style, style.wide, _PORTRAIT))
    if count > _ROWS * columns:
        columns = min(most, columns_that_fit(style, style.wide, _SMALL))
    rows = -(-count // columns)
    return -(-count // rows), rows


def width_of_portraits(style: Style, columns: int) -> float:
    """Return the width in inches of a figure of so many portraits in a row."""
    return style.wide * (max(columns / 3, 0.5) if columns < 3 and style.width is None else 1)


def panels_of_portraits(
    style: Style,
    names: Collection[str],
    draw: Callable[[Axes, str], None],
    further: float,
    legend: Sequence[Line2D],
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a portrait for each name, with labels at its left and lower edge."""
    columns, rows = grid_of_portraits(style, len(names))
    width = width_of_portraits(style, columns)
    row = 0.9 * width / style.em / columns + 2
    figure, panels = draw_panels(style, names, draw, columns, width, row, further, legend)
    for place, axes in enumerate(panels):
        hide_inner_labels(axes, place, columns, rows)
    return figure, panels


def panels_of_curves(
    style: Style,
    names: Collection[str],
    draw: Callable[[Axes, str], None],
    height: float,
    legend: Sequence[Line2D],
) -> Figure:
    """Return a figure with a panel for each name, ``height`` em high, in up to two columns."""
    width = style.narrow if len(names) == 1 else style.wide
    columns = min(len(names), 2, columns_that_fit(style, width, _CURVES))
    return draw_panels(style, names, draw, columns, width, height, legend=legend)[0]


def draw_panels(
    style: Style,
    names: Collection[str],
    draw: Callable[[Axes, str], None],
    columns: int,
    width: float,
    row: float,
    further: float = 0.0,
    legend: Sequence[Line2D] = (),
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel for each name in rows of ``columns``, and its panels.

    Parameters
    ----------
    style
        Style of the figure.
    names, draw
        Names of the panels, and the function that draws the panel of a name.
    columns
        Panels in a row.
    width
        Width of the figure in inches.
    row, further
        Height of a row, and of what else there is besides the legend, in em.
    legend
        Entries of the legend below.
    """
    rows = -(-len(names) // columns)
    figure = new_figure(style, width, row * rows + further, legend)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, name in zip(panels, names, strict=False):
        draw(axes, name)
    hide_unused(panels, len(names))
    return figure, panels[: len(names)]


def legend_shape(style: Style, width: float, legend: Sequence[Line2D]) -> tuple[int, int]:
    """Return rows and columns of a legend below a figure ``width`` inches wide."""
    paths = [TextPath((0, 0), str(line.get_label()).strip() or "-", size=1) for line in legend]
    sizes = np.array([path.get_extents().width for path in paths])
    for rows in range(1, len(legend)):
        columns = -(-len(legend) // rows)
        parts = np.array_split(sizes, columns)  # as Matplotlib fills the columns
        words = sum(part.max() for part in parts)
        if words + (_LINE + _PAD + _GAP) * columns + 1 < width / style.em:
            return rows, columns
    return len(legend), 1


def new_figure(style: Style, width: float, height: float, legend: Sequence[Line2D] = ()) -> Figure:
    """Return a figure ``width`` inches wide, with ``height`` em for panels and a legend below."""
    rows, columns = legend_shape(style, width, legend)
    size = width, style.em * (height + ROW * rows)
    figure = Figure(figsize=size, layout="constrained")
    if rows:
        figure.legend(
            handles=list(legend),
            loc="outside lower center",
            ncols=columns,
            handlelength=_LINE,
            handletextpad=_PAD,
            columnspacing=_GAP,
        )
    return figure


def colour_bar(
    figure: Figure, image: Any, panels: Any, label: str, style: Style, **at: Any
) -> None:
    """Draw the scale of an image beside panels, with a thin frame."""
    bar = figure.colorbar(image, ax=panels, label=label, pad=0.02, **at)
    bar.outline.set_linewidth(0.4 * style.line)


def hide_inner_labels(axes: Axes, place: int, columns: int, rows: int) -> None:
    """Hide axis labels in a grid with shared limits, except in the left column and lowest row."""
    if place % columns:
        axes.set_ylabel("")
        axes.tick_params(labelleft=False)
    if place // columns < rows - 1:
        axes.set_xlabel("")
        axes.tick_params(labelbottom=False)


def hide_unused(panels: Sequence[Axes], used: int) -> None:
    """Empty the panels of a grid beyond the first ``used``."""
    for axes in panels[used:]:
        axes.axis("off")


def marks(scene: Scene, name: str, times: np.ndarray, logarithmic: bool) -> dict[str, Any]:
    """Return markers on a method's line through times, at other places than other methods."""
    place = (list(scene.looks).index(name) + 0.5) / len(scene.looks)
    along = np.log(np.maximum(times, times[1] / 2)) if logarithmic and len(times) > 1 else times
    wanted = (np.arange(_MARKS) + place) / _MARKS
    where = along[0] + (along[-1] - along[0]) * wanted if len(along) else along
    indices = np.clip(np.searchsorted(along, where), 0, max(len(along) - 1, 0))
    return {
        "marker": scene.looks[name].marker,
        "ms": marker_size(scene),
        "markevery": sorted({int(index) for index in indices}),
    }
