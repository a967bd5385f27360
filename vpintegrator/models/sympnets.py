"""The published symplectic networks, without symmetries: SympNets, LocSympNets and HenonNets."""

from __future__ import annotations

import torch

from vpintegrator.arguments import whole
from vpintegrator.models.model import Model
from vpintegrator.nn import (
    ComponentPotential,
    Composition,
    GradientCoupling,
    HenonMap,
    LocallySymplecticShear,
    NeuronPotential,
    QuadraticPotential,
    SymmetricComposition,
)
from vpintegrator.nn.layer import default_dtype
from vpintegrator.nn.symmetry import check_even


class GradientSympNet(Model):
    r"""A G-SympNet: gradient modules of momenta and positions in turn; symplectic.

    .. math:: q \mapsto q + K^T \operatorname{diag}(a)\, \sigma(K p + b), \qquad
        p \mapsto p - K'^T \operatorname{diag}(a')\, \sigma(K' q + b')

    Parameters
    ----------
    dim
        Components of a state: positions, then momenta.
    depth
        Number of pairs of gradient modules.
    width
        Rows of each K.
    activation
        Activation.
    initial_scale
        Size of the initial a.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        If the number of components is odd.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750, section 3.2.

    Examples
    --------
    >>> vp.models.GradientSympNet(dim=4).structure.is_symplectic
    True
    """

    name = "sympnet-g"
    canonical = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        depth: int = 3,
        width: int = 30,
        activation: str = "sigmoid",
        initial_scale: float = 1e-2,
        dtype: str | torch.dtype = "float64",
    ) -> None:
        check_even(dim)

        def part() -> NeuronPotential:
            return NeuronPotential(
                dim // 2, width, activation=activation, initial_scale=initial_scale
            )

        layers = [GradientCoupling(part(), part()) for _ in range(whole("depth", depth))]
        super().__init__(Composition(*layers), dim, dtype=dtype)


class LinearActivationSympNet(Model):
    r"""An LA-SympNet: linear modules with activation modules between them; symplectic.

    .. math:: \psi = L_{n+1} \circ A_n \circ L_n \circ \cdots \circ A_1 \circ L_1

    Linear modules are shears by symmetric matrices, activation modules shears by
    :math:`\operatorname{diag}(a)\, \sigma`, both of positions and momenta in turn.

    Parameters
    ----------
    dim
        Components of a state: positions, then momenta.
    depth
        Number n of activation modules, each of two shears.
    linear
        Pairs of shears in each linear module.
    activation
        Activation.
    initial_scale
        Size of the initial matrices and of a.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        If the number of components is odd.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750, section 3.1.

    Examples
    --------
    >>> vp.models.LinearActivationSympNet(dim=4).structure.is_symplectic
    True
    """

    name = "sympnet-la"
    canonical = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        depth: int = 8,
        linear: int = 2,
        activation: str = "sigmoid",
        initial_scale: float = 1e-2,
        dtype: str | torch.dtype = "float64",
    ) -> None:
        check_even(dim)
        whole("linear", linear)

        def pair(kind: type, **options: str) -> GradientCoupling:
            parts = [kind(dim // 2, initial_scale=initial_scale, **options) for _ in range(2)]
            return GradientCoupling(*parts)

        layers = [pair(QuadraticPotential) for _ in range(linear)]
        for _ in range(whole("depth", depth)):
            layers.append(pair(ComponentPotential, activation=activation))
            layers += [pair(QuadraticPotential) for _ in range(linear)]
        super().__init__(Composition(*layers), dim, dtype=dtype)


class LocallySymplecticNetwork(Model):
    r"""A LocSympNet: shears that are symplectic in planes of neighbours in turn; keeps volume.

    .. math:: z_i \mapsto z_i + \partial_{i+1} V_i, \qquad
        z_{i+1} \mapsto z_{i+1} + \partial_i V'_i, \qquad i = 1, \ldots, n - 1

    with functions of all components but the one that moves. In two components these are the
    gradient modules of SympNets.

    Parameters
    ----------
    dim
        Components of a state, at least 2.
    depth
        Number of passes through all planes.
    width
        Hidden units of each V, which has one hidden layer.
    symmetric
        Whether the passes are followed by themselves in reverse order: a SymLocSympNet.
    activation
        Activation of the gradient of V.
    initial_scale
        Size of the initial gradients.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        If there is one component.

    References
    ----------
    Bajars, Locally-symplectic neural networks for learning volume-preserving dynamics,
    J. Comput. Phys. 476 (2023) 111911, arXiv 2109.09151.

    Examples
    --------
    >>> vp.models.LocallySymplecticNetwork(dim=3).structure.form
    'volume'
    """

    name = "locsympnet"

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        depth: int = 2,
        width: int = 32,
        symmetric: bool = False,
        activation: str = "sigmoid",
        initial_scale: float = 1e-2,
        dtype: str | torch.dtype = "float64",
    ) -> None:
        whole("dim", dim, 2)

        def shear(moved: int, partner: int) -> LocallySymplecticShear:
            V = NeuronPotential(dim - 1, width, activation=activation, initial_scale=initial_scale)
            return LocallySymplecticShear(V, moved, partner)

        layers = list[LocallySymplecticShear]()
        for _ in range(whole("depth", depth)):
            for i in range(dim - 1):
                layers += [shear(i, i + 1), shear(i + 1, i)]
        kind = SymmetricComposition if symmetric else Composition
        super().__init__(kind(*layers), dim, dtype=dtype)


class HenonNet(Model):
    r"""A HenonNet: Henon layers, one after the other; symplectic.

    .. math:: (q, p) \mapsto (p + \eta,\; -q + \nabla V(p)) \qquad
        \text{four times in each layer}

    Parameters
    ----------
    dim
        Components of a state: positions, then momenta.
    depth
        Number of Henon layers.
    width
        Hidden units of each V, which has one hidden layer.
    activation
        Activation of the gradient of V.
    initial_scale
        Size of the initial gradients.
    dtype
        Type of the weights; they are drawn in float64.

    Raises
    ------
    InputError
        If the number of components is odd.

    References
    ----------
    Burby, Tang, Maulik, Fast neural Poincare maps for toroidal magnetic fields, arXiv 2007.04496.

    Examples
    --------
    >>> vp.models.HenonNet(dim=4).structure.is_symplectic
    True
    """

    name = "henonnet"
    canonical = True

    @default_dtype(torch.float64)
    def __init__(
        self,
        dim: int,
        *,
        depth: int = 5,
        width: int = 10,
        activation: str = "tanh",
        initial_scale: float = 1e-2,
        dtype: str | torch.dtype = "float64",
    ) -> None:
        check_even(dim)
        layers = [
            HenonMap(
                NeuronPotential(dim // 2, width, activation=activation, initial_scale=initial_scale)
            )
            for _ in range(whole("depth", depth))
        ]
        super().__init__(Composition(*layers), dim, dtype=dtype)
