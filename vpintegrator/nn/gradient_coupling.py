"""Potentials with their gradients written out, and symplectic maps of shears by gradients.

Written out, and not left to automatic differentiation, a gradient is as cheap as any other function
and is compiled and differentiated like one.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import one_of, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.layer import (
    Activation,
    Device,
    Dtype,
    InvertibleLayer,
    Layer,
    as_activation,
    factors_at_zero,
    factory_like,
    joined,
    neurons_at,
    on_cpu,
)
from vpintegrator.nn.shears import LinearShear, is_prolongable
from vpintegrator.nn.symmetry import SignedGroup


class NeuronPotential(Layer):
    r"""A sum of neurons: the gradient module of SympNets.

    .. math:: V(x) = \sum_i a_i\, \Sigma(w_i \cdot x + b_i), \qquad
        \nabla V(x) = K^T \operatorname{diag}(a)\, \sigma(K x + b),

    with the rows :math:`w_i` of K and an antiderivative :math:`\Sigma` of the activation
    :math:`\sigma`. Averaged over a group, :math:`V(S x) = V(x)` for all its elements S.

    Parameters
    ----------
    size : int
        Components of x and of the gradient.
    width : int
        Hidden units.
    group : Tensor, (element, size + m, size + m), optional
        Invariance group of V, matrices for (x, k) as ``generated_group`` returns them. Or a pair of
        these and a sign for each, with :math:`V(S (x, k)) = \pm V(x, k)`.
    parameters : int
        Number m of parameters k, :math:`V = V(x, k)`.
    vanishing : sequence of int
        Parameters at zero of which V is constant: the value of V there is subtracted.
    activation : str or callable
    initial_scale : float
        Size of the initial a.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750, equation (7).

    Examples
    --------
    >>> V = vp.nn.NeuronPotential(2, width=8)
    >>> V.gradient(torch.zeros(5, 2)).shape
    torch.Size([5, 2])
    """

    shown = ("size", "width")
    group: torch.Tensor | None
    signs: torch.Tensor | None
    base: torch.Tensor | None

    @on_cpu
    def __init__(
        self,
        size: int,
        width: int = 16,
        *,
        group: torch.Tensor | SignedGroup | None = None,
        parameters: int = 0,
        vanishing: Sequence[int] = (),
        activation: str | Activation = "tanh",
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.size = whole("size", size)
        self.width = whole("width", width)
        self.parameter_count = whole("parameters", parameters, 0)
        self.activation = as_activation(activation)
        read = size + parameters
        self.inner_weight = nn.Parameter(
            torch.randn(read, width, **self.factory_kwargs) / read**0.5
        )
        self.inner_bias = nn.Parameter(2 * torch.rand(width, **self.factory_kwargs) - 1)
        self.outer_weight = nn.Parameter(initial_scale * torch.randn(width, **self.factory_kwargs))
        matrices, signs = group if isinstance(group, tuple) else (group, None)
        if matrices is not None and len(matrices) == 1:
            matrices = signs = None
        if signs is not None and bool((signs == 1).all()):
            signs = None
        base = factors_at_zero(vanishing, size, parameters)
        for name, value in (("group", matrices), ("signs", signs), ("base", base)):
            self.constant(name, value)

    def _weights(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return inner weights (size + m, hidden), biases and outer weights (hidden,)."""
        W: torch.Tensor = self.inner_weight
        b: torch.Tensor = self.inner_bias
        a: torch.Tensor = self.outer_weight
        if self.group is not None:  # a hidden layer that is wider by the elements
            count = len(self.group)
            W = (self.group.mT @ W).transpose(0, 1).flatten(1)  # (size + m, element * width)
            b = b.repeat(count)
            a = a.repeat(count) / count
            if self.signs is not None:
                a = a * self.signs.repeat_interleave(self.width)
        return W, b, a

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\nabla V` (..., size) by x at variables (..., size + m)."""
        W, b, a = self._weights()
        outer = W[: self.size] if self.parameter_count else W
        hidden = self.activation(x @ W + b)  # (..., hidden)
        if self.base is not None:
            hidden = hidden - self.activation((x * self.base) @ W + b)  # (..., hidden)
        return (hidden * a) @ outer.mT  # (..., size)

    @torch.no_grad()
    def at(self, parameters: torch.Tensor) -> NeuronPotential:
        """Return the potential at parameters (m,), which join the biases.

        The group, and what is subtracted, make the hidden layer wider.
        """
        result = copy.deepcopy(self)
        weights = neurons_at(parameters, *self._weights(), self.base)
        result.inner_weight, result.inner_bias, result.outer_weight = map(nn.Parameter, weights)
        result.parameter_count = 0
        result.width = len(weights[1])
        result.group = result.signs = result.base = None
        return result


class QuadraticPotential(Layer):
    r"""A quadratic function: the linear module of SympNets.

    .. math:: V(x) = \tfrac{1}{2} x^T S x + b \cdot x, \qquad S = S^T

    Parameters
    ----------
    size : int
    initial_scale : float
        Standard deviation of the entries of S.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750, equation (5).

    Examples
    --------
    >>> layer = vp.nn.GradientCoupling(vp.nn.QuadraticPotential(2), vp.nn.QuadraticPotential(2))
    >>> z = torch.rand(5, 4)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    def __init__(
        self, size: int, *, initial_scale: float = 1e-2, device: Device = None, dtype: Dtype = None
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.size = whole("size", size)
        self.weight = nn.Parameter(initial_scale * torch.randn(size, size, **self.factory_kwargs))
        self.bias = nn.Parameter(torch.zeros(size, **self.factory_kwargs))

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\nabla V` at x (..., size)."""
        return 0.5 * (x @ (self.weight + self.weight.mT)) + self.bias  # (..., size)


class ComponentPotential(Layer):
    r"""A function of each component: the activation module of SympNets.

    .. math:: V(x) = \sum_i a_i\, \Sigma(x_i), \qquad \Sigma' = \sigma,

    with the activation :math:`\sigma`.

    Parameters
    ----------
    size : int
    activation : str or callable
    initial_scale : float
        Standard deviation of the :math:`a_i`.
    device, dtype
        As in layers of torch.nn.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750, equation (6).

    Examples
    --------
    >>> layer = vp.nn.GradientCoupling(vp.nn.ComponentPotential(2), vp.nn.ComponentPotential(2))
    >>> z = torch.rand(5, 4)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    def __init__(
        self,
        size: int,
        *,
        activation: str | Activation = "tanh",
        initial_scale: float = 1e-2,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.size = whole("size", size)
        self.activation = as_activation(activation)
        self.weight = nn.Parameter(initial_scale * torch.randn(size, **self.factory_kwargs))

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\nabla V` at x (..., size)."""
        return self.weight * self.activation(x)  # (..., size)


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
        q = list(range(n))
        p = list(range(n, 2 * n))
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


class GradientShear(InvertibleLayer):
    r"""A shear of one half of states (q, p) by the gradient of a function of the other half.

    .. math:: q \mapsto q + \nabla V(p) \qquad \text{or} \qquad p \mapsto p + \nabla V(q)

    Symplectic, as the two of ``GradientCoupling`` are.

    Parameters
    ----------
    potential : Module
        V, as for ``GradientCoupling``, without parameters.
    moved : {"positions", "momenta"}
        Half that moves.

    Examples
    --------
    >>> layer = vp.nn.GradientShear(vp.nn.NeuronPotential(2), "momenta")
    >>> z = torch.rand(5, 4)
    >>> bool(torch.equal(layer(z)[:, :2], z[:, :2]))
    True
    """

    symplectic = True
    shown = ("moved",)

    def __init__(self, potential: Any, moved: str) -> None:
        super().__init__(**factory_like(potential))
        self.potential: Any = potential
        self.moved = one_of("moved", moved, ["positions", "momenta"])
        self.dim = 2 * potential.size

    def read(self, z: torch.Tensor) -> torch.Tensor:
        """Return the half (..., size) that V is a function of."""
        return z.chunk(2, -1)[self.moved == "positions"]

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        q, p = z.chunk(2, -1)  # (..., size) each
        shift = self.potential.gradient(self.read(z))  # (..., size)
        if self.moved == "positions":
            return torch.cat([torch.add(q, shift, alpha=sign), p], -1)
        return torch.cat([q, torch.add(p, shift, alpha=sign)], -1)


class LocallySymplecticShear(InvertibleLayer):
    r"""A shear of one component by the derivative of a function of the others by one of them.

    .. math:: z_i \mapsto z_i + \partial_j V(z_1, \ldots, z_{i-1}, z_{i+1}, \ldots, z_n)

    It is symplectic in the plane of :math:`z_i` and :math:`z_j`, at any values of the others, and
    so keeps volume.

    Parameters
    ----------
    potential : Module
        V, as for ``GradientCoupling``, of all components but one, without parameters.
    moved, partner : int
        Numbers i and j, from 0.

    References
    ----------
    Bajars, Locally-symplectic neural networks for learning volume-preserving dynamics,
    arXiv 2109.09151.

    Examples
    --------
    >>> layer = vp.nn.LocallySymplecticShear(vp.nn.NeuronPotential(2), moved=0, partner=1)
    >>> z = torch.rand(5, 3)
    >>> bool(torch.equal(layer(z)[:, 1:], z[:, 1:]))
    True
    """

    shown = ("moved", "partner")

    def __init__(self, potential: Any, moved: int, partner: int) -> None:
        super().__init__(**factory_like(potential))
        self.potential: Any = potential
        self.dim = potential.size + 1
        for name, number in (("moved", moved), ("partner", partner)):
            whole(name, number, 0, self.dim - 1)
        if moved == partner:
            raise InputError(f"moved and partner must differ; both are {moved}")
        self.moved = moved
        self.partner = partner

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        i = self.moved
        before = z[..., :i]
        after = z[..., i + 1 :]
        seen = torch.cat([before, after], -1)  # (..., dim - 1)
        j = self.partner - (self.partner > i)  # among these
        slope = self.potential.gradient(seen)[..., j : j + 1]  # (..., 1)
        moved = torch.add(z[..., i : i + 1], slope, alpha=sign)
        return torch.cat([before, moved, after], -1)


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
                image = p + self.shift
                p = self.potential.gradient(p) - q
                q = image
            else:
                image = q - self.shift
                q = self.potential.gradient(image) - p
                p = image
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
    return LinearShear(block, potential.coefficients, moved, move, jet=jet if known else None)
