"""Volume errors: of the map of one step, and of the map of phase space z_0 -> z_t."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.errors import InputError
from vpintegrator.plotting.captions import CURVES, by_method, by_title, capital, events, notes
from vpintegrator.plotting.curves import cut, draw_curve, time_axis
from vpintegrator.plotting.layout import FigureDeclaration, legend_lines, panels_of_curves
from vpintegrator.plotting.scene import Rollout, Scene, choose, drawn_into, own_scene, takes_axes

VOLUMES = {
    "step": ("one step", r"\det D\Phi"),
    "phase-space": (r"phase space, $z_0 \mapsto z_t$", r"\det\,\partial z_t/\partial z_0"),
}


def volume_curve(scene: Scene, name: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return times and the largest |log|det|| (seed, time), none if it was not measured."""
    volume = scene.runs[name].volume.get(kind)
    if volume is None:
        return np.empty(0), np.empty(0)
    members = [each.volume[kind].log_determinant for each in scene.runs[name].members]
    with np.errstate(all="ignore"):
        sizes = np.abs(np.stack(members)).max(axis=1)
    later = np.full(len(volume.times), True)
    if scene.long and kind == "step":
        # on a logarithmic axis all start where the last does: what is before it is one long line
        measured = [run.volume[kind].times for run in scene.runs.values() if kind in run.volume]
        common = max(times[times > 0].min(initial=np.inf) for times in measured)
        later = volume.times >= common if np.isfinite(common) else later
    elif kind == "phase-space":  # first windows come from the reference or a solver
        later = volume.times > (scene.runs[name].window - 1) * scene.report.step * (1 + 1e-9)
    return volume.times[later], sizes[:, later]


def draw_volume_error(axes: Axes, scene: Scene, kind: str) -> None:
    """Draw the largest |log|det|| over trajectories, for every method."""
    logarithmic = scene.long and kind == "step"
    for name in scene.looks:
        times, sizes = volume_curve(scene, name, kind)
        if len(times):
            draw_curve(axes, scene, name, times, sizes, logarithmic)
    time_axis(axes, logarithmic)
    title, determinant = VOLUMES[kind]
    label = rf"$|\log|{determinant}||$"
    if scene.system.contracts:
        label = rf"$|\log|{determinant}| - \log|\mathrm{{exact}}||$"
    axes.set(yscale="log", ylabel=label, title=f"{volume_words(scene)} of {title}")
    cut(axes)


def volume_words(scene: Scene) -> str:
    """Return how figures name the error: of the contraction for systems that change volume."""
    return "contraction error" if scene.system.contracts else "volume error"


def volumes_measured(scene: Scene) -> list[str]:
    """Return the kinds of volume that were measured for at least one method."""
    return [kind for kind in VOLUMES if any(kind in run.volume for run in scene.runs.values())]


@takes_axes
def volume(report: Rollout, kind: str = "step", ax: Any = None) -> Any:
    r"""Draw the volume error of each method over time, the largest of all orbits.

    The error is :math:`|\log |\det D||`, at each time at which it was measured; for a system that
    changes volume, the difference from that of the exact solution.

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
    curves = [volume_curve(scene, name, kind)[1] for name in scene.runs for kind in kinds]
    less = " less that of the exact solution" if scene.system.contracts else ""
    return [
        f"{capital(volume_words(scene))}: |log|det||{less}, the largest of all orbits measured.",
        *events(scene, CURVES),
        *(sentence for kind in kinds for sentence in _numbers(scene, kind)),
        *notes(scene, curves),
    ]


VOLUME = FigureDeclaration("volume", _draw, _caption, lambda scene: bool(volumes_measured(scene)))


def _numbers(scene: Scene, kind: str) -> list[str]:
    """Return a sentence on the largest volume error of every method."""
    runs = scene.runs
    found = {name: run.volume[kind].largest for name, run in runs.items() if kind in run.volume}
    measured = {name: value for name, value in found.items() if value is not None}
    if not measured:
        return []
    what = "Derivative of one step" if kind == "step" else "Derivative of the map z_0 → z_t"
    windows = [name for name in measured if runs[name].window > 1 and kind == "step"]
    what += f" (for {by_title(scene, windows)} of a map of windows)" if windows else ""
    missing = [name for name in runs if name not in measured]
    left = f"; none for {by_title(scene, missing)}" if missing else ""
    sizes = {name: f"{v:.1e}" if np.isfinite(v) else "collapsed" for name, v in measured.items()}
    return [f"{what}: {by_method(scene, measured, sizes)}{left}."]
