"""Layers of symplectic models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.components import Components
from vpintegrator.models.coupling_layers import check_neurons, polynomials
from vpintegrator.nn.basis import ONLY_SIGNED
from vpintegrator.nn.basis_layers import BasisPotential
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.formulas import Formulas, as_expressions
from vpintegrator.nn.gradient_coupling import (
    ComponentPotential,
    GradientCoupling,
    HenonMap,
    NeuronPotential,
    QuadraticPotential,
)
from vpintegrator.nn.symmetry import (
    SignedGroup,
    canonical_blocks,
    check_even,
    form_refusal,
    signed_permutations,
)

_WORDS = {
    "gradient": "gradient couplings",
    "linear-activation": "linear and activation modules",
    "henon": "Henon maps",
}


def symplectic_layer(
    components: Components,
    *,
    layer: str = "gradient",
    linear: int = 2,
    functions: str = "neurons",
    width: int = 16,
    degree: int = 6,
    expressions: Sequence[str] = (),
    activation: str = "tanh",
    initial_scale: float = 1e-2,
) -> nn.Module:
    """Return a unit of the kind asked for.

    Parameters
    ----------
    components
        Components of a state: positions, momenta, and those that are read alone.
    layer, linear, functions, width, degree, expressions, activation, initial_scale
        Arguments of ``SymplecticFeedForward``.

    Raises
    ------
    InputError
        If the symmetries do not keep the form, or an argument is for other layers.
    """
    check_even(components.moving, "; take a volume-preserving model, such as vpff")
    size, expressions = components.moving // 2, as_expressions(expressions)
    halves = range(size), range(size, 2 * size)
    read = [_expressions_of(own, components, expressions) for own in halves]
    if expressions and not any(read):
        raise InputError(
            "each of the expressions depends on positions and momenta both; gradient couplings "
            "take those of one of them: leave the others out, or take vpff"
        )
    if functions == "neurons":
        check_neurons(components, expressions)

    def potential(half: int, group: torch.Tensor | SignedGroup | None) -> nn.Module:
        """Return a function of the positions (0) or the momenta (1)."""
        own = [*halves[half], *range(2 * size, 2 * size + components.read)]
        if functions == "polynomial":
            return BasisPotential(
                size,
                degree,
                periodic=[own.index(i) for i in components.periods if i in own],
                cyclic=[own.index(i) for i in components.cyclic if i in own],
                expressions=read[half],
                components=own,
                group=group,
                parameters=components.read,
                vanishing=components.vanishing,
                initial_scale=initial_scale / 10,
            )
        return NeuronPotential(
            size,
            width,
            group=group,
            parameters=components.read,
            vanishing=components.vanishing,
            activation=activation,
            initial_scale=initial_scale,
        )

    group = components.group
    actions = canonical_blocks(group, components.read)
    if not {*components.periods}.isdisjoint(halves[1]):
        raise InputError("periodic: a momentum is no angle; angles are among the positions")
    if layer == "gradient":
        return GradientCoupling(potential(1, actions[1]), potential(0, actions[0]))
    if components.read:
        raise InputError(f"layer = {layer} reads no parameters; take layer = gradient")
    if len(group) > 1 or components.periods or expressions:
        raise InputError(_published_alone(layer))
    if layer == "henon":
        return HenonMap(potential(1, None))
    shears = [
        GradientCoupling(
            QuadraticPotential(size, initial_scale=initial_scale),
            QuadraticPotential(size, initial_scale=initial_scale),
        )
        for _ in range(linear)
    ]
    kicks = [
        ComponentPotential(size, activation=activation, initial_scale=initial_scale)
        for _ in range(2)
    ]
    return Composition(*shears, GradientCoupling(*kicks))


def symplectic_refusal(components: Components, arguments: Mapping[str, Any]) -> str | None:
    """Return why symplectic layers cannot respect the symmetries, or None.

    Parameters
    ----------
    components
        Components with their symmetries.
    arguments
        Arguments of ``SymplecticFeedForward`` by name.
    """
    group, layer = components.group, arguments["layer"]
    if components.moving % 2:
        return None  # no symmetry is the reason
    if reason := form_refusal(group, components.read):
        return reason
    if layer != "gradient" and len(group) > 1:
        return _published_alone(layer)
    polynomial = arguments["functions"] == "polynomial"
    return ONLY_SIGNED if polynomial and signed_permutations(group) is None else None


def _published_alone(layer: str) -> str:
    return (
        f"layer = {layer} respects no symmetries between degrees of freedom, and knows no angles "
        "and no expressions; take layer = gradient, or fewer reversing_symmetries"
    )


def _expressions_of(own: range, components: Components, expressions: list[str]) -> list[str]:
    """Return expressions of positions or momenta alone, with parameters."""
    variables = components.moving + components.read
    formulas, read = Formulas(expressions, variables), {*own, *range(components.moving, variables)}
    # a force that depends on time is a product with a function of that alone
    alone = components.explicit_time
    return [
        text
        for text, of in zip(formulas.texts, formulas.depends, strict=True)
        if of.issubset(read) and (alone or not of.isdisjoint(own))
    ]


def symplectic_in_words(
    layer: str, functions: str, degree: int, expressions: Sequence[str] = ()
) -> str:
    """Describe the layer that :func:`symplectic_layer` makes."""
    if layer != "linear-activation" and functions != "neurons":
        return f"{_WORDS[layer]} of {polynomials(degree, expressions)}"
    return _WORDS[layer]
