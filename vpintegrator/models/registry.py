"""Architectures of this package by name, imported on first use.

A new model is a line of ``CLASSES`` and of ``GROUPS``, and where it has a file of its own an
import for type checkers.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from vpintegrator.errors import InputError, nearest

if TYPE_CHECKING:  # the names of these files, as vpintegrator.models has them
    from vpintegrator.models.additive import *
    from vpintegrator.models.discrete_lagrangian import *
    from vpintegrator.models.field_networks import *
    from vpintegrator.models.generating_functions import *
    from vpintegrator.models.hidden_parameter import *
    from vpintegrator.models.known_equations import *
    from vpintegrator.models.model import Model
    from vpintegrator.models.recurrent import *
    from vpintegrator.models.symplectic import *
    from vpintegrator.models.sympnets import *
    from vpintegrator.models.transformers import *
    from vpintegrator.models.unstructured import *
    from vpintegrator.models.volume_preserving import *
    from vpintegrator.models.volume_preserving_transformers import *

# file and class of each model
CLASSES = {
    "vpt": "volume_preserving_transformers.VolumePreservingTransformer",
    "vpmt": "volume_preserving_transformers.VolumePreservingMultiheadTransformer",
    "spt": "symplectic.SymplecticTransformer",
    "transformer": "transformers.StandardTransformer",
    "vpff": "volume_preserving.VolumePreservingFeedForward",
    "spff": "symplectic.SymplecticFeedForward",
    "sgf": "generating_functions.SymplecticGeneratingFunctionMap",
    "vpgf": "generating_functions.VolumePreservingGeneratingFunctionMap",
    "additive": "additive.AdditiveHamiltonianMap",
    "lagrangian": "discrete_lagrangian.DiscreteLagrangianMap",
    "window-leapfrog": "volume_preserving.LeapfrogMap",
    "hidden-parameter": "hidden_parameter.HiddenParameterMap",
    "sympnet-g": "sympnets.GradientSympNet",
    "sympnet-la": "sympnets.LinearActivationSympNet",
    "henonnet": "sympnets.HenonNet",
    "locsympnet": "sympnets.LocallySymplecticNetwork",
    "hnn": "field_networks.HamiltonianNetwork",
    "ghnn": "field_networks.GeneralizedHamiltonianNetwork",
    "lnn": "field_networks.LagrangianNetwork",
    "neural-ode": "field_networks.NeuralODE",
    "lstm": "recurrent.LSTM",
    "gru": "recurrent.GRU",
    "resnet": "unstructured.ResidualNetwork",
    "polynomial": "unstructured.PolynomialMap",
    "linear": "unstructured.LinearMap",
    "split": "known_equations.SplittingMap",
}
# a line about each, by what they are used for
GROUPS = {
    "multi-step with attention": {
        "vpt": "volume-preserving transformer: attention by rotations, then couplings",
        "vpmt": "volume-preserving multihead transformer: softmax attention inside couplings",
        "spt": "symplectic transformer: symplectic attention over a window, then gradient "
        "couplings",
        "transformer": "standard transformer: multihead attention and residual layers, no "
        "structure",
    },
    "one step with structure": {
        "vpff": "volume-preserving feed-forward network: couplings or triangular layers, one step",
        "spff": "symplectic feed-forward network: gradient couplings, one step",
        "sgf": "symplectic map of a generating function: one step, trained by one linear solve",
        "vpgf": "volume-preserving map of generating functions: one step, by one linear solve",
        "additive": "additive Hamiltonian: sums of functions of parts, by a splitting, one step",
        "lagrangian": "discrete Lagrangian: two steps of positions alone, by one linear solve",
        "window-leapfrog": "polynomial leapfrog: the volume of windows is kept, ridge regression",
        "hidden-parameter": "polynomial map with a parameter of each orbit that a window tells",
    },
    "baselines": {
        "sympnet-g": "G-SympNet: gradient modules, symplectic",
        "sympnet-la": "LA-SympNet: linear and activation modules, symplectic",
        "henonnet": "HenonNet: Henon layers, symplectic",
        "locsympnet": "LocSympNet: shears symplectic in planes, volume-preserving",
        "hnn": "Hamiltonian network: a learned energy, stepped by a classical method",
        "ghnn": "generalized Hamiltonian network: symplectic Euler steps of learned energies",
        "lnn": "Lagrangian network: positions and velocities, stepped by a Runge-Kutta method",
        "neural-ode": "neural ODE: a learned vector field, stepped by a Runge-Kutta method",
        "lstm": "long short-term memory on a window, no structure",
        "gru": "gated recurrent units on a window, no structure",
        "resnet": "residual network, no structure",
        "polynomial": "polynomial map of states or windows: ridge regression, no structure",
        "linear": "linear map: one step, by least squares",
    },
    "made from equations": {
        "split": "learned splitting: exact flows of the parts of known equations, few coefficients",
    },
}
DESCRIPTIONS = {name: words for group in GROUPS.values() for name, words in group.items()}


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
