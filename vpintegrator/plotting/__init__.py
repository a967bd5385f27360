"""Figures, tables and captions of a stored rollout; single panels for Axes of one's own."""

from vpintegrator.plotting.draw import draw
from vpintegrator.plotting.figure import RolloutFigure
from vpintegrator.plotting.figures.curves import errors, invariant, volume
from vpintegrator.plotting.figures.models import attention, training
from vpintegrator.plotting.figures.portraits import portrait
from vpintegrator.plotting.figures.sections import section
from vpintegrator.plotting.tables import csv_table, latex_table, markdown_table, terminal_table

__all__ = [
    "RolloutFigure",
    "attention",
    "csv_table",
    "draw",
    "errors",
    "invariant",
    "latex_table",
    "markdown_table",
    "portrait",
    "section",
    "terminal_table",
    "training",
    "volume",
]
