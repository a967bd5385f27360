"""Symmetries of a system as matrices: groups that they generate, and invariant matrices.

A reversing symmetry rho of dz/dt = f(z) has f(rho z) = -rho f(z) and rho^2 = I. The product of two
of them is a symmetry S, f(S z) = S f(z). These products generate a group; a map that commutes with
all of it can be made reversible for every rho at once, see ``vpintegrator.nn.reversible``.

Matrices come in as nested lists, arrays or tensors; groups are float64 tensors (element, dim, dim).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any

import torch

from vpintegrator.errors import InputError

LARGEST_GROUP = 128  # elements; coordinate sign flips and permutations stay far below
TOLERANCE = 1e-9


def as_matrices(matrices: Any, dim: int, argument: str = "symmetries") -> torch.Tensor:
    """Return matrices (count, dim, dim) in float64 from whatever holds them.

    Raises
    ------
    InputError
        If they are no regular finite (dim, dim) matrices.
    """
    try:
        matrices = list(matrices)
        if len(matrices) > LARGEST_GROUP:
            raise InputError(
                f"{argument} holds {len(matrices)} matrices, more than {LARGEST_GROUP}"
            )
        tensors = [torch.as_tensor(matrix, dtype=torch.float64) for matrix in matrices]
    except InputError:
        raise
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        detail = str(error).splitlines()[0]
        raise InputError(f"{argument} must be a list of {dim} x {dim} matrices: {detail}") from None
    for index, tensor in enumerate(tensors):
        if tensor.shape != (dim, dim):
            raise InputError(
                f"{argument}[{index}] has shape {tuple(tensor.shape)}, but must be ({dim}, {dim}) "
                f"for dim = {dim}"
            )
        if not torch.isfinite(tensor).all() or not _is_regular(tensor):
            raise InputError(f"{argument}[{index}] must be a regular matrix of finite numbers")
    return torch.stack(tensors) if tensors else torch.zeros(0, dim, dim, dtype=torch.float64)


def _is_regular(matrix: torch.Tensor) -> bool:
    if signed_permutations(matrix.unsqueeze(0)) is not None:
        return True
    inverse = torch.linalg.inv_ex(matrix).inverse
    error = matrix @ inverse - torch.eye(len(matrix), dtype=matrix.dtype)
    return bool(error.abs().max() < 1e-6)


def generated_group(matrices: Any, dim: int, argument: str = "symmetries") -> torch.Tensor:
    """Return the finite group that matrices generate, the identity first.

    Parameters
    ----------
    matrices : sequence of (dim, dim)
        Generators; none give the group of the identity alone.
    dim : int
    argument : str
        Name of the matrices in messages.

    Returns
    -------
    Tensor, (element, dim, dim)

    Raises
    ------
    InputError
        If the group has more than 128 elements (a rotation by an angle that never closes, say).

    Examples
    --------
    >>> len(vp.nn.generated_group([[[0, -1], [1, 0]]], dim=2))  # quarter turns
    4
    """
    return _closed(as_matrices(matrices, dim, argument), dim, argument)


def _closed(generators: Iterable[torch.Tensor], dim: int, argument: str) -> torch.Tensor:
    """Return the products of generators, told apart by the images of one vector.

    No symmetry but the identity leaves the vector in place unless by bad luck.
    """
    vector = torch.sin(torch.arange(1, dim + 1, dtype=torch.float64).square())
    elements, images = [torch.eye(dim, dtype=torch.float64)], vector.unsqueeze(0)
    for element in elements:  # grows as it is read
        for generator in generators:
            image = generator @ (element @ vector)  # (dim,)
            if bool(((images - image).abs().amax(-1) < TOLERANCE * dim).any()):
                continue
            if len(elements) == LARGEST_GROUP:
                raise InputError(
                    f"{argument} generate a group of more than {LARGEST_GROUP} elements; give "
                    "symmetries that generate a finite group, such as sign flips and permutations"
                )
            elements.append(generator @ element)
            images = torch.cat([images, image.unsqueeze(0)])  # (element, dim)
    return torch.stack(elements)


def as_reversing_symmetries(matrices: Any, dim: int) -> torch.Tensor:
    """Return reversing symmetries (count, dim, dim), each checked to be its own inverse."""
    argument = "reversing_symmetries"
    tensors = as_matrices(matrices, dim, argument)
    identity = torch.eye(dim, dtype=torch.float64)
    for index, rho in enumerate(tensors):
        if not torch.allclose(rho @ rho, identity, rtol=0, atol=TOLERANCE):
            raise InputError(
                f"{argument}[{index}] is not its own inverse; a reversing symmetry rho must have "
                "rho rho = identity"
            )
    return tensors


def symmetry_group(reversing_symmetries: Any, dim: int) -> torch.Tensor:
    """Return the group (element, dim, dim) generated by all products of two reversing symmetries.

    Its elements S are symmetries of the system, :math:`f(S z) = S f(z)`. One reversing symmetry
    gives the identity alone; the three sign flips of the rigid body give the four rotations by pi.

    Parameters
    ----------
    reversing_symmetries : sequence of (dim, dim)
        Matrices that are their own inverses.
    dim : int

    Returns
    -------
    Tensor, (element, dim, dim)
        The identity first.

    Examples
    --------
    >>> flips = [[[-1, 0], [0, 1]], [[1, 0], [0, -1]]]
    >>> vp.nn.symmetry_group(flips, dim=2).tolist()  # the identity, and their product
    [[[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.0, -1.0]]]
    """
    rhos = as_reversing_symmetries(reversing_symmetries, dim)
    products = [a @ b for a, b in permutations(rhos, 2)]
    return _closed(products, dim, "products of reversing_symmetries")


def is_diagonal(matrices: torch.Tensor) -> bool:
    """Whether all of the matrices (..., dim, dim) are diagonal."""
    diagonal = torch.diag_embed(matrices.diagonal(dim1=-2, dim2=-1))
    return bool((matrices - diagonal).abs().max() < TOLERANCE) if matrices.numel() else True


def signed_permutations(group: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the image of every component under each S (element, dim, dim), and its sign.

    S e_j = sign_j e_{place_j}, both (element, dim). None if a matrix is no signed permutation.
    """
    size = group.abs()  # (element, dim, dim)
    if bool(((size > TOLERANCE) & ((size - 1).abs() > TOLERANCE)).any()):
        return None
    ones = size > 0.5
    if not bool(((ones.sum(-2) == 1) & (ones.sum(-1) == 1)).all()):
        return None
    return ones.long().argmax(-2), group.sum(-2).round()  # (element, dim) each


