"""Architectures built from the layers, and their files.

Every integrator maps windows (..., window, dim) to the windows ``prediction_window`` steps later.
Names are imported when they are first used, so that a command line needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vpintegrator.models.registry import ARCHITECTURES, CLASSES, module_of

if TYPE_CHECKING:
    from vpintegrator.models.classical_integrator import ClassicalIntegrator
    from vpintegrator.models.classification_transformer import (
        ClassificationTransformer,
        image_patches,
    )
    from vpintegrator.models.components import Components
    from vpintegrator.models.coordinates import Coordinates
    from vpintegrator.models.gml import load_gml
    from vpintegrator.models.growth import prolong
    from vpintegrator.models.linear_map import LinearMap
    from vpintegrator.models.model import Model
    from vpintegrator.models.polynomial_map import PolynomialMap
    from vpintegrator.models.residual_network import ResidualNetwork
    from vpintegrator.models.saving import load, save
    from vpintegrator.models.splitting_map import SplittingMap
    from vpintegrator.models.standard_transformer import StandardTransformer
    from vpintegrator.models.symplectic_feed_forward import SymplecticFeedForward
    from vpintegrator.models.symplectic_generating_function_map import (
        SymplecticGeneratingFunctionMap,
    )
    from vpintegrator.models.symplectic_transformer import SymplecticTransformer
    from vpintegrator.models.untrained import build, suited
    from vpintegrator.models.volume_preserving_feed_forward import VolumePreservingFeedForward
    from vpintegrator.models.volume_preserving_generating_function_map import (
        VolumePreservingGeneratingFunctionMap,
    )
    from vpintegrator.models.volume_preserving_multihead_transformer import (
        VolumePreservingMultiheadTransformer,
    )
    from vpintegrator.models.volume_preserving_transformer import VolumePreservingTransformer
    from vpintegrator.models.wrapped import wrap

_MODULES = {name: module_of(name) for name in CLASSES.values()} | {
    "ClassificationTransformer": "classification_transformer",
    "Components": "components",
    "Coordinates": "coordinates",
    "Model": "model",
    "build": "untrained",
    "prolong": "growth",
    "image_patches": "classification_transformer",
    "load": "saving",
    "load_gml": "gml",
    "save": "saving",
    "suited": "untrained",
    "wrap": "wrapped",
}

__all__ = [
    "ARCHITECTURES",
    "ClassicalIntegrator",
    "ClassificationTransformer",
    "Components",
    "Coordinates",
    "LinearMap",
    "Model",
    "PolynomialMap",
    "ResidualNetwork",
    "SplittingMap",
    "StandardTransformer",
    "SymplecticFeedForward",
    "SymplecticGeneratingFunctionMap",
    "SymplecticTransformer",
    "VolumePreservingFeedForward",
    "VolumePreservingGeneratingFunctionMap",
    "VolumePreservingMultiheadTransformer",
    "VolumePreservingTransformer",
    "build",
    "image_patches",
    "load",
    "load_gml",
    "prolong",
    "save",
    "suited",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
