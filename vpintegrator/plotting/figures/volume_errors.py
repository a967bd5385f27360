"""Volume errors: of the map of one step, and of the map of phase space z_0 -> z_t."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.errors import InputError
from vpintegrator.plotting.captions import by_method, closing, listed
from vpintegrator.plotting.curves import cut, draw_curve, time_axis
from vpintegrator.plotting.layout import FigureDeclaration, legend_lines, panels_of_curves
from vpintegrator.plotting.names import grouped, orbits
from vpintegrator.plotting.scene import Rollout, Scene, choose, drawn_into, own_scene, takes_axes

VOLUMES = {
    "step": ("volume error of one step", r"$|\log|\det D\Phi||$"),
    "phase-space": (
        r"volume error of phase space, $z_0 \mapsto z_t$",
        r"$|\log|\det\,\partial z_t/\partial z_0||$",
    ),
}


def draw_volume_error(axes: Axes, scene: Scene, kind: str) -> None:
    """Draw the largest |log|det|| over trajectories, for every method."""
    logarithmic = scene.long and kind == "step"
    measured = [run.volume[kind].times for run in scene.runs.values() if kind in run.volume]
    # on a logarithmic axis all start where the last does: what is before it is one long line
    common = max((times[times > 0].min(initial=np.inf) for times in measured), default=0.0)
    for name in scene.looks:
        volume = scene.runs[name].volume.get(kind)
        if volume is None:
            continue
        members = [each.volume[kind].log_determinant for each in scene.runs[name].members]
        with np.errstate(all="ignore"):
            sizes = np.abs(np.stack(members)).max(axis=1)  # (seed, time)
        later = np.full(len(volume.times), True)
        if logarithmic and np.isfinite(common):
            later = volume.times >= common
        elif kind == "phase-space":  # first windows come from the reference or a solver
            given = (scene.runs[name].window - 1) * scene.report.step
            later = volume.times > given * (1 + 1e-9)
        draw_curve(axes, scene, name, volume.times[later], sizes[:, later], logarithmic)
    time_axis(axes, logarithmic)
    title, label = VOLUMES[kind]
    axes.set(yscale="log", ylabel=label, title=title)
    cut(axes)


def volumes_measured(scene: Scene) -> list[str]:
    """Return the kinds of volume that were measured for at least one method."""
    return [kind for kind in VOLUMES if any(kind in run.volume for run in scene.runs.values())]


@takes_axes
def volume(report: Rollout, kind: str = "step", ax: Any = None) -> Any:
    r"""Draw the volume error of each method over time, the largest of all orbits.

    The error is :math:`|\log |\det D||`, at each time at which it was measured.

    Parameters
    ----------
    {report}
    kind
        Map with the derivative D. ``"step"`` is the map of one step; for a model that reads windows
        it is the map of windows. ``"phase-space"`` is the map from the initial state to the state
        at the time.
    {ax}

    Raises
    ------
    InputError
        If the file is no rollout, or this volume was not measured.

    Examples
    --------
    ::

        vp.plotting.volume(report, "phase-space", ax=ax)

    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> axes = vp.plotting.volume(report)
    """
    choose("kind", kind, VOLUMES)
    scene = own_scene(report, ax)
    if kind not in volumes_measured(scene):
        raise InputError(f"volume: that of '{kind}' was not measured in this rollout")
    return drawn_into(ax, draw_volume_error, scene, kind)


def _draw(scene: Scene) -> matplotlib.figure.Figure:
    def draw(axes: Axes, kind: str) -> None:
        draw_volume_error(axes, scene, kind)

    runs = scene.runs.values()
    lines = [line for line, run in zip(legend_lines(scene), runs, strict=True) if run.volume]
    return panels_of_curves(scene.style, volumes_measured(scene), draw, 20, lines)


def _caption(scene: Scene) -> list[str]:
    kinds = volumes_measured(scene)
    return [
        *(sentence for kind in kinds for sentence in volume_numbers(scene, kind)),
        *closing(scene, floor=True),
    ]


VOLUME = FigureDeclaration("volume", _draw, _caption, lambda scene: bool(volumes_measured(scene)))


def volume_numbers(scene: Scene, kind: str) -> list[str]:
    """Return a sentence on the largest volume error of every method, if any was measured."""
    runs = scene.runs
    measured = {
        name: run.volume[kind].largest or 0.0
        for name, run in runs.items()
        if kind in run.volume and run.volume[kind].largest is not None
    }
    if not measured:
        return []
    count = max(len(runs[name].volume[kind].log_determinant) for name in measured)
    times = max((runs[name].volume[kind].times for name in measured), key=len)
    if kind == "step":
        what = "Volume error of the map, |log|det|| of the derivative of one step"
        windows = [f"{runs[n].title}: {runs[n].window}" for n in measured if runs[n].window > 1]
        what += f" (of a map of windows for {listed(windows)} states)" if windows else ""
    else:
        what = "Volume error of phase space, |log|det|| of the derivative of the map z_0 → z_t"
        if any(runs[name].window > 1 for name in measured):
            what += " (through the first window of a model that reads windows)"
    missing = [run.title for name, run in runs.items() if name not in measured]
    left = f"; not defined or not measured for {listed(missing)}" if missing else ""
    sizes = {name: f"{v:.1e}" if np.isfinite(v) else "collapsed" for name, v in measured.items()}
    return [
        f"{what}, the largest over {orbits(count)} at {len(times)} times to "
        f"t = {grouped(times[-1])}: {by_method(scene, measured, sizes)}{left}."
    ]