def invariant_entries(kind: str, group: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return skew or arbitrary matrices A with A = S^T A S, as parameters and signs.

    A = S^T A S says A_ij = s_i s_j A_{p(i) p(j)}: entries are equal but for signs along orbits, and
    zero where an orbit asks an entry to be its own negative. The first entry of each orbit, row
    by row, is its parameter.

    Returns
    -------
    sources, factors : Tensor, (dim * dim,)
        Index of the parameter that each entry of A takes, and its factor 1, -1 or 0.
    count : int
        Number of parameters.

    Raises
    ------
    InputError
        If an S is not a signed permutation.
    """
    dim, moves = group.shape[-1], signed_permutations(group)
    if moves is None:
        raise InputError(
            "weightings of attention respect symmetries that are sign flips and permutations; "
            "leave out others, or take couplings"
        )
    links = []
    for p, s in zip(*moves, strict=True):
        image, sign = p.unsqueeze(1) * dim + p, s.unsqueeze(1) * s  # (dim, dim) each
        links.append((image, sign))
        if kind == "skew":  # and A_ij = -A_ji
            links.append((image.mT, -sign))
    sources, factors, count = orbit_parameters(links)
    return sources.flatten(), factors.flatten(), count


def orbit_parameters(
    links: Sequence[tuple[torch.Tensor, torch.Tensor]],
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return free parameters of numbers that a group asks to be equal, but for signs.

    Parameters
    ----------
    links : sequence of (image, sign), tensors of the shape of the numbers
        Pair for each element of the group: number x equals sign[x] times the number at the flat
        index image[x]. The elements must form a group.

    Returns
    -------
    sources, factors : Tensor
        Index of the parameter that each number takes, and its factor 1, -1 or 0. The first number
        of each orbit is its parameter; an orbit that asks a number to be its own negative is zero.
    count : int
        Number of parameters.
    """
    shape = links[0][0].shape
    own = torch.arange(links[0][0].numel()).view(shape)
    first, factors = own.clone(), torch.ones(shape, dtype=torch.float64)
    zero = torch.zeros(shape, dtype=torch.bool)
    for image, sign in links:
        zero |= (image == own) & (sign < 0)
        factors = torch.where(image < first, sign.to(factors), factors)
        first = torch.minimum(first, image)
    # an orbit is zero as a whole, or nowhere
    parameters = own[(first == own) & ~zero]
    sources = torch.searchsorted(parameters, first.flatten()).clamp(max=max(len(parameters) - 1, 0))
    return sources.view(shape), factors.masked_fill(zero, 0), len(parameters)


def fixed_point_projection(matrices: Sequence[Any] | torch.Tensor, dim: int) -> torch.Tensor:
    """Return the projector (dim, dim) onto the common fixed points of the matrices."""
    return generated_group(matrices, dim).mean(0)
