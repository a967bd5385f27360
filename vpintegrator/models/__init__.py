"""Architectures built from the layers, and their files.

Every integrator maps windows (..., window, dim) to the windows ``prediction_window`` steps later.
"""

from vpintegrator.models.base import Integrator
from vpintegrator.models.classification_transformer import (
    ClassificationTransformer,
    image_patches,
)
from vpintegrator.models.gml import load_gml
from vpintegrator.models.growth import grown
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.models.residual_network import ResidualNetwork
from vpintegrator.models.saving import load, save
from vpintegrator.models.standard_transformer import StandardTransformer
from vpintegrator.models.volume_preserving_feed_forward import VolumePreservingFeedForward
from vpintegrator.models.volume_preserving_multihead_transformer import (
    VolumePreservingMultiheadTransformer,
)
from vpintegrator.models.volume_preserving_transformer import VolumePreservingTransformer

__all__ = [
    "ARCHITECTURES",
    "ClassificationTransformer",
    "Integrator",
    "ResidualNetwork",
    "StandardTransformer",
    "VolumePreservingFeedForward",
    "VolumePreservingMultiheadTransformer",
    "VolumePreservingTransformer",
    "grown",
    "image_patches",
    "load",
    "load_gml",
    "save",
]
