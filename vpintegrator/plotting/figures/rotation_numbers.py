"""Turns per step of the orbits of a map, beside those of the reference."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import numpy as np

from vpintegrator.plotting.captions import by_method
from vpintegrator.plotting.curves import SMALLEST
from vpintegrator.plotting.layout import (
    FigureDeclaration,
    legend_lines,
    marker_size,
    new_figure,
    reference_line,
)
from vpintegrator.plotting.names import mathtext
from vpintegrator.plotting.scene import Scene
from vpintegrator.rollout.diagnostics.rotation import RotationNumbers

_PROFILE, _DIFFERENCE = 16, 10  # em


def _found(scene: Scene) -> dict[str, RotationNumbers]:
    return scene.measured("rotation")


def _places(scene: Scene, found: RotationNumbers) -> tuple[str, np.ndarray]:
    """Return the label and the values of the horizontal axis.

    The axis shows the distance of the initial state from the centre. For turns of an angle it shows
    the other component.
    """
    initial = scene.report.reference[:, 0]
    if found.centre is None:
        k = next((k for k in range(2) if k not in scene.system.periods), 1)
        return f"initial {mathtext(scene.components[k])}", initial[:, k]
    return "initial distance from the centre", np.linalg.norm(initial - found.centre, axis=1)


def _draw(scene: Scene) -> matplotlib.figure.Figure:
    style, measured = scene.style, _found(scene)
    some = next(iter(measured.values()))
    label, where = _places(scene, some)
    dots: dict[str, Any] = {"ls": "", "marker": "o", "color": style.reference, "alpha": 0.5}
    large = 1.8 * marker_size(scene)
    legend = [*legend_lines(scene), *reference_line(scene, ms=large, **dots)]
    figure = new_figure(style, style.narrow * 1.25, _PROFILE + _DIFFERENCE, legend)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[_PROFILE, _DIFFERENCE])
    order = np.argsort(where, kind="stable")
    reference = some.reference.copy()
    # a single curve, also across half a turn
    reference[order] = np.unwrap(reference[order], period=1)
    above.plot(where, reference, ms=large, mew=0, **dots)
    for name, found in measured.items():
        look, size = scene.looks[name], marker_size(scene)
        # turns are known up to whole ones: take those nearest to the reference
        shown = found.number + np.round(reference - found.number)
        above.plot(where, shown, ls="", marker=look.marker, ms=size, color=look.colour)
        regular = found.regular
        values = np.maximum(found.difference, SMALLEST)
        for which, face in ((regular, look.colour), (~regular, "none")):
            below.plot(
                where[which],
                values[which],
                ls="",
                marker=look.marker,
                ms=size,
                color=look.colour,
                mfc=face,
            )
    above.set_ylabel("turns per step")
    below.set(yscale="log", xlabel=label, ylabel="error")
    return figure


def _caption(scene: Scene) -> list[str]:
    measured = _found(scene)
    some = next(iter(measured.values()))
    errors = {name: found.error for name, found in measured.items() if found.error is not None}
    largest = (
        f" Largest error on these: {by_method(scene, errors, lambda x: f'{x:.1e}')}."
        if errors
        else ""
    )
    about = (
        "of the angle"
        if some.centre is None
        else f"about ({', '.join(f'{x:.4g}' for x in some.centre)})"
    )
    return [
        f"Turns per step {about} against where orbits start, up to whole turns, averaged with "
        "smooth weights over as many steps as the reference has, and their errors: filled on the "
        f"{int(some.regular.sum())} orbits of {len(some.number)} whose halves agree within "
        f"{some.tolerance:.0e} in the reference, open on others.{largest}"
    ]


ROTATION_NUMBERS = FigureDeclaration("rotation", _draw, _caption, lambda scene: bool(_found(scene)))
