"""Figures of a study: errors against what varies, the time of training, and the cost of a step."""

from __future__ import annotations

import csv
import io
import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from vpintegrator.plotting.figure import Figure
from vpintegrator.plotting.style import LOOKS, PAPER, Style
from vpintegrator.plotting.text import escape, grouped, listed, markdown, plain
from vpintegrator.storage.studies import StudyRecord, read_study

Row = Mapping[str, Any]
_PANEL = 26.0  # em: least width of a panel
_SERIES = 12  # curves in a panel: more are joined to one
_DECADE = 8.0  # ratio of the largest to the smallest value from which an axis is logarithmic
_TIMES = 80  # points of a median curve


@dataclass(frozen=True)
class StudyScene:
    """A study made ready for drawing.

    Attributes
    ----------
    record, name, style
        The trainings, how the figures call the study, and the style of the figures.
    """

    record: StudyRecord
    name: str
    style: Style

    @cached_property
    def rows(self) -> list[Row]:
        """The trainings that have learned something."""
        return [row for row in self.record.rows if math.isfinite(row["error"]) and row["error"] > 0]

    @property
    def names(self) -> list[str]:
        """Names of the varied quantities that have several values, or of all."""
        varied = self.record.varied
        return [name for name, values in varied.items() if len(values) > 1] or [*varied]

    def series(self, names: Sequence[str]) -> dict[str, list[Row]]:
        """Return trainings that agree in some quantities, by these in words; joined if too many."""
        result: dict[str, list[Row]] = {}
        for values in itertools.product(*(self.record.varied[name] for name in names)):
            label = ", ".join(f"{n} {v}" for n, v in zip(names, values, strict=True))
            pairs = [*zip(names, values, strict=True)]
            rows = [row for row in self.rows if all(row[n] == v for n, v in pairs)]
            if rows:
                result[label] = rows
        return result if len(result) <= _SERIES else self.series(names[:-1])

    def looks(self, labels: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the colour, the line and the marker of each curve."""
        pairs = zip(labels, itertools.cycle(LOOKS), strict=False)
        return {label: self.style.adapt(look).strokes(self.style.mark) for label, look in pairs}

    @property
    def seeds(self) -> str:
        """Number of seeds in words."""
        count = len({row["seed"] for row in self.rows})
        return "one seed" if count == 1 else f"{count} seeds"

    @property
    def origin(self) -> str:
        """Sentence on the trainings."""
        settings = self.record.settings
        words = settings.get("model") or "several models"
        return f"Study {self.name} of {words}: {grouped(len(self.record.rows))} trainings."


def study_scene(folder: str | os.PathLike[str], style: Style = PAPER) -> StudyScene:
    """Return the scene of the folder of a study.

    Raises
    ------
    InputError
        If it holds no study, or the record is damaged.
    """
    return StudyScene(read_study(folder), Path(folder).resolve().name, style)


class StudyFigure(Figure):
    """A figure of a study."""

    scene: StudyScene

    def applies(self) -> bool:
        return bool(self.scene.rows)

    def opening(self) -> str:
        """Return a sentence on the trainings."""
        return self.scene.origin

    def legend(self, looks: Mapping[str, Mapping[str, Any]]) -> list[Line2D]:
        """Return an entry for each curve that has a name."""
        return [Line2D([], [], label=plain(name), **look) for name, look in looks.items() if name]


class QuantitiesFigure(StudyFigure):
    """Error against each varied quantity, in bands over the seeds."""

    name = "quantities"

    def draw(self) -> matplotlib.figure.Figure:
        scene = self.scene
        names = scene.names
        columns = min(self.columns(_PANEL), len(names))
        rows = -(-len(names) // columns)
        width = self.style.wide if columns > 1 else self.style.narrow
        figure = self.new(width, 24 * rows + 2)
        panels = figure.subplots(rows, columns, sharey=True, squeeze=False).flat
        for axes, name in itertools.zip_longest(panels, names):
            if name is None:
                axes.set_axis_off()
                continue
            self.panel(axes, name)
        self.title(figure, plain(scene.name))
        return figure

    def panel(self, axes: Axes, name: str) -> None:
        """Draw the error against one quantity, a curve for the values of the others."""
        scene = self.scene
        series = scene.series([other for other in scene.names if other != name])
        looks = scene.looks([*series])
        values = scene.record.varied[name]
        places = numbers(values)
        for label, rows in series.items():
            points = [
                (place, [row["error"] for row in rows if row[name] == value])
                for place, value in zip(places, values, strict=True)
            ]
            known = sorted((place, errors) for place, errors in points if errors)
            x = [place for place, _ in known]
            middle = [np.median(errors) for _, errors in known]
            low = [min(errors) for _, errors in known]
            high = [max(errors) for _, errors in known]
            axes.plot(x, middle, label=plain(label), **looks[label])
            axes.fill_between(x, low, high, color=looks[label]["color"], alpha=0.15, lw=0)
        axes.set(xlabel=plain(name), ylabel="relative error", yscale="log")
        if is_logarithmic(values):
            axes.set_xscale("log")
        elif not are_numbers(values):
            axes.set_xticks(places, [plain(str(value)) for value in values])
        if any(series):
            axes.legend()

    def sentences(self) -> list[str]:
        joined = len(self.scene.names) > 1
        return [
            f"Relative errors one step ahead on test states against {listed(self.scene.names)}: "
            f"medians in bands of all, of {self.scene.seeds}.",
            "Each curve has its values of the other quantities." if joined else "",
        ]


class TrainingTimeFigure(StudyFigure):
    """Least validation error so far against the time of training."""

    name = "training-time"

    def applies(self) -> bool:
        return any(len(row["curve"]) > 1 for row in self.scene.rows)

    def draw(self) -> matplotlib.figure.Figure:
        scene = self.scene
        series = scene.series(scene.names)
        looks = scene.looks([*series])
        figure = self.new(self.style.wide, 24, self.legend(looks))
        axes = figure.subplots()
        for label, rows in series.items():
            look = looks[label] | {"marker": ""}
            curves = [np.array(row["curve"]).T for row in rows if len(row["curve"]) > 1]
            if curves:
                times, errors = common_curves(curves)
                axes.plot(times, np.median(errors, 0), **look)
                band = errors.min(0), errors.max(0)
                axes.fill_between(times, *band, color=look["color"], alpha=0.15, lw=0)
        axes.set(xlabel="time of training / s", ylabel="relative error")
        axes.set(xscale="log", yscale="log")
        self.title(figure, plain(scene.name))
        return figure

    def sentences(self) -> list[str]:
        return [
            "Least relative error on validation states so far, against the time of training: "
            f"medians in bands of all, of {self.scene.seeds}.",
            "Times are those of the machine that trained, with all that ran on it.",
        ]


class StepCostFigure(StudyFigure):
    """Error against the cost of a step."""

    name = "step-cost"

    def applies(self) -> bool:
        return any(row["cost"] > 0 for row in self.scene.rows)

    def draw(self) -> matplotlib.figure.Figure:
        scene = self.scene
        series = scene.series(scene.names)
        looks = scene.looks([*series])
        figure = self.new(self.style.wide, 24, self.legend(looks))
        axes = figure.subplots()
        for label, rows in series.items():
            for cost, errors in by_cost(rows):
                middle = float(np.median(errors))
                span = [[middle - min(errors)], [max(errors) - middle]]
                axes.errorbar([1e9 * cost], [middle], yerr=span, capsize=2, **looks[label])
        axes.set(xlabel="cost of a step / ns", ylabel="relative error")
        axes.set(xscale="log", yscale="log")
        self.title(figure, plain(scene.name))
        return figure

    def sentences(self) -> list[str]:
        missing = sum(not row["cost"] > 0 for row in self.scene.rows)
        return [
            "Relative errors one step ahead on test states against the processor time of a step of "
            f"one of 1,000 states: medians, in bars of all, of {self.scene.seeds}.",
            f"The cost of {grouped(missing)} trainings was not measured." if missing else "",
        ]


_FIGURES: list[type[StudyFigure]] = [QuantitiesFigure, TrainingTimeFigure, StepCostFigure]
STUDY_FIGURES = {figure.name: figure for figure in _FIGURES}


def are_numbers(values: Sequence[Any]) -> bool:
    """Whether all values are numbers."""
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def numbers(values: Sequence[Any]) -> list[float]:
    """Return numbers as they are, and the places of words."""
    return [float(v) for v in values] if are_numbers(values) else [*map(float, range(len(values)))]


def is_logarithmic(values: Sequence[Any]) -> bool:
    """Whether numbers are positive and differ by a factor."""
    return are_numbers(values) and min(values) > 0 and max(values) >= _DECADE * min(values)


def common_curves(curves: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return times that all curves (2, time) have, and the errors (curve, time) at them."""
    first = max(max(curve[0, 0] for curve in curves), 1e-3)
    last = max(min(curve[0, -1] for curve in curves), first)
    times = np.geomspace(first, last, _TIMES)
    errors = []
    for curve in curves:
        places = np.searchsorted(curve[0], times, side="right") - 1
        errors.append(curve[1][np.maximum(places, 0)])
    return times, np.array(errors)


def by_cost(rows: Sequence[Row]) -> Iterator[tuple[float, list[float]]]:
    """Yield costs of a step and the errors of the trainings that have them."""
    for cost in sorted({row["cost"] for row in rows if row["cost"] > 0}):
        yield cost, [row["error"] for row in rows if row["cost"] == cost]


def study_tables(scene: StudyScene) -> dict[str, str]:
    """Return a table of medians and ranges over the seeds, as CSV, Markdown and LaTeX."""
    names = [*scene.record.varied]
    titles = [*names, "seeds", "median error", "least error", "largest error", "cost / ns"]
    lines = []
    for values in itertools.product(*scene.record.varied.values()):
        pairs = [*zip(names, values, strict=True)]
        rows = [row for row in scene.record.rows if all(row[n] == v for n, v in pairs)]
        if not rows:
            continue
        errors = [row["error"] for row in rows]
        costs = [row["cost"] for row in rows if row["cost"] > 0]
        cost = f"{1e9 * costs[0]:.3g}" if costs else "–"
        sizes = (f"{size:.2e}" for size in (np.median(errors), min(errors), max(errors)))
        lines.append([*map(str, values), str(len(rows)), *sizes, cost])
    head = [f"| {' | '.join(map(markdown, titles))} |", "|" + "---|" * len(titles)]
    body = [f"| {' | '.join(map(markdown, line))} |" for line in lines]
    rule = [rf"\begin{{tabular}}{{{'l' * len(titles)}}}", r"\hline"]
    latex = [" & ".join(map(escape, line)) + r" \\" for line in [titles, *lines]]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([titles, *lines])
    return {
        "table.csv": text.getvalue(),
        "table.md": "\n".join([*head, *body]) + "\n",
        "table.tex": "\n".join([*rule, *latex, r"\hline", r"\end{tabular}"]) + "\n",
    }
