"""Layers whose functions are linear in their parameters, and their shears.

Such a layer has ``prolongable = True``. Its method ``shears()`` returns its shears in the order of
application, see :class:`LinearShear`; training initialises them as a splitting method. ``prolong``
of :class:`vpintegrator.nn.layer.Layer` makes it the map of a layer with fewer terms. A layer that
reads parameters has a method ``at(parameters)``, the layer with these multiplied out.

Layers with variables of their own have ``set_units(shift, scale)``, called where states are
normalised, and ``adapt(states)``. Nothing else needs to know the class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.composition import Composition, Reversible, is_invertible, psi_of
from vpintegrator.nn.layer import InvertibleLayer, factory_like, on_cpu, parameters_for, preserves
from vpintegrator.nn.symmetry import TOLERANCE, as_matrices, form_signs

Derivatives = tuple[torch.Tensor, torch.Tensor]  # by the parameters, and by the states
Jet = Callable[[torch.Tensor], Derivatives]


@dataclass(frozen=True)
class LinearShear:
    """Shear of a layer, whose increment is linear in its parameters.

    Attributes
    ----------
    block
        Number of the block of components that it moves, in its layer.
    parameter
        The layer's coefficients.
    components
        The components that it moves, those of the layer where it is rotated.
    move
        Increment of variables (state, dim + m), states and the parameters that the layer reads, in
        the layer's coordinates, at the coefficients as they are.
    share
        Indices of its own among all numbers of the parameter.
    rotation
        Rotation from states to the layer's coordinates (dim, dim), or None.
    jet
        Function of states (state, dim) that returns the derivatives of the increments of
        ``components`` by the parameters (state, component, parameter), and by the states (state,
        component, dim). None where a layer does not offer it.
    """

    block: int
    parameter: nn.Parameter
    components: list[int]
    move: Callable[[torch.Tensor], torch.Tensor]
    share: slice = field(default_factory=lambda: slice(None))
    rotation: torch.Tensor | None = None
    jet: Jet | None = None

    @torch.no_grad()
    def set(self, values: torch.Tensor) -> None:
        """Give it the numbers of its parameter."""
        self.parameter.view(-1)[self.share] = values.to(self.parameter)

    @torch.no_grad()
    def columns(self, z: torch.Tensor) -> torch.Tensor:
        """Return the increment of states for each number of the parameter, (state, dim, number)."""
        before = self.parameter.clone()
        flat = self.parameter.view(-1)
        turned = z if self.rotation is None else z @ self.rotation.mT  # (state, dim)
        columns = []
        flat.zero_()
        for n in range(*self.share.indices(len(flat))):
            flat[n] = 1.0
            moved = self.move(turned.to(flat)).double()
            # (state, dim)
            columns.append(moved if self.rotation is None else moved @ self.rotation)
            flat[n] = 0.0
        self.parameter.copy_(before)
        # (state, dim, number)
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
            self.begins[parameter] = self.total
            self.total = self.total + parameter.numel()

    @torch.no_grad()
    def images(self, z: torch.Tensor) -> tuple[torch.Tensor, list[Derivatives]]:
        """Return images of normalised states (state, dim), and the jets of all shears there."""
        jets = []
        for shear, sign in self.steps:
            if shear is None:
                z = z @ self.rho.to(z).mT
                continue
            assert shear.jet is not None
            jets.append(shear.jet(z))
            z = z.clone()
            z[:, shear.components] += sign * (jets[-1][0] @ shear.parameter.flatten()[shear.share])
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
            parameter = shear.parameter
            later = sign * by_states[:, :, shear.components]  # (state, dim, component)
            begin = self.begins[parameter]
            places = range(*shear.share.indices(parameter.numel()))
            result[:, :, begin + places.start : begin + places.stop] += (
                later @ by_own
            )  # (state, dim, own)
            by_states = by_states + later @ by_seen  # (state, dim, dim)
        return result


_GOLDEN = (math.sqrt(5) - 1) / 2


class Rotated(InvertibleLayer):
    r"""Layer in rotated coordinates.

    .. math:: z \mapsto Q^T \ell(Q z), \qquad Q^T Q = I

    for a layer :math:`\ell`.

    Couplings along the coordinates can follow, to first order in time, only vector fields whose
    components do not depend on themselves. Shears along enough directions follow all vector fields
    without divergence: polynomial fields are sums of shears (McLachlan, Quispel, Splitting methods,
    Acta Numerica 11, 2002, section 3.9).

    Parameters
    ----------
    layer : Module
        Layer of states (..., dim), explicitly invertible.
    rotation : (dim, dim)
        Orthogonal matrix Q. The builder of the layer gives Q again; Q is not stored with weights.

    Raises
    ------
    InputError
        If Q is not orthogonal, or the layer has no inverse.

    Examples
    --------
    >>> Q = vp.nn.spread_rotation(1, dim=3)
    >>> layer = vp.nn.Rotated(vp.nn.BasisCoupling(dim=3, initial_scale=0.1), Q)
    >>> z = torch.rand(5, 3)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    rotation: torch.Tensor

    @on_cpu
    def __init__(self, layer: nn.Module, rotation: Any) -> None:
        super().__init__(**factory_like(layer))
        if not is_invertible(layer):
            raise InputError(f"{type(layer).__name__} has no explicit inverse to be rotated")
        Q = as_matrices([rotation], len(rotation), "rotation")[0]
        if not torch.allclose(Q @ Q.mT, torch.eye(len(Q)).to(Q), rtol=0, atol=TOLERANCE):
            raise InputError("rotation must be an orthogonal matrix")
        self.layer: Any = layer
        self.exact = Q
        self.dim = len(Q)
        self.parameter_count = getattr(layer, "parameter_count", 0)
        keeps = len(Q) % 2 == 0 and bool((form_signs(Q[None]) == 1).all())
        self.symplectic = keeps and preserves("symplectic", layer)
        self.constant("rotation", Q)

    @property
    def prolongable(self) -> bool:
        """Whether the layer can take the terms of a smaller one."""
        return is_prolongable(self.layer)

    def shears(self) -> list[LinearShear]:
        """Return the shears of the layer, rotated."""
        one = torch.eye(self.parameter_count, dtype=torch.float64)
        Q = torch.block_diag(self.rotation.cpu().double(), one)
        return [replace(shear, rotation=Q) for shear in self.layer.shears()]

    def at(self, parameters: torch.Tensor) -> Rotated:
        """Return the rotated layer at parameters (m,), which are multiplied out."""
        return Rotated(self.layer.at(parameters), self.exact)

    def transform(
        self, z: torch.Tensor, sign: int, parameters: torch.Tensor | None = None
    ) -> torch.Tensor:
        layer = self.layer if sign > 0 else self.layer.inverse
        k = parameters_for(self.layer, parameters)
        return layer(z @ self.rotation.mT, *k) @ self.rotation  # (..., dim)


