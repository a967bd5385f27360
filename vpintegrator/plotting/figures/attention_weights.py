"""Weights of every attention layer of a model between the time steps of a window."""

from __future__ import annotations

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from vpintegrator.plotting.captions import listed
from vpintegrator.plotting.layout import (
    FigureDeclaration,
    columns_that_fit,
    hide_inner_labels,
    hide_unused,
    new_figure,
)
from vpintegrator.plotting.model_scene import ModelScene, attention_in, first_window, model_scene
from vpintegrator.plotting.names import plain
from vpintegrator.plotting.scene import choose, drawn_into, takes_axes

_PANEL = 11.0  # em: least width of a panel
_MOST = 24  # panels
_WRITTEN = 5  # time steps of a window up to which the weights are written into the squares
_DARK = 0.6  # share of the largest weight from which text is white


def draw_weights(axes: Axes, weights: np.ndarray, rotation: bool) -> Any:
    """Draw a matrix (time, time) in colours from 0 to 1, or from -1 to 1 for a rotation."""
    count = len(weights)
    image = axes.imshow(
        weights,
        extent=(0.5, count + 0.5, count + 0.5, 0.5),
        cmap="RdBu_r" if rotation else "Blues",
        vmin=-1 if rotation else 0,
        vmax=1,
    )
    for (row, column), weight in np.ndenumerate(weights if count <= _WRITTEN else weights[:0]):
        letters: dict[str, Any] = {"ha": "center", "va": "center", "size": "small"}
        colour = "white" if abs(weight) > _DARK else "black"
        words = f"{round(weight, 2) + 0:.2f}".replace("-", "−")
        axes.text(column + 1, row + 1, words, color=colour, **letters)
    axes.grid(False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set(xlabel="time step read", ylabel="time step made")
    return image


@takes_axes
def attention(
    source: Any, window: Any = None, layer: str | None = None, head: int = 0, ax: Any = None
) -> Any:
    """Draw the weights of an attention layer between the time steps of a window.

    Parameters
    ----------
    source
        A model, or the path of its file.
    window
        States (window, dim) that it reads; by default the first that a rollout with seed 0 of the
        system it was trained on starts from.
    layer
        Name of a layer, a key of :func:`vpintegrator.nn.attention_weights`; the first if None.
    head
        Number of a head of the layer, or of a rotated block, from 0 on.
    {ax}

    Raises
    ------
    InputError
        If the file is no model, the layer or head does not exist, or a window is needed because the
        system of the model is not known.

    Examples
    --------
    ::

        ax = vp.plotting.attention("rigid-body-vpt.safetensors")
        ax.figure.colorbar(ax.images[0])

    >>> model = vp.models.VolumePreservingTransformer(dim=3, window=4, depth=1)
    >>> axes = vp.plotting.attention(model, np.ones((4, 3)))
    """
    model = model_scene(source).model
    found = attention_in(model, first_window(model) if window is None else window)
    layer = next(iter(found)) if layer is None else layer
    choose("layer", layer, found)
    choose("head", str(head), [str(k) for k in range(len(found[layer]))])
    weights = found[layer][head]
    return drawn_into(ax, draw_weights, weights, bool((weights < 0).any()))


def _panels(scene: ModelScene) -> list[tuple[str, np.ndarray]]:
    """Return titles and matrices, layer by layer."""
    panels = []
    for number, (place, parts) in enumerate(scene.attention.items(), 1):
        part = getattr(scene.model.get_submodule(place), "attention_part", "head")
        for k, weights in enumerate(parts, 1):
            which = f", {part} {k}" if len(parts) > 1 else ""
            panels.append((f"layer {number}{which}", weights))
    return panels


def _rotates(scene: ModelScene) -> bool:
    return any((weights < 0).any() for weights in scene.attention.values())


def _draw(scene: ModelScene) -> matplotlib.figure.Figure:
    style, panels = scene.style, _panels(scene)[:_MOST]
    parts = {len(weights) for weights in scene.attention.values()}
    most = columns_that_fit(scene.style, style.wide, _PANEL)
    # the heads of a layer stay in one row
    beside = max(parts) if len(parts) == 1 and max(parts) <= most else 1
    columns = min(most // beside * beside, len(panels))
    rows = -(-len(panels) // columns)
    width = style.wide * (1 if style.width else min((columns + 0.5) / 4, 1))
    side = width / style.em / (columns + 0.5)
    figure = new_figure(style, width, rows * (0.95 * side + 2) + 4)
    grid = figure.subplots(rows, columns, squeeze=False)
    axes_of_all = list(grid.flat)
    for k, (axes, (title, weights)) in enumerate(zip(axes_of_all, panels, strict=False)):
        image = draw_weights(axes, weights, _rotates(scene))
        axes.set_title(title)
        below = -(-(len(panels) - k % columns) // columns)  # rows of this column
        hide_inner_labels(axes, k, columns, below)
    hide_unused(axes_of_all, len(panels))
    figure.colorbar(image, ax=grid, label="weight", aspect=30, shrink=0.8)
    figure.suptitle(plain(scene.name), fontsize=1.05 * style.letters)
    return figure


def _caption(scene: ModelScene) -> list[str]:
    weights, panels = scene.attention, len(_panels(scene))
    steps = next(iter(weights.values())).shape[-1]
    places = listed([f"{k} is {place}" for k, place in enumerate(weights, 1)])
    law = "each row sums to 1"
    if _rotates(scene):
        law = "the matrices are rotations, so the squares of each row sum to 1"
    left = f" The first {_MOST} of {panels} are drawn." if panels > _MOST else ""
    return [
        f"Attention of {scene.name} in a window of {steps} states, the first that a rollout with "
        "seed 0 starts from: the weights by which each time step (a row) is made of those of the "
        f"window (columns); {law}. Layer {places}.{left}"
    ]


ATTENTION = FigureDeclaration(
    "attention", _draw, _caption, lambda scene: scene.model.window > 1 and bool(scene.attention)
)
