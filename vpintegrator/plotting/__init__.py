"""Figures, tables and captions of a stored rollout; single panels for Axes of one's own."""

from vpintegrator.plotting.draw import draw
from vpintegrator.plotting.own_axes import errors, invariant, portrait, section, training, volume
from vpintegrator.plotting.tables import csv_table, latex_table, markdown_table, terminal_table

__all__ = [
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
