"""Architectures built from the layers, and their files.

Every integrator maps windows (..., window, dim) to the windows ``prediction_window`` steps later.
Names are imported when they are first used, so that a command line needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vpintegrator.models.registry import ARCHITECTURES, CLASSES

if TYPE_CHECKING:
    from vpintegrator.models.building import *
    from vpintegrator.models.components import *
    from vpintegrator.models.gml import *
    from vpintegrator.models.growth import *
    from vpintegrator.models.model import *
    from vpintegrator.models.registry import *
    from vpintegrator.models.saving import *
    from vpintegrator.models.stored import *
    from vpintegrator.models.wrapped import *

_MODULES = {
    "ClassificationTransformer": "transformers",
    "Components": "components",
    "Coordinates": "components",
    "Model": "model",
    "Origin": "stored",
    "Record": "stored",
    "build": "building",
    "image_patches": "transformers",
    "load": "saving",
    "load_gml": "gml",
    "prolong": "growth",
    "save": "saving",
    "suited": "building",
    "wrap": "wrapped",
}
_MODULES |= {name: module for module, name in (path.split(".") for path in CLASSES.values())}
__all__ = ["ARCHITECTURES", *sorted(_MODULES)]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
