"""Legend below a figure, with headings for learned, classical and exact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from vpintegrator.plotting.looks import ORBIT_COLOURS
from vpintegrator.plotting.orbits import orbit_colours
from vpintegrator.plotting.scene import Scene

ROW = 1.55  # em: height of a row
_HANDLE = 4.3  # em: the piece of line beside a title, and the space around both
_LETTER = 0.55  # em: mean width of a letter in a legend
_TALLEST = 8  # rows of one column with all groups, where these do not fit side by side


class LegendEntry(Line2D):
    """A line of the legend, which stands under the word ``group``."""

    def __init__(self, label: str, group: str, **look: Any) -> None:
        super().__init__([], [], label=label, **look)
        self.group = group


def legend_lines(scene: Scene, marked: bool = True) -> list[LegendEntry]:
    """Return one legend entry for each method."""
    return [
        LegendEntry(
            scene.legend_title(name),
            scene.runs[name].kind,
            **look.strokes(marker_size(scene) if marked else 0.0),
        )
        for name, look in scene.looks.items()
    ]


def reference_line(scene: Scene, **look: Any) -> list[LegendEntry]:
    """Return the legend entry of the reference, if there is one."""
    if not scene.referenced:
        return []
    style = scene.style
    group = "given" if scene.report.is_reference_given else "exact"
    look = {"lw": 2.4 * style.line, "alpha": 0.5, "color": style.reference} | look
    return [LegendEntry("reference", group, **look)]


def orbit_legend(scene: Scene) -> list[LegendEntry]:
    """Return the colours of single orbits, none if there are too many."""
    count = len(scene.report.reference)
    if not 1 < count <= len(ORBIT_COLOURS):
        return []
    look: dict[str, Any] = {"ls": "", "marker": "o", "ms": marker_size(scene)}
    return [
        LegendEntry(f"orbit {k + 1}", "orbits", color=colour, **look)
        for k, colour in enumerate(orbit_colours(count, scene.style))
    ]


def marker_size(scene: Scene) -> float:
    """Return the size of the markers on lines, in points."""
    return 0.42 * scene.style.letters


class Legend:
    """Lines in columns, each group under its heading if ``width`` em have room for that.

    Attributes
    ----------
    rows
        Their number, with that of the words.
    """

    def __init__(self, lines: Sequence[LegendEntry], width: float) -> None:
        columns = _grouped(lines, width)
        self.rows = max(map(len, columns), default=0)
        self._columns = columns

    def draw(self, figure: Figure | SubFigure) -> None:
        """Draw the legend below everything else."""
        if not self.rows:
            return
        filled = [
            line
            for column in self._columns
            for line in (*column, *[_word("") for _ in range(self.rows - len(column))])
        ]
        legend = figure.legend(
            handles=filled,
            loc="outside lower center",
            ncols=len(self._columns),
            handlelength=3.0,
            handletextpad=0.6,
            columnspacing=1.0,
        )
        for line, text in zip(filled, legend.get_texts(), strict=True):
            if not line.group:
                text.set_fontweight("bold")


def _grouped(lines: Sequence[LegendEntry], width: float) -> list[list[LegendEntry]]:
    """Return the columns of a legend, from left to right."""
    groups: dict[str, list[LegendEntry]] = {}
    for line in lines:
        groups.setdefault(line.group, []).append(line)
    if len(groups) > 1:
        for rows in range(1, max(map(len, groups.values())) + 1):
            columns = [
                [_word(word if part == 0 else ""), *group[part : part + rows]]
                for word, group in groups.items()
                for part in range(0, len(group), rows)
            ]
            if sum(_width(column) for column in columns) <= width:
                return columns
        if len(lines) + len(groups) <= _TALLEST:
            return [[e for word, group in groups.items() for e in (_word(word), *group)]]
    return _even(lines, width)


def _even(lines: Sequence[LegendEntry], width: float) -> list[list[LegendEntry]]:
    """Return columns of one height, without headings; as few as these rows need."""
    if not lines:
        return []
    fit = max(1, int(width / _width(lines)))
    rows = -(-len(lines) // fit)
    columns = -(-len(lines) // rows)
    rows = -(-len(lines) // columns)
    return [list(lines[k : k + rows]) for k in range(0, len(lines), rows)]


def _width(column: Iterable[Line2D]) -> float:
    """Return the width of a column in em."""
    return _HANDLE + _LETTER * max(len(str(line.get_label())) for line in column)


def _word(word: str) -> LegendEntry:
    """Return a legend entry without a line."""
    return LegendEntry(word, "", ls="none")
