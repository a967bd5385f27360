"""Single panels, drawn into Axes of one's own.

Each function takes what is drawn, such as a report or the path of a rollout file, and Matplotlib's
Axes, and returns these; without Axes it makes a figure of one panel by ``pyplot``. Letters and
colours follow the Axes and Matplotlib's settings; a method keeps its colour, line and marker. Every
line has its method as its label, so ``ax.legend()`` names them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import matplotlib
from matplotlib.colors import to_hex

from vpintegrator.errors import InputError
from vpintegrator.plotting.errors import draw_all_errors, has_errors
from vpintegrator.plotting.invariants import draw_invariant
from vpintegrator.plotting.phase import REFERENCE, draw_portrait, portrait_kind
from vpintegrator.plotting.poincare import draw_section, plane_of_section, reference_section
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import PAPER, Style
from vpintegrator.plotting.training import AGAINST, draw_training, read_training
from vpintegrator.plotting.volume import VOLUMES, draw_volume_error
from vpintegrator.rollout import Report, open_rollout

_HEIGHT = 0.75  # of a panel of one's own, in its widths


def errors(report: Report | str | os.PathLike[str], ax: Any = None) -> Any:
    """Growth of the distance from the reference: the median over the orbits, in a band of all.

    Parameters
    ----------
    report
        A report, or the path of a rollout file.
    ax
        Matplotlib's Axes; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    InputError
        If the file is no rollout, or there is no reference.

    Examples
    --------
    ::

        figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.5), layout="constrained")
        vp.plotting.errors("rigid-body-rollout.h5", ax=left)
        vp.plotting.invariant("rigid-body-rollout.h5", "energy", ax=right)
        right.legend()
    """
    scene, ax = _prepared(report, ax)
    if not has_errors(scene):
        raise InputError("errors: this rollout has no reference to measure them against")
    draw_all_errors(ax, scene)
    return ax


def invariant(
    report: Report | str | os.PathLike[str], name: str | None = None, ax: Any = None
) -> Any:
    """Largest change of an invariant on any orbit up to each time, for every method.

    Parameters
    ----------
    report
        A report, or the path of a rollout file.
    name
        One of the system's invariants; the first if None.
    ax
        Matplotlib's Axes; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    InputError
        If the file is no rollout, or the system has no such invariant.

    Examples
    --------
    ::

        ax = vp.plotting.invariant(report, "energy")
        ax.legend()
        ax.figure.savefig("energy.pdf")
    """
    report = _opened(report)
    there = list(report.system.invariants)
    chosen = there[0] if name is None and there else str(name)
    if chosen not in there:
        known = f"it has {', '.join(there)}" if there else "it has none"
        raise InputError(f"invariant: {report.system.name} has no '{name or 'invariant'}'; {known}")
    scene, ax = _prepared(report, ax)
    draw_invariant(ax, scene, chosen)
    return ax


def volume(report: Report | str | os.PathLike[str], kind: str = "step", ax: Any = None) -> Any:
    """Largest |log|det|| on any orbit at each time it was measured, for every method.

    Parameters
    ----------
    report
        A report, or the path of a rollout file.
    kind
        ``"step"``, of the map of one step (for a model that reads windows, of its map of windows),
        or ``"phase-space"``, of the map from the initial state to that at the time.
    ax
        Matplotlib's Axes; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    InputError
        If the file is no rollout, or that volume was not measured.

    Examples
    --------
    ::

        vp.plotting.volume(report, "phase-space", ax=ax)
    """
    _choose("kind", kind, VOLUMES)
    report = _opened(report)
    if not any(kind in run.volume for run in report.runs.values()):
        raise InputError(f"volume: that of '{kind}' was not measured in this rollout")
    scene, ax = _prepared(report, ax)
    draw_volume_error(ax, scene, kind)
    return ax


def portrait(
    report: Report | str | os.PathLike[str],
    method: str = REFERENCE,
    plane: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Orbits of a method: on a sphere, in space, or in a plane over those of the reference.

    Parameters
    ----------
    report
        A report, or the path of a rollout file.
    method
        One of its methods, or ``"reference"``.
    plane
        The names of two components, or of the system's further coordinates, to draw a plane; by
        default what suits the system.
    ax
        Matplotlib's Axes, for orbits in space with ``projection="3d"``; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    InputError
        If the file is no rollout, a name is none, there is no reference, or the Axes do not suit.

    Examples
    --------
    ::

        vp.plotting.portrait(report, "rk4", ax=ax)
        vp.plotting.portrait(report, "rk4", plane=("q[0]", "p[0]"), ax=other)
    """
    report = _opened(report)
    _choose("method", method, [REFERENCE, *report.runs])
    scene = Scene(report)
    if method == REFERENCE and not scene.referenced:
        raise InputError("portrait: this rollout has no reference; name a method")
    pair = None
    if plane is not None:
        if isinstance(plane, str) or len(plane) != 2:
            raise InputError(f"plane: {plane!r} is not two names, such as ('q', 'p')")
        for name in plane:
            _choose("plane", name, scene.coordinates)
        pair = (scene.coordinates.index(plane[0]), scene.coordinates.index(plane[1]))
    solid = pair is None and portrait_kind(scene) == "space"
    if ax is not None and solid != (ax.name == "3d"):
        raise InputError(
            "ax: these orbits lie in space; make the Axes with projection='3d', or choose a plane"
            if solid
            else "ax: this portrait is flat; make the Axes without a projection"
        )
    scene, ax = _prepared(report, ax, "3d" if solid else None)
    draw_portrait(ax, scene, method, pair)
    return ax


