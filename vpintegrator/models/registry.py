"""Architectures of this package by name, imported on first use.

A new model is a line of ``CLASSES`` and of ``DESCRIPTIONS``, and where it has a file of its own an
import for type checkers.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from vpintegrator.errors import InputError, nearest

if TYPE_CHECKING:  # the names of these files, as vpintegrator.models has them
    from vpintegrator.models.discrete_lagrangian import *
    from vpintegrator.models.generating_functions import *
    from vpintegrator.models.known_equations import *
    from vpintegrator.models.model import Model
    from vpintegrator.models.symplectic import *
    from vpintegrator.models.transformers import *
    from vpintegrator.models.unstructured import *
    from vpintegrator.models.volume_preserving import *
    from vpintegrator.models.volume_preserving_transformers import *

# file and class of each model
CLASSES = {
    "vpt": "volume_preserving_transformers.VolumePreservingTransformer",
    "vpff": "volume_preserving.VolumePreservingFeedForward",
    "vpmt": "volume_preserving_transformers.VolumePreservingMultiheadTransformer",
    "spff": "symplectic.SymplecticFeedForward",
    "sgf": "generating_functions.SymplecticGeneratingFunctionMap",
    "vpgf": "generating_functions.VolumePreservingGeneratingFunctionMap",
    "lagrangian": "discrete_lagrangian.DiscreteLagrangianMap",
    "linear": "unstructured.LinearMap",
    "polynomial": "unstructured.PolynomialMap",
    "split": "known_equations.SplittingMap",
    "spt": "symplectic.SymplecticTransformer",
    "transformer": "transformers.StandardTransformer",
    "resnet": "unstructured.ResidualNetwork",
}
# a line about each
DESCRIPTIONS = {
    "vpt": "volume-preserving transformer: attention by rotations, then couplings",
    "vpff": "volume-preserving feed-forward network: couplings or triangular layers, one step",
    "vpmt": "volume-preserving multihead transformer: softmax attention inside couplings",
    "spff": "symplectic feed-forward network: gradient couplings, SympNets, HenonNets, one step",
    "sgf": "symplectic map of a generating function: one step, trained by one linear solve",
    "vpgf": "volume-preserving map of generating functions: one step, by one linear solve",
    "lagrangian": "discrete Lagrangian: two steps of positions alone, by one linear solve",
    "linear": "linear map: one step, by least squares",
    "polynomial": "polynomial map of states or windows: ridge regression, no structure",
    "split": "learned splitting: exact flows of the parts of known equations, few coefficients",
    "spt": "symplectic transformer: symplectic attention over a window, then gradient couplings",
    "transformer": "standard transformer: multihead attention and residual layers, no structure",
    "resnet": "residual network: the plain baseline, no structure",
}


class Architectures(Mapping[str, "type[Model]"]):
    """The classes of models by their names."""

    def __getitem__(self, name: str) -> type[Model]:
        module, _, class_name = CLASSES[name].partition(".")
        return getattr(importlib.import_module(f"vpintegrator.models.{module}"), class_name)

    def __iter__(self) -> Iterator[str]:
        return iter(CLASSES)

    def __len__(self) -> int:
        return len(CLASSES)

    def find(self, name: str) -> type[Model]:
        """Return the class of this name, or InputError with the nearest one."""
        if name not in CLASSES:
            hint = nearest(name, CLASSES) or f"; there are {', '.join(CLASSES)}"
            raise InputError(f"there is no model '{name}'{hint}")
        return self[name]


ARCHITECTURES = Architectures()
