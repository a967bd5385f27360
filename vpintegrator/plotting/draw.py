"""All figures, tables and captions of a rollout file, written to a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib.figure
import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.files import check_output, filling
from vpintegrator.plotting.captions import latex_captions, markdown_captions
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
) -> list[Path]:
    """Draw every figure and write every table and caption of a rollout.

    Parameters
    ----------
    report
        A report, or the path of a rollout file. Nothing is integrated again.
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

    Returns
    -------
    list of pathlib.Path
        ``overview``, ``phase``, ``coordinates``, ``errors`` and, where there is something to show,
        ``invariants``, ``volume``, ``poincare`` and ``work-precision`` in every format; then
        ``table.csv``, ``table.md`` and ``table.tex``, and ``captions.md`` and ``captions.tex``.

    Raises
    ------
    InputError
        If the file is no rollout, a style, width or format is none, the output exists or cannot
        be written, or PGF is wanted and there is no LaTeX engine.
    """
    for name in formats:
        if name not in FORMATS:
            raise InputError(f"formats: '{name}' is none of {', '.join(FORMATS)}")
    look = find_style(style, width)
    engine = find_engine() if "pgf" in formats else None
    report = report if isinstance(report, Report) else open_rollout(report)
    folder = Path(folder)
    names = [f"{figure}.{suffix}" for figure in FIGURES for suffix in formats]
    # all or nothing: files are moved to their places when the last one is complete
    with filling(folder, overwrite) as place:
        for name in [*names, *_TABLES, *_CAPTIONS]:
            check_output(folder / name, overwrite)
        made = _write(place, report, look, list(dict.fromkeys(formats)), engine)
    return [folder / path.name for path in made]


def _write(
    folder: Path, report: Report, style: Style, formats: list[str], engine: str | None
) -> list[Path]:
    scene, drawn, paths = Scene(report, style), [], []
    widths: dict[str, float] = {}
    with style.applied(), np.errstate(all="ignore"):
        for name, make in FIGURES.items():
            suffixes = [suffix for suffix in formats if suffix != "pgf"]
            figure = make(scene) if suffixes else None
            for suffix in suffixes if figure is not None else []:
                paths.append(folder / f"{name}.{suffix}")
                metadata = _UNDATED.get(suffix)
                figure.savefig(paths[-1], format=suffix, metadata=metadata)  # type: ignore[union-attr]
                figure.set_layout_engine("none")  # type: ignore[union-attr]  # it is laid out now
            if engine is not None:
                figure = make(Scene(report, style, latex=True))
                if figure is not None:
                    write_pgf(figure, folder / f"{name}.pgf", engine)
                    paths.append(folder / f"{name}.pgf")
                    paths += sorted(folder.glob(f"{name}-img*.png"))
            if figure is not None:
                drawn.append(name)
                widths[name] = float(figure.get_figwidth())
    texts = {name: render(report) for name, render in _TABLES.items()}
    texts["captions.md"] = markdown_captions(scene, drawn)
    texts["captions.tex"] = latex_captions(scene, drawn, formats == ["pgf"], widths)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        paths.append(folder / name)
    return paths
