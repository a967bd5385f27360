"""Figures: classes with data, drawing and caption; short ones share a file.

A new one is a class here and a name in the list below; ``draw`` and the captions follow from it.
"""

from vpintegrator.plotting.figure import Figure
from vpintegrator.plotting.figures import (
    architecture,
    curves,
    models,
    overview,
    portraits,
    sections,
)

_ROLLOUT: list[type[Figure]] = [overview.OverviewFigure]
_ROLLOUT += [portraits.PhaseFigure, portraits.CoordinatesFigure]
_ROLLOUT += [curves.ErrorsFigure, curves.InvariantsFigure, curves.VolumeFigure]
_ROLLOUT += [sections.PoincareFigure, sections.MapFigure, sections.RotationFigure]
_ROLLOUT += [curves.WorkPrecisionFigure]
FIGURES = {figure.name: figure for figure in _ROLLOUT}
_MODEL: list[type[Figure]] = [models.TrainingFigure, models.AttentionFigure]
_MODEL += [architecture.ArchitectureFigure]
MODEL_FIGURES = {figure.name: figure for figure in _MODEL}
