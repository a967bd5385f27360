"""When the trajectories of an ensemble leave: over their initial states, and in time."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.image import AxesImage

from vpintegrator.plotting.declaration import FigureDeclaration
from vpintegrator.plotting.density import draw_dots, scale_of_counts
from vpintegrator.plotting.ensemble_scene import EnsembleScene, coordinate
from vpintegrator.rollout import EnsembleStatistics

_HEIGHT = 20  # em
_CELLS, _IN_A_CELL = 400, 4  # on a side at most; trajectories wanted in one
_LONG = 100  # steps from which on both axes are logarithmic


def _draw(scene: EnsembleScene) -> matplotlib.figure.Figure:
    style, count = scene.style, len(scene.ensembles)
    figure = matplotlib.figure.Figure(
        figsize=(style.wide, style.em * _HEIGHT * (1 + (count > 2))), layout="constrained"
    )
    columns = min(count, 2) + 1
    panels = list(figure.subplots(-(-(count + 1) // columns), columns, squeeze=False).flat)
    last = max(int(each.left.max()) for each in scene.ensembles.values())
    image = None
    for axes, (name, found) in zip(panels, scene.ensembles.items(), strict=False):
        image = _map(axes, scene, found, max(last, 2)) or image
        if count > 1:
            axes.set_title(scene.titles[name], color=scene.looks[name].colour)
    if image is not None:
        bar = figure.colorbar(image, ax=panels[:count], label="steps until outside", pad=0.02)
        bar.outline.set_linewidth(0.4 * style.line)
    _fractions(panels[count], scene)
    for axes in panels[count + 1 :]:
        axes.axis("off")
    return figure


def _map(
    axes: Axes, scene: EnsembleScene, found: EnsembleStatistics, last: int
) -> AxesImage | None:
    """When those that start in a cell leave, in the geometric mean; grey where most stay."""
    style, plan = scene.style, found.plan
    x, y = (found.initial[:, k] for k in plan.pair)
    if not (np.ptp(x) > 0 and np.ptp(y) > 0):
        label, _, where = coordinate(found)
        gone = found.left >= 0
        draw_dots(axes, where[gone], np.maximum(found.left[gone], 0.5), style.foreground, style)
        axes.set(yscale="log", xlabel=label, ylabel="steps until outside")
        return None
    view, columns, rows = ((x.min(), x.max()), (y.min(), y.max())), _cells(x), _cells(y)
    flat = _place(y, rows) * columns + _place(x, columns)
    size = rows * columns
    there = np.bincount(flat, minlength=size)
    gone = found.left >= 0
    left = np.bincount(flat[gone], minlength=size)
    logarithms = np.log(np.maximum(found.left[gone], 1))
    total = np.bincount(flat[gone], weights=logarithms, minlength=size)
    with np.errstate(all="ignore"):
        mean = np.exp(total / left)
    shown = np.where(2 * left >= np.maximum(there, 1), mean, np.nan).reshape(rows, columns)
    stay = np.where((there > 0) & (2 * left < there), 1.0, np.nan).reshape(rows, columns)
    options: dict[str, Any] = {
        "origin": "lower",
        "extent": (*view[0], *view[1]),
        "aspect": "auto",
        "interpolation": "nearest",
        "rasterized": True,
    }
    axes.grid(False)
    axes.imshow(stay, cmap="gray", vmin=0, vmax=1.3 if not style.dark else 3.0, **options)
    names = scene.axes_names
    axes.set(xlabel=f"initial {names[0]}", ylabel=f"initial {names[1]}")
    scale = scale_of_counts(style, 0.12)
    return axes.imshow(np.ma.masked_invalid(shown), cmap=scale, norm=LogNorm(1, last), **options)


def _cells(values: np.ndarray) -> int:
    """Cells along an axis: one for each value of a grid, or as many as are filled."""
    different = len(np.unique(values))
    if different**2 <= 2 * len(values):
        return min(different, _CELLS)
    return int(np.clip(np.sqrt(len(values) / _IN_A_CELL), 4, _CELLS))


def _place(values: np.ndarray, count: int) -> np.ndarray:
    """The cell of each value, of so many from the least to the largest."""
    part = (values - values.min()) / np.ptp(values)
    return np.clip(np.floor(part * count), 0, count - 1).astype(np.int64)


def _fractions(axes: Axes, scene: EnsembleScene) -> None:
    """The fraction that is still inside, in time."""
    for name, found in scene.ensembles.items():
        look, fraction = scene.looks[name], found.confined
        axes.plot(
            np.arange(len(fraction)),
            fraction,
            color=look.colour,
            lw=look.width,
            ls=look.line,
            label=scene.titles[name],
        )
    if scene.first.plan.steps > _LONG:
        axes.set(xscale="log", xlim=(1, None))
    axes.set(xlabel="step", ylabel="fraction inside")
    axes.set_ylim(top=min(axes.get_ylim()[1], 1.02))
    if len(scene.ensembles) > 1:
        axes.legend(loc="lower left")


def _caption(scene: EnsembleScene) -> list[str]:
    words = []
    for found in scene.ensembles.values():
        row = found.table()[0]
        words.append(
            f"{found.title}: {int((found.left >= 0).sum())} of {row['trajectories']} trajectories "
            f"are outside ({found.plan.escape.words}) within {row['steps']} steps, half of these "
            f"by step {row['median_left']:.0f}."
        )
    return [*words, "Over initial states, when they leave; grey where most stay."]


ESCAPE = FigureDeclaration(
    "escape",
    _draw,
    _caption,
    lambda scene: any((each.left >= 0).any() for each in scene.ensembles.values()),
)
