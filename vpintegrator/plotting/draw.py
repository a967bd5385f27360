"""All figures and tables of a rollout file, written to a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib.figure
import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.files import check_output, replacing
from vpintegrator.plotting.coordinates import draw_component
from vpintegrator.plotting.errors import draw_error_growth, draw_largest_so_far, draw_volume_error
from vpintegrator.plotting.overview import legend_lines, overview
from vpintegrator.plotting.phase import draw_plane, draw_sphere, on_sphere, planes
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import COLUMN, PAGE, REFERENCE_COLOUR, Look, paper_style
from vpintegrator.plotting.tables import csv_table, latex_table, markdown_table
from vpintegrator.rollout import Report, open_rollout

_COMPONENTS = 6  # drawn in time; more do not fit on a page
FORMATS = ("png", "pdf")


def draw(
    report: Report | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    formats: Sequence[str] = FORMATS,
    overwrite: bool = False,
) -> list[Path]:
    """Draw every figure and write every table of a rollout.

    Parameters
    ----------
    report
        A report, or the path of a rollout file. Nothing is integrated again.
    folder
        Where the files go; it is made if need be.
    formats
        ``png``, ``pdf``.
    overwrite
        Whether files of the same names may be replaced.

    Returns
    -------
    list of pathlib.Path
        ``overview``, ``phase``, ``coordinates``, ``errors``, ``invariants`` and ``volume`` in every
        format, then ``table.csv``, ``table.md`` and ``table.tex``.

    Raises
    ------
    InputError
        If the file is no rollout, or the output exists or cannot be written.
    """
    for name in formats:
        if name not in FORMATS:
            raise InputError(f"formats: '{name}' is none of {', '.join(FORMATS)}")
    report = report if isinstance(report, Report) else open_rollout(report)
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"cannot write figures to {folder}: it is a file; name a folder")
    figures: dict[str, Callable[[Scene], matplotlib.figure.Figure | None]] = {
        "overview": overview,
        "phase": phase,
        "coordinates": coordinates,
        "errors": errors,
        "invariants": invariants,
        "volume": volume,
    }
    tables = {"table.csv": csv_table, "table.md": markdown_table, "table.tex": latex_table}
    if not folder.parent.is_dir():
        raise InputError(f"cannot make {folder}: the folder {folder.parent} does not exist")
    folder.mkdir(exist_ok=True)
    for name in [*(f"{figure}.{f}" for figure in figures for f in formats), *tables]:
        check_output(folder / name, overwrite)
    scene = Scene(report)
    paths = []
    with paper_style(), np.errstate(all="ignore"):
        for name, make in figures.items():
            figure = make(scene)
            if figure is None:
                continue
            for suffix in formats:
                path = folder / f"{name}.{suffix}"
                with replacing(path, overwrite) as temporary:
                    figure.savefig(temporary, format=suffix)
                paths.append(path)
    for name, render in tables.items():
        with replacing(folder / name, overwrite) as temporary:
            temporary.write_text(render(report), encoding="utf-8")
        paths.append(folder / name)
    return paths


def phase(scene: Scene) -> matplotlib.figure.Figure:
    """Phase portraits of every method: on the sphere, or in planes over the reference."""
    names = list(scene.looks)
    radius = on_sphere(scene.report.reference)
    if radius:
        count = len(names) + 1
        columns = min(count, 4)
        rows = -(-count // columns)
        figure = _figure(PAGE, rows * PAGE / columns * 1.05)
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        entries = [("reference", scene.report.reference, Look(REFERENCE_COLOUR, "-", ""))]
        entries += [(scene.titles[n], scene.states[n], scene.looks[n]) for n in names]
        for axes, (title, states, look) in zip(panels, entries, strict=False):
            draw_sphere(axes, states, look, radius, scene.components)
            axes.set_title(title)
        for axes in panels[count:]:
            axes.axis("off")
        return figure
    pairs = planes(scene.components, scene.system.is_hamiltonian)[:4]
    figure = _figure(min(PAGE, 2.2 * max(len(names), 2)), 1.75 * len(pairs) + 0.3)
    grid = figure.subplots(len(pairs), len(names), squeeze=False)
    for row, pair in zip(grid, pairs, strict=True):
        for axes, name in zip(row, names, strict=True):
            draw_plane(
                axes,
                scene.states[name],
                scene.report.reference,
                scene.looks[name],
                pair,
                scene.components,
            )
    for axes, name in zip(grid[0], names, strict=True):
        axes.set_title(scene.titles[name], color=scene.looks[name].colour)
    reference = legend_lines(scene, reference=True)[:1]
    figure.legend(handles=reference, loc="outside lower center")
    return figure


def coordinates(scene: Scene) -> matplotlib.figure.Figure:
    """The first trajectory, component by component."""
    names = scene.components[:_COMPONENTS]
    figure = _figure(PAGE, 1.1 * len(names) + 0.7)
    panels = list(np.ravel(figure.subplots(len(names), 1, sharex=True)))
    for k, (axes, component) in enumerate(zip(panels, names, strict=True)):
        methods = {n: (scene.states[n][0, :, k], look) for n, look in scene.looks.items()}
        times, reference = scene.report.times, scene.report.reference[0, :, k]
        draw_component(axes, times, reference, methods, component)
    panels[-1].set_xlabel("time")
    _legend(figure, scene, reference=True, columns=5)
    return figure


def errors(scene: Scene) -> matplotlib.figure.Figure:
    """Growth of the trajectory's error."""
    figure = _figure(COLUMN, 2.9)
    axes = figure.subplots()
    for name, look in scene.looks.items():
        error = scene.trajectory_errors[name]
        draw_error_growth(axes, scene.report.times, error, look, scene.start[name])
    _legend(figure, scene, columns=2)
    return figure


def invariants(scene: Scene) -> matplotlib.figure.Figure | None:
    """Errors of every invariant."""
    names = list(next(iter(scene.invariant_errors.values()), {}))
    if not names:
        return None
    columns = min(len(names), 2)
    rows = -(-len(names) // columns)
    figure = _figure(COLUMN if columns == 1 else PAGE, 2.3 * rows + 0.6)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, invariant in zip(panels, names, strict=False):
        for name, look in scene.looks.items():
            entry = scene.invariant_errors[name][invariant]
            draw_largest_so_far(axes, scene.report.times, entry.error, look, scene.start[name])
            axes.set_title(f"{invariant.replace('_', ' ')} ({entry.kind})")
    for axes in panels[len(names) :]:
        axes.axis("off")
    _legend(figure, scene, columns=2 if columns == 1 else 4)
    return figure


def volume(scene: Scene) -> matplotlib.figure.Figure:
    """Volume error of one step along the orbits."""
    figure = _figure(COLUMN, 2.9)
    axes = figure.subplots()
    for name, look in scene.looks.items():
        draw_volume_error(axes, *scene.volume[name], look)
    _legend(figure, scene, columns=2)
    return figure


def _figure(width: float, height: float) -> matplotlib.figure.Figure:
    return matplotlib.figure.Figure(figsize=(width, height), layout="constrained")


def _legend(
    figure: matplotlib.figure.Figure, scene: Scene, reference: bool = False, columns: int = 4
) -> None:
    figure.legend(handles=legend_lines(scene, reference), loc="outside lower center", ncols=columns)
