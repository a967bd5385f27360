"""Layers at given values of the last components of states, multiplied out.

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
    """Return the layer of z that a layer of states (z, k) is at values (m,) of k.

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
    """Return values (m,) in float64 on the CPU, of which there must be ``count``."""
    result = torch.as_tensor(values).detach().cpu().double()
    if result.ndim != 1 or (count is not None and len(result) != count):
        raise InputError(
            f"values must be those of the {'' if count is None else f'{count} '}last components, "
            f"not of the shape {tuple(result.shape)}"
        )
    return result


class Remaining(NamedTuple):
    """Restriction of a group to the first components at given values of the last ones.

    Attributes
    ----------
    kept : Tensor, (element, n, n)
        Action on the first components of the elements that keep the last components and have sign
        1; distinct, the identity first.
    cosets : Tensor, (coset, n, n)
        Action on the first components of representatives t; each element of the group is a t times
        a kept element.
    images : Tensor, (coset, m)
        Images of the values under each t.
    signs : Tensor, (coset,)
        Sign of each t.
    """

    kept: torch.Tensor
    cosets: torch.Tensor
    images: torch.Tensor
    signs: torch.Tensor


def remaining(
    group: torch.Tensor, values: torch.Tensor, signs: torch.Tensor | None = None
) -> Remaining:
    """Restrict a group (element, dim, dim), identity first, to given last components."""
    n = group.shape[-1] - len(values)
    group = group.detach().cpu().double()
    signs = torch.ones(len(group)).double() if signs is None else signs.detach().cpu().double()
    last = group[:, n:, n:]
    kinds = torch.cat([last.flatten(1), signs[:, None]], 1)  # equal within a coset
    same = ((kinds.unsqueeze(1) - kinds).abs() <= TOLERANCE).all(-1)
    kept = group[same[0]][:, :n, :n].unique(dim=0)
    one = torch.eye(n, dtype=torch.float64)
    kept = kept[((kept - one).abs().amax((1, 2)) > TOLERANCE).long().argsort(stable=True)]
    first = same.long().argmax(1).unique()
    return Remaining(kept, group[first][:, :n, :n], last[first] @ values, signs[first])


def without(of: Remaining, still: torch.Tensor | None) -> Remaining:
    """Add cosets that subtract the function at scaling zero, where ``still`` (m,) is 0."""
    if still is None:
        return of
    masked = of.images * still.detach().cpu().double()
    return Remaining(
        of.kept,
        torch.cat([of.cosets, of.cosets]),
        torch.cat([of.images, masked]),
        torch.cat([of.signs, -of.signs]),
    )


def still_without(scaling: Sequence[int], first: int, dim: int) -> torch.Tensor | None:
    """Return factors (dim,), 0 of scaling parameters and 1 of others; None without any.

    Raises
    ------
    InputError
        If a scaling parameter is not among the components from ``first`` on.
    """
    if not len(scaling):
        return None
    if not {*scaling}.issubset(range(first, dim)):
        raise InputError(
            f"scaling must be among the conserved components {first} ... {dim - 1}, not "
            f"{[*scaling]}"
        )
    still = torch.ones(dim, dtype=torch.float64)
    still[list(scaling)] = 0
    return still
