"""Layers where the last components of states have given values: what is left, multiplied out.

Components that no layer moves, steps and parameters for two, may come last in a state (z, k). A
layer of such states has a method ``at``: with values of k it gives the layer of z alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.symmetry import TOLERANCE


def at(layer: nn.Module, values: torch.Tensor) -> nn.Module:
    """What a layer of states (z, k) is for z alone, at values (m,) of k.

    Raises
    ------
    InputError
        If the layer takes no such states.
    """
    if not hasattr(layer, "at"):
        raise InputError(
            f"{type(layer).__name__} takes no states whose last components stay as they are"
        )
    return layer.at(values)  # type: ignore[operator]


def given(values: torch.Tensor, count: int | None = None) -> torch.Tensor:
    """Values (m,) in float64 on the CPU, of which there must be ``count``."""
    found = torch.as_tensor(values).detach().cpu().double()
    if found.ndim != 1 or (count is not None and len(found) != count):
        raise InputError(
            f"values must be those of the {'' if count is None else f'{count} '}last components, "
            f"not of the shape {tuple(found.shape)}"
        )
    return found


def at_rest(layer: nn.Module) -> nn.Module:
    """A layer with all its parameters zero."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


class Remaining(NamedTuple):
    """What is left of a group where the last components have values.

    Attributes
    ----------
    kept : Tensor, (element, n, n)
        What those elements that leave the last components in place, and have the sign 1, do to the
        others, each once and the identity first.
    cosets : Tensor, (coset, n, n)
        What elements t do to these, of which each S of the group is t times one of those.
    images : Tensor, (coset, m)
        The values as each t makes them.
    signs : Tensor, (coset,)
        Of each t.
    """

    kept: torch.Tensor
    cosets: torch.Tensor
    images: torch.Tensor
    signs: torch.Tensor


def remaining(
    group: torch.Tensor, values: torch.Tensor, signs: torch.Tensor | None = None
) -> Remaining:
    """What is left of a group (element, dim, dim), the identity first, with a sign of each."""
    n = group.shape[-1] - len(values)
    group = group.detach().cpu().double()
    signs = torch.ones(len(group)).double() if signs is None else signs.detach().cpu().double()
    last = group[:, n:, n:]
    kinds = torch.cat([last.flatten(1), signs[:, None]], 1)  # of which cosets are made
    same = ((kinds.unsqueeze(1) - kinds).abs() <= TOLERANCE).all(-1)
    kept = group[same[0]][:, :n, :n].unique(dim=0)
    one = torch.eye(n, dtype=torch.float64)
    kept = kept[((kept - one).abs().amax((1, 2)) > TOLERANCE).long().argsort(stable=True)]
    first = same.long().argmax(1).unique()
    return Remaining(kept, group[first][:, :n, :n], last[first] @ values, signs[first])


def without(of: Remaining, still: torch.Tensor | None) -> Remaining:
    """With the same at the values that a factor ``still`` (m,) of 1 and 0 leaves, taken away."""
    if still is None:
        return of
    masked = of.images * still.detach().cpu().double()
    return Remaining(
        of.kept,
        torch.cat([of.cosets, of.cosets]),
        torch.cat([of.images, masked]),
        torch.cat([of.signs, -of.signs]),
    )


def still_without(rates: Sequence[int], first: int, dim: int) -> torch.Tensor | None:
    """Factors (dim,), 0 of rates and 1 of others; None where there are no rates.

    Raises
    ------
    InputError
        If a rate is not among the components from ``first`` on.
    """
    if not len(rates):
        return None
    if not {*rates}.issubset(range(first, dim)):
        raise InputError(
            f"rates must be among the conserved components {first} ... {dim - 1}, not {[*rates]}"
        )
    still = torch.ones(dim, dtype=torch.float64)
    still[list(rates)] = 0
    return still


class AtValues(nn.Module):
    """A layer of states (z, k) at fixed k, as it is: for layers of which nothing can be folded.

    Parameters
    ----------
    layer : Module
        Of states (..., n + m), of which it moves the first n.
    values : Tensor, (m,)

    Examples
    --------
    >>> from vpintegrator.nn.folding import AtValues
    >>> shears = vp.nn.BasisCoupling(3, 4, sweep=[0, 1])
    >>> layer = AtValues(shears, torch.tensor([0.5]))
    >>> z = torch.rand(4, 2, dtype=torch.float64)
    >>> bool(torch.allclose(layer(z), shears.at(torch.tensor([0.5]))(z)))
    True
    """

    values: torch.Tensor

    def __init__(self, layer: nn.Module, values: torch.Tensor) -> None:
        super().__init__()
        self.layer = layer
        like = next(layer.parameters(), values)
        self.register_buffer("values", given(values).to(like))

    @property
    def volume_preserving(self) -> bool:
        """Whether the layer preserves volume."""
        return bool(getattr(self.layer, "volume_preserving", False))

    @property
    def symplectic(self) -> bool:
        """Whether the layer keeps the form of states (q, p)."""
        return bool(getattr(self.layer, "symplectic", False))

    def _extended(self, z: torch.Tensor) -> torch.Tensor:
        return torch.cat([z, self.values.expand(*z.shape[:-1], len(self.values))], -1)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.layer(self._extended(z))[..., : z.shape[-1]]

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """The states that ``forward`` maps to z."""
        return self.layer.inverse(self._extended(z))[..., : z.shape[-1]]  # type: ignore[operator]


class KeepsLast(nn.Module):
    """What a network makes of states (z, k), but for k, which stays as it is.

    Parameters
    ----------
    layer : Module
        Of states (..., n + m).
    conserved : int
        m.

    Examples
    --------
    >>> from vpintegrator.nn.folding import KeepsLast
    >>> layer = KeepsLast(vp.nn.ResidualLayer(3), 1)
    >>> x = torch.rand(5, 3, dtype=torch.float64)
    >>> bool(torch.equal(layer(x)[:, 2:], x[:, 2:]))
    True
    """

    volume_preserving = False

    def __init__(self, layer: nn.Module, conserved: int) -> None:
        super().__init__()
        self.layer, self.conserved = layer, conserved

    def at(self, values: torch.Tensor) -> AtValues:
        """The network of z where k has these values."""
        return AtValues(self.layer, given(values, self.conserved))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[-1] - self.conserved
        return torch.cat([self.layer(x)[..., :n], x[..., n:]], -1)
