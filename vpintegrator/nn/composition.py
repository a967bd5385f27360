"""Maps made of layers: one after the other, and reversible by construction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.layer import (
    Device,
    Dtype,
    InvertibleLayer,
    Layer,
    factory_like,
    on_cpu,
    parameters_for,
    preserves,
)
from vpintegrator.nn.symmetry import as_reversing_symmetries, is_canonical, is_diagonal


class Composition(Layer, nn.Sequential):
    r"""Layers applied in order; invertible and volume-preserving when all of them are.

    .. math:: z \mapsto (\ell_n \circ \cdots \circ \ell_1)(z)

    Parameters
    ----------
    *layers : Module
        Layers, the first one applied first.

    Examples
    --------
    >>> sweep = vp.nn.AdditiveCoupling(dim=3)
    >>> map = vp.nn.Composition(sweep, vp.nn.VolumePreservingAttention(dim=3))
    >>> map.volume_preserving
    True
    """

    def __init__(self, *layers: nn.Module) -> None:
        nn.Sequential.__init__(self, *layers)

    @property
    def volume_preserving(self) -> bool:
        """Whether every layer preserves volume exactly."""
        return preserves("volume_preserving", *self)

    @property
    def symplectic(self) -> bool:
        """Whether every layer keeps the symplectic form of states (q, p) exactly."""
        return preserves("symplectic", *self)

    @property
    def parameter_count(self) -> int:
        """Number of parameters that the layers read."""
        return max([0, *[getattr(layer, "parameter_count", 0) for layer in self]])

    def at(self, parameters: torch.Tensor) -> Composition:
        """Return the composition at parameters (m,), which are multiplied out."""
        return Composition(
            *(layer.at(parameters) if parameters_for(layer, None) else layer for layer in self)  # type: ignore[operator]
        )

    def forward(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        for layer in self:
            z = layer(z, *parameters_for(layer, parameters))
        return z

    def inverse(self, y: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Return the inverses of the layers in reverse order.

        Raises
        ------
        InputError
            If a layer has no explicit inverse.
        """
        for layer in reversed(self):
            if not hasattr(layer, "inverse"):
                raise InputError(f"{type(layer).__name__} has no explicit inverse")
            y = layer.inverse(y, *parameters_for(layer, parameters))  # type: ignore[operator]
        return y


