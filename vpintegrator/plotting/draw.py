"""All figures, tables and captions of a rollout, a study or a model file, written to a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.arguments import as_path, of_kind, one_of
from vpintegrator.errors import InputError
from vpintegrator.plotting.figure import Figure, markdown_paragraphs
from vpintegrator.plotting.figures import FIGURES, MODEL_FIGURES
from vpintegrator.plotting.figures.architecture import methods_paragraph
from vpintegrator.plotting.figures.models import model_scene, read_training
from vpintegrator.plotting.figures.studies import STUDY_FIGURES, study_scene, study_tables
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import Style, find_style
from vpintegrator.plotting.tables import csv_table, latex_table, markdown_table
from vpintegrator.rollout import Report, open_rollout
from vpintegrator.storage.files import check_output, filling, replacing
from vpintegrator.storage.reading import check_kind, kind_of
from vpintegrator.storage.studies import is_study, read_study

FORMATS = ("png", "pdf", "svg")
USUAL_FORMATS = ("png", "pdf")
_UNDATED: dict[str, dict[str, str | None]] = {  # equal figures are equal files
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
}
_TABLES = {"table.md": markdown_table, "table.tex": latex_table}
_CAPTIONS = "captions.md"
Source = Report | str | os.PathLike[str]


def draw(
    report: Source,
    folder: str | os.PathLike[str],
    formats: Sequence[str] = USUAL_FORMATS,
    overwrite: bool = False,
    *,
    figures: Sequence[str | type[Figure]] = (),
    methods: Sequence[str] = (),
    columns: Sequence[str] = (),
    style: str | os.PathLike[str] | None = None,
    width: str | float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Path]:
    """Draw all figures and write all tables and captions of a rollout, a model or a study.

    Parameters
    ----------
    report
        A report, or the path of its file: no method runs again. The path of a model file
        ``.safetensors`` for the curve of its training and the weights of its attention. The folder
        of a study for its errors against what varies, the time of training and the cost of a step.
    folder
        Folder of the files; it is made if need be.
    formats
        ``png``, ``pdf``, ``svg``.
    overwrite
        Whether files of the same names may be replaced.
    figures
        Names of the figures to draw, and classes of :class:`RolloutFigure` for figures of your own;
        by default all figures that have something to show, and the tables.
    methods
        Names or titles of the methods in figures and tables; by default all.
    columns
        Titles of the columns of ``table.md`` and ``table.tex``, as in ``table.csv``, which has all;
        by default those that say something, as many as fit.
    style
        Path of a Matplotlib style file, or the name of one of its styles, such as
        ``dark_background``: its fonts, sizes and colours take the place of the package's own. A
        ``figure.figsize`` in it sets the width.
    width
        Width of every figure: ``"column"``, ``"page"``, or inches. The default is a width for each
        figure, 3.4 or 7 inches.
    progress
        Called with the name of the figure that comes next, the number of those done, and of all.

    Returns
    -------
    list of pathlib.Path
        ``overview``, ``phase``, ``coordinates``, ``errors`` and, where there is something to show,
        ``invariants``, ``volume``, ``poincare``, ``map``, ``rotation`` and ``work-precision`` in
        every format; then ``table.csv``, ``table.md`` and ``table.tex``, and ``captions.md``.
        Chosen figures come without tables, each with its caption in ``NAME.md``. A
        model file gives ``training`` and ``attention``, as far as it has both, their captions, and
        a paragraph on the training for a section on methods; ``architecture`` where it is chosen.

    Raises
    ------
    InputError
        If the file is no rollout and no model, a figure, method, style, width or format is none,
        a figure has nothing to show, or the output exists or cannot be written.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> report.save("rollout.h5", overwrite=True)
    >>> len(vp.draw("rollout.h5", "figures", formats=["png"], overwrite=True)) > 5
    True
    """
    for name in formats:
        one_of("formats", name, FORMATS)
    look = find_style(style, width)
    tell = progress or (lambda *_: None)
    if columns and figures:
        raise InputError("columns: chosen figures come without tables; leave out one of both")
    scene, known, tables = _opened(report, look, methods, columns, figures)
    known |= {figure.name: figure for figure in figures if not isinstance(figure, str)}
    names = [figure if isinstance(figure, str) else figure.name for figure in figures]
    usual = [name for name, figure in known.items() if not figure.on_request]
    drawn = {name: known[one_of("figure", name, known)](scene) for name in names or usual}
    with look.applied(), np.errstate(all="ignore"):
        for name, figure in drawn.items():
            if figures and not figure.applies():
                raise InputError(f"figure: there is nothing to show in the figure '{name}'")
    texts = {} if figures else tables
    folder = as_path("folder", folder)
    caption_files = [f"{name}.md" for name in names] or [_CAPTIONS]
    # all or nothing: files are moved to their places when the last one is complete
    with filling(folder, overwrite) as place:
        files = [f"{figure}.{suffix}" for figure in drawn for suffix in formats]
        for name in [*files, *texts, *caption_files]:
            check_output(folder / name, overwrite)
        captions = {}
        with look.applied(), np.errstate(all="ignore"):
            for done, (name, figure) in enumerate(drawn.items()):
                tell(name, done, len(drawn))
                if figure.applies():
                    write_figure(figure, {place / f"{name}.{suffix}": suffix for suffix in formats})
                    captions[name] = figure.caption()
        tell("", len(drawn), len(drawn))
        if not names and (words := methods_paragraph(scene)):
            captions["methods"] = words
        parts = [{name: captions[name]} for name in names] or [captions]
        texts |= dict(zip(caption_files, map(markdown_paragraphs, parts), strict=True))
        for name, text in texts.items():
            (place / name).write_text(text, encoding="utf-8")
    shown = [name for name in drawn if name in captions]
    written = [f"{name}.{suffix}" for name in shown for suffix in dict.fromkeys(formats)]
    return [folder / name for name in [*written, *texts]]


def _opened(
    source: Source,
    style: Style,
    methods: Sequence[str],
    columns: Sequence[str],
    figures: Sequence[Any],
) -> tuple[Any, dict[str, type[Figure]], dict[str, str]]:
    """Return the scene of a source, its figures, and its tables."""
    if isinstance(source, str | os.PathLike):
        source = open_drawn(source)
    if isinstance(source, Path):
        if methods or columns:
            what = "methods" if methods else "columns"
            kind = "study" if is_study(source) else "model"
            raise InputError(f"{what}: {source} is a {kind}, and only a rollout has {what}")
        if source.is_dir():
            return _study(source, style)
        model = model_scene(source, style)
        usual = [figure for figure in MODEL_FIGURES.values() if not figure.on_request]
        if not figures and not any(figure(model).applies() for figure in usual):
            read_training(source)  # raises an error that says why there is nothing to draw
        return model, dict(MODEL_FIGURES), {}
    report = of_kind("report", source, Report, "a report, or the path of its file")
    scene = Scene(report, style, methods)
    tables = {"table.csv": csv_table(scene.report)}
    tables |= {name: render(scene.report, columns) for name, render in _TABLES.items()}
    further = {
        each.figure.name: each.figure for each in report.diagnostics if each.figure is not None
    }
    return scene, FIGURES | further, tables


def _study(folder: Path, style: Style) -> tuple[Any, dict[str, type[Figure]], dict[str, str]]:
    """Return the scene of a study, its figures, and its tables.

    Raises
    ------
    InputError
        If no training has learned anything.
    """
    scene = study_scene(folder, style)
    if not scene.rows:
        raise InputError(f"{folder}: no training of the study is finished and has learned anything")
    return scene, dict(STUDY_FIGURES), study_tables(scene)


def open_drawn(path: str | os.PathLike[str]) -> Report | Path:
    """Open a file that :func:`draw` takes; of a model or a study, return its path."""
    path = as_path("report", path)
    if path.is_dir():
        read_study(path)
        return path
    check_kind(path, "rollout", "model")
    return path if kind_of(path) == "model" else open_rollout(path)


def write_figure(figure: Figure, paths: Mapping[Path, str]) -> None:
    """Draw a figure into files, each of a format."""
    drawn = figure.draw()
    for path, suffix in paths.items():
        metadata = _UNDATED.get(suffix)
        drawn.savefig(path, format=suffix, bbox_inches=None, metadata=metadata)
        drawn.set_layout_engine("none")  # it is laid out now


def draw_one(figure: Figure, path: Path, overwrite: bool) -> None:
    """Draw a single figure to a file, whose name says its format."""
    suffix = one_of("format", path.suffix.lower().removeprefix("."), FORMATS)
    with replacing(path, overwrite) as temporary, figure.style.applied(), np.errstate(all="ignore"):
        write_figure(figure, {Path(temporary): suffix})
