"""Growth of the error of trajectories in time."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.errors import InputError
from vpintegrator.plotting.captions import CURVES, by_method, capital, events, notes, reference
from vpintegrator.plotting.curves import (
    ROUNDING,
    cut,
    draw_band,
    draw_curve,
    largest_between,
    thinned,
    time_axis,
)
from vpintegrator.plotting.layout import FigureDeclaration, legend_lines, new_figure
from vpintegrator.plotting.names import grouped
from vpintegrator.plotting.scene import Rollout, Scene, drawn_into, own_scene, takes_axes
from vpintegrator.plotting.tables import error_size


def error_curve(scene: Scene, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return times and the errors (seed, orbit, time) of the models of a name.

    A diverged trajectory counts as an infinite error. The curve ends with the reference of half of
    the orbits.
    """
    report, start = scene.report, scene.start[name]
    chosen = thinned(report.reference_end - start, logarithmic=True) + start
    members = report.run(name).members
    values = np.stack([largest_between(each.error, chosen) for each in members])
    # a measured reference may lack the states of some orbits, but not of all at each of its times
    missing = np.isnan(values).all(axis=(0, 1))
    return report.times[chosen[~missing]], values[..., ~missing]


def draw_error_growth(axes: Axes, scene: Scene, name: str) -> None:
    """Draw the median error of a method, in a band from least to largest.

    Of several models of one name the band is that of their medians.
    """
    if not scene.report.is_compared(name):
        return
    times, values = error_curve(scene, name)
    if scene.bands and len(values) == 1:
        draw_band(axes, scene, name, times, values[0])
    with np.errstate(all="ignore"):
        draw_curve(axes, scene, name, times, np.nanmedian(values, axis=1))


def has_errors(scene: Scene) -> bool:
    """Whether any method can be compared with the reference."""
    return any(scene.report.is_compared(name) for name in scene.looks)


def draw_all_errors(axes: Axes, scene: Scene) -> None:
    """Draw the error of every method over time, and the threshold of failure."""
    for name in scene.looks:
        draw_error_growth(axes, scene, name)
    style = scene.style
    axes.axhline(scene.report.threshold, color=style.reference, lw=0.7 * style.line, ls=(0, (1, 2)))
    time_axis(axes)
    axes.set(yscale="log", ylabel="error of the trajectory")
    cut(axes, scene.report.accuracy)


@takes_axes
def errors(report: Rollout, ax: Any = None) -> Any:
    """Draw the distance from the reference: the median over the orbits, in a band of all.

    Parameters
    ----------
    {report}
    {ax}

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

    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> axes = vp.plotting.errors(report)
    """
    scene = own_scene(report, ax)
    if not has_errors(scene):
        raise InputError("errors: this rollout has no reference to measure them against")
    return drawn_into(ax, draw_all_errors, scene)


def _draw(scene: Scene) -> matplotlib.figure.Figure:
    figure = new_figure(scene.style, scene.style.narrow, 20, legend_lines(scene))
    draw_all_errors(figure.subplots(), scene)
    return figure


def _caption(scene: Scene) -> list[str]:
    compared = [name for name in scene.looks if scene.report.is_compared(name)]
    medians = [np.nanmedian(error_curve(scene, name)[1], axis=1) for name in compared]
    floor = "reference" if scene.report.accuracy > ROUNDING else "rounding"
    return [
        f"{capital(curves_shown(scene))}; dotted: failure, at {scene.report.threshold:.2g}; "
        f"shaded: below the {floor} error.",
        *events(scene, CURVES),
        *final_errors(scene),
        reference(scene),
        *notes(scene, medians),
    ]


ERRORS = FigureDeclaration("errors", _draw, _caption, has_errors)


def curves_shown(scene: Scene) -> str:
    """Return a description of the error curves."""
    band = " and band of all" if scene.bands else " of the"
    if len(scene.report.reference) == 1:
        return "distance from the reference"
    return f"distance from the reference, median{band} orbits"


def final_errors(scene: Scene) -> list[str]:
    """Return a sentence on the error of every method at the end of the reference."""
    report = scene.report
    final = {name: report.summary(name).final_error for name in scene.runs}
    known = {n: v for n, v in final.items() if report.is_compared(n) and not np.isnan(v)}
    if not known:
        return []
    texts = {name: error_size(value, report) for name, value in known.items()}
    median = "Median" if len(report.reference) > 1 else "Error"
    return [f"{median} at t = {grouped(report.reference_time)}: {by_method(scene, known, texts)}."]
