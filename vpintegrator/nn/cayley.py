"""The Cayley transform of skew-symmetric matrices, and skew correlations of a window.

All matrices act on the time axis: C is (..., window, window).
"""

from __future__ import annotations

import torch

from vpintegrator.errors import InputError

CLOSED_FORM = 3  # up to this size the transform is a polynomial of C


def cayley(C: torch.Tensor) -> torch.Tensor:
    r"""Return the Cayley transform of skew-symmetric matrices: rotations.

    .. math:: \operatorname{cayley}(C) = (I - C)(I + C)^{-1}

    Parameters
    ----------
    C : Tensor, (..., n, n)
        Skew-symmetric matrices (not checked). No factor 1/2: where C has the eigenvalues
        :math:`\pm i c`, the angles are :math:`\mp 2 \arctan c`.

    Returns
    -------
    Tensor, (..., n, n)
        Orthogonal matrices of determinant 1.

    Notes
    -----
    With :math:`L = \operatorname{cayley}(C)`, derivatives need no second solve:

    .. math:: L = 2 (I + C)^{-1} - I, \qquad dL = -\tfrac{1}{2} (I + L)\, dC\, (I + L),

    and the derivative of the inverse that torch uses in every mode of differentiation (reverse,
    forward, twice, batched, compiled) is that product of matrices.

    For n <= 3 a skew matrix has :math:`C^3 = -c^2 C` with :math:`c^2 = \|C\|_F^2 / 2`, hence

    .. math:: L = I - \frac{2}{1 + c^2} (C - C^2);

    this holds for skew C alone. For n > 3 the transform is that of any C whose symmetric part is
    above -I, as it is for skew C, where it is 0: that much is needed to solve without pivots.

    References
    ----------
    Hairer, Lubich, Wanner, Geometric Numerical Integration, IV.8.3;
    Brantner, de Romemont, Kraus, Li, arXiv 2312.11166, section 4.

    Examples
    --------
    >>> C = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    >>> vp.nn.cayley(C)  # a quarter turn
    tensor([[ 0.,  1.],
            [-1.,  0.]])
    """
    size = _square(C)
    identity = torch.eye(size, dtype=C.dtype, device=C.device)
    if size <= CLOSED_FORM:
        return identity - closed_form_factor(C) * (C - C @ C)  # (..., n, n)
    # inv_ex and not inv: a trajectory that has run off to nan must stay nan, not raise
    return 2 * torch.linalg.inv_ex(identity + C).inverse - identity  # (..., n, n)


def cayley_increment(C: torch.Tensor, X: torch.Tensor, rank: int | None = None) -> torch.Tensor:
    """Return the increment cayley(C)^T X - X for skew C (..., n, n) and X (..., n, d).

    The same as ``cayley(C).mT @ X - X`` in fewer operations, and without cancellation for small C.
    cayley(-C) = cayley(C)^T, so ``cayley_increment(-C, X)`` belongs to the inverse rotation.

    ``rank`` is a bound on the rank of C, if there is one. The rank of a skew matrix is even, and
    C^3 = -|c|^2 C holds for rank 2 in any size, so up to a bound of 3 no system is solved.
    """
    size = _square(C)
    closed = min(size, size if rank is None else rank) <= CLOSED_FORM
    CX = C @ X  # (..., n, d)
    if closed:
        return closed_form_factor(C) * (CX + C @ CX)  # (..., n, d)
    # L^T - I = 2 (I - C)^-1 C
    identity = torch.eye(size, dtype=C.dtype, device=C.device)
    return 2 * (torch.linalg.inv_ex(identity - C).inverse @ CX)  # (..., n, d)


def skew_matrix(
    entries: torch.Tensor, size: int, places: torch.Tensor | None = None
) -> torch.Tensor:
    r"""Return skew-symmetric matrices (..., size, size) from the entries below the diagonal.

    Parameters
    ----------
    entries : Tensor, (..., size (size - 1) / 2)
        :math:`C_{10}, C_{20}, C_{21}, C_{30}, \dots`; above the diagonal stand their negatives.
    size : int
        Rows of each matrix.
    places : Tensor, optional
        ``lower_places(size)``, for callers that keep it.

    Examples
    --------
    >>> vp.nn.skew_matrix(torch.tensor([1.0, 2.0, 3.0]), 3)
    tensor([[ 0., -1., -2.],
            [ 1.,  0., -3.],
            [ 2.,  3.,  0.]])
    """
    lower = lower_matrix(entries, size, places)  # (..., size, size)
    return lower - lower.mT


def lower_matrix(
    entries: torch.Tensor, size: int, places: torch.Tensor | None = None
) -> torch.Tensor:
    """Return strictly lower triangular matrices (..., size, size) from their entries."""
    count = size * (size - 1) // 2
    if entries.shape[-1] != count:
        raise InputError(
            f"entries must hold size (size - 1) / 2 = {count} numbers for size = {size}, "
            f"not {entries.shape[-1]}"
        )
    if places is None:
        places = lower_places(size).to(entries.device)
    flat = entries.new_zeros((*entries.shape[:-1], size * size))  # (..., size * size)
    return flat.index_copy(-1, places, entries).unflatten(-1, (size, size))


def lower_places(size: int) -> torch.Tensor:
    """Return positions of the entries below the diagonal in a flattened (size, size) matrix."""
    rows, columns = torch.tril_indices(size, size, -1)  # (size (size - 1) / 2,) each
    return rows * size + columns


def skew_correlations(X: torch.Tensor, A: torch.Tensor) -> torch.Tensor:
    r"""Return correlations of the states of a window, with their negatives above the diagonal.

    .. math:: C_{ij} = z_i^T A z_j \quad (i > j), \qquad C_{ji} = -C_{ij}, \qquad C_{ii} = 0

    Parameters
    ----------
    X : Tensor, (..., window, d)
        Windows, a row :math:`z_t` per time step.
    A : Tensor, (d, d)
        Any weighting. For skew A the result is :math:`X A X^T`, which is skew by itself.

    Returns
    -------
    Tensor, (..., window, window)
        :math:`C = \operatorname{tril}(S, -1) - \operatorname{tril}(S, -1)^T` with
        :math:`S = X A X^T`.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, arXiv 2312.11166, section 4.

    Examples
    --------
    >>> A = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    >>> vp.nn.skew_correlations(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), A)
    tensor([[ 0.,  2.],
            [-2.,  0.]])
    """
    return skew_part(X @ A @ X.mT)  # (..., window, window)


def skew_part(S: torch.Tensor) -> torch.Tensor:
    """Return tril(S, -1) - tril(S, -1)^T (..., n, n): the lower triangle, and its negative."""
    lower = torch.tril(S, -1)  # (..., n, n)
    return lower - lower.mT


def closed_form_factor(C: torch.Tensor) -> torch.Tensor:
    """Return 2 / (1 + |c|^2) with |c|^2 = |C|_F^2 / 2, shaped to multiply matrices."""
    return 2 / (1 + 0.5 * (C * C).sum((-2, -1), keepdim=True))  # (..., 1, 1)


def _square(C: torch.Tensor) -> int:
    if C.ndim < 2 or C.shape[-1] != C.shape[-2]:
        raise InputError(f"C must be square in its last two axes, but has shape {tuple(C.shape)}")
    return C.shape[-1]
