"""Figures: classes with data, drawing and caption; short ones share a file.

A new one is a class here and a name in the list below; ``draw`` and the captions follow from it.
"""

from vpintegrator.plotting.figure import Figure
from vpintegrator.plotting.figures.coordinates import Coordinates
from vpintegrator.plotting.figures.curves import Errors, Invariants, Volume
from vpintegrator.plotting.figures.models import Attention, Training
from vpintegrator.plotting.figures.overview import Overview
from vpintegrator.plotting.figures.portraits import Phase
from vpintegrator.plotting.figures.sections import Map, Poincare
from vpintegrator.plotting.figures.studies import Rotation, WorkPrecision

_OF_ROLLOUTS: list[type[Figure]] = [Overview, Phase, Coordinates, Errors, Invariants, Volume]
_OF_ROLLOUTS += [Poincare, Map, Rotation, WorkPrecision]
FIGURES = {figure.name: figure for figure in _OF_ROLLOUTS}
_OF_MODELS: list[type[Figure]] = [Training, Attention]
MODEL_FIGURES = {figure.name: figure for figure in _OF_MODELS}
