"""The symplectic transformer: attention that keeps the form on windows, then gradient couplings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.models.arguments import Matrices, Periods
from vpintegrator.models.components import Components
from vpintegrator.models.model import Model
from vpintegrator.models.symplectic_layers import (
    symplectic_layer,
    symplectic_refusal,
)
from vpintegrator.nn import Composition, SymplecticAttention
from vpintegrator.nn.layer import default_dtype


class SymplecticTransformer(Model):
    r"""``depth`` units of symplectic attention and of a symplectic feed-forward layer.

    .. math:: \psi = F_L \circ A_L \circ \cdots \circ F_1 \circ A_1

    with attention :math:`A_l` over the window and gradient couplings :math:`F_l` of every state.
    The map of windows keeps the form :math:`\sum_t dq_t \wedge dp_t`, summed over the time steps,
    exactly, and is explicitly invertible; with reversing symmetries it is also reversible. That is
    a law of the space of windows: what it does to phase space, rollouts measure.

    Parameters
    ----------
    dim
        Components of a state, even: positions, then momenta.
    window
        Time steps read, at least 2.
    prediction_window
        Time steps predicted, None for all of them.
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
    layer, linear
        The feed-forward layer, see ``SymplecticFeedForward``.
    activation
        Activation of hidden layers.
    initial_scale
        Size of the initial gradients, and of attention.
    reversing_symmetries
        Matrices rho with f(rho z) = -rho f(z). The map is made reversible for each of them; layers
        are averaged over the group of their products, or commute with it.
    periodic
        Components that are angles, by number, with their periods. Polynomials have their sines and
        cosines in place of powers, the order of the harmonic counting as the degree.
    cyclic
        Components, by number, that polynomials do not depend on.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        For sizes that do not fit, or symmetries that do not keep the symplectic form or mix
        positions and momenta.

    Examples
    --------
    >>> model = vp.models.SymplecticTransformer(dim=4, window=3, depth=1)
    >>> Z = torch.rand(5, 3, 4, dtype=torch.float64)
    >>> model.structure.is_symplectic, bool(torch.allclose(model.inverse(model(Z)), Z))
    (True, True)
    """

    name = "spt"

    @classmethod
    def _refusal(cls, components: Components, arguments: Mapping[str, Any]) -> str | None:
        return symplectic_refusal(components, arguments)

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        window: int = 3,
        prediction_window: int | None = 1,
        depth: int = 2,
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
        dtype: str | torch.dtype = "float64",
    ) -> None:
        components = Components(dim, reversing_symmetries, periodic, cyclic)
        whole("window", window, 2)
        layers: list[nn.Module] = []
        for _ in range(whole("depth", depth)):
            layers += [
                SymplecticAttention(dim, symmetries=components.group, initial_scale=initial_scale),
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
                ),
            ]
        super().__init__(
            Composition(*layers),
            components,
            window=window,
            prediction_window=prediction_window,
            dtype=dtype,
        )
