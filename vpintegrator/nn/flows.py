"""Steps of classical methods along vector fields that are trained."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import one_of, whole
from vpintegrator.dynamics.compositions import FACTORS, moves_of
from vpintegrator.dynamics.tableaus import TABLEAUS
from vpintegrator.errors import InputError
from vpintegrator.nn.layer import InvertibleLayer, Layer, factory_like

# factors, and the part that moves first: 0 for positions, 1 for momenta
_SPLITTINGS = {name: (factors, 0) for name, factors in FACTORS.items()}
_SPLITTINGS["stoermer-verlet"] = ((0.5, 0.5), 1)


class RungeKuttaFlow(Layer):
    r"""A step h of an explicit Runge-Kutta method along a vector field.

    .. math:: z' = z + h \sum_i b_i k_i, \qquad k_i = f\Bigl(z + h \sum_{j<i} a_{ij} k_j\Bigr)

    Differentiable through all stages. The step is 1 unless ``set_step`` says another.

    Parameters
    ----------
    field : Module
        f, a map of states (..., dim).
    method : str
        Name of an explicit Runge-Kutta method.
    substeps : int
        Number of equal steps of the method in a step.

    References
    ----------
    Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.1.

    Examples
    --------
    >>> flow = vp.nn.RungeKuttaFlow(vp.nn.Perceptron(2), "rk4")
    >>> flow.set_step(0.1)
    >>> flow(torch.zeros(5, 2)).shape
    torch.Size([5, 2])
    """

    shown = ("method", "substeps")
    step: torch.Tensor

    def __init__(self, field: nn.Module, method: str = "rk4", substeps: int = 1) -> None:
        super().__init__(**factory_like(field))
        self.field = field
        self.method = one_of("method", method, TABLEAUS)
        self.substeps = whole("substeps", substeps)
        self.register_buffer("step", torch.ones(1, **self.factory_kwargs))
        if hasattr(field, "dim"):
            self.dim = field.dim

    def set_step(self, step: float) -> None:
        """Set the step h, in units of time."""
        self.step.fill_(step)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        h = self.step[0] / self.substeps
        tableau = TABLEAUS[self.method]
        for _ in range(self.substeps):
            slopes: list[torch.Tensor] = []
            for row in ((), *tableau.stages):
                change = sum(a * k for a, k in zip(row, slopes, strict=True) if a)
                slopes.append(self.field(z + h * change))  # (..., dim)
            z = z + h * sum(b * k for b, k in zip(tableau.weights, slopes, strict=True) if b)
        return z


class SplitFlow(InvertibleLayer):
    r"""A step h of a splitting method for :math:`H(q, p) = T(p) + V(q)`: symplectic.

    .. math:: q \mapsto q + a_i h\, \nabla T(p), \qquad p \mapsto p - b_i h\, \nabla V(q)

    in turn, with the numbers :math:`a_i, b_i` of the method, any functions T and V.

    Parameters
    ----------
    kinetic, potential : Module
        T and V, with a method ``gradient`` for (..., size), and ``size``.
    method : str
        Name of a splitting method.
    substeps : int
        Number of equal steps of the method in a step.

    Raises
    ------
    InputError
        If there is no such splitting method, or T and V are not of the same size.

    References
    ----------
    Chen, Zhang, Arjovsky, Bottou, Symplectic recurrent neural networks, arXiv 1909.13334.

    Examples
    --------
    >>> flow = vp.nn.SplitFlow(vp.nn.EnergyNetwork(1), vp.nn.EnergyNetwork(1), "yoshida-4")
    >>> z = torch.rand(5, 2)
    >>> bool(torch.allclose(flow.inverse(flow(z)), z))
    True
    """

    symplectic = True
    shown = ("method", "substeps")
    step: torch.Tensor

    def __init__(
        self, kinetic: Any, potential: Any, method: str = "stoermer-verlet", substeps: int = 1
    ) -> None:
        super().__init__(**factory_like(kinetic))
        if kinetic.size != potential.size:
            raise InputError(
                f"T and V are functions of {kinetic.size} and {potential.size} components; give "
                "two of the same size"
            )
        self.kinetic: Any = kinetic
        self.potential: Any = potential
        self.dim = 2 * kinetic.size
        self.method = one_of("method", method, _SPLITTINGS)
        self.substeps = whole("substeps", substeps)
        self.register_buffer("step", torch.ones(1, **self.factory_kwargs))

    def set_step(self, step: float) -> None:
        """Set the step h, in units of time."""
        self.step.fill_(step)

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        q, p = z.chunk(2, -1)  # (..., size) each
        factors, first = _SPLITTINGS[self.method]
        moves = [((part + first) % 2, share) for part, share in moves_of(factors, 2)]
        h = sign * self.step[0] / self.substeps
        for part, share in (moves * self.substeps)[::sign]:
            if part == 0:
                q = q + (share * h) * self.kinetic.gradient(p)
            else:
                p = p - (share * h) * self.potential.gradient(q)
        return torch.cat([q, p], -1)  # (..., dim)
