"""Layers whose functions are linear in their parameters, and their shears.

Such a layer has ``prolongable = True``. Its method ``shears()`` returns its shears in the order of
application, see :class:`LinearShear`; training initialises them as a splitting method. ``prolong``
of :class:`vpintegrator.nn.layer.Layer` makes it the map of a layer with fewer terms. A layer that
reads parameters has a method ``at(parameters)``, the layer with these multiplied out.

Layers with variables of their own have ``set_units(shift, scale)``, called where states are
normalised, and ``adapt(states)``. Nothing else needs to know the class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from vpintegrator.nn.composition import Composition
from vpintegrator.nn.reversible import Reversible, psi_of

Derivatives = tuple[torch.Tensor, torch.Tensor]  # by the parameters, and by the states
Jet = Callable[[torch.Tensor], Derivatives]


@dataclass(frozen=True)
class LinearShear:
    """Shear of a layer, whose increment is linear in its parameters.

    Attributes
    ----------
    block
        Number of the block of components that it moves, in its layer.
    parameters
        Its parameters.
    components
        The components that it moves, those of the layer where it is rotated.
    move
        Increment of variables (state, dim + m), states and the parameters that the layer reads, in
        the layer's coordinates, at the coefficients as they are.
    share
        Indices of its own among all numbers of a parameter.
    rotation
        Rotation from states to the layer's coordinates (dim, dim), or None.
    jet
        Function of states (state, dim) that returns the derivatives of the increments of
        ``components`` by the parameters (state, component, parameter), and by the states (state,
        component, dim). None where a layer does not offer it.
    """

    block: int
    parameters: list[nn.Parameter]
    components: list[int]
    move: Callable[[torch.Tensor], torch.Tensor]
    share: slice = field(default_factory=lambda: slice(None))
    rotation: torch.Tensor | None = None
    jet: Jet | None = None

    @torch.no_grad()
    def set(self, values: torch.Tensor) -> None:
        """Give it parameters, all in one vector."""
        for parameter in self.parameters:
            own = parameter.view(-1)[self.share]
            own.copy_(values[: len(own)])
            values = values[len(own) :]

    @torch.no_grad()
    def columns(self, z: torch.Tensor) -> torch.Tensor:
        """Return the increment of states for each parameter, (state, dim, parameter)."""
        before = [parameter.clone() for parameter in self.parameters]
        turned = z if self.rotation is None else z @ self.rotation.mT  # (state, dim)
        columns = []
        for parameter in self.parameters:
            parameter.zero_()
        for parameter in self.parameters:
            flat = parameter.view(-1)
            for n in range(*self.share.indices(len(flat))):
                flat[n] = 1.0
                moved = self.move(turned.to(flat)).double()
                # (state, dim)
                columns.append(moved if self.rotation is None else moved @ self.rotation)
                flat[n] = 0.0
        for parameter, value in zip(self.parameters, before, strict=True):
            parameter.copy_(value)
        # (state, dim, parameter)
        return torch.stack(columns, -1) if columns else z.new_zeros(*z.shape, 0)


def is_prolongable(layer: nn.Module) -> bool:
    """Whether a layer is linear in its parameters and can take the terms of a smaller one."""
    return bool(getattr(layer, "prolongable", False))


def explicit_shears(core: Any) -> list[LinearShear] | None:
    """Return the shears of a map, or of psi of a reversible one, if it is made of nothing else.

    Parameters
    ----------
    core
        Core of a model.

    Returns
    -------
    list of LinearShear or None
        None where a layer is another, or offers no derivatives of its shears.
    """
    psi = psi_of(core)
    layers: list[Any] = list(psi) if isinstance(psi, Composition) else [psi]
    if not all(is_prolongable(layer) and hasattr(layer, "shears") for layer in layers):
        return None
    result = [shear for layer in layers for shear in layer.shears()]
    plain = all(each.jet is not None and each.rotation is None for each in result)
    return result if plain else None


class ShearDerivatives:
    """Images of an explicit map with their derivatives by the parameters.

    The chain rule is applied shear by shear, without automatic differentiation.

    Parameters
    ----------
    core
        Core of a model for which ``explicit_shears`` gives shears.
    """

    def __init__(self, core: Any) -> None:
        shears = explicit_shears(core)
        assert shears is not None
        self.steps: list[tuple[LinearShear | None, int]] = [(each, 1) for each in shears]
        self.rho = torch.empty(0)
        if isinstance(core, Reversible):  # rho psi^-1 rho comes first
            self.rho = core.symmetry
            inverse = [(each, -1) for each in reversed(shears)]
            self.steps = [(None, 1), *inverse, (None, 1), *self.steps]
        self.begins: dict[torch.Tensor, int] = {}
        self.total = 0
        for parameter in core.parameters():
            self.begins[parameter], self.total = self.total, self.total + parameter.numel()

    @torch.no_grad()
    def images(self, z: torch.Tensor) -> tuple[torch.Tensor, list[Derivatives]]:
        """Return images of normalised states (state, dim), and the jets of all shears there."""
        jets = []
        for shear, sign in self.steps:
            if shear is None:
                z = z @ self.rho.to(z).mT
                continue
            assert shear.jet is not None
            (parameter,) = shear.parameters
            jets.append(shear.jet(z))
            z = z.clone()
            z[:, shear.components] += sign * (jets[-1][0] @ parameter.flatten()[shear.share])
        return z, jets

    @torch.no_grad()
    def derivatives(self, jets: list[Derivatives]) -> torch.Tensor:
        """Return derivatives (state, dim, parameter) of the images that have these jets."""
        states, _, dim = jets[0][1].shape
        result = jets[0][1].new_zeros(states, dim, self.total)
        by_states = torch.eye(dim).to(result).expand(states, dim, dim)  # of the later steps
        left = iter(reversed(jets))
        for shear, sign in reversed(self.steps):
            if shear is None:
                by_states = by_states @ self.rho.to(result)
                continue
            by_own, by_seen = next(left)
            (parameter,) = shear.parameters
            later = sign * by_states[:, :, shear.components]  # (state, dim, component)
            begin, own = self.begins[parameter], range(*shear.share.indices(parameter.numel()))
            result[:, :, begin + own.start : begin + own.stop] += (
                later @ by_own
            )  # (state, dim, own)
            by_states = by_states + later @ by_seen  # (state, dim, dim)
        return result