class SymmetricComposition(InvertibleLayer):
    r"""Layers applied in order, and then the same layers in the reverse order.

    .. math:: z \mapsto (\ell_1 \circ \cdots \circ \ell_n \circ \ell_n \circ \cdots \circ \ell_1)(z)

    Where layers with increments of the other sign are their inverses, as shears are, so is it: as
    a symmetric method of half steps.

    Parameters
    ----------
    *layers : InvertibleLayer
        Layers without parameters, the first one applied first and last.

    Examples
    --------
    >>> map = vp.nn.SymmetricComposition(vp.nn.AdditiveCoupling(dim=3))
    >>> z = torch.rand(5, 3)
    >>> bool(torch.allclose(map.inverse(map(z)), z))
    True
    """

    def __init__(self, *layers: InvertibleLayer) -> None:
        super().__init__(**factory_like(layers[0]))
        self.layers = nn.ModuleList(layers)
        self.dim = layers[0].dim

    @property
    def symplectic(self) -> bool:
        """Whether every layer keeps the symplectic form of states (q, p) exactly."""
        return preserves("symplectic", *self.layers)

    def transform(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        for layer in (*self.layers, *reversed(self.layers)):
            z = layer(z) if sign > 0 else layer.inverse(z)
        return z


def is_invertible(layer: nn.Module) -> bool:
    """Whether a layer has an inverse, here: maps that preserve volume exactly, or shrink it.

    Every layer of this package that preserves volume exactly is invertible.
    """
    return hasattr(layer, "inverse") and preserves("volume_preserving", layer)


def having(layer: nn.Module, method: str) -> Iterator[nn.Module]:
    """Yield the outermost layers of a map that have a method: it reaches the layers within them."""
    if hasattr(layer, method):
        yield layer
        return
    for part in layer.children():
        yield from having(part, method)


class Reflection(Layer):
    r"""A reversing symmetry on every state, and the order of time turned round in a window.

    .. math:: R\,(z_1, \dots, z_T) = (\rho z_T, \dots, \rho z_1)

    Parameters
    ----------
    symmetry : (dim, dim)
        :math:`\rho` with :math:`\rho^2 = I`.
    time_reversal : bool
        True for windows (..., window, dim); False for states (..., dim) without a time axis.
    device, dtype
        As in layers of torch.nn.

    Examples
    --------
    >>> R = vp.nn.Reflection([[1, 0], [0, -1]])  # (q, p) -> (q, -p)
    >>> R(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[ 3., -4.],
            [ 1., -2.]])
    """

    matrix: torch.Tensor | None
    signs: torch.Tensor | None

    @on_cpu
    def __init__(
        self,
        symmetry: Any,
        *,
        time_reversal: bool = True,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        (rho,) = as_reversing_symmetries([symmetry], len(symmetry))
        diagonal = is_diagonal(rho)
        self.time_reversal = time_reversal
        self.symmetry = rho
        self.constant("signs", rho.diagonal() if diagonal else None)
        self.constant("matrix", None if diagonal else rho)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        if self.time_reversal and X.shape[-2] > 1:
            X = X.flip(-2)
        if self.signs is not None:
            return X * self.signs  # (..., window, dim)
        assert self.matrix is not None
        return X @ self.matrix.mT  # (..., window, dim)


class Reversible(Layer):
    r"""A reversible map made of any invertible one.

    .. math:: \Phi = \psi R \psi^{-1} R, \qquad R \Phi R = \Phi^{-1}

    R is a ``Reflection``. :math:`\Phi` preserves volume when :math:`\psi` does, and its inverse
    :math:`R \psi R \psi^{-1}` is as explicit as that of :math:`\psi`. Orbits of :math:`\Phi` that
    cross the states fixed by R behave as those of a reversible system: their invariants oscillate
    and do not drift.

    Several reversing symmetries: if :math:`\psi` commutes with every product
    :math:`S = \rho_i \rho_j`, then :math:`\Phi` is reversible for all :math:`\rho_i` whichever of
    them R is made of, and commutes with every S. The ``symmetries`` argument of the layers gives
    such a :math:`\psi`.

    Parameters
    ----------
    psi : Module
        :math:`\psi`, a map of windows with ``inverse``.
    symmetry : (dim + m, dim + m)
        :math:`\rho` with :math:`f(\rho z) = -\rho f(z)` and :math:`\rho^2 = I`, that acts on the
        states, and on the m parameters of psi by itself, as on the time.
    time_reversal : bool
        False for maps of states (..., dim) without a time axis.

    Raises
    ------
    InputError
        If psi has no explicit inverse, rho is not its own inverse, or mixes states and parameters.

    References
    ----------
    Hairer, Lubich, Wanner, Geometric Numerical Integration, V.1 and XI.3; McLachlan, Quispel,
    Turner, Numerical integrators that preserve symmetries and reversing symmetries,
    SIAM J. Numer. Anal. 35 (1998).

    Examples
    --------
    >>> psi = vp.nn.AdditiveCoupling(dim=2, initial_scale=1.0)
    >>> flip = vp.nn.Reflection([[1, 0], [0, -1]], time_reversal=False)
    >>> Phi = vp.nn.Reversible(psi, [[1, 0], [0, -1]], time_reversal=False)
    >>> z = torch.rand(5, 2)
    >>> bool(torch.allclose(flip(Phi(flip(Phi(z)))), z))
    True
    """

    turn: torch.Tensor | None

    @on_cpu
    def __init__(self, psi: nn.Module, symmetry: Any, *, time_reversal: bool = True) -> None:
        super().__init__(**factory_like(psi))
        if not is_invertible(psi):
            raise InputError(
                f"a reversible map needs an explicitly invertible map, which {type(psi).__name__} "
                "is not; use layers that preserve volume exactly, or no reversing symmetries"
            )
        self.psi: Any = psi
        (self.symmetry,) = as_reversing_symmetries([symmetry], len(symmetry))
        self.parameter_count = int(getattr(psi, "parameter_count", 0))
        n = len(self.symmetry) - self.parameter_count
        on_states = self.symmetry[:n, :n]
        turn = self.symmetry[n:, n:]
        if bool(self.symmetry[:n, n:].any() or self.symmetry[n:, :n].any()):
            raise InputError("a reversing symmetry must not mix states with parameters")
        self.reflection = Reflection(on_states, time_reversal=time_reversal, **self.factory_kwargs)
        stays = torch.equal(turn, torch.eye(self.parameter_count).to(turn))
        self.constant("turn", None if stays else turn)
        self.volume_preserving = preserves("volume_preserving", psi)
        self.symplectic = is_canonical(on_states) and preserves("symplectic", psi)

    def at(self, parameters: torch.Tensor) -> Reversible:
        """Return the map at parameters (m,), which are multiplied out.

        Raises
        ------
        InputError
            If the symmetry takes the parameters to others.
        """
        if self.turn is not None:
            raise InputError("the reversing symmetry takes parameters to others")
        n = len(self.symmetry) - self.parameter_count
        R = self.reflection
        psi = self.psi.at(parameters)
        return Reversible(psi, self.symmetry[:n, :n], time_reversal=R.time_reversal)

    def _turned(self, parameters: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Return the arguments of psi^-1 after the states."""
        if self.turn is not None and parameters is not None:
            parameters = parameters @ self.turn.mT  # (..., m)
        return parameters_for(self.psi, parameters)

    def forward(self, X: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        k = parameters_for(self.psi, parameters)
        turned = self._turned(parameters)
        return self.psi(self.reflection(self.psi.inverse(self.reflection(X), *turned)), *k)

    def inverse(self, Y: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Return the windows that ``forward`` maps to Y."""
        k = parameters_for(self.psi, parameters)
        turned = self._turned(parameters)
        return self.reflection(self.psi(self.reflection(self.psi.inverse(Y, *k)), *turned))


def psi_of(core: nn.Module) -> nn.Module:
    r"""Return :math:`\psi` of a reversible map, and any other map itself."""
    return core.psi if isinstance(core, Reversible) else core
