"""Constraints that symmetries impose on generating functions."""

from __future__ import annotations

from typing import Any

import torch

from vpintegrator.errors import InputError
from vpintegrator.models.components import Components
from vpintegrator.nn.canonical import SignedGroup, form_signs
from vpintegrator.nn.symmetry import TOLERANCE, generated_group, symmetry_group


def signs_of_symplectic(components: Components) -> SignedGroup:
    r"""Return the group that reversing symmetries generate, and signs :math:`S(g m) = \pm S(m)`.

    Poincare's generating function changes its sign with the direction of time and with the sign of
    the form: a reversing symmetry that turns the form leaves S as it is.

    Raises
    ------
    InputError
        If an element does not keep the form but for its sign, or acts on time both ways.
    """
    even, n = components.group, components.moving
    if not len(components.reversing_symmetries):
        return even, torch.ones(len(even), dtype=torch.float64)
    both, time = signs_of_time(components.reversing_symmetries, components.dim)
    if len(both) != 2 * len(even):
        raise InputError("the reversing symmetries ask that the map is its own inverse")
    form = form_signs(both[:, :n, :n])
    if bool((form == 0).any()) or bool((both[:, :n, n:].abs() > TOLERANCE).any()):
        raise InputError(
            "the symmetries do not keep the symplectic form; give fewer reversing_symmetries"
        )
    return both, time * form


def signs_of_time(reversing_symmetries: Any, dim: int) -> SignedGroup:
    """Return the group of the reversing symmetries, with sign -1 for time reversal."""
    both = generated_group(reversing_symmetries, dim)
    even = symmetry_group(reversing_symmetries, dim)
    time = [1.0 if bool((even - g).abs().amax((1, 2)).min() < TOLERANCE) else -1.0 for g in both]
    return both, torch.tensor(time, dtype=torch.float64)


def signs_of_pair(group: torch.Tensor, i: int, k: int) -> SignedGroup:
    """Return a group of symmetries, and their signs on the function of components i and k.

    Raises
    ------
    InputError
        If a symmetry is more than changes of sign.
    """
    signs = group.diagonal(dim1=1, dim2=2)  # (element, dim)
    if bool(((group.abs() - torch.eye(group.shape[-1]).to(group)).abs() > TOLERANCE).any()):
        raise InputError(
            "the chain of generating functions respects changes of sign alone; give fewer "
            "reversing_symmetries"
        )
    return group, signs[:, i] * signs[:, k]
