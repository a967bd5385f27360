"""A report in a notebook: its table, and the overview that vp-plot draws."""

from __future__ import annotations

import numpy as np

from vpintegrator.notebook.page import folded, heading, picture, table, whole
from vpintegrator.plotting.figures.overview import OVERVIEW
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import PAPER
from vpintegrator.plotting.tables import notes, printed, title
from vpintegrator.rollout import Report


def html(report: Report) -> str:
    """Return HTML of a report: the table of vp-rollout, its notes, and the figure."""
    titles, rows, left_out = printed(report)
    kinds = [run.kind for run in report.runs.values()]
    with PAPER.applied(), np.errstate(all="ignore"):
        overview = picture(OVERVIEW.draw(Scene(report, PAPER)), f"Overview: {title(report)}")
    return whole(
        heading(title(report)),
        table(titles, rows, strong=lambda row: kinds[row] == "learned"),
        folded("what the numbers are", "\n".join(notes(report, left_out))),
        overview,
    )
