"""Growth of the error of trajectories in time."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.errors import InputError
from vpintegrator.plotting.captions import by_method, capital, closing
from vpintegrator.plotting.curves import (
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


def draw_error_growth(axes: Axes, scene: Scene, name: str) -> None:
    """Draw the median error of a method, in a band from least to largest.

    A diverged trajectory counts as an infinite error. The curve ends with the reference of half of
    the orbits. Of several models of one name the band is that of their medians.
    """
    report, start = scene.report, scene.start[name]
    end = report.reference_end
    if not report.is_compared(name):
        return
    chosen = thinned(end - start, logarithmic=True) + start
    members = report.run(name).members
    values = np.stack([largest_between(each.error, chosen) for each in members])
    # a measured reference may lack the states of some orbits, but not of all at each of its times
    missing = np.isnan(values).all(axis=(0, 1))
    times, values = report.times[chosen[~missing]], values[..., ~missing]  # (seed, orbit, time)
    if scene.bands and len(members) == 1:
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
    cut(axes)


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
    curves = capital(curves_shown(scene))
    numbers = error_numbers(scene)
    return [f"{curves}.", *numbers, *closing(scene, floor=True)]


ERRORS = FigureDeclaration("errors", _draw, _caption, has_errors)


def curves_shown(scene: Scene) -> str:
    """Return a description of the error curves."""
    band = ", in a band from the smallest to the largest" if scene.bands else ""
    if len(scene.report.reference) == 1:
        return "distance from the reference"
    return f"distance from the reference, the median over the orbits{band}"


def error_numbers(scene: Scene) -> list[str]:
    """Return sentences on the errors of every method, and on times of failure."""
    report = scene.report
    largest, final, failure = {}, {}, {}
    for name in scene.runs:
        if not report.is_compared(name):
            continue
        summary = report.summary(name)
        errors = [run.error[:, : report.reference_end] for run in report.run(name).members]
        largest[name] = float(np.nanmax(np.stack(errors), initial=0.0))
        if not np.isnan(summary.final_error):  # the reference is known at its end
            final[name] = summary.final_error
        if np.isfinite(summary.threshold_time):
            failure[name] = summary.threshold_time
    if not largest:
        return []
    sentences = [f"Largest error of any orbit: {by_method(scene, largest)}."]
    if final:
        end = grouped(report.reference_time)
        sentences.append(f"Median over the orbits at t = {end}: {by_method(scene, final)}.")
    line = (
        f"An error of {report.threshold:.2g} (dotted line) counts as failure; half of the orbits "
    )
    if failure:
        times = by_method(scene, failure, "{:.4g}".format)
        sentences.append(f"{line}have reached it by t = {times}.")
    else:
        sentences.append(f"{line}reach it with no method.")
    return sentences
