"""One page that tells the story: phase portraits above, the growth of every error below."""

from __future__ import annotations

import matplotlib.figure
import numpy as np
from matplotlib.lines import Line2D

from vpintegrator.plotting.errors import draw_error_growth, draw_largest_so_far, draw_volume_error
from vpintegrator.plotting.phase import draw_plane, draw_sphere, on_sphere, planes
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import PAGE, REFERENCE_COLOUR, Look

_PORTRAITS = 4


def overview(scene: Scene) -> matplotlib.figure.Figure:
    """Portraits of the reference and the first methods; errors of all of them."""
    report = scene.report
    figure = matplotlib.figure.Figure(figsize=(PAGE, 4.6), layout="constrained")
    upper, lower = np.ravel(figure.subfigures(2, 1, squeeze=False, height_ratios=[1.0, 1.15]))
    names = list(scene.looks)[:_PORTRAITS]
    sphere = on_sphere(report.reference)
    panels = upper.subplots(1, len(names) + (1 if sphere else 0), squeeze=False)[0]
    if sphere:
        grey = Look(REFERENCE_COLOUR, "-", "")
        draw_sphere(panels[0], report.reference, grey, sphere, scene.components)
        panels[0].set_title("reference")
        for axes, name in zip(panels[1:], names, strict=True):
            draw_sphere(axes, scene.states[name], scene.looks[name], sphere, scene.components)
            axes.set_title(scene.titles[name], color=scene.looks[name].colour)
    else:
        pair = planes(scene.components, scene.system.is_hamiltonian)[0]
        for axes, name in zip(panels, names, strict=True):
            draw_plane(
                axes,
                scene.states[name],
                report.reference,
                scene.looks[name],
                pair,
                scene.components,
            )
            axes.set_title(scene.titles[name], color=scene.looks[name].colour)
    end = report.times[-1]
    upper.suptitle(
        f"{scene.system.title}: {len(report.reference)} orbits to t = {end:g}, "
        f"step {report.step:g}",
        fontsize=9.5,
        fontweight="bold",
    )
    _error_panels(scene, lower)
    return figure


def _error_panels(scene: Scene, figure: matplotlib.figure.SubFigure) -> None:
    invariants = next(iter(scene.invariant_errors.values()), {})
    first = next(iter(invariants), None)
    panels = list(np.ravel(figure.subplots(1, 3 if first else 2)))
    for name, look in scene.looks.items():
        times, start = scene.report.times, scene.start[name]
        draw_error_growth(panels[0], times, scene.trajectory_errors[name], look, start)
        if first:
            error = scene.invariant_errors[name][first].error
            draw_largest_so_far(panels[1], times, error, look, start)
        draw_volume_error(panels[-1], *scene.volume[name], look)
    panels[0].set_title("trajectory")
    if first:
        panels[1].set_title(first.replace("_", " "))
    panels[-1].set_title("volume of one step")
    planar = on_sphere(scene.report.reference) is None  # the reference lies under every portrait
    lines = legend_lines(scene, reference=planar)
    figure.legend(handles=lines, loc="outside lower center", ncols=min(len(lines), 5))


def legend_lines(scene: Scene, reference: bool = False) -> list[Line2D]:
    """One entry a method."""
    lines = [
        Line2D([], [], color=look.colour, ls=look.line, lw=look.width, label=scene.titles[name])
        for name, look in scene.looks.items()
    ]
    if reference:
        lines.insert(
            0, Line2D([], [], color=REFERENCE_COLOUR, lw=2.6, alpha=0.5, label="reference")
        )
    return lines
