"""Base classes of figures: size, legend and caption, and single panels in Axes of the caller.

A figure is a class with its data, its drawing and the sentences of its caption. Sentences are plain
text with numbers like ``1.2e-05``, the most important ones first: a caption has as many as fit into
five lines.
"""

from __future__ import annotations

import os
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D

from vpintegrator.errors import printable
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import COLUMN, ORBIT_COLOURS, Style
from vpintegrator.plotting.tables import (
    attention_changes,
    departures,
    reference,
    size,
    value_text,
)
from vpintegrator.plotting.text import capital, grouped, listed, markdown, orbits, plain, shortened
from vpintegrator.plotting.views import orbit_colours
from vpintegrator.rollout import Report, open_rollout

# of a caption, and of a line
LINES = 5
_LETTERS = 100
_SPACE = "\0"  # a space at which no line may end
ROW = 1.55  # em: height of a row of the legend
_MARGIN = 0.6  # em beside a legend
_LEGEND: dict[str, Any] = {  # em
    "loc": "outside lower center",
    "handlelength": 2.6,
    "handletextpad": 0.5,
    "columnspacing": 0.9,
}


class Figure(ABC):
    """A figure of a scene.

    Attributes
    ----------
    name
        Name of the figure, its files and its caption.
    on_request
        Whether it is drawn only where it is named.
    scene, style
        What is drawn, and the style of the figures.
    """

    name: ClassVar[str]
    on_request: ClassVar[bool] = False

    def __init__(self, scene: Any) -> None:
        self.scene = scene
        self.style = scene.style

    def applies(self) -> bool:
        """Whether the scene has something to show."""
        return True

    @abstractmethod
    def draw(self) -> MplFigure:
        """Draw the figure."""

    @abstractmethod
    def sentences(self) -> Iterable[str]:
        """Return the sentences of the caption; an empty one is left out."""

    def opening(self) -> str:
        """Return the sentence that all figures of a kind begin with."""
        return ""

    def caption(self) -> str:
        """Return the caption, at most five lines."""
        text = ""
        for sentence in [self.opening(), *self.sentences()]:
            longer = f"{text} {printable(sentence)}".strip()
            if len(_wrapped(longer)) <= LINES:
                text = longer
        return text

    def columns(self, panel: float, width: float | None = None) -> int:
        """Return the number of panels, at least ``panel`` em wide, that fit in ``width`` inches.

        The width is by default that of a figure of several panels.
        """
        return max(1, int((width or self.style.wide) / (panel * self.style.em)))

    def new(self, width: float, height: float, legend: Sequence[Line2D] = ()) -> MplFigure:
        """Return a figure ``width`` inches wide, ``height`` em for panels, and a legend below."""
        rows = self.legend_rows(width, legend)
        size = width, self.style.em * (height + ROW * rows)
        figure = MplFigure(figsize=size, layout="constrained")
        if legend:
            figure.legend(handles=list(legend), ncols=-(-len(legend) // rows), **_LEGEND)
        return figure

    def legend_rows(self, width: float, legend: Sequence[Line2D]) -> int:
        """Return the rows of a legend below a figure ``width`` inches wide."""
        blank = MplFigure(figsize=(width, 1), dpi=600)  # widths are rounded to pixels
        for rows in range(1, len(legend)):
            drawn = blank.legend(handles=list(legend), ncols=-(-len(legend) // rows), **_LEGEND)
            margin = _MARGIN * self.style.em * blank.dpi
            if drawn.get_window_extent().width < blank.bbox.width - margin:
                return rows
        return len(legend)

    def title(self, figure: MplFigure, title: str) -> None:
        """Write the title of the whole figure, in as many lines as its width takes."""
        size = 1.05 * self.style.letters
        figure.suptitle(in_lines(title, figure.get_figwidth(), fontsize=size), fontsize=size)


def in_lines(text: str, width: float, **font: Any) -> str:
    """Return a text with line breaks between words, so that it fits ``width`` inches.

    A word that is too long by itself loses its middle. Formulas are words, however many spaces they
    hold.

    Parameters
    ----------
    text
        A text of Matplotlib, in which a dollar sign by itself is escaped.
    width
        Width of the figure in inches.
    font
        Properties of the letters, as Matplotlib's ``text`` takes them.
    """
    blank = MplFigure(figsize=(1, 1), dpi=600)  # widths are rounded to pixels
    most = 600 * width - 2 * _MARGIN * font["fontsize"] * 600 / 72

    def fits(words: str) -> bool:
        return bool(blank.text(0, 0, words, **font).get_window_extent().width <= most)

    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for word in re.findall(r"(?:\\.|\$(?:\\.|[^$\\])*\$|\S)+", paragraph):
            if line and fits(f"{line} {word}"):
                line = f"{line} {word}"
                continue
            longest = len(word)
            while not fits(word) and "$" not in word and longest > 3:
                longest -= 2
                word = shortened(word, longest)
            lines += [line] if line else []
            line = word
        lines.append(line)
    return "\n".join(lines)


def hide_inner_labels(axes: Axes, place: int, columns: int, rows: int) -> None:
    """Hide axis labels in a grid with shared limits, except in the left column and lowest row."""
    if place % columns:
        axes.set_ylabel("")
        axes.tick_params(labelleft=False)
    if place // columns < rows - 1:
        axes.set_xlabel("")
        axes.tick_params(labelbottom=False)


def markdown_paragraphs(texts: Mapping[str, str]) -> str:
    """Return captions, each under its figure's name, in lines of at most 100 characters."""
    wrapped = {name: "\n".join(_wrapped(text)) for name, text in texts.items()}
    return "\n".join(f"## {name}\n\n{text}\n" for name, text in wrapped.items())


def _wrapped(text: str) -> list[str]:
    """Return the lines of a paragraph of Markdown; none begins like a list or a heading."""
    kept = re.sub(r" (?=(?:\d+[.)]|[-+*#>=]+)(?: |$))", _SPACE, markdown(text))
    lines = textwrap.wrap(kept, _LETTERS, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_SPACE, " ") for line in lines]


# em: least widths of panels
_PORTRAIT = 12.5
_SMALL = 9.8
_COLUMNS = 4
_MANY = 12
_ROWS = 3
_TITLE = 18  # letters in a line above a panel
_LISTED = 3  # methods whose numbers a caption gives one by one
_SYSTEM = 60  # letters of a system's title
CURVES = "curves are medians over the seeds, in a band of all"
TYPICAL = "orbits are of the median seed"


class RolloutFigure(Figure):
    """A figure of a comparison, with legends of the methods and sentences on them.

    Attributes
    ----------
    scene, report, runs
        The comparison made ready for drawing, its report, and the methods drawn. A measurement may
        be missing from a file, for some methods or for all: then ``scene.measured(name)``, the
        values by method, is empty, and the figure does not apply.
    style
        Style of the figures.
    whole
        Whether the figure shows the whole rollout, whose time and step the caption gives.

    Examples
    --------
    >>> class Sizes(vp.plotting.RolloutFigure):
    ...     name = "sizes"
    ...     def draw(self):
    ...         figure = self.new(self.style.narrow, 20, self.legend())
    ...         axes = figure.subplots()
    ...         for name, run in self.runs.items():
    ...             sizes = np.abs(run.states).max(axis=(0, 2))
    ...             axes.plot(self.report.times, sizes, **self.scene.looks[name].strokes())
    ...         return figure
    ...     def sentences(self):
    ...         return ["Largest component of any orbit."]
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> paths = vp.draw(report, "own", ["png"], figures=[Sizes], overwrite=True)
    >>> [path.name for path in paths]
    ['sizes.png', 'sizes.md']
    """

    scene: Scene
    whole: ClassVar[bool] = True

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.report = scene.report
        self.runs = scene.runs

    def legend(self, marked: bool = True) -> list[Line2D]:
        """Return one legend entry for each method."""
        mark = self.style.mark if marked else 0.0
        return [
            Line2D([], [], label=self.scene.legend_title(name), **look.strokes(mark))
            for name, look in self.scene.looks.items()
        ]

    def reference_line(self, look: Mapping[str, Any] = {}) -> list[Line2D]:
        """Return the legend entry of the reference, if there is one."""
        line = {"lw": 2.4 * self.style.line, "alpha": 0.5, "color": self.style.reference, **look}
        return [Line2D([], [], label="reference", **line)] * self.scene.referenced

    def orbit_legend(self, shown: Collection[int]) -> list[Line2D]:
        """Return the colours of orbits; none if there are too many, or one."""
        count = len(self.report.reference)
        if len(shown) < 2 or count > len(ORBIT_COLOURS):
            return []
        colours = orbit_colours(count, self.style)
        look: dict[str, Any] = {"ls": "", "marker": "o", "ms": self.style.mark}
        return [Line2D([], [], label=f"orbit {k + 1}", color=colours[k], **look) for k in shown]

    def title_panel(self, axes: Axes, name: str) -> None:
        """Write the title of a method in short lines, one of them if part of it diverged."""
        lines = [name]
        scene = self.scene
        if name in scene.looks:
            words = textwrap.wrap(shortened(self.runs[name].title), _TITLE)
            lines = [*map(plain, words), scene.diverged(name)]
        title = "\n".join(filter(None, lines))
        axes.set_title(title, color=scene.colour(name), size=0.9 * self.style.letters)

    def grid(self, count: int) -> tuple[int, int]:
        """Return columns and rows for a number of portraits; for many, rows of more and smaller."""
        most = _COLUMNS if count <= _MANY else _COLUMNS + 1
        columns = min(count, most, self.columns(_PORTRAIT))
        if count > _ROWS * columns:
            columns = min(most, self.columns(_SMALL))
        rows = -(-count // columns)
        return -(-count // rows), rows

    def portraits(
        self,
        draw: Callable[..., None],
        names: Collection[str],
        blocks: Sequence[tuple[Any, ...]] = ((),),
        further: float = 0.0,
        legend: Sequence[Line2D] = (),
        shape: float = 0.9,
        projection: str | None = None,
    ) -> MplFigure:
        """Return a figure with a portrait for each name, with labels at the left and lower edge.

        Parameters
        ----------
        draw
            Function of Axes, a name, and what is in a block.
        names, blocks
            The portraits; each block has one of every name.
        further
            Height besides the portraits and the legend in em.
        legend
            Entries of the legend below.
        shape
            Height of a portrait in units of its width.
        projection
            Projection of the Axes.
        """
        columns, rows = self.grid(len(names))
        width = self.style.wide
        if columns < 3 and self.style.width is None:
            width *= max(columns / 3, 0.5)
        row = shape * width / self.style.em / columns + 2
        figure = self.new(width, len(blocks) * rows * row + further, legend)
        for above, block in enumerate(blocks):
            for k, name in enumerate(names):
                place = above * rows * columns + k + 1
                grid = len(blocks) * rows, columns, place
                axes = figure.add_subplot(*grid, projection=projection)
                draw(axes, name, *block)
                if projection is None:
                    hide_inner_labels(axes, k, columns, rows)
        return figure

    def opening(self) -> str:
        """Return a sentence on the system and the initial states, and time and step of a whole."""
        report = self.report
        origin = "given initial data"
        if report.seed is not None:
            origin = f"random initial data (seed {report.seed})"
        stored = f", one in {grouped(report.every)} stored" if report.every > 1 else ""
        time = f" to t = {grouped(report.times[-1])} with step {report.step:g}{stored}" * self.whole
        count = orbits(len(report.reference))
        some = [shortened(run.title) for run in self.runs.values() if run.is_complete]
        start = "starts" if len(some) == 1 else "start"
        whole = f" {listed(some)} {start} from complete states." if some else ""
        return f"{shortened(report.system.title, _SYSTEM)}: {count} from {origin}{time}.{whole}"

    def by_method(self, values: Mapping[str, float], form: Callable[[float], str] = size) -> str:
        """Return ``1.0e-03 (RK4) and 2.0e-05 (vpt)``; for many methods, the least and the largest.

        ``form`` gives the text of a value.
        """
        parts = {n: f"{form(v)} ({shortened(self.runs[n].title)})" for n, v in values.items()}
        if len(parts) <= _LISTED:
            return listed(list(parts.values()))
        ranked = sorted(values, key=lambda name: abs(values[name]))
        return f"from {parts[ranked[0]]} to {parts[ranked[-1]]}"

    def column(self, title: str, names: Collection[str] | None = None) -> str:
        """Return the values of a column of the table by method, in its words; empty for none.

        Captions take the numbers of the table from here, so that both say the same.
        """
        column = next((each for each in self.report.columns if each.title == title), None)
        if column is None:
            return ""
        values = {
            name: value for name, value in self.report.values(title).items() if value == value
        }
        values = {name: value for name, value in values.items() if names is None or name in names}
        return self.by_method(values, lambda value: value_text(column, value, self.report))

    def reference(self) -> str:
        """Return a sentence on the reference."""
        return f"{capital(reference(self.report))}."

    def long_steps(self, comma: str = ";") -> str:
        """Return words on what is drawn between states if there are few steps in a turn."""
        dots = " methods as dots, a step apart, and" if self.scene.coarse else ""
        curve = "the exact solution" if self.scene.solved else "straight lines"
        words = f"{comma}{dots} between the reference's states {curve}"
        return words if self.scene.pieces > 1 else ""

    def events(self, shown: str = TYPICAL) -> list[str]:
        """Return sentences on what is shown of models of one name, and on methods that diverged."""
        several = listed([shortened(run.title) for run in self.runs.values() if run.seeds])
        times = {name: self.scene.first_failure(name) for name in self.runs}
        failed = {name: time for name, time in times.items() if np.isfinite(time)}
        mark = " (crosses)" if CURVES in shown else ""
        first = self.by_method(failed, "first at t = {:.4g}".format)
        seeds = f"Of {several} {shown}." if several else ""
        return [seeds, f"Diverged{mark}: {first}." if failed else ""]

    def notes(self) -> list[str]:
        """Return sentences on attention and the training domain."""
        return [attention_changes(self.runs.values()), departures(self.report)]

    def closing(self) -> list[str]:
        """Return sentences on divergences, the reference, and the training domain."""
        return [*self.events(), self.reference(), *self.notes()]


Rollout = Report | str | os.PathLike[str]
_HEIGHT = 0.75  # height of a single panel, relative to its width


def own_scene(report: Rollout, ax: Any) -> Scene:
    """Return the scene of a rollout in the style of given Axes, or of new Axes if None.

    Raises
    ------
    InputError
        If the file is no rollout.
    """
    report = report if isinstance(report, Report) else open_rollout(report)
    return Scene(report, own_style(ax))


def own_style(ax: Any) -> Style:
    """Return a style with the font size and colours of given Axes, or of new Axes if None."""
    return Style.current() if ax is None else Style.current(background=to_hex(ax.get_facecolor()))


def drawn_into(
    ax: Any, draw: Callable[..., Any], *arguments: Any, projection: str | None = None
) -> Any:
    """Call ``draw(ax, *arguments)`` and return the Axes, in a new figure if ``ax`` is None."""
    if ax is None:
        from matplotlib import pyplot

        size = (1.4 * COLUMN, 1.4 * COLUMN * _HEIGHT)
        ax = pyplot.figure(figsize=size, layout="constrained").add_subplot(projection=projection)
    draw(ax, *arguments)
    return ax
