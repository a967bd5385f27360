"""A training in a notebook: its results, and its curve."""

from __future__ import annotations

import math

import matplotlib.figure

from vpintegrator.notebook.page import facts, heading, picture, whole
from vpintegrator.plotting.figures.training_curve import draw_training
from vpintegrator.plotting.model_scene import read_training
from vpintegrator.plotting.style import PAPER
from vpintegrator.training.history import History

_SHAPE = 0.62  # height of the curve, in its widths
_WIDTH = 1.5  # columns of a page


def html(history: History) -> str:
    """Return HTML of a history: errors, epochs and seconds, and the curve if there is one."""
    return whole(
        heading(f"Training by {history.optimizer}"),
        facts(
            [
                ("test error", _error(history.test_error)),
                ("validation error", _best(history)),
                ("epochs", f"{history.epochs:,} in {history.used:.3g} s"),
                ("ended by", history.stopped_by),
                ("warning", history.warning or None),
                ("parameters", f"{history.parameters:,}"),
                ("computed", _machine(history)),
                ("rollbacks", history.rollbacks or None),
                ("seed", history.seed),
            ]
        ),
        _curve(history),
    )


def _error(value: float) -> str | None:
    return f"{value:.3g}" if math.isfinite(value) else None


def _best(history: History) -> str | None:
    error = _error(history.best_validation_error)
    place = f"epoch {history.best_epoch:,}" if history.best_epoch else "an earlier random start"
    return f"{error}, of {place}: these weights are kept" if error else None


def _machine(history: History) -> str:
    code = "as machine code" if history.compiled else "by PyTorch"
    return f"{code} on {history.device}"


def _curve(history: History) -> str:
    if not history.epoch:
        return ""
    with PAPER.applied():
        width = _WIDTH * PAPER.column
        figure = matplotlib.figure.Figure((width, _SHAPE * width), layout="constrained")
        axes = figure.add_subplot()
        draw_training(axes, read_training(history), PAPER)
        axes.legend()
        return picture(figure, "Errors of training and validation by epoch")
