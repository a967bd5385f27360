"""The curve of a training: its errors epoch by epoch, or second by second."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes

from vpintegrator.errors import InputError
from vpintegrator.plotting.latex import escape
from vpintegrator.plotting.looks import LEARNED
from vpintegrator.plotting.names import grouped, plain
from vpintegrator.plotting.style import Style
from vpintegrator.reading import read_json

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

AGAINST = {"epochs": "epoch", "seconds": "time of training / s"}
_CURVES = ("epoch", "seconds", "training_error", "validation_error")
_PANEL = 24  # em: least width of a panel


@dataclass(frozen=True)
class Training:
    """What a model file or a history tells of a training.

    Attributes
    ----------
    name
        Of the model; empty for a history.
    optimizer, stopped_by, best_epoch, best_validation_error, test_error
        As in :class:`vpintegrator.training.History`.
    epoch, seconds, training_error, validation_error
        The curves, (epoch,); those of a model file are thinned to some hundred epochs.
    """

    name: str
    optimizer: str
    stopped_by: str
    best_epoch: int
    best_validation_error: float
    test_error: float
    epoch: np.ndarray
    seconds: np.ndarray
    training_error: np.ndarray
    validation_error: np.ndarray

    @property
    def epochs(self) -> int:
        """The last epoch of the curves."""
        return int(self.epoch[-1])


def read_training(source: Any) -> Training:
    """The training of a model, of the path of its file, or of a history.

    Raises
    ------
    InputError
        If the file is no model, or says nothing or nonsense of its training.
    """
    if hasattr(source, "summary"):
        return _training("", source.summary(), "history")
    where, model = "model", source
    if isinstance(source, str | os.PathLike):
        from vpintegrator.models import load

        where, model = os.fspath(source), load(source)
    text = getattr(model, "metadata", {}).get("training")
    if text is None:
        raise InputError(
            f"{where} says nothing of its training; train it with vp-train or vp.train"
        )
    return _training(_name(model, where), read_json(text, where), where)


def _name(model: Integrator, where: str) -> str:
    return Path(where).stem if where != "model" else model.name


def _training(name: str, told: dict[str, Any], where: str) -> Training:
    try:
        curves = [np.asarray(told[key], dtype=float) for key in _CURVES]
        if curves[0].ndim != 1 or len({curve.shape for curve in curves}) != 1:
            raise ValueError
        if not np.isfinite(curves[:2]).all():
            raise ValueError
        least, test = (float(told[key]) for key in ("best_validation_error", "test_error"))
        best, words = int(told["best_epoch"]), [str(told[k]) for k in ("optimizer", "stopped_by")]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(
            f"{where}: what it says of its training is damaged; train the model anew to draw it"
        ) from None
    if not len(curves[0]):
        raise InputError(f"{where}: its training ended before the first epoch; train it for longer")
    return Training(name, words[0], words[1], best, least, test, *curves)


def draw_training(axes: Axes, training: Training, style: Style, against: str = "epochs") -> None:
    """Errors of training and validation, the epoch whose weights were kept, and the test error."""
    along = training.epoch if against == "epochs" else training.seconds
    look = style.adapt(LEARNED[0])
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


def training_figure(
    training: Training, style: Style, latex: bool = False
) -> matplotlib.figure.Figure:
    """Errors against epochs and against seconds."""
    width, em = style.wide, style.em
    columns = 2 if width >= 2 * _PANEL * em else 1
    rows = 2 // columns
    figure = matplotlib.figure.Figure(figsize=(width, em * (21 * rows + 3)), layout="constrained")
    panels = figure.subplots(rows, columns, sharey=columns > 1, squeeze=False).flat
    for axes, against in zip(panels, AGAINST, strict=True):
        draw_training(axes, training, style, against)
    first, second = figure.axes
    if columns > 1:
        second.set_ylabel("")
    handles, labels = first.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * columns)
    written = escape if latex else plain
    figure.suptitle(written(training.name), fontsize=1.05 * style.letters)
    return figure


def training_caption(training: Training) -> str:
    """What is drawn, in a paragraph."""
    test = ""
    if math.isfinite(training.test_error):
        test = f" Error on the test set: {training.test_error:.2e} (dotted line)."
    kept = "The weights kept are those of an earlier random start."
    if training.best_epoch > 0:
        kept = (
            f"The weights kept are those of epoch {grouped(training.best_epoch)}, with a "
            f"validation error of {training.best_validation_error:.2e}."
        )
    return (
        f"Training of {training.name} by {training.optimizer}: {grouped(training.epochs)} epochs "
        f"in {training.seconds[-1]:.3g} s{_ending(training)}. Relative errors one window ahead, on "
        "the windows trained on as the optimizer sees them and on those of validation. "
        f"{kept}{test}"
    )


def _ending(training: Training) -> str:
    reasons = {
        "seconds": "the time that was given",
        "epochs": "the epochs that were given",
        "target": "the error that was asked for",
        "interrupt": "an interruption",
        "divergence": "an error that exploded again and again",
    }
    return f", ended by {reasons[training.stopped_by]}" if training.stopped_by in reasons else ""
