"""Architectures of this package by name, imported on first use.

A new model is a row of ``MODELS``, and where it has a file of its own an import for type checkers.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from vpintegrator.errors import InputError, nearest

if TYPE_CHECKING:  # the names of these files, as vpintegrator.models has them
    from vpintegrator.models.generating_functions import *
    from vpintegrator.models.known_equations import *
    from vpintegrator.models.model import Model
    from vpintegrator.models.symplectic import *
    from vpintegrator.models.transformers import *
    from vpintegrator.models.unstructured import *
    from vpintegrator.models.volume_preserving import *
    from vpintegrator.models.volume_preserving_transformers import *

# name: file and class, and a line about the model
MODELS = {
    "vpt": (
        "volume_preserving_transformers.VolumePreservingTransformer",
        "volume-preserving transformer: attention by rotations, then couplings",
    ),
    "vpff": (
        "volume_preserving.VolumePreservingFeedForward",
        "volume-preserving feed-forward network: couplings or triangular layers, one step",
    ),
    "vpmt": (
        "volume_preserving_transformers.VolumePreservingMultiheadTransformer",
        "volume-preserving multihead transformer: softmax attention inside couplings",
    ),
    "spff": (
        "symplectic.SymplecticFeedForward",
        "symplectic feed-forward network: gradient couplings, SympNets, HenonNets, one step",
    ),
    "sgf": (
        "generating_functions.SymplecticGeneratingFunctionMap",
        "symplectic map of a generating function: one step, trained by one linear solve",
    ),
    "vpgf": (
        "generating_functions.VolumePreservingGeneratingFunctionMap",
        "volume-preserving map of generating functions: one step, by one linear solve",
    ),
    "linear": ("unstructured.LinearMap", "linear map: one step, by least squares"),
    "polynomial": (
        "unstructured.PolynomialMap",
        "polynomial map: one step by ridge regression, no structure",
    ),
    "split": (
        "known_equations.SplittingMap",
        "learned splitting: exact flows of the parts of known equations, few coefficients",
    ),
    "classical": (
        "known_equations.ClassicalIntegrator",
        "explicit classical method with substeps for known equations, nothing to train",
    ),
    "spt": (
        "symplectic.SymplecticTransformer",
        "symplectic transformer: symplectic attention over a window, then gradient couplings",
    ),
    "transformer": (
        "transformers.StandardTransformer",
        "standard transformer: multihead attention and residual layers, no structure",
    ),
    "resnet": (
        "unstructured.ResidualNetwork",
        "residual network: the plain baseline, no structure",
    ),
}


class Architectures(Mapping[str, "type[Model]"]):
    """The classes of models by their names."""

    def __getitem__(self, name: str) -> type[Model]:
        module, _, class_name = MODELS[name][0].partition(".")
        return getattr(importlib.import_module(f"vpintegrator.models.{module}"), class_name)

    def __iter__(self) -> Iterator[str]:
        return iter(MODELS)

    def __len__(self) -> int:
        return len(MODELS)

    def __contains__(self, name: object) -> bool:
        return name in MODELS

    def find(self, name: str) -> type[Model]:
        """Return the class of this name, or InputError with the nearest one."""
        if name not in MODELS:
            hint = nearest(name, MODELS) or f"; there are {', '.join(MODELS)}"
            raise InputError(f"there is no model '{name}'{hint}")
        return self[name]


ARCHITECTURES = Architectures()
DESCRIPTIONS = {name: words for name, (_, words) in MODELS.items()}
