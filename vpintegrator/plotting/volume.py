"""Volume errors: of the map of one step, and of the map of phase space z_0 -> z_t."""

from __future__ import annotations

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.curves import cut, draw_curve, time_axis
from vpintegrator.plotting.layout import columns_that_fit, legend_lines, new_figure
from vpintegrator.plotting.scene import Scene

_PANEL = 24  # em: least width of a panel
VOLUMES = {
    "step": ("volume error of one step", r"$|\log|\det D\Phi||$"),
    "phase-space": (
        r"volume error of phase space, $z_0 \mapsto z_t$",
        r"$|\log|\det\,\partial z_t/\partial z_0||$",
    ),
}


def draw_volume_error(axes: Axes, scene: Scene, kind: str) -> None:
    """Largest |log|det|| over trajectories, at each time it was measured, for every method."""
    logarithmic = scene.long and kind == "step"
    measured = [run.volume[kind].times for run in scene.runs.values() if kind in run.volume]
    # on a logarithmic axis all start where the last does: what is before it is one long line
    common = max((times[times > 0].min(initial=np.inf) for times in measured), default=0.0)
    for name in scene.looks:
        volume = scene.runs[name].volume.get(kind)
        if volume is None:
            continue
        with np.errstate(all="ignore"):
            sizes = np.abs(volume.log_determinant).max(axis=0)
        later = np.full(len(volume.times), True)
        if logarithmic and np.isfinite(common):
            later = volume.times >= common
        elif kind == "phase-space":  # what the first window was made by is no method's work
            given = (scene.runs[name].window - 1) * scene.report.step
            later = volume.times > given * (1 + 1e-9)
        draw_curve(axes, scene, name, volume.times[later], sizes[later], logarithmic)
    time_axis(axes, logarithmic)
    title, label = VOLUMES[kind]
    axes.set(yscale="log", ylabel=label, title=title)
    cut(axes)


def volumes_measured(scene: Scene) -> list[str]:
    """Which of the two volumes were measured for any method."""
    return [kind for kind in VOLUMES if any(kind in run.volume for run in scene.runs.values())]


def volume(scene: Scene) -> matplotlib.figure.Figure | None:
    """Volume errors of all methods, if any were measured."""
    kinds = volumes_measured(scene)
    if not kinds:
        return None
    width = scene.style.narrow if len(kinds) == 1 else scene.style.wide
    columns = min(len(kinds), columns_that_fit(scene, width, _PANEL))
    rows = -(-len(kinds) // columns)
    lines = [
        line
        for line, run in zip(legend_lines(scene), scene.runs.values(), strict=True)
        if run.volume
    ]
    figure = new_figure(scene, width, 20 * rows, lines)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, kind in zip(panels, kinds, strict=True):
        draw_volume_error(axes, scene, kind)
    return figure
