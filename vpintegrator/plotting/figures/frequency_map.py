"""Frequency maps: rotation numbers and regularity of orbits over their initial states.

Islands are plateaus of the turns per step, and chaos is where they change on the way (Laskar,
Physica D 67 (1993) 257-281).
"""

from __future__ import annotations

import matplotlib
import matplotlib.figure
import numpy as np
from matplotlib.colors import LogNorm

from vpintegrator.plotting.density import scale_of_counts
from vpintegrator.plotting.ensemble_scene import EnsembleScene, InitialCells
from vpintegrator.plotting.layout import FigureDeclaration, new_figure
from vpintegrator.rollout import EnsembleStatistics

_HEIGHT = 19  # em
_LEAST = 500  # orbits: fewer make no picture
_SPAN = 0.01, 0.99  # quantiles of the orbits between which colours differ
_STILL, _CHAOS = 1e-12, 1e-2  # ends of the scale of changes


def _shown(scene: EnsembleScene) -> dict[str, EnsembleStatistics]:
    return {
        name: found
        for name, found in scene.ensembles.items()
        if found.rotation is not None
        and np.isfinite(found.rotation).sum() >= _LEAST
        and InitialCells.apply(found)
    }


def _draw(scene: EnsembleScene) -> matplotlib.figure.Figure:
    style, shown = scene.style, _shown(scene)
    figure = new_figure(style, style.wide, _HEIGHT * len(shown))
    panels = figure.subplots(len(shown), 2, squeeze=False, sharex=True, sharey=True)
    for row, (name, found) in zip(panels, shown.items(), strict=True):
        assert found.rotation is not None
        assert found.change is not None
        cells, known = InitialCells(found), np.isfinite(found.rotation)
        turns = found.rotation[known]
        ends = np.quantile(turns, _SPAN)
        look = {"cmap": matplotlib.colormaps["viridis"], "vmin": ends[0], "vmax": ends[1]}
        left = cells.draw(row[0], scene, cells.mean(turns, known), **look)
        figure.colorbar(left, ax=row[0], label="turns per step", pad=0.02)
        logarithms = np.log(np.clip(found.change[known], _STILL, _CHAOS))
        changes = np.exp(cells.mean(logarithms, known))
        scale = {"cmap": scale_of_counts(style, 0.12), "norm": LogNorm(_STILL, _CHAOS)}
        right = cells.draw(row[1], scene, changes, **scale)
        figure.colorbar(right, ax=row[1], label="difference of halves", pad=0.02)
        for axes in row if len(shown) > 1 else ():
            scene.name_panel(axes, name)
    for axes in panels[:, 1]:
        axes.set_ylabel("")
    for axes in panels[:-1].flat:
        axes.set_xlabel("")
    return figure


def _caption(scene: EnsembleScene) -> list[str]:
    sentences = []
    for found in _shown(scene).values():
        assert found.change is not None
        known = np.isfinite(found.change)
        regular = int(found.regular.sum())
        sentences.append(
            f"{found.title}: {int(known.sum())} orbits of {found.plan.steps} steps, of which the "
            f"halves of {regular} agree within {found.tolerance:.0e}; {found.length_words}. Turns "
            f"{found.plan.centre_words}."
        )
    return [
        "Turns per step over the initial states, and how far its averages over the first and the "
        "second half of the way differ: small on tori and in islands, where the turns are those of "
        "the island's centre on average, large in chaos.",
        *sentences,
        *scene.domains,
    ]


FREQUENCY = FigureDeclaration("frequency", _draw, _caption, lambda scene: bool(_shown(scene)))
