"""All figures, tables and captions of a rollout or a model file, written to a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np

from vpintegrator.errors import InputError, printable
from vpintegrator.files import check_output, filling
from vpintegrator.plotting.captions import caption, latex_environments, markdown_paragraphs
from vpintegrator.plotting.coordinates import coordinates
from vpintegrator.plotting.errors import errors
from vpintegrator.plotting.invariants import invariants
from vpintegrator.plotting.overview import overview
from vpintegrator.plotting.pgf import find_engine, write_pgf
from vpintegrator.plotting.phase import phase
from vpintegrator.plotting.poincare import poincare
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import Style, find_style
from vpintegrator.plotting.tables import csv_table, latex_table, markdown_table
from vpintegrator.plotting.training import (
    Training,
    read_training,
    training_caption,
    training_figure,
)
from vpintegrator.plotting.volume import volume
from vpintegrator.plotting.work_precision import work_precision
from vpintegrator.rollout import Report, open_rollout

FORMATS = ("png", "pdf", "svg", "pgf")
USUAL_FORMATS = ("png", "pdf")
FIGURES: dict[str, Callable[[Scene], matplotlib.figure.Figure | None]] = {
    "overview": overview,
    "phase": phase,
    "coordinates": coordinates,
    "errors": errors,
    "invariants": invariants,
    "volume": volume,
    "poincare": poincare,
    "work-precision": work_precision,
}
_UNDATED: dict[str, dict[str, str | None]] = {  # equal figures are equal files
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
}
_TABLES = {"table.csv": csv_table, "table.md": markdown_table, "table.tex": latex_table}
_CAPTIONS = ("captions.md", "captions.tex")


def draw(
    report: Report | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    formats: Sequence[str] = USUAL_FORMATS,
    overwrite: bool = False,
    *,
    style: str = "paper",
    width: str | float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Path]:
    """Draw every figure and write every table and caption of a rollout, or the curve of a training.

    Parameters
    ----------
    report
        A report, or the path of a rollout file: nothing is integrated again. The path of a model
        file ``.safetensors`` for the curve of its training.
    folder
        Where the files go; it is made if need be.
    formats
        ``png``, ``pdf``, ``svg``, ``pgf``. PGF takes the letters of the LaTeX document that
        includes it; it needs a LaTeX engine.
    overwrite
        Whether files of the same names may be replaced.
    style
        ``paper``; ``talk``, with large letters; ``dark``, the same on a dark background.
    width
        Of every figure: ``"column"``, ``"page"``, or inches. By default each figure has its own,
        on paper 3.4 or 7 inches.
    progress
        Called with the name of the figure that comes next, the number of those done, and of all.

    Returns
    -------
    list of pathlib.Path
        ``overview``, ``phase``, ``coordinates``, ``errors`` and, where there is something to show,
        ``invariants``, ``volume``, ``poincare`` and ``work-precision`` in every format; then
        ``table.csv``, ``table.md`` and ``table.tex``, and ``captions.md`` and ``captions.tex``.
        Of a model, ``training`` and its captions.

    Raises
    ------
    InputError
        If the file is no rollout and no model, a style, width or format is none, the output
        exists or cannot be written, or PGF is wanted and there is no LaTeX engine.
    """
    for name in formats:
        if name not in FORMATS:
            raise InputError(f"formats: '{name}' is none of {', '.join(FORMATS)}")
    look = find_style(style, width)
    engine = find_engine() if "pgf" in formats else None
    subject = _opened(report)
    folder = Path(folder)
    figures = FIGURES if isinstance(subject, Report) else ("training",)
    names = [f"{figure}.{suffix}" for figure in figures for suffix in formats]
    tables = _TABLES if isinstance(subject, Report) else {}
    # all or nothing: files are moved to their places when the last one is complete
    with filling(folder, overwrite) as place:
        for name in [*names, *tables, *_CAPTIONS]:
            check_output(folder / name, overwrite)
        canvas = _Canvas(place, look, list(dict.fromkeys(formats)), engine, progress)
        if isinstance(subject, Report):
            _write_rollout(canvas, subject)
        else:
            _write_training(canvas, subject)
    return [folder / path.name for path in canvas.paths]


def _opened(source: Report | str | os.PathLike[str]) -> Report | Training:
    if isinstance(source, Report):
        return source
    is_model = Path(source).suffix == ".safetensors"
    return read_training(source) if is_model else open_rollout(source)


@dataclass
class _Canvas:
    """Where figures and texts go, and how.

    ``paths`` and, by figure, ``widths`` and ``heights`` in inches say what was written.
    """

    folder: Path
    style: Style
    formats: list[str]
    engine: str | None
    progress: Callable[[str, int, int], None] | None
    paths: list[Path] = field(default_factory=list)
    widths: dict[str, float] = field(default_factory=dict)
    heights: dict[str, float] = field(default_factory=dict)

    def draw(
        self, figures: Mapping[str, Callable[[bool], matplotlib.figure.Figure | None]]
    ) -> None:
        """Write figures; each is made for Matplotlib's letters (False) or LaTeX's (True)."""
        with self.style.applied(), np.errstate(all="ignore"):
            for done, (name, make) in enumerate(figures.items()):
                if self.progress is not None:
                    self.progress(name, done, len(figures))
                self._draw(name, make)
        if self.progress is not None:
            self.progress("", len(figures), len(figures))

    def _draw(self, name: str, make: Callable[[bool], matplotlib.figure.Figure | None]) -> None:
        suffixes = [suffix for suffix in self.formats if suffix != "pgf"]
        figure = make(False) if suffixes else None
        for suffix in suffixes if figure is not None else []:
            self.paths.append(self.folder / f"{name}.{suffix}")
            metadata = _UNDATED.get(suffix)
            figure.savefig(self.paths[-1], format=suffix, metadata=metadata)  # type: ignore[union-attr]
            figure.set_layout_engine("none")  # type: ignore[union-attr]  # it is laid out now
        if self.engine is not None:
            figure = make(True)
            if figure is not None:
                write_pgf(figure, self.folder / f"{name}.pgf", self.engine)
                self.paths.append(self.folder / f"{name}.pgf")
                self.paths += sorted(self.folder.glob(f"{name}-img*.png"))
        if figure is not None:
            self.widths[name] = float(figure.get_figwidth())
            self.heights[name] = float(figure.get_figheight())

    def write(self, texts: Mapping[str, str]) -> None:
        """Write files of text."""
        for name, text in texts.items():
            (self.folder / name).write_text(text, encoding="utf-8")
            self.paths.append(self.folder / name)

    def write_captions(self, texts: Mapping[str, str], subject: str) -> None:
        """Write captions for Markdown and LaTeX."""
        as_pgf = self.formats == ["pgf"]
        written = (
            markdown_paragraphs(texts),
            latex_environments(texts, subject, self.widths, self.heights, as_pgf),
        )
        self.write(dict(zip(_CAPTIONS, written, strict=True)))


def _write_rollout(canvas: _Canvas, report: Report) -> None:
    scene = Scene(report, canvas.style)

    def maker(make: Callable[[Scene], matplotlib.figure.Figure | None]) -> Any:
        return lambda latex: make(Scene(report, canvas.style, latex=True) if latex else scene)

    canvas.draw({name: maker(make) for name, make in FIGURES.items()})
    canvas.write({name: render(report) for name, render in _TABLES.items()})
    texts = {name: caption(scene, name) for name in canvas.widths}
    canvas.write_captions(texts, scene.system.name)


def _write_training(canvas: _Canvas, training: Training) -> None:
    canvas.draw({"training": lambda latex: training_figure(training, canvas.style, latex)})
    canvas.write_captions({"training": printable(training_caption(training))}, training.name)
