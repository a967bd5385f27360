"""Symmetries of a system as matrices: groups that they generate, and invariant matrices.

A reversing symmetry rho of dz/dt = f(z) has f(rho z) = -rho f(z) and rho^2 = I. The product of two
of them is a symmetry S, f(S z) = S f(z). These products generate a group; a map that commutes with
all of it can be made reversible for every rho at once, see ``vpintegrator.nn.reversible``.

Matrices come in as nested lists, arrays or tensors; groups are float64 tensors (element, dim, dim).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import one_of, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.cayley import lower_places, skew_matrix
from vpintegrator.nn.tensor_arguments import as_dtype

LARGEST_GROUP = 128  # elements; coordinate sign flips and permutations stay far below
TOLERANCE = 1e-9
_LARGEST_ELIMINATION = 32  # components; the time grows with their sixth power


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
    generators = as_matrices(matrices, dim, argument)
    elements = _Elements(dim, argument)
    fresh = elements.matrices[:]
    while fresh and len(generators):
        pairs = elements.new_pairs(generators, torch.stack(fresh))
        found = [elements.add_product(generators[g], fresh[element]) for element, g in pairs]
        fresh = [element for element in found if element is not None]
    return torch.stack(elements.matrices)


class _Elements:
    """Elements of a finite group as they are found, beginning with the identity.

    They are told apart by the images of one vector, which no symmetry but the identity leaves in
    place unless by bad luck, so that a product is formed only where it is new.
    """

    def __init__(self, dim: int, argument: str) -> None:
        self.argument = argument
        self.vector = torch.sin(torch.arange(1, dim + 1, dtype=torch.float64).square())
        self.matrices = [torch.eye(dim, dtype=torch.float64)]
        self.images = self.vector.unsqueeze(0)

    def new_pairs(self, generators: torch.Tensor, fresh: torch.Tensor) -> list[list[int]]:
        """Return pairs (element, generator) whose product is not known yet."""
        images = generators.unsqueeze(0) @ (fresh @ self.vector).unsqueeze(-1).unsqueeze(1)
        distance = torch.cdist(
            images.flatten(0, 1).squeeze(-1),
            self.images,
            compute_mode="donot_use_mm_for_euclid_dist",
        )
        new = ~(distance.amin(-1) < TOLERANCE)
        return new.view(len(fresh), len(generators)).nonzero().tolist()

    def add_product(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
        """Return the product of a and b if it is a new element, else None."""
        image = a @ (b @ self.vector)
        if bool(((self.images - image).abs().amax(-1) < TOLERANCE * len(image)).any()):
            return None
        if len(self.matrices) == LARGEST_GROUP:
            raise InputError(
                f"{self.argument} generate a group of more than {LARGEST_GROUP} elements; give "
                "symmetries that generate a finite group, such as sign flips and permutations"
            )
        self.matrices.append(a @ b)
        self.images = torch.cat([self.images, image.unsqueeze(0)])
        return self.matrices[-1]


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
    elements = _Elements(dim, "products of reversing_symmetries")
    for i, a in enumerate(rhos):
        for j, b in enumerate(rhos):
            if i != j:
                elements.add_product(a, b)
    return generated_group(elements.matrices[1:], dim, elements.argument)


def is_diagonal(matrices: torch.Tensor) -> bool:
    """Whether all of the matrices (..., dim, dim) are diagonal."""
    diagonal = torch.diag_embed(matrices.diagonal(dim1=-2, dim2=-1))
    return bool((matrices - diagonal).abs().max() < TOLERANCE) if matrices.numel() else True


class InvariantWeight(nn.Module):
    """A weight matrix A, free but for A = S^T A S for every element S of a group.

    Its parameters are the coordinates of A in a basis of all such matrices, so that none of them
    is idle; ``forward()`` gives A (dim, dim).

    Parameters
    ----------
    dim : int
    kind : {"skew", "arbitrary"}
        Skew-symmetric A, or any.
    group : Tensor, (element, dim, dim), optional
        A group as ``generated_group`` gives it; by default the identity alone.
    initial_scale : float
        Standard deviation of the initial parameters.

    Raises
    ------
    InputError
        If zero is the only matrix of this kind that is invariant.
    """

    basis: torch.Tensor | None
    places: torch.Tensor
    sources: torch.Tensor | None
    factors: torch.Tensor

    def __init__(
        self,
        dim: int,
        kind: str = "skew",
        group: torch.Tensor | None = None,
        *,
        initial_scale: float = 1e-2,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        self.dim = whole("dim", dim)
        self.kind = one_of("kind", kind, ["skew", "arbitrary"])
        dtype = as_dtype(dtype)
        count = dim * (dim - 1) // 2 if kind == "skew" else dim * dim
        basis = sources = None
        if group is not None and len(group) > 1:
            signed = signed_permutations(group)
            if signed is None:
                basis = invariant_basis(kind, group).to(dtype)
                count = len(basis)
            else:
                sources, factors, count = _invariant_entries(kind, *signed)
            if count == 0:
                raise InputError(
                    f"no {kind} weighting of dim = {dim} other than zero is invariant under the "
                    f"{len(group)} symmetries; use CoupledAttention, whose weighting survives them"
                )
        # without symmetries the basis is the unit matrices, and placing entries is cheaper; under
        # signed permutations every place of A holds one of the parameters or its negative
        self.register_buffer("basis", basis, persistent=False)
        self.register_buffer("sources", sources, persistent=False)
        if sources is not None:
            self.register_buffer("factors", factors.to(dtype), persistent=False)
        elif basis is None and kind == "skew":
            self.register_buffer("places", lower_places(dim), persistent=False)
        self.entries = nn.Parameter(initial_scale * torch.randn(count, dtype=dtype))

    def forward(self) -> torch.Tensor:
        """Return the matrix A (dim, dim)."""
        if self.sources is not None:
            return (self.entries.index_select(0, self.sources) * self.factors).view(
                self.dim, self.dim
            )
        if self.basis is not None:
            return torch.tensordot(self.entries, self.basis, 1)
        if self.kind == "skew":
            return skew_matrix(self.entries, self.dim, self.places)
        return self.entries.view(self.dim, self.dim)

    @torch.no_grad()
    def set(self, entries: torch.Tensor) -> None:
        """Become a matrix that is invariant, from its entries (dim * dim,), row by row."""
        columns = []
        for n in range(len(self.entries)):
            self.entries.zero_()[n] = 1
            columns.append(self().flatten().double())
        basis = torch.stack(columns, 1)
        self.entries.copy_(torch.linalg.lstsq(basis, entries.to(basis)[:, None]).solution[:, 0])

    def extra_repr(self) -> str:
        return f"dim={self.dim}, kind={self.kind!r}, parameters={self.entries.numel()}"


def invariant_basis(kind: str, group: torch.Tensor) -> torch.Tensor:
    """Return a basis (count, dim, dim) of the skew or arbitrary matrices A with A = S^T A S.

    The reduced row echelon form of the averages of the unit matrices: unlike one from a singular
    value decomposition it is unique, so stored coordinates mean the same on every machine.

    Raises
    ------
    InputError
        If dim > 32 and the group is not one of signed permutations, for which the form costs
        next to nothing.
    """
    dim = group.shape[-1]
    signed = signed_permutations(group)
    if signed is not None:
        sources, factors, count = _invariant_entries(kind, *signed)
        basis = torch.zeros(count, dim * dim, dtype=torch.float64)
        placed = factors.nonzero().squeeze(-1)
        basis[sources[placed], placed] = factors[placed]
        return basis.unflatten(1, (dim, dim))
    if dim > _LARGEST_ELIMINATION:
        raise InputError(
            f"symmetries that are not sign flips and permutations are respected by weightings of "
            f"up to {_LARGEST_ELIMINATION} components, not dim = {dim}; leave them out"
        )
    if kind == "skew":
        units = skew_matrix(torch.eye(dim * (dim - 1) // 2, dtype=torch.float64), dim)
    else:
        units = torch.eye(dim * dim, dtype=torch.float64).view(-1, dim, dim)
    averages = sum(S.mT @ units @ S for S in group) / len(group)
    return _row_echelon(averages.flatten(1)).unflatten(1, (dim, dim))


def invariant_count(kind: str, group: torch.Tensor) -> int:
    """Return the number of matrices in ``invariant_basis``."""
    signed = signed_permutations(group)
    if signed is not None:
        return _invariant_entries(kind, *signed)[2]
    return len(invariant_basis(kind, group))


def signed_permutations(group: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the image of every component under each S (element, dim, dim), and its sign.

    S e_j = sign_j e_{place_j}, both (element, dim). None if a matrix is no signed permutation.
    """
    size = group.abs()
    if bool(((size > TOLERANCE) & ((size - 1).abs() > TOLERANCE)).any()):
        return None
    ones = size > 0.5
    if not bool(((ones.sum(-2) == 1) & (ones.sum(-1) == 1)).all()):
        return None
    return ones.long().argmax(-2), group.sum(-2).round()


