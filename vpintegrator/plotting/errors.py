"""Growth of the error of trajectories in time."""

from __future__ import annotations

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.curves import cut, draw_curve, time_axis
from vpintegrator.plotting.layout import legend_lines, new_figure
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.series import floored, largest_between, thinned


def draw_error_growth(axes: Axes, scene: Scene, name: str) -> None:
    """Median over trajectories of a method's error, in a band from least to largest.

    A trajectory that has diverged counts as infinitely wrong. The curve ends with the reference.
    """
    report, look, start = scene.report, scene.looks[name], scene.start[name]
    end = report.reference.shape[1]
    if not report.is_compared(name):
        return
    chosen = thinned(end - start, logarithmic=True) + start
    values = largest_between(report.errors(name), chosen)
    # a measured reference may lack the states of some orbits, but not of all at each of its times
    missing = np.isnan(values).all(axis=0)
    chosen, values = chosen[~missing], values[:, ~missing]
    times = report.times[chosen]
    with np.errstate(all="ignore"):
        middle = np.nanmedian(values, axis=0)
        low, high = floored(np.nanmin(values, axis=0)), floored(np.nanmax(values, axis=0))
    if scene.bands:
        axes.fill_between(times, low, high, color=look.colour, alpha=0.12, lw=0)
    draw_curve(axes, scene, name, times, middle)


def has_errors(scene: Scene) -> bool:
    """Whether any method can be compared with the reference."""
    return any(scene.report.is_compared(name) for name in scene.looks)


def draw_all_errors(axes: Axes, scene: Scene) -> None:
    """The growth of every method's error, and the error that counts as a failure."""
    for name in scene.looks:
        draw_error_growth(axes, scene, name)
    style = scene.style
    axes.axhline(scene.report.threshold, color=style.reference, lw=0.7 * style.line, ls=(0, (1, 2)))
    time_axis(axes)
    axes.set(yscale="log", ylabel="error of the trajectory")
    cut(axes)


def errors(scene: Scene) -> matplotlib.figure.Figure | None:
    """Growth of the trajectory's error, for every method; None without a reference."""
    if not has_errors(scene):
        return None
    figure = new_figure(scene, scene.style.narrow, 20, legend_lines(scene))
    draw_all_errors(figure.subplots(), scene)
    return figure
