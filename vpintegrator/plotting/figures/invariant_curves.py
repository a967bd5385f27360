"""Errors of the invariants in time."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.errors import InputError
from vpintegrator.plotting.captions import CURVES, by_method, capital, definitions, events, notes
from vpintegrator.plotting.curves import cut, draw_curve, thinned, time_axis
from vpintegrator.plotting.layout import FigureDeclaration, legend_lines, panels_of_curves
from vpintegrator.plotting.names import plain, shortened
from vpintegrator.plotting.scene import Rollout, Scene, drawn_into, own_scene, takes_axes


def invariant_curve(scene: Scene, name: str, invariant: str) -> tuple[np.ndarray, np.ndarray]:
    """Return times and the largest errors (seed, time) of an invariant up to each of them.

    The raw error of a bounded oscillation falls to zero twice a period; its running maximum is flat
    where there is no drift and rises where there is one.
    """
    report, start = scene.report, scene.start[name]
    members = report.run(name).members
    errors = np.stack([each.invariants[invariant].error for each in members])
    with np.errstate(all="ignore"):
        size = np.abs(errors).max(axis=1)  # (seed, time)
        envelope = np.maximum.accumulate(np.where(np.isnan(size), np.inf, size), axis=1)
    chosen = thinned(len(report.times) - start, logarithmic=True) + start
    return report.times[chosen], envelope[:, chosen]


def draw_invariant(axes: Axes, scene: Scene, invariant: str) -> None:
    """Draw the error of one invariant for every method."""
    for name in scene.looks:
        draw_curve(axes, scene, name, *invariant_curve(scene, name, invariant))
    relative = all(run.invariants[invariant].relative for run in scene.runs.values())
    time_axis(axes)
    axes.set(yscale="log", ylabel=f"largest {'relative ' if relative else ''}change")
    axes.set_title(plain(shortened(scene.labels[invariant])))
    cut(axes)


@takes_axes
def invariant(report: Rollout, name: str | None = None, ax: Any = None) -> Any:
    """Draw the largest change of an invariant on any orbit up to each time, for every method.

    Parameters
    ----------
    {report}
    name
        Name of an invariant of the system; the first if None.
    {ax}

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

    >>> report = vp.compare(None, "rk4", system="pendulum", step=0.1, steps=20)
    >>> axes = vp.plotting.invariant(report, "energy")
    """
    scene = own_scene(report, ax)
    there = list(scene.system.invariants)
    chosen = there[0] if name is None and there else str(name)
    if chosen not in there:
        known = f"it has {', '.join(there)}" if there else "it has none"
        raise InputError(f"invariant: {scene.system.name} has no '{name or 'invariant'}'; {known}")
    return drawn_into(ax, draw_invariant, scene, chosen)


def _draw(scene: Scene) -> matplotlib.figure.Figure:
    def draw(axes: Axes, name: str) -> None:
        draw_invariant(axes, scene, name)

    names = list(scene.system.invariants)
    return panels_of_curves(scene.style, names, draw, 21, legend_lines(scene))


def _caption(scene: Scene) -> list[str]:
    names = list(scene.system.invariants)
    curves = [invariant_curve(scene, method, name)[1] for method in scene.runs for name in names]
    return [
        "Largest change of the invariants on any orbit up to each time.",
        *events(scene, CURVES),
        *(largest_change(scene, name) for name in names),
        *definitions(scene.system, names),
        *notes(scene, curves),
    ]


INVARIANTS = FigureDeclaration(
    "invariants", _draw, _caption, lambda scene: bool(scene.system.invariants)
)


def largest_change(scene: Scene, invariant: str) -> str:
    """Return a sentence on the largest change of an invariant at the end, for every method."""
    summaries = {name: scene.report.summary(name) for name in scene.runs}
    largest = {name: summary.invariants[invariant] for name, summary in summaries.items()}
    relative = all(s.invariant_kinds[invariant] == "relative" for s in summaries.values())
    kind = "relative to its largest initial value" if relative else "absolute"
    return f"{capital(scene.labels[invariant])} ({kind}): {by_method(scene, largest)} at the end."
