"""Figures, tables and captions of a stored rollout; single panels for Axes of one's own."""

from vpintegrator.plotting.draw import draw
from vpintegrator.plotting.figures.attention_weights import attention
from vpintegrator.plotting.figures.error_curves import errors
from vpintegrator.plotting.figures.invariant_curves import invariant
from vpintegrator.plotting.figures.phase_portraits import portrait
from vpintegrator.plotting.figures.poincare_sections import section
from vpintegrator.plotting.figures.training_curve import training
from vpintegrator.plotting.figures.volume_errors import volume
from vpintegrator.plotting.tables import csv_table, latex_table, markdown_table, terminal_table

__all__ = [
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