def _invariant_entries(
    kind: str, places: torch.Tensor, signs: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return the ``invariant_basis`` of signed permutations, as parameters and signs.

    A = S^T A S says A_ij = s_i s_j A_{p(i) p(j)}: entries are equal but for signs along orbits, and
    zero where an orbit asks an entry to be its own negative. The first entry of each orbit, row
    by row, is its parameter.

    Returns
    -------
    sources, factors : Tensor, (dim * dim,)
        Index of the parameter that each entry of A takes, and its factor 1, -1 or 0.
    count : int
        Number of parameters.
    """
    dim = places.shape[-1]
    links = []
    for p, s in zip(places, signs, strict=True):
        image, sign = p.unsqueeze(1) * dim + p, s.unsqueeze(1) * s
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


def _row_echelon(rows: torch.Tensor) -> torch.Tensor:
    """Return the reduced row echelon form of a small matrix, zero rows left out."""
    rows = rows.clone()
    rank = 0
    for column in range(rows.shape[1]):
        if rank == len(rows):
            break
        pivot = rank + int(rows[rank:, column].abs().argmax())
        if rows[pivot, column].abs() < TOLERANCE:
            continue
        rows[[rank, pivot]] = rows[[pivot, rank]]
        rows[rank] /= rows[rank, column].clone()
        others = rows[:, column] != 0
        others[rank] = False
        rows[others, column:] -= rows[others, column : column + 1] * rows[rank, column:]
        rank += 1
    rows = rows[:rank]
    rows[rows.abs() < TOLERANCE] = 0
    return rows


def fixed_point_projection(matrices: Sequence[Any] | torch.Tensor, dim: int) -> torch.Tensor:
    """Return the projector (dim, dim) onto the common fixed points of the matrices."""
    return generated_group(matrices, dim).mean(0)
