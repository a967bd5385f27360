"""The symplectic form of states (q, p), and what symmetries do to it."""

from __future__ import annotations

import torch

from vpintegrator.errors import InputError
from vpintegrator.nn.symmetry import TOLERANCE


def canonical_form(dim: int) -> torch.Tensor:
    """J (dim, dim) of states (q, p), with which Hamilton's equations are z' = J grad H(z).

    Examples
    --------
    >>> vp.nn.canonical_form(2)
    tensor([[ 0.,  1.],
            [-1.,  0.]], dtype=torch.float64)
    """
    one = torch.eye(dim // 2, dtype=torch.float64)
    return torch.kron(torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64), one)


def canonical_blocks(group: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What the elements S of a group (element, dim, dim) do to q and to p.

    Raises
    ------
    InputError
        If an element mixes q and p, or does not keep the form: S^T J S = J.
    """
    half = group.shape[-1] // 2
    J = canonical_form(2 * half)
    if not bool(((group.mT @ J @ group - J).abs() < TOLERANCE).all()):
        raise InputError(
            "the symmetries do not keep the symplectic form, dq with dp; a symplectic map cannot "
            "respect them: give fewer symmetries"
        )
    if bool((group[:, :half, half:].abs() > TOLERANCE).any()):
        raise InputError(
            "the symmetries mix positions and momenta, which gradient couplings move in turn; give "
            "fewer symmetries"
        )
    return group[:, :half, :half], group[:, half:, half:]


def is_canonical(matrix: torch.Tensor) -> bool:
    """Whether a matrix S (dim, dim) keeps the form or turns its sign, S^T J S = J or -J.

    As most reversing symmetries turn it, (q, p) -> (q, -p) for one.
    """
    if len(matrix) % 2:
        return False
    J = canonical_form(len(matrix))
    changed = matrix.double().mT @ J @ matrix.double()
    return any(bool(((changed - form).abs() < TOLERANCE).all()) for form in (J, -J))


def canonical_scale(scale: torch.Tensor) -> torch.Tensor:
    """Scales (dim,) with the products of those of a position and its momentum all the same.

    So normalisation changes the form by a factor only. The product is the median of what is there,
    and powers of two stay powers of two.
    """
    q, p = scale.chunk(2)
    return torch.cat([q, (q * p).median() / q])


def halves_alike(scale: torch.Tensor) -> torch.Tensor:
    """Scales (dim,) that are the same for all positions, and for all momenta.

    Their geometric means, rounded to powers of two as the trainer's scales are.
    """
    if all(bool((half == half[0]).all()) for half in scale.chunk(2)):
        return scale
    means = [half.log2().mean().round().exp2().expand_as(half) for half in scale.chunk(2)]
    return torch.cat(means)
