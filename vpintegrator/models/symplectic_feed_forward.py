"""The symplectic feed-forward network: a one-step map of states (q, p)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from vpintegrator.arguments import whole
from vpintegrator.models.arguments import Matrices, Periods
from vpintegrator.models.components import Components
from vpintegrator.models.model import Model
from vpintegrator.models.symplectic_layers import (
    symplectic_in_words,
    symplectic_layer,
    symplectic_refusal,
)
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.layer import default_dtype


class SymplecticFeedForward(Model):
    r"""A one-step map of states (q, p) made of gradient couplings, or of published layers.

    .. math:: \psi = F_L \circ \cdots \circ F_1, \qquad D\psi^T J\, D\psi = J

    Exactly symplectic and explicitly invertible; with reversing symmetries also reversible. The
    published networks are its settings without reversing symmetries: G-SympNets are
    ``functions = "neurons"``, LA-SympNets ``layer = "linear-activation"``, HenonNets
    ``layer = "henon"``.

    Parameters
    ----------
    dim
        Components of a state: positions, then momenta, then those that layers read alone.
    depth
        Number of units.
    width
        Hidden units of each coupling.
    functions
        Functions in the couplings: a hidden layer, or polynomials, see
        ``VolumePreservingFeedForward``.
    degree
        Degree of the polynomials, in all components together.
    expressions
        Functions of the state such as ``exp(z[0] - z[1])`` that polynomials take as further
        variables.
    layer
        Gradient couplings (with neurons a G-SympNet), the linear and activation modules of an
        LA-SympNet, or the Henon maps of a HenonNet. The latter two as published, without angles or
        symmetries between degrees of freedom.
    linear
        Linear pairs in a unit of the linear and activation modules.
    activation
        Activation of hidden layers.
    initial_scale
        Size of the initial gradients.
    reversing_symmetries
        Matrices rho with f(rho z) = -rho f(z). The map is made reversible for each of them; layers
        are averaged over the group of their products, or commute with it.
    periodic
        Components that are angles, by number, with their periods. Polynomials have their sines and
        cosines in place of powers, the order of the harmonic counting as the degree.
    cyclic
        Components, by number, that polynomials do not depend on.
    conserved
        Last components, by number, that stay as they are, bit by bit, and that the others depend
        on.
    explicit_time
        Whether the last component is the time: every call moves it on by the same, and all else as
        one in which it stays what it is in the middle of the step.
    parameters
        Number of parameters of a family that all functions read, see ``Model``.
    vanishing
        Those of these parameters, from 0 on, at zero of which nothing moves, as at step zero.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        For sizes that do not fit, or symmetries that do not keep the symplectic form or mix
        positions and momenta.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750; Burby, Tang, Maulik,
    arXiv 2007.04496.

    Examples
    --------
    >>> import torch, vpintegrator as vp
    >>> model = vp.models.SymplecticFeedForward(dim=4, functions="polynomial", degree=4)
    >>> z = torch.rand(4, dtype=torch.float64)
    >>> D = torch.func.jacrev(lambda z: model(z[None])[0])(z)
    >>> J = vp.nn.canonical_form(4)
    >>> bool((D.mT @ J @ D - J).abs().max() < 1e-14)
    True
    """

    name = "spff"

    @classmethod
    def _refusal(cls, components: Components, arguments: Mapping[str, Any]) -> str | None:
        return symplectic_refusal(components, arguments)

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        depth: int = 3,
        width: int = 16,
        functions: Literal["neurons", "polynomial"] = "neurons",
        degree: int = 6,
        expressions: Sequence[str] = (),
        layer: Literal["gradient", "linear-activation", "henon"] = "gradient",
        linear: int = 2,
        activation: str = "tanh",
        initial_scale: float = 1e-2,
        reversing_symmetries: Matrices = (),
        periodic: Periods = (),
        cyclic: Sequence[int] = (),
        conserved: Sequence[int] = (),
        explicit_time: bool = False,
        parameters: int = 0,
        vanishing: Sequence[int] = (),
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(
            dim,
            reversing_symmetries,
            periodic,
            cyclic,
            conserved,
            explicit_time,
            parameters,
            vanishing,
        )
        layers = [
            symplectic_layer(
                components,
                layer=layer,
                linear=linear,
                functions=functions,
                width=width,
                degree=degree,
                expressions=expressions,
                activation=activation,
                initial_scale=initial_scale,
            )
            for _ in range(whole("depth", depth))
        ]
        words = symplectic_in_words(layer, functions, degree, expressions)
        super().__init__(
            Composition(*layers),
            components,
            dtype=dtype,
            description=f"symplectic feed-forward network: one step by {words}",
        )
