"""Training of linear maps: least squares within a pattern, then structure as a constraint."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy import linalg

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.nn.affine_map import AffineMap
from vpintegrator.training.linear import LEFT_OUT, LinearFit

# singular values, relative to the largest, below which a direction is not determined: the
# leave-one-out error chooses
_TOLERANCES = [1e-14, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2]
_DETERMINED = 1e-10  # distance of a leverage from one
_MOST = 1_300  # unknowns of the constrained problem: a step takes a second
_NUMBERS = 1 << 24  # of all directions of the constrained problem together
_ROWS = 1 << 22  # numbers in the equations of a pattern: 32 MB, a second
_FEWEST = 5  # pairs
_ITERATIONS = 20
_GAIN = 1e-3  # relative decrease of the residual below which iterations end
_EXACT = 1e-15  # relative residual at rounding


@dataclass(frozen=True)
class Pattern:
    """Entries of a matrix that may differ from those of the identity.

    Attributes
    ----------
    sites
        Sites of a state: fields one after the other, each with a number for each site. 1 where any
        component may depend on any other.
    reach
        Sites on either side that a site depends on; None for all of them.
    is_ring
        Whether the last site is a neighbour of the first.
    is_alike
        Whether all sites move alike, which is for rings.

    Examples
    --------
    >>> from vpintegrator.training.linear_map import Pattern
    >>> Pattern(6, 1, is_alike=True).words
    'the same at 6 sites of a ring, neighbours up to 1'
    """

    sites: int = 1
    reach: int | None = None
    is_ring: bool = True
    is_alike: bool = False

    @property
    def words(self) -> str:
        """Description."""
        shape = "ring" if self.is_ring else "chain"
        reach = "" if self.reach is None else f", neighbours up to {self.reach}"
        if self.is_alike:
            return f"the same at {self.sites} sites of a ring{reach}"
        return "any matrix" if self.reach is None else f"{self.sites} sites of a {shape}{reach}"

    @property
    def neighbours(self) -> np.ndarray:
        """Numbers (site, neighbour) of the sites that each site depends on; -1 beyond an end."""
        n, site = self.sites, np.arange(self.sites)
        if self.reach is None or (self.is_ring and 2 * self.reach + 1 >= n):
            return (site[:, None] + site) % n
        found = site[:, None] + np.arange(-self.reach, self.reach + 1)
        return found % n if self.is_ring else np.where((found < 0) | (found >= n), -1, found)

    def coefficients(self, dim: int) -> int:
        """Return the number of coefficients, with offsets."""
        fields = dim // self.sites
        entries = fields * fields * int((self.neighbours >= 0).sum()) + dim
        return entries // self.sites if self.is_alike else entries


def linear_layer(model: Integrator) -> AffineMap | None:
    """Return the layer of a linear map, None for other models."""
    return model.core if isinstance(model.core, AffineMap) else None


def fit_linear_map(
    model: Integrator, inputs: torch.Tensor, targets: torch.Tensor, pattern: Pattern | None = None
) -> LinearFit:
    """Set matrix and offset of a linear map by least squares.

    Least squares without structure comes first; its polar decomposition gives a matrix with
    structure. Gauss-Newton iterations then reduce the residual among the matrices with structure.

    Parameters
    ----------
    model
        A linear map, normalised.
    inputs, targets : (pair, dim)
        States before and after the step.
    pattern
        Entries that may differ from those of the identity; by default all of them, or all of a
        ring whose sites move alike where the model is one.

    Returns
    -------
    LinearFit
        Its ``error`` is the leave-one-out error of least squares without structure.

    Raises
    ------
    InputError
        If the model is no linear map, or states are not finite.
    """
    start = time.perf_counter()
    layer = linear_layer(model)
    if layer is None:
        raise InputError(f"{model.name} is no linear map")
    if pattern is None:
        pattern = Pattern(layer.sites, is_alike=layer.sites > 1)
    z, y = (model.normalised(each.double().cpu()).detach().numpy() for each in (inputs, targets))
    if len(z) < 2 or not (np.isfinite(z).all() and np.isfinite(y).all()):
        raise InputError("a linear map needs two or more pairs of finite states; give others")
    found = fit_pattern(z, y, pattern)
    with torch.no_grad():
        layer.matrix = torch.from_numpy(np.eye(layer.dim) + found.change)
        if layer.volume_preserving:
            _refine(layer, z, y, pattern)
        rest = torch.from_numpy(y) - torch.from_numpy(z) @ layer.matrix.double().mT
        layer.offset.copy_(rest.mean(0).unflatten(0, (-1, layer.sites)).mean(1))
    return LinearFit(
        coefficients=pattern.coefficients(layer.dim),
        rank=found.rank,
        pairs=len(z),
        error=found.error,
        penalty=0.0,
        deviation=found.deviation,
        seconds=time.perf_counter() - start,
    )


@dataclass(frozen=True)
class PatternFit:
    """Least squares within a pattern, without structure.

    Attributes
    ----------
    change
        Matrix less the identity (dim, dim).
    rank
        Directions that the pairs determine.
    error, deviation
        As of :class:`~vpintegrator.training.linear.LinearFit`.
    """

    change: np.ndarray
    rank: int
    error: float
    deviation: float


def fit_pattern(z: np.ndarray, y: np.ndarray, pattern: Pattern) -> PatternFit:
    """Return the least-squares matrix for normalised pairs z, y (pair, dim) with an offset.

    Of many pairs only some are used. The error is infinite where equations would be too many.
    Directions that the pairs do not determine stay as the identity has them. The leave-one-out
    error chooses the tolerance for this.
    """
    entries = pattern.coefficients(z.shape[1]) * (pattern.sites if pattern.is_alike else 1)
    most = max(_ROWS * (z.shape[1] // pattern.sites) // entries, 1)
    if most < min(_FEWEST, len(z)):
        return PatternFit(np.zeros((z.shape[1], z.shape[1])), 0, math.inf, 0.0)
    z, y = z[:most], y[:most]
    problems = _Problems(z, y - z, pattern)
    spread = y.std(0)
    weight = 1 / np.where(spread > 0, spread, 1.0)
    best: PatternFit | None = None
    for tolerance in _TOLERANCES:
        left_out, coefficients, rank = problems.solve(tolerance)
        squares = ((left_out * weight[None]) ** 2).mean(1)
        square = float(squares.mean())
        error = math.sqrt(square) if math.isfinite(square) else math.inf
        if best is None or error < best.error:
            deviation = 0.0
            if math.isfinite(error):
                deviation = float(squares.std()) / math.sqrt(len(squares)) / max(square, 1e-300)
            best = PatternFit(problems.matrix(coefficients), rank, error, deviation)
    assert best is not None
    return best


class _Problems:
    """Least-squares problems of a pattern: one for each site, or one for all where they are alike.

    Parameters
    ----------
    z, change : (pair, dim)
        States, and their changes in a step.
    """

    def __init__(self, z: np.ndarray, change: np.ndarray, pattern: Pattern) -> None:
        self.pattern, self.fields = pattern, z.shape[1] // pattern.sites
        count, n, f = len(z), pattern.sites, self.fields
        near = pattern.neighbours
        states = z.reshape(count, f, n)
        seen = np.where(near >= 0, states[:, :, near], 0.0)  # (pair, field, site, neighbour)
        rows = seen.transpose(2, 0, 1, 3).reshape(n, count, -1)
        right = change.reshape(count, f, n).transpose(2, 0, 1)  # (site, pair, field)
        rows = np.concatenate([rows, np.ones((n, count, 1))], 2)
        if pattern.is_alike:
            rows, right = (each.reshape(1, n * count, -1) for each in (rows, right))
        self.count, self.right = count, right
        self.U, self.sizes, self.V = np.linalg.svd(rows, full_matrices=False)
        self.projected = self.U.transpose(0, 2, 1) @ right

    def solve(self, tolerance: float) -> tuple[np.ndarray, np.ndarray, int]:
        """Return residuals left out (pair, dim), coefficients and rank."""
        kept = self.sizes > tolerance * self.sizes[:, :1]
        inverse = np.where(kept, 1 / np.where(kept, self.sizes, 1.0), 0.0)
        coefficients = self.V.transpose(0, 2, 1) @ (inverse[:, :, None] * self.projected)
        U = self.U * kept[:, None]
        residual = self.right - U @ self.projected
        alike = self.pattern.is_alike
        left = self._left_out_of_all(U[0], residual[0]) if alike else self._left_out(U, residual)
        return left, coefficients, int(kept.sum())

    def _left_out(self, U: np.ndarray, residual: np.ndarray) -> np.ndarray:
        rest = 1 - (U**2).sum(2)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.where(rest[:, :, None] > _DETERMINED, residual / rest[:, :, None], np.inf)
        return left.transpose(1, 2, 0).reshape(self.count, -1)

    def _left_out_of_all(self, U: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Return residuals where the rows of all sites of a pair are left out at once."""
        n = self.pattern.sites
        some = slice(0, min(LEFT_OUT, max(_ROWS // n**2, _FEWEST)))
        own = U.reshape(n, self.count, -1).transpose(1, 0, 2)[some]
        right = residual.reshape(n, self.count, -1).transpose(1, 0, 2)[some]
        turned = own.transpose(0, 2, 1)
        few = own.shape[2] < n  # then Woodbury's formula has the smaller matrices
        matrices = np.eye(own.shape[2] if few else n) - (turned @ own if few else own @ turned)
        alone = np.linalg.eigvalsh(matrices)[:, 0] < _DETERMINED
        matrices[alone] = np.eye(matrices.shape[1])
        left = np.linalg.solve(matrices, turned @ right if few else right)
        left = right + own @ left if few else left
        left[alone] = np.inf
        return left.transpose(0, 2, 1).reshape(len(left), -1)

    def matrix(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the matrix (dim, dim) of coefficients (problem, entry, field)."""
        n, f, near = self.pattern.sites, self.fields, self.pattern.neighbours
        own = coefficients[:, :-1].reshape(len(coefficients), f, near.shape[1], f)
        own = np.broadcast_to(own, (n, *own.shape[1:]))
        found = np.zeros((f, n, f, n))
        for k in range(near.shape[1]):
            site = np.flatnonzero(near[:, k] >= 0)
            found[:, site, :, near[site, k]] = own[site, :, k].transpose(0, 2, 1)
        return found.reshape(f * n, f * n)


def _refine(layer: AffineMap, z: np.ndarray, y: np.ndarray, pattern: Pattern) -> None:
    """Reduce the residual by Gauss-Newton iterations A -> exp(X) A, X in the Lie algebra."""
    spread = y.std(0)
    weight = 1 / np.where(spread > 0, spread, 1.0)
    both = np.hstack([z - z.mean(0), y - y.mean(0)])
    reduced = linalg.qr(both, mode="r")[0][: 2 * layer.dim] if len(both) > 2 * layer.dim else both
    before, after = reduced[:, : layer.dim].T, reduced[:, layer.dim :].T  # (component, row)
    directions = list(_directions(layer, pattern))
    size = np.linalg.norm(weight[:, None] * after)
    if not directions or not size:
        return
    basis = layer.projected(torch.stack(directions)).numpy()  # (direction, dim, dim)
    matrix = layer.matrix.detach().double().numpy()
    error = float(np.linalg.norm(weight[:, None] * (after - matrix @ before)) / size)
    for _ in range(_ITERATIONS):
        if error < _EXACT:
            break
        image = matrix @ before
        columns = (weight[:, None] * (basis @ image)).reshape(len(basis), -1).T
        residual = (weight[:, None] * (after - image)).ravel()
        step = linalg.lstsq(columns, residual, cond=_TOLERANCES[1], lapack_driver="gelsy")[0]
        moved, new = matrix, math.inf
        for factor in (1.0, 0.5, 0.1, 0.01):
            moved = linalg.expm(factor * np.tensordot(step, basis, 1)) @ matrix
            new = float(np.linalg.norm(weight[:, None] * (after - moved @ before)) / size)
            if new < error:
                break
        if not new < error:
            break
        gained, matrix, error = new < (1 - _GAIN) * error, moved, new
        if not gained:
            break
    layer.matrix = torch.from_numpy(matrix)


def _directions(layer: AffineMap, pattern: Pattern) -> Iterator[torch.Tensor]:
    """Yield weights (field, field, site) that span the Lie algebra within a pattern.

    None where there are too many.
    """
    n, f = pattern.sites, layer.dim // pattern.sites
    near = pattern.neighbours
    if layer.sites > 1:
        places = [(a, b, m) for a in range(f) for b in range(f) for m in near[0]]
    else:
        sites = [(i, j) for i in range(n) for j in near[i] if j >= 0]
        places = [(a * n + i, b * n + j, 0) for a in range(f) for b in range(f) for i, j in sites]
        if layer.symplectic:  # J X is symmetric
            places = [(i, j, 0) for i, j, _ in places if i <= j]
    if len(places) > _MOST or len(places) * layer.dim**2 > _NUMBERS:
        return
    half = layer.fields // 2
    for i, j, m in places:
        weight = torch.zeros(layer.fields, layer.fields, layer.sites, dtype=torch.float64)
        # X = -J W has entry (i, j) of W in the row of its conjugate component
        weight[(i + half) % layer.fields if layer.symplectic else i, j, m] = 1.0
        yield weight
