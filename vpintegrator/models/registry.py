"""Architectures of this package by name, imported on first use."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from vpintegrator.errors import InputError, nearest

if TYPE_CHECKING:
    from vpintegrator.models.model import Model

CLASSES = {
    "vpt": "VolumePreservingTransformer",
    "vpff": "VolumePreservingFeedForward",
    "vpmt": "VolumePreservingMultiheadTransformer",
    "spff": "SymplecticFeedForward",
    "sgf": "SymplecticGeneratingFunctionMap",
    "vpgf": "VolumePreservingGeneratingFunctionMap",
    "linear": "LinearMap",
    "polynomial": "PolynomialMap",
    "split": "SplittingMap",
    "classical": "ClassicalIntegrator",
    "spt": "SymplecticTransformer",
    "transformer": "StandardTransformer",
    "resnet": "ResidualNetwork",
}


def module_of(class_name: str) -> str:
    """Return the module of a class, which is named like it: ``linear_map`` of ``LinearMap``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", class_name).lower()


class Architectures(Mapping[str, "type[Model]"]):
    """The classes of models by their names."""

    def __getitem__(self, name: str) -> type[Model]:
        class_name = CLASSES[name]
        module = importlib.import_module(f"vpintegrator.models.{module_of(class_name)}")
        return getattr(module, class_name)

    def __iter__(self) -> Iterator[str]:
        return iter(CLASSES)

    def __len__(self) -> int:
        return len(CLASSES)

    def __contains__(self, name: object) -> bool:
        return name in CLASSES

    def find(self, name: str) -> type[Model]:
        """Return the class of this name, or InputError with the nearest one."""
        if name not in self:
            hint = nearest(name, self) or f"; there are {', '.join(self)}"
            raise InputError(f"there is no model '{name}'{hint}")
        return self[name]


ARCHITECTURES = Architectures()
