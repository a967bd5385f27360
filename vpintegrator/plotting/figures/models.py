"""Figures of a model: the curve of its training, and the weights of its attention in one window."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from vpintegrator.arguments import one_of, real_array
from vpintegrator.errors import InputError
from vpintegrator.plotting.figure import Figure, drawn_into, hide_inner_labels, own_style
from vpintegrator.plotting.style import LOOKS, PAPER, Style
from vpintegrator.plotting.text import grouped, listed, plain

if TYPE_CHECKING:
    from vpintegrator.models import Model
    from vpintegrator.models.stored import History


@dataclass(frozen=True)
class ModelScene:
    """A model made ready for drawing, or the history of a training alone.

    Attributes
    ----------
    model, name, style
        The model, how the figures call it, and the style of the figures.
    where
        The path of its file, or a word for messages.
    history
        The history of the training; None if none is known.
    """

    model: Any
    name: str
    style: Style
    where: str
    history: History | None

    @cached_property
    def attention(self) -> dict[str, np.ndarray]:
        """The weights of :func:`attention_in` in the :func:`first_window` of a rollout.

        There are none where the model does not say of which system it is.
        """
        with suppress(InputError):
            return attention_in(self.model, first_window(self.model))
        return {}


def model_scene(source: Any, style: Style = PAPER) -> ModelScene:
    """Return the scene of a model, of a model file, or of a history.

    Raises
    ------
    InputError
        If the file is no model.
    """
    from vpintegrator.models import load
    from vpintegrator.models.model import check_model
    from vpintegrator.models.stored import History

    if isinstance(source, History):
        return ModelScene(None, "", style, "history", source)
    where = "model"
    name = getattr(source, "name", "")
    if isinstance(source, str | os.PathLike):
        where = os.fspath(source)
        name = Path(source).stem
        source = load(source)
    model = check_model(source)
    return ModelScene(model, name, style, where, model.record.history)


AGAINST = {"epochs": "epoch", "seconds": "time of training / s"}
_PANEL = 24  # em: least width of a panel


class TrainingFigure(Figure):
    """Errors of a training, epoch by epoch, and second by second."""

    name = "training"
    scene: ModelScene

    @property
    def history(self) -> History:
        """The history of the training that is drawn."""
        assert self.scene.history is not None  # as the figure applies
        return self.scene.history

    def applies(self) -> bool:
        return self.scene.history is not None and self.scene.history.epochs > 0

    def panel(self, axes: Axes, against: str = "epochs") -> None:
        """Draw errors of training and validation, the epoch of the best weights, the test error."""
        history = self.history
        style = self.style
        along = history.epoch if against == "epochs" else history.seconds
        blue = style.adapt(LOOKS[0]).colour
        for label, colour, width in (("training", style.reference, 1.0), ("validation", blue, 1.3)):
            errors = np.array(getattr(history, f"{label}_error"), dtype=float)
            with np.errstate(all="ignore"):
                shown = np.where(np.isfinite(errors) & (errors > 0), errors, np.nan)
            mark = "." if len(along) == 1 else ""
            axes.plot(along, shown, label=label, color=colour, lw=width * style.line, marker=mark)
        best = history.best_epoch
        least = history.best_validation_error
        test = history.test_error
        if best > 0 and math.isfinite(least):
            look: dict[str, Any] = {"ls": "none", "marker": "o", "ms": 0.6 * style.letters}
            look["label"] = f"weights kept (epoch {grouped(best)})"
            axes.plot(np.interp(best, history.epoch, along), least, color=blue, **look)
        if test > 0 and math.isfinite(test):
            look = {"lw": 0.8 * style.line, "ls": (0, (1, 2))}
            axes.axhline(test, color=style.foreground, label=f"test {test:.1e}", **look)
        axes.set(xlabel=AGAINST[against], ylabel="relative error", yscale="log")

    def draw(self) -> matplotlib.figure.Figure:
        columns = min(self.columns(_PANEL), 2)
        rows = 2 // columns
        figure = self.new(self.style.wide, 21 * rows + 3)
        panels = figure.subplots(rows, columns, sharey=columns > 1, squeeze=False).flat
        for axes, against in zip(panels, AGAINST, strict=True):
            self.panel(axes, against)
        if columns > 1:
            figure.axes[1].set_ylabel("")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2 * columns)
        self.title(figure, plain(self.scene.name))
        return figure

    def sentences(self) -> list[str]:
        history = self.history
        best = history.best_epoch
        least = history.best_validation_error
        test = history.test_error
        kept = f"epoch {grouped(best)}" if best > 0 else "an earlier random start"
        kept = f"The weights kept are those of {kept}, with a validation error of {least:.2e}."
        last = f"Error on the test set: {test:.2e} (dotted line)." if math.isfinite(test) else ""
        return [
            f"Training of {self.scene.name} by {history.optimizer}: {grouped(history.epochs)} "
            f"epochs in {history.used:.3g} s, stopped by {history.stopped_by}.",
            "Relative errors one window ahead, as the optimizer sees them and on validation data.",
            kept,
            last,
        ]


def read_training(source: Any, style: Style = PAPER) -> ModelScene:
    """Return the scene of a model, of the path of its file, or of a history with a training.

    Raises
    ------
    InputError
        If the file is no model, or says nothing of its training.
    """
    scene = model_scene(source, style)
    if scene.history is None or not scene.history.epochs:
        raise InputError(
            f"{scene.where} holds no record of a training; train it with vp-train or vp.train"
        )
    return scene


def training(source: Any, ax: Any = None, against: str = "epochs") -> Any:
    """Draw errors of training and validation in the course of a training.

    Parameters
    ----------
    source
        The history that :func:`vpintegrator.train` returns; or a model, or the path of its file,
        which keep a thinned one.
    ax
        Matplotlib's Axes; a new figure if None.
    against
        ``"epochs"`` or ``"seconds"``.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

    Raises
    ------
    InputError
        If the file is no model, or nothing is known of the training.

    Examples
    --------
    ::

        history = vp.train(model, dataset, seconds=60)
        vp.plotting.training(history, against="seconds").legend()

    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=10, steps=10, overwrite=True)
    >>> history = vp.train(vp.models.VolumePreservingFeedForward(dim=2), dataset, epochs=5)
    >>> axes = vp.plotting.training(history)
    """
    one_of("against", against, AGAINST)
    return drawn_into(ax, TrainingFigure(read_training(source, own_style(ax))).panel, against)


_SQUARE = 11.0  # em: least width of a panel
_MOST = 24  # panels
_WRITTEN = 5  # time steps of a window up to which the weights are written into the squares
_DARK = 0.6  # share of the largest weight from which text is white


class AttentionFigure(Figure):
    """Weights of every attention layer between the time steps of a window."""

    name = "attention"
    scene: ModelScene

    def applies(self) -> bool:
        return getattr(self.scene.model, "window", 1) > 1 and bool(self.scene.attention)

    @property
    def panels(self) -> list[tuple[str, np.ndarray]]:
        """Titles and matrices, layer by layer."""
        panels = []
        for number, (place, parts) in enumerate(self.scene.attention.items(), 1):
            part = getattr(self.scene.model.get_submodule(place), "attention_part", "head")
            for k, weights in enumerate(parts, 1):
                which = f", {part} {k}" if len(parts) > 1 else ""
                panels.append((f"layer {number}{which}", weights))
        return panels

    @property
    def rotates(self) -> bool:
        """Whether the matrices are rotations."""
        return any((weights < 0).any() for weights in self.scene.attention.values())

    def draw(self) -> matplotlib.figure.Figure:
        style = self.style
        panels = self.panels[:_MOST]
        heads = max(map(len, self.scene.attention.values()))
        most = self.columns(_SQUARE)
        # the heads of a layer stay in one row
        columns = min(most // heads * heads or most, len(panels))
        rows = -(-len(panels) // columns)
        width = style.wide * (1 if style.width else min((columns + 0.5) / 4, 1))
        side = width / style.em / (columns + 0.5)
        figure = self.new(width, rows * (0.95 * side + 2) + 4)
        for k, (title, weights) in enumerate(panels):
            axes = figure.add_subplot(rows, columns, k + 1)
            image = draw_weights(axes, weights, self.rotates)
            axes.set_title(title)
            below = -(-(len(panels) - k % columns) // columns)  # rows of this column
            hide_inner_labels(axes, k, columns, below)
        figure.colorbar(image, ax=figure.axes, label="weight", aspect=30, shrink=0.8)
        self.title(figure, plain(self.scene.name))
        return figure

    def sentences(self) -> list[str]:
        weights = self.scene.attention
        panels = len(self.panels)
        steps = next(iter(weights.values())).shape[-1]
        places = listed([f"{k} is {place}" for k, place in enumerate(weights, 1)])
        law = "the squares of each row sum" if self.rotates else "each row sums"
        return [
            f"Attention of {self.scene.name} in a window of {steps} states, the first that a "
            "rollout with seed 0 starts from: the weights by which each time step (a row) is made "
            f"of those of the window (columns); {law} to 1.",
            f"Layer {places}.",
            f"The first {_MOST} of {panels} are drawn." if panels > _MOST else "",
        ]


def draw_weights(axes: Axes, weights: np.ndarray, rotation: bool) -> Any:
    """Draw a matrix (time, time) in colours from 0 to 1, or from -1 to 1 for a rotation."""
    count = len(weights)
    extent = (0.5, count + 0.5, count + 0.5, 0.5)
    low = -1 if rotation else 0
    colours = "RdBu_r" if rotation else "Blues"
    image = axes.imshow(weights, colours, vmin=low, vmax=1, extent=extent)
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


def first_window(model: Model) -> np.ndarray:
    """Return the first window (window, dim) of the first orbit of a rollout with seed 0.

    Raises
    ------
    InputError
        If the model does not say of which system it is, or there is no such orbit.
    """
    from vpintegrator.rollout.diagnostics.tangent import first_windows
    from vpintegrator.rollout.start import find_system

    system = find_system({model.name: model}, None)
    initial = system.sample_initial(1, np.random.default_rng(0))
    return first_windows(model, initial, system)[0]


def attention_in(model: Model, window: Any) -> dict[str, np.ndarray]:
    """Return weights (head, time, time) of the attention layers, by place in the model.

    Raises
    ------
    InputError
        If the window is none of states (window, dim) of the model, or the model has no attention.
    """
    import torch

    from vpintegrator.nn import attention_weights

    states = torch.as_tensor(real_array("window", window, ("window", "dim"))).to(model.shift)
    if states.shape != (model.window, model.dim):
        raise InputError(
            f"window has shape {tuple(states.shape)}, but the model {model.name} reads windows of "
            f"shape ({model.window}, {model.dim})"
        )
    weights_by_place = {
        # an average over symmetries: take the term of the identity
        place: weights[(0,) * (weights.ndim - 3)].reshape(-1, *weights.shape[-2:]).cpu().numpy()
        for place, weights in attention_weights(model, states).items()
    }
    if not weights_by_place:
        raise InputError(f"the model {model.name} has no attention")
    return weights_by_place


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
    ax
        Matplotlib's Axes; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax``.

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
    weights_by_layer = attention_in(model, first_window(model) if window is None else window)
    layer = (
        next(iter(weights_by_layer)) if layer is None else one_of("layer", layer, weights_by_layer)
    )
    one_of("head", str(head), [str(k) for k in range(len(weights_by_layer[layer]))])
    weights = weights_by_layer[layer][head]
    return drawn_into(ax, draw_weights, weights, bool((weights < 0).any()))
