"""Layers that symplectic models are made of, from the arguments of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.arguments import FunctionArguments, argument
from vpintegrator.nn.canonical import canonical_blocks
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.gradient_coupling import GradientCoupling, HenonMap
from vpintegrator.nn.potentials import (
    BasisPotential,
    ComponentPotential,
    NeuronPotential,
    QuadraticPotential,
)

_WORDS = {
    "gradient": "gradient couplings",
    "linear-activation": "linear and activation modules",
    "henon": "Henon maps",
}


@dataclass(frozen=True, kw_only=True)
class SymplecticArguments(FunctionArguments):
    """Of models of states (q, p) that keep the symplectic form."""

    dim: int = argument(help="Components of a state, even: positions, then momenta.", least=2)
    layer: str = argument(
        "gradient",
        "Gradient couplings (with neurons a G-SympNet), the linear and activation modules of an "
        "LA-SympNet, or the Henon maps of a HenonNet. The latter two as published, without angles "
        "or symmetries between degrees of freedom.",
        choices=["gradient", "linear-activation", "henon"],
    )
    linear: int = argument(2, 'For "linear-activation": linear pairs in a unit.', least=1)
    activation: str = argument("tanh", "Of hidden layers.")
    initial_scale: float = argument(1e-2, "Size of the initial gradients, and of attention.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % 2:
            raise InputError(
                f"states (q, p) have an even number of components, not dim = {self.dim}; take a "
                "volume-preserving model, such as vpff"
            )
        if self.expressions:
            raise InputError(
                "gradient couplings take no expressions; leave them out, or take vpff with "
                "functions = system"
            )
        if self.functions == "neurons" and self.periods:
            raise InputError("periodic is for functions = polynomial; neurons take none")


def potential(a: Any, group: torch.Tensor | None, periodic: list[int]) -> nn.Module:
    """A function of one half of a state, by the functions asked for."""
    size = a.dim // 2
    if a.functions == "polynomial":
        scale = a.initial_scale / 10
        return BasisPotential(size, a.degree, periodic=periodic, group=group, initial_scale=scale)
    return NeuronPotential(
        size, a.width, group=group, activation=a.activation, initial_scale=a.initial_scale
    )


def symplectic_layer(a: Any) -> nn.Module:
    """A unit of the kind asked for, from ``SymplecticArguments``."""
    of_positions, of_momenta = canonical_blocks(a.group)
    size, angles = a.dim // 2, list(a.periods)
    if any(angle >= size for angle in angles):
        raise InputError("periodic: a momentum is no angle; angles are among the positions")
    if a.layer == "gradient":
        return GradientCoupling(potential(a, of_momenta, []), potential(a, of_positions, angles))
    if len(a.group) > 1 or angles:
        raise InputError(
            f"layer = {a.layer} respects no symmetries between degrees of freedom, and knows no "
            "angles; take layer = gradient, or fewer reversing_symmetries"
        )
    if a.layer == "henon":
        return HenonMap(potential(a, None, []))
    scale = {"initial_scale": a.initial_scale}
    linear = (
        GradientCoupling(QuadraticPotential(size, **scale), QuadraticPotential(size, **scale))
        for _ in range(a.linear)
    )
    activations = (ComponentPotential(size, activation=a.activation, **scale) for _ in range(2))
    return Composition(*linear, GradientCoupling(*activations))


def in_words(a: Any) -> str:
    """What ``symplectic_layer`` makes, for descriptions."""
    words = _WORDS[a.layer]
    if a.layer == "linear-activation" or a.functions == "neurons":
        return words
    return f"{words} of {a.functions}s of degree {a.degree}"
