"""Symplectic form of states (q, p), and the action of symmetries on it."""

from __future__ import annotations

import torch

from vpintegrator.errors import InputError
from vpintegrator.nn.symmetry import TOLERANCE


def canonical_form(dim: int) -> torch.Tensor:
    r"""Return the matrix J (dim, dim) of the canonical symplectic form, for states (q, p).

    With it Hamilton's equations are :math:`\dot z = J \nabla H(z)`:

    .. math:: J = \begin{pmatrix} 0 & I \\ -I & 0 \end{pmatrix}, \qquad
        \dot q = \nabla_p H, \quad \dot p = -\nabla_q H.

    Parameters
    ----------
    dim
        Components of a state, even.

    Returns
    -------
    Tensor, (dim, dim)

    Examples
    --------
    >>> vp.nn.canonical_form(2)
    tensor([[ 0.,  1.],
            [-1.,  0.]], dtype=torch.float64)
    """
    one = torch.eye(dim // 2, dtype=torch.float64)
    return torch.kron(torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64), one)


def check_even(count: int, advice: str = "") -> None:
    """Raise InputError unless states (q, p) can have so many components."""
    if count % 2:
        raise InputError(f"states (q, p) have an even number of components, not {count}{advice}")


def canonical_blocks(group: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the actions on q and on p of a group of elements S (element, dim, dim).

    Raises
    ------
    InputError
        If an element mixes q and p, or does not keep the form: S^T J S = J.
    """
    if reason := form_refusal(group):
        raise InputError(reason)
    (of_positions, _), (of_momenta, _) = canonical_blocks_beside(group, 0)
    return of_positions, of_momenta


SignedGroup = tuple[torch.Tensor, torch.Tensor]  # matrices (element, n, n), and the sign of each


def canonical_blocks_beside(
    group: torch.Tensor, parameters: int
) -> tuple[SignedGroup, SignedGroup]:
    """Return the actions on (q, k) and on (p, k) of a group of elements S (element, dim, dim).

    The group acts on (q, p, k) with so many ``parameters`` k. An element may change the sign of the
    form on (q, p), S^T J S = -J. A map commutes with such an element if the potentials change sign
    too. An example is the reversing symmetry (q, p) -> (q, -p) with a sign change of the step.
    """
    dim = group.shape[-1] - parameters
    if reason := form_refusal(group, parameters):
        raise InputError(reason)
    half, signs, result = dim // 2, form_signs(group[:, :dim, :dim]), []
    for part in (range(half), range(half, dim)):
        read = [*part, *range(dim, dim + parameters)]
        result.append((group[:, read][:, :, read], signs))
    return result[0], result[1]


def form_refusal(group: torch.Tensor, parameters: int = 0) -> str | None:
    """Return why couplings of q and p cannot respect a group that acts on (q, p, k), or None."""
    dim = group.shape[-1] - parameters
    signs = form_signs(group[:, :dim, :dim])
    if bool((signs == 0).any() if parameters else (signs != 1).any()):
        return (
            "the symmetries do not keep the symplectic form, dq with dp; a symplectic map cannot "
            "respect them: give fewer symmetries"
        )
    if bool((group[:, : dim // 2, dim // 2 : dim].abs() > TOLERANCE).any()):
        return (
            "the symmetries mix positions and momenta, which gradient couplings move in turn; give "
            "fewer symmetries"
        )
    beside = group[:, :dim, dim:], group[:, dim:, :dim]
    if any(bool((part.abs() > TOLERANCE).any()) for part in beside):
        return "the symmetries mix parameters with states; give fewer symmetries"
    return None


def form_signs(group: torch.Tensor) -> torch.Tensor:
    """Return the sign in S^T J S = J or -J for each S (element, dim, dim), 0 for neither."""
    J = canonical_form(group.shape[-1])
    changed = group.mT @ J @ group  # (element, dim, dim)
    keeps, turns = (((changed - form).abs() < TOLERANCE).all(-1).all(-1) for form in (J, -J))
    return keeps.double() - turns.double()


def is_canonical(matrix: torch.Tensor) -> bool:
    """Whether a matrix S (dim, dim) keeps the form or turns its sign, S^T J S = J or -J.

    As most reversing symmetries turn it, (q, p) -> (q, -p) for one.
    """
    return len(matrix) % 2 == 0 and bool(form_signs(matrix[None].double()).all())


def canonical_scale(scale: torch.Tensor) -> torch.Tensor:
    """Return scales (dim,) with the products of those of a position and its momentum all the same.

    So normalisation changes the form by a factor only. The product is the median of what is there,
    and powers of two stay powers of two.
    """
    q, p = scale.chunk(2)  # (half,) each
    return torch.cat([q, (q * p).median() / q])
