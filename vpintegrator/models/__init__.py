"""Architectures built from the layers, and their files.

Every integrator maps windows (..., window, dim) to the windows ``prediction_window`` steps later.
"""

from vpintegrator.models.base import Integrator
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.models.saving import load, save
from vpintegrator.models.volume_preserving_feed_forward import VolumePreservingFeedForward
from vpintegrator.models.volume_preserving_transformer import VolumePreservingTransformer

__all__ = [
    "ARCHITECTURES",
    "Integrator",
    "VolumePreservingFeedForward",
    "VolumePreservingTransformer",
    "load",
    "save",
]
