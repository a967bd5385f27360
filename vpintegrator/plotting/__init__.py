"""Figures, tables and captions of a stored rollout."""

from vpintegrator.plotting.draw import draw
from vpintegrator.plotting.tables import csv_table, latex_table, markdown_table, terminal_table

__all__ = ["csv_table", "draw", "latex_table", "markdown_table", "terminal_table"]
