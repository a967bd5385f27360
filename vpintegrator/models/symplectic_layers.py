"""Layers of symplectic models, from the arguments of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.arguments import FunctionArguments, argument
from vpintegrator.nn.basis_potential import BasisPotential
from vpintegrator.nn.canonical import (
    SignedGroup,
    canonical_blocks,
    canonical_blocks_beside,
    check_even,
)
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.formulas import Formulas
from vpintegrator.nn.gradient_coupling import GradientCoupling, HenonMap
from vpintegrator.nn.potentials import (
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
    """Arguments of models of states (q, p) that preserve the symplectic form."""

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
        check_even(self.dim - self.constants, "; take a volume-preserving model, such as vpff")
        if self.expressions and not any(self.expressions_of(half) for half in (0, 1)):
            raise InputError(
                "each of the expressions depends on positions and momenta both; gradient couplings "
                "take those of one of them: leave the others out, or take vpff"
            )
        self.check_neurons("periodic", "expressions")

    def expressions_of(self, half: int) -> list[str]:
        """Return expressions of positions (0) or momenta (1) alone, with conserved components."""
        formulas, own = Formulas(self.expressions, self.dim), self.components_of(half)
        read = {*own, *self.conserved}
        pairs = zip(formulas.texts, formulas.depends, strict=True)
        # a force that depends on time is a product with a function of that alone
        alone = self.explicit_time
        return [
            text for text, of in pairs if of.issubset(read) and (alone or not of.isdisjoint(own))
        ]

    def components_of(self, half: int) -> range:
        """Return the numbers of the positions (0) or the momenta (1)."""
        return range(half * self.freedoms, (half + 1) * self.freedoms)

    @property
    def freedoms(self) -> int:
        """Number of degrees of freedom."""
        return (self.dim - self.constants) // 2


def potential(a: Any, half: int, group: torch.Tensor | SignedGroup | None) -> nn.Module:
    """Return a function of the positions (0) or the momenta (1), by the functions asked for."""
    size = a.freedoms
    own = [*a.components_of(half), *a.conserved]
    if a.functions == "polynomial":
        return BasisPotential(
            size,
            a.degree,
            periodic=[own.index(i) for i in a.periods if i in own],
            cyclic=[own.index(i) for i in a.cyclic if i in own],
            expressions=a.expressions_of(half),
            components=own,
            group=group,
            conserved=a.constants,
            scaling=[own.index(i) for i in a.scaling],
            initial_scale=a.initial_scale / 10,
        )
    return NeuronPotential(
        size,
        a.width,
        group=group,
        conserved=a.constants,
        scaling=[own.index(i) for i in a.scaling],
        activation=a.activation,
        initial_scale=a.initial_scale,
    )


def blocks(a: Any) -> tuple[torch.Tensor | SignedGroup, torch.Tensor | SignedGroup]:
    """Return the action of symmetries on positions and on momenta, with conserved components."""
    if a.constants:
        return canonical_blocks_beside(a.group, a.constants)
    return canonical_blocks(a.group)


def symplectic_layer(a: Any) -> nn.Module:
    """Return a unit of the kind asked for, from ``SymplecticArguments``."""
    of_positions, of_momenta = blocks(a)
    size, angles = a.freedoms, list(a.periods)
    if not set(angles).isdisjoint(a.components_of(1)):
        raise InputError("periodic: a momentum is no angle; angles are among the positions")
    if a.layer == "gradient":
        return GradientCoupling(potential(a, 1, of_momenta), potential(a, 0, of_positions))
    if a.constants:
        raise InputError(f"layer = {a.layer} reads no conserved components; take layer = gradient")
    if len(a.group) > 1 or angles or a.expressions:
        raise InputError(
            f"layer = {a.layer} respects no symmetries between degrees of freedom, and knows no "
            "angles and no expressions; take layer = gradient, or fewer reversing_symmetries"
        )
    if a.layer == "henon":
        return HenonMap(potential(a, 1, None))
    scale = {"initial_scale": a.initial_scale}
    linear = (
        GradientCoupling(QuadraticPotential(size, **scale), QuadraticPotential(size, **scale))
        for _ in range(a.linear)
    )
    activations = (ComponentPotential(size, activation=a.activation, **scale) for _ in range(2))
    return Composition(*linear, GradientCoupling(*activations))


def in_words(a: Any) -> str:
    """Return a description of the layer that ``symplectic_layer`` makes."""
    words = _WORDS[a.layer]
    if a.layer != "linear-activation" and a.functions != "neurons":
        words += f" of {a.polynomials}"
    return words
