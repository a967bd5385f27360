"""Networks of vector fields that classical methods step: of Hamiltonians, Lagrangians, or free."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.models.model import Model
from vpintegrator.nn import (
    Composition,
    EnergyNetwork,
    HamiltonianField,
    LagrangianField,
    Perceptron,
    RungeKuttaFlow,
    SplitFlow,
)
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.symmetry import check_even

RungeKutta = Literal["explicit-euler", "explicit-midpoint", "heun", "rk4", "dormand-prince-8"]
Splitting = Literal[
    "coordinate-splitting",
    "strang-splitting",
    "stoermer-verlet",
    "yoshida-4",
    "yoshida-6",
    "yoshida-8",
    "blanes-moan-4",
    "blanes-moan-6",
]
Smooth = Literal["tanh", "sigmoid", "sin", "softplus"]  # activations of energies


class _FieldModel(Model):
    """Base of networks of vector fields, which a classical method steps."""

    def field(self, states: torch.Tensor) -> torch.Tensor:
        """Return the learned vector field (..., dim) at states (..., dim)."""
        rates = rates_of(self.core, self.coordinates(states))  # (..., dim)
        return self.coordinates.restored(rates) * self.scale


class HamiltonianNetwork(_FieldModel):
    r"""A Hamiltonian of hidden layers, whose vector field a classical method steps.

    .. math:: \dot q = \partial H / \partial p, \qquad \dot p = -\partial H / \partial q

    It is trained on states: derivatives go through the steps of the method. A separable one,
    :math:`H = T(p) + V(q)`, is stepped by splitting methods and is symplectic at any weights.
    Others are stepped by explicit Runge-Kutta methods and keep nothing exactly.

    Parameters
    ----------
    dim
        Components of a state: positions, then momenta.
    separable
        Whether H is a sum T(p) + V(q) of two networks.
    method
        The classical method; auto: stoermer-verlet of separable ones, else rk4.
    substeps
        Number of equal steps of the method in a step.
    depth
        Number of hidden layers.
    width
        Hidden units of each.
    activation
        Activation of hidden layers, which has a derivative.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        If the number of components is odd, or the method is for other energies.

    References
    ----------
    Greydanus, Dzamba, Yosinski, Hamiltonian neural networks, arXiv 1906.01563; on states through a
    method: Chen, Zhang, Arjovsky, Bottou, Symplectic recurrent neural networks, arXiv 1909.13334.

    Examples
    --------
    >>> model = vp.models.HamiltonianNetwork(dim=4, separable=True)
    >>> model.structure.is_symplectic, model.field(torch.zeros(5, 4)).shape
    (True, torch.Size([5, 4]))
    """

    name = "hnn"
    canonical = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        separable: bool = False,
        method: Literal["auto"] | RungeKutta | Splitting = "auto",
        substeps: int = 1,
        depth: int = 2,
        width: int = 32,
        activation: Smooth = "tanh",
        dtype: str | torch.dtype = "float64",
    ) -> None:
        check_even(dim)
        if method == "auto":
            method = "stoermer-verlet" if separable else "rk4"
        is_splitting = method in get_args(Splitting)
        if is_splitting != separable:
            needed = "separable = true" if is_splitting else "separable = false"
            raise InputError(f"method = {method} needs {needed}")
        if separable:
            kinetic = EnergyNetwork(dim // 2, width, depth, activation=activation)
            potential = EnergyNetwork(dim // 2, width, depth, activation=activation)
            core: nn.Module = SplitFlow(kinetic, potential, method, substeps)
        else:
            energy = EnergyNetwork(dim, width, depth, activation=activation)
            core = RungeKuttaFlow(HamiltonianField(energy), method, substeps)
        super().__init__(core, dim, dtype=dtype)

    def energy(self, states: torch.Tensor) -> torch.Tensor:
        """Return the learned Hamiltonian (...) at states (..., dim), up to a constant."""
        x = self.coordinates(states)
        scale = self.coordinates.ordered(self.scale)
        unit = scale[0] * scale[self.dim // 2]  # that of q p, equal for all pairs
        return unit * energy_of(self.core, x)


class GeneralizedHamiltonianNetwork(Model):
    r"""Steps of the symplectic Euler method along separable Hamiltonians of their own.

    .. math:: \psi = \Phi_{T_L + V_L} \circ \cdots \circ \Phi_{T_1 + V_1}

    Symplectic at any weights, and explicitly invertible. With one
    hidden layer these are G-SympNets.

    Parameters
    ----------
    dim
        Components of a state: positions, then momenta.
    depth
        Number L of steps.
    width
        Hidden units of each hidden layer.
    hidden
        Hidden layers of each T and V.
    activation
        Activation of hidden layers, which has a derivative.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        If the number of components is odd.

    References
    ----------
    Horn, Saz Ulibarrena, Koren, Portegies Zwart, A generalized framework of neural networks for
    Hamiltonian systems, J. Comput. Phys. 521 (2025) 113536.

    Examples
    --------
    >>> model = vp.models.GeneralizedHamiltonianNetwork(dim=2, depth=3)
    >>> z = torch.rand(5, 1, 2, dtype=torch.float64)
    >>> bool(torch.allclose(model.inverse(model(z)), z))
    True
    """

    name = "ghnn"
    canonical = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        depth: int = 5,
        width: int = 16,
        hidden: int = 2,
        activation: Smooth = "tanh",
        dtype: str | torch.dtype = "float64",
    ) -> None:
        check_even(dim)

        def part() -> EnergyNetwork:
            return EnergyNetwork(dim // 2, width, hidden, activation=activation)

        layers = [
            SplitFlow(part(), part(), "coordinate-splitting") for _ in range(whole("depth", depth))
        ]
        super().__init__(Composition(*layers), dim, dtype=dtype)


class LagrangianNetwork(_FieldModel):
    r"""A Lagrangian of hidden layers, whose vector field an explicit Runge-Kutta method steps.

    .. math:: \frac{d}{dt} \frac{\partial L}{\partial v} = \frac{\partial L}{\partial q}, \qquad
        \dot q = v

    It is trained on states: derivatives go through the steps of the method. Momenta need not be
    known. The steps keep nothing exactly.

    Parameters
    ----------
    dim
        Components of a state: positions, then their velocities.
    method
        The classical method.
    substeps
        Number of equal steps of the method in a step.
    depth
        Number of hidden layers.
    width
        Hidden units of each.
    activation
        Activation of hidden layers, which has two derivatives.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        If the number of components is odd.

    References
    ----------
    Cranmer, Greydanus, Hoyer, Battaglia, Spergel, Ho, Lagrangian neural networks,
    arXiv 2003.04630.

    Examples
    --------
    >>> model = vp.models.LagrangianNetwork(dim=4)
    >>> model.field(torch.zeros(5, 4)).shape, model.energy(torch.zeros(5, 4)).shape
    (torch.Size([5, 4]), torch.Size([5]))
    """

    name = "lnn"

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        method: RungeKutta = "rk4",
        substeps: int = 1,
        depth: int = 2,
        width: int = 32,
        activation: Smooth = "softplus",
        dtype: str | torch.dtype = "float64",
    ) -> None:
        check_even(dim)
        function = EnergyNetwork(dim, width, depth, activation=activation)
        flow = RungeKuttaFlow(LagrangianField(function), method, substeps)
        super().__init__(flow, dim, dtype=dtype)

    def energy(self, states: torch.Tensor) -> torch.Tensor:
        """Return the learned energy (...) at states (..., dim), up to a factor and a constant."""
        energies: torch.Tensor = self.core.field.energy(self.coordinates(states))
        return energies


class NeuralODE(_FieldModel):
    r"""A vector field of hidden layers that an explicit Runge-Kutta method steps; no structure.

    .. math:: \dot z = f(z)

    Derivatives go through the steps of the method.

    Parameters
    ----------
    dim
        Components of a state.
    method
        The classical method.
    substeps
        Number of equal steps of the method in a step.
    depth
        Number of hidden layers.
    width
        Hidden units of each.
    activation
        Activation of hidden layers.
    dtype
        Type of the weights; they are drawn in float64.

    References
    ----------
    Chen, Rubanova, Bettencourt, Duvenaud, Neural ordinary differential equations,
    arXiv 1806.07366.

    Examples
    --------
    >>> model = vp.models.NeuralODE(dim=3)
    >>> model.field(torch.zeros(5, 3)).shape
    torch.Size([5, 3])
    """

    name = "neural-ode"

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        method: RungeKutta = "rk4",
        substeps: int = 1,
        depth: int = 2,
        width: int = 32,
        activation: str = "tanh",
        dtype: str | torch.dtype = "float64",
    ) -> None:
        field = Perceptron(dim, width, depth, activation=activation)
        super().__init__(RungeKuttaFlow(field, method, substeps), dim, dtype=dtype)


def energy_of(core: Any, x: torch.Tensor) -> torch.Tensor:
    """Return the Hamiltonian (...) that a flow steps, at normalised states x (..., dim)."""
    if not isinstance(core, SplitFlow):
        return core.field.energy(x)
    q, p = x.chunk(2, -1)  # (..., dim / 2) each
    return core.kinetic(p) + core.potential(q)


def rates_of(core: Any, x: torch.Tensor) -> torch.Tensor:
    """Return the vector field (..., dim) that a flow steps, at normalised states x (..., dim)."""
    if not isinstance(core, SplitFlow):
        return core.field(x)
    q, p = x.chunk(2, -1)  # (..., dim / 2) each
    return torch.cat([core.kinetic.gradient(p), -core.potential.gradient(q)], -1)
