"""Figures, one in each file, with their names, drawings and captions.

A new one is a file here and a name in the list below; ``draw`` and the captions follow from it.
"""

from vpintegrator.plotting.figures.attention_weights import ATTENTION
from vpintegrator.plotting.figures.coordinates import COORDINATES
from vpintegrator.plotting.figures.error_curves import ERRORS
from vpintegrator.plotting.figures.invariant_curves import INVARIANTS
from vpintegrator.plotting.figures.map_portraits import MAP
from vpintegrator.plotting.figures.overview import OVERVIEW
from vpintegrator.plotting.figures.phase_portraits import PHASE
from vpintegrator.plotting.figures.poincare_sections import POINCARE
from vpintegrator.plotting.figures.rotation_numbers import ROTATION_NUMBERS
from vpintegrator.plotting.figures.training_curve import TRAINING
from vpintegrator.plotting.figures.volume_errors import VOLUME
from vpintegrator.plotting.figures.work_precision import WORK_PRECISION
from vpintegrator.plotting.layout import FigureDeclaration
from vpintegrator.plotting.model_scene import ModelScene
from vpintegrator.plotting.scene import Scene

FIGURES: dict[str, FigureDeclaration[Scene]] = {
    figure.name: figure
    for figure in (
        OVERVIEW,
        PHASE,
        COORDINATES,
        ERRORS,
        INVARIANTS,
        VOLUME,
        POINCARE,
        MAP,
        ROTATION_NUMBERS,
        WORK_PRECISION,
    )
}
MODEL_FIGURES: dict[str, FigureDeclaration[ModelScene]] = {
    figure.name: figure for figure in (TRAINING, ATTENTION)
}