def section(
    report: Report | str | os.PathLike[str], method: str = REFERENCE, ax: Any = None
) -> Any:
    """The Poincare section of a method, a colour an orbit.

    Parameters
    ----------
    report
        A report, or the path of a rollout file.
    method
        One of its methods, or ``"reference"``.
    ax
        Matplotlib's Axes; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    InputError
        If the file is no rollout, has no such method, or no section with points of it.

    Examples
    --------
    ::

        vp.plotting.section("henon-heiles-rollout.h5", "rk4", ax=ax)
    """
    report = _opened(report)
    _choose("method", method, [REFERENCE, *report.runs])
    scene = Scene(report)
    pair = plane_of_section(scene)
    found = reference_section(scene) if method == REFERENCE else report.run(method).section
    if pair is None or found is None or not len(found.points):
        raise InputError(f"section: this rollout has no Poincare section with points of '{method}'")
    scene, ax = _prepared(report, ax)
    draw_section(ax, scene, method, pair, found)
    return ax


def training(source: Any, ax: Any = None, against: str = "epochs") -> Any:
    """Errors of training and validation in the course of a training.

    Parameters
    ----------
    source
        The history that :func:`vpintegrator.train` returns; or a model, or the path of its file,
        which keep a thinned one.
    ax
        Matplotlib's Axes; a new figure if None.
    against
        ``"epochs"`` or ``"seconds"``.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    InputError
        If the file is no model, or nothing is known of the training.

    Examples
    --------
    ::

        history = vp.train(model, dataset, seconds=60)
        vp.plotting.training(history, against="seconds").legend()
    """
    _choose("against", against, AGAINST)
    told = read_training(source)
    ax = new_axes() if ax is None else ax
    draw_training(ax, told, own_style(ax), against)
    return ax


def own_style(ax: Any) -> Style:
    """Letters and colours of Axes that somebody else has made."""
    letters = float(matplotlib.rcParams["font.size"])
    return replace(
        PAPER,
        name="own",
        letters=letters,
        line=letters / PAPER.letters,
        background=to_hex(ax.get_facecolor()),
        foreground=to_hex(matplotlib.rcParams["text.color"]),
    )


def new_axes(projection: str | None = None) -> Any:
    """A figure of one panel, which a notebook shows."""
    from matplotlib import pyplot

    size = (PAPER.column * 1.4, PAPER.column * 1.4 * _HEIGHT)
    figure = pyplot.figure(figsize=size, layout="constrained")
    return figure.add_subplot(projection=projection)


def _prepared(
    report: Report | str | os.PathLike[str], ax: Any, projection: str | None = None
) -> tuple[Scene, Any]:
    report = _opened(report)
    ax = new_axes(projection) if ax is None else ax
    return Scene(report, own_style(ax)), ax


def _opened(report: Report | str | os.PathLike[str]) -> Report:
    return report if isinstance(report, Report) else open_rollout(report)


def _choose(what: str, name: str, names: Any) -> None:
    if name not in names:
        raise InputError(f"{what}: '{name}' is none of {', '.join(names)}")
