"""A parameter sweep in a notebook: its table, and errors over steps and parameters."""

from __future__ import annotations

import math

from vpintegrator.notebook.figures import drawn
from vpintegrator.notebook.page import heading, paragraph, table, whole
from vpintegrator.plotting.figures.survey_curves import SURVEY, SurveyScene
from vpintegrator.plotting.style import PAPER
from vpintegrator.plotting.tables import duration
from vpintegrator.rollout import Survey

_SHOWN = 60  # rows
_TITLES = ("method", "first error", "median RMSE", "worst RMSE", "volume", "a step")


def html(survey: Survey) -> str:
    """Return HTML of a parameter sweep: a row for each combination and method."""
    rows = survey.table()
    titles = {survey.methods[name] for name in survey.learned}
    cells = [
        (
            *(f"{row[name]:.6g}" for name in survey.conditions),
            row["method"],
            *(_error(row[n]) for n in ("first_error", "median_error", "worst_error")),
            _error(row["volume_error"]),
            duration(row["seconds"]) if math.isfinite(row["seconds"]) else "–",
        )
        for row in rows[:_SHOWN]
    ]
    more = f"And {len(rows) - _SHOWN:,} rows more: survey.table()." if len(rows) > _SHOWN else ""
    words = f"Errors of {', '.join(survey.methods.values())} over {', '.join(survey.conditions)}"
    return whole(
        heading(f"{survey.title}: to t = {survey.time:g}"),
        table(
            (*survey.conditions, *_TITLES),
            cells,
            words=len(survey.conditions) + 1,
            strong=lambda number: rows[number]["method"] in titles,
        ),
        paragraph(more) if more else "",
        drawn(SURVEY, SurveyScene(survey, PAPER), words),
    )


def _error(value: float) -> str:
    if value == math.inf:
        return "diverged"
    return f"{value:.1e}" if math.isfinite(value) else "–"