@on_cpu
def spread_rotation(number: int, dim: int, components: Sequence[int] | None = None) -> torch.Tensor:
    """Return member ``number`` of a sequence of rotations (dim, dim) with well spread axes.

    Parameters
    ----------
    number : int
        0 for the identity.
    dim : int
    components : sequence of int, optional
        Components that the rotation mixes, all by default; others are unchanged.

    Returns
    -------
    Tensor, (dim, dim)
        A product of rotations in the planes of two components each, by angles of a golden-ratio
        sequence: the same in every version, as files of models rely on it.

    Examples
    --------
    >>> Q = vp.nn.spread_rotation(2, dim=4, components=[0, 2])
    >>> bool(torch.allclose(Q @ Q.mT, torch.eye(4).double()))
    True
    """
    mixed = list(range(dim)) if components is None else list(components)
    Q = torch.eye(dim, dtype=torch.float64)
    pairs = [(i, j) for n, i in enumerate(mixed) for j in mixed[n + 1 :]]
    for n, (i, j) in enumerate(pairs if number else []):
        angle = math.pi / 2 * ((number + n * len(pairs)) * _GOLDEN % 1)
        c = math.cos(angle)
        s = math.sin(angle)
        Q[[i, j]] = torch.tensor([[c, s], [-s, c]], dtype=torch.float64) @ Q[[i, j]]
    return Q
