"""Figures: classes with data, drawing and caption; short ones share a file.

A new one is a class here and a name in the list below; ``draw`` and the captions follow from it.
"""

from vpintegrator.plotting.figure import Figure
from vpintegrator.plotting.figures.curves import ErrorsFigure, InvariantsFigure, VolumeFigure
from vpintegrator.plotting.figures.models import AttentionFigure, TrainingFigure
from vpintegrator.plotting.figures.overview import OverviewFigure
from vpintegrator.plotting.figures.portraits import CoordinatesFigure, PhaseFigure
from vpintegrator.plotting.figures.sections import MapFigure, PoincareFigure
from vpintegrator.plotting.figures.studies import RotationFigure, WorkPrecisionFigure

_ROLLOUT: list[type[Figure]] = [OverviewFigure, PhaseFigure, CoordinatesFigure, ErrorsFigure]
_ROLLOUT += [InvariantsFigure, VolumeFigure, PoincareFigure, MapFigure, RotationFigure]
_ROLLOUT += [WorkPrecisionFigure]
FIGURES = {figure.name: figure for figure in _ROLLOUT}
MODEL_FIGURES: dict[str, type[Figure]] = {"training": TrainingFigure, "attention": AttentionFigure}
