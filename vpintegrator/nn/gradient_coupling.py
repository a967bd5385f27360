"""Shears by gradients of potentials, and symplectic maps of states (q, p) composed of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.layer import InvertibleLayer, factory_like
from vpintegrator.nn.parameters import joined
from vpintegrator.nn.shears import LinearShear, is_prolongable


class GradientCoupling(InvertibleLayer):
    r"""Two shears of states (q, p) by gradients of any functions T and V: symplectic.

    .. math:: q \mapsto q + \nabla T(p), \qquad \text{then} \qquad p \mapsto p - \nabla V(q)

    Each of the two is a shear with a symmetric derivative, so the map is symplectic,
    :math:`D^T J D = J`: on states, and on windows with J at every time step. So volume is kept, and
    the inverse is explicit. With potentials T(p, k) and V(q, k) it is symplectic for all parameters
    k.

    Parameters
    ----------
    kinetic, potential : Module
        T and V, with a method ``gradient`` for (..., size), or (..., window, size) where it mixes
        the time steps, and ``size`` the components of each half of a state. Where they read
        parameters after these, an attribute ``parameter_count`` says how many.

    Raises
    ------
    InputError
        If the two are not of the same size, or do not read as many parameters.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750; Hairer, Lubich, Wanner,
    Geometric Numerical Integration, VI.2.

    Examples
    --------
    >>> layer = vp.nn.GradientCoupling(vp.nn.NeuronPotential(2), vp.nn.BasisPotential(2))
    >>> D = torch.func.jacrev(layer)(torch.rand(4))
    >>> J = vp.nn.canonical_form(4).float()
    >>> bool(torch.allclose(D.mT @ J @ D, J, atol=1e-6))
    True
    """

    symplectic = True

    def __init__(self, kinetic: Any, potential: Any) -> None:
        super().__init__()
        if kinetic.size != potential.size:
            raise InputError(
                f"the potentials of momenta and positions are of {kinetic.size} and "
                f"{potential.size} components; give two of the same size"
            )
        self.kinetic: Any = kinetic
        self.potential: Any = potential
        self.parameter_count = getattr(kinetic, "parameter_count", 0)
        if self.parameter_count != getattr(potential, "parameter_count", 0):
            raise InputError("both potentials must read the same parameters, or none")
        self.dim = 2 * self.kinetic.size

    @property
    def prolongable(self) -> bool:
        """Whether both potentials are, so that they can take the terms of smaller ones."""
        return is_prolongable(self.kinetic) and is_prolongable(self.potential)

    def shears(self) -> list[LinearShear]:
        """Return the shear of positions, then that of momenta."""
        n = self.kinetic.size
        q, p = list(range(n)), list(range(n, 2 * n))
        k = list(range(2 * n, 2 * n + self.parameter_count))
        return [
            _shear(0, self.kinetic, q, p + k, 1.0),
            _shear(1, self.potential, p, q + k, -1.0),
        ]

    def at(self, parameters: torch.Tensor) -> GradientCoupling:
        """Return the coupling at parameters (m,), which are multiplied out."""
        return GradientCoupling(self.kinetic.at(parameters), self.potential.at(parameters))

    def transform(
        self, z: torch.Tensor, sign: int, parameters: torch.Tensor | None = None
    ) -> torch.Tensor:
        q, p = z.chunk(2, -1)  # (..., size) each
        for shear in "TV"[::sign]:
            if shear == "T":
                q = torch.add(q, self.kinetic.gradient(joined(p, parameters)), alpha=sign)
            else:
                p = torch.add(p, self.potential.gradient(joined(q, parameters)), alpha=-sign)
        return torch.cat([q, p], -1)  # (..., dim)


class HenonMap(InvertibleLayer):
    r"""A Henon layer: four times the same symplectic map, near the identity for small V.

    .. math:: (q, p) \mapsto (p + \eta,\; -q + \nabla V(p)) \qquad \text{four times}

    Parameters
    ----------
    potential : Module
        V, as for ``GradientCoupling``.

    References
    ----------
    Burby, Tang, Maulik, Fast neural Poincare maps for toroidal magnetic fields, arXiv 2007.04496,
    definition 2.

    Examples
    --------
    >>> layer = vp.nn.HenonMap(vp.nn.NeuronPotential(2, initial_scale=0.0))
    >>> layer(torch.tensor([1.0, 2.0, 3.0, 4.0]))  # the identity
    tensor([1., 2., 3., 4.], grad_fn=<CatBackward0>)
    """

    symplectic = True

    def __init__(self, potential: Any) -> None:
        super().__init__(**factory_like(potential))
        self.potential: Any = potential
        self.dim = 2 * self.potential.size
        self.shift = nn.Parameter(torch.zeros(self.potential.size, **self.factory_kwargs))

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        q, p = z.chunk(2, -1)  # (..., size) each
        for _ in range(4):
            if sign > 0:
                q, p = p + self.shift, self.potential.gradient(p) - q
            else:
                q, p = self.potential.gradient(q - self.shift) - p, q - self.shift
        return torch.cat([q, p], -1)


def _shear(
    block: int, potential: Any, moved: list[int], seen: list[int], sign: float
) -> LinearShear:
    """Return the shear of some components by the gradient of a potential of others."""

    def move(z: torch.Tensor) -> torch.Tensor:
        result = torch.zeros_like(z)
        result[..., moved] = sign * potential.gradient(z[..., seen])
        return result

    def jet(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        by_parameters, by_seen = potential.gradient_jet(z[..., seen])
        by_states = z.new_zeros(len(z), len(moved), z.shape[1])  # (state, moved, dim)
        by_states[..., seen[: len(moved)]] = sign * by_seen
        return sign * by_parameters, by_states

    known = hasattr(potential, "gradient_jet") and getattr(potential, "formulas", None) is None
    parameters = list(potential.parameters())
    return LinearShear(block, parameters, moved, move, jet=jet if known else None)
