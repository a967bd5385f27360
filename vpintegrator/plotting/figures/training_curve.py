"""The curve of a training: its errors epoch by epoch, or second by second."""

from __future__ import annotations

import math
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.plotting.layout import FigureDeclaration, new_figure
from vpintegrator.plotting.model_scene import ModelScene, TrainingCourse, read_training
from vpintegrator.plotting.names import grouped, plain
from vpintegrator.plotting.scene import choose, drawn_into, own_style, takes_axes
from vpintegrator.plotting.style import LOOKS, Style

AGAINST = {"epochs": "epoch", "seconds": "time of training / s"}
_PANEL = 24  # em: least width of a panel


def draw_training(
    axes: Axes, training: TrainingCourse, style: Style, against: str = "epochs"
) -> None:
    """Draw errors of training and validation, the epoch of the best weights, and the test error."""
    along = training.epoch if against == "epochs" else training.seconds
    look = style.adapt(LOOKS[0])
    for label, errors, colour, width in (
        ("training", training.training_error, style.reference, 1.0),
        ("validation", training.validation_error, look.colour, 1.3),
    ):
        with np.errstate(all="ignore"):
            shown = np.where(np.isfinite(errors) & (errors > 0), errors, np.nan)
        alone = "." if len(along) == 1 else ""
        strokes = {"color": colour, "lw": width * style.line, "marker": alone}
        axes.plot(along, shown, label=label, **strokes)  # type: ignore[arg-type]
    if training.best_epoch > 0 and math.isfinite(training.best_validation_error):
        place = np.interp(training.best_epoch, training.epoch, along)
        axes.plot(
            place,
            training.best_validation_error,
            ls="none",
            marker="o",
            color=look.colour,
            ms=0.6 * style.letters,
            label=f"weights kept (epoch {grouped(training.best_epoch)})",
        )
    if training.test_error > 0 and math.isfinite(training.test_error):
        axes.axhline(
            training.test_error,
            color=style.foreground,
            lw=0.8 * style.line,
            ls=(0, (1, 2)),
            label=f"test {training.test_error:.1e}",
        )
    axes.set(xlabel=AGAINST[against], ylabel="relative error", yscale="log")


@takes_axes
def training(source: Any, ax: Any = None, against: str = "epochs") -> Any:
    """Draw errors of training and validation in the course of a training.

    Parameters
    ----------
    source
        The history that :func:`vpintegrator.train` returns; or a model, or the path of its file,
        which keep a thinned one.
    against
        ``"epochs"`` or ``"seconds"``.
    {ax}

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
    choose("against", against, AGAINST)
    return drawn_into(ax, draw_training, read_training(source), own_style(ax), against)


def _draw(scene: ModelScene) -> matplotlib.figure.Figure:
    style, training = scene.style, scene.training
    assert training is not None
    width, em = style.wide, style.em
    columns = 2 if width >= 2 * _PANEL * em else 1
    rows = 2 // columns
    figure = new_figure(style, width, 21 * rows + 3)
    panels = figure.subplots(rows, columns, sharey=columns > 1, squeeze=False).flat
    for axes, against in zip(panels, AGAINST, strict=True):
        draw_training(axes, training, style, against)
    first, second = figure.axes
    if columns > 1:
        second.set_ylabel("")
    handles, labels = first.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * columns)
    figure.suptitle(plain(training.name), fontsize=1.05 * style.letters)
    return figure


def _caption(scene: ModelScene) -> list[str]:
    training = scene.training
    assert training is not None
    test = ""
    if math.isfinite(training.test_error):
        test = f" Error on the test set: {training.test_error:.2e} (dotted line)."
    kept = "The weights kept are those of an earlier random start."
    if training.best_epoch > 0:
        kept = (
            f"The weights kept are those of epoch {grouped(training.best_epoch)}, with a "
            f"validation error of {training.best_validation_error:.2e}."
        )
    return [
        f"Training of {training.name} by {training.optimizer}: {grouped(training.epoch[-1])} "
        f"epochs in {training.seconds[-1]:.3g} s{_ending(training)}. Relative errors one window "
        "ahead, on the windows trained on as the optimizer sees them and on those of validation. "
        f"{kept}{test}"
    ]


def _ending(training: TrainingCourse) -> str:
    reasons = {
        "seconds": "the time that was given",
        "epochs": "the epochs that were given",
        "target": "the error that was asked for",
        "interrupt": "an interruption",
        "divergence": "an error that exploded again and again",
    }
    return f", ended by {reasons[training.stopped_by]}" if training.stopped_by in reasons else ""


TRAINING = FigureDeclaration("training", _draw, _caption, lambda scene: scene.training is not None)
