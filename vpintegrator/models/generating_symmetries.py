"""Constraints that symmetries impose on generating functions."""

from __future__ import annotations

from typing import Any

import torch

from vpintegrator.errors import InputError
from vpintegrator.models.components import Components
from vpintegrator.nn.basis import ONLY_SIGNED
from vpintegrator.nn.symmetry import (
    TOLERANCE,
    SignedGroup,
    form_signs,
    generated_group,
    is_diagonal,
    signed_permutations,
    symmetry_group,
)


def signs_of_symplectic(components: Components) -> SignedGroup:
    r"""Return the group that reversing symmetries generate, and signs :math:`S(g m) = \pm S(m)`.

    Poincare's generating function changes its sign with the direction of time and with the sign of
    the form: a reversing symmetry that turns the form leaves S as it is.

    Raises
    ------
    InputError
        If an element does not keep the form but for its sign, or acts on time both ways.
    """
    if reason := generating_refusal(components):
        raise InputError(reason)
    n = components.moving
    if not len(components.reversing_symmetries):
        return components.group, torch.ones(len(components.group), dtype=torch.float64)
    both, time = signs_of_time(components.reversing_symmetries, components.group.shape[-1])
    return both, time * form_signs(both[:, :n, :n])


def generating_refusal(components: Components) -> str | None:
    """Return why a symplectic generating function cannot respect the symmetries, or None."""
    n = components.moving
    if not len(components.reversing_symmetries) or n % 2:
        return None
    both, _ = signs_of_time(components.reversing_symmetries, components.group.shape[-1])
    if len(both) != 2 * len(components.group):
        return "the reversing symmetries ask that the map is its own inverse"
    mixed = bool((both[:, :n, n:].abs() > TOLERANCE).any())
    if mixed or bool((form_signs(both[:, :n, :n]) == 0).any()):
        return "the symmetries do not keep the symplectic form; give fewer reversing_symmetries"
    return ONLY_SIGNED if signed_permutations(both) is None else None


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
    if reason := sign_refusal(group):
        raise InputError(reason)
    return group, signs[:, i] * signs[:, k]


def sign_refusal(group: torch.Tensor) -> str | None:
    """Return why a chain of generating functions cannot respect the symmetries, or None."""
    if is_diagonal(group):
        return None
    return (
        "the chain of generating functions respects changes of sign alone; give fewer "
        "reversing_symmetries"
    )
