"""Escape times of the trajectories of an ensemble, over their initial states and in time."""

from __future__ import annotations

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.image import AxesImage

from vpintegrator.plotting.density import draw_dots, scale_of_counts
from vpintegrator.plotting.ensemble_scene import EnsembleScene, InitialCells, coordinate
from vpintegrator.plotting.layout import FigureDeclaration, colour_bar, hide_unused, new_figure
from vpintegrator.rollout import EnsembleStatistics

_HEIGHT = 20  # em
_HALF = 0.5  # share of the initial states in a cell that leave
_LONG = 100  # steps from which on both axes are logarithmic


def _draw(scene: EnsembleScene) -> matplotlib.figure.Figure:
    style, count = scene.style, len(scene.ensembles)
    figure = new_figure(style, style.wide, _HEIGHT * (1 + (count > 2)))
    columns = min(count, 2) + 1
    panels = list(figure.subplots(-(-(count + 1) // columns), columns, squeeze=False).flat)
    last = max(int(each.left.max()) for each in scene.ensembles.values())
    image = None
    for axes, (name, found) in zip(panels, scene.ensembles.items(), strict=False):
        image = _map(axes, scene, found, max(last, 2)) or image
        scene.name_panel(axes, name)
    if image is not None and last >= 0:
        colour_bar(figure, image, panels[:count], "steps until outside", style)
    _fractions(panels[count], scene)
    hide_unused(panels, count + 1)
    return figure


def _map(
    axes: Axes, scene: EnsembleScene, found: EnsembleStatistics, last: int
) -> AxesImage | None:
    """Draw the geometric mean of the escape times by initial cell; grey where most orbits stay."""
    style = scene.style
    if not InitialCells.apply(found):
        label, _, where = coordinate(found)
        gone = found.left >= 0
        draw_dots(axes, where[gone], np.maximum(found.left[gone], 0.5), style.foreground, style)
        axes.set(yscale="log", xlabel=label, ylabel="steps until outside")
        return None
    cells, gone = InitialCells(found), found.left >= 0
    share = cells.total(np.ones(gone.sum()), gone) / np.maximum(cells.count, 1)
    mean = np.exp(cells.mean(np.log(np.maximum(found.left[gone], 1)), gone))
    stay = np.where((cells.count > 0) & (share < _HALF), 1.0, np.nan)
    cells.draw(axes, scene, stay, cmap="gray", vmin=0, vmax=3.0 if style.dark else 1.3)
    scale = scale_of_counts(style, 0.12)
    shown = np.where(share >= _HALF, mean, np.nan)
    return cells.draw(axes, scene, shown, cmap=scale, norm=LogNorm(1, last))


def _fractions(axes: Axes, scene: EnsembleScene) -> None:
    """Draw the fraction of trajectories inside over time."""
    for name, found in scene.ensembles.items():
        look, fraction = scene.looks[name], found.confined
        label = scene.titles[name] if len(scene.ensembles) > 1 else "inside"
        axes.plot(np.arange(len(fraction)), fraction, label=label, **look.strokes())
    if scene.first.plan.steps > _LONG:
        axes.set(xscale="log", xlim=(1, None))
    axes.set(xlabel="step", ylabel="fraction inside")
    axes.set_ylim(top=min(axes.get_ylim()[1], 1.02))
    if len(axes.get_lines()) > 1:
        axes.legend(loc="best")


def _caption(scene: EnsembleScene) -> list[str]:
    words = []
    for found in scene.ensembles.values():
        row, gone = found.table()[0], int((found.left >= 0).sum())
        half = f", half of these by step {row['median_left']:.0f}" if gone else ""
        words.append(
            f"{found.title}: {gone or 'none'} of {row['trajectories']} trajectories are outside "
            f"({found.plan.escape.words}) within {row['steps']} steps{half}."
        )
    return [*words, "Over initial states, when they leave; grey where most stay.", *scene.domains]


ESCAPE = FigureDeclaration(
    "escape",
    _draw,
    _caption,
    lambda scene: any((each.left >= 0).any() for each in scene.ensembles.values()),
)
