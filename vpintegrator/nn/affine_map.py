"""Affine maps that are symplectic or preserve volume for every weight."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy import linalg
from torch import nn
from torch.nn.utils import parametrize

from vpintegrator.arguments import one_of, whole
from vpintegrator.errors import InputError
from vpintegrator.names import STRUCTURES
from vpintegrator.nn.canonical import canonical_form
from vpintegrator.nn.layer import Layer

_SMALLEST = 1e-8  # singular values of a matrix to be set, relative to the largest one


class AffineMap(Layer):
    r"""Affine map of states, with exact structure.

    .. math:: z \mapsto A z + b, \qquad A = \exp(S)\, \exp(K)\, R, \quad S = S^T, \quad K = -K^T

    S and K are Hamiltonian matrices for symplectic maps, and have trace zero for volume-preserving
    ones; R is a fixed reflection, or the identity. By the polar decomposition this form reaches
    every symplectic matrix, and every matrix of determinant 1 or -1. Along a ring of sites all
    matrices are block-circulant: the map is the same at each site.

    Parameters
    ----------
    dim : int
        Components of a state: fields one after the other, each with a number for each site.
    structure : str
        ``"symplectic"`` for states (q, p), ``"volume-preserving"`` or ``"none"``, any matrix.
    sites : int
        Sites of a ring at which the map is the same; 1 for a map without this symmetry.

    Attributes
    ----------
    matrix : Tensor, (dim, dim)
        A. A matrix that is assigned becomes the one of this form that its polar decomposition
        gives.
    offset : Parameter, (fields,)
        b, the same at each site.

    Raises
    ------
    InputError
        If states are not of so many sites, or symplectic states have an odd number of fields.

    Examples
    --------
    >>> layer = vp.nn.AffineMap(4, "symplectic")
    >>> layer.matrix = torch.diag(torch.tensor([2.0, 3.0, 0.5, 1 / 3], dtype=torch.float64))
    >>> J = vp.nn.canonical_form(4)
    >>> bool(torch.allclose(layer.matrix.mT @ J @ layer.matrix, J))
    True
    """

    matrix: torch.Tensor

    def __init__(self, dim: int, structure: str = "volume-preserving", sites: int = 1) -> None:
        super().__init__()
        one_of("structure", structure, STRUCTURES)
        self.dim, self.sites = whole("dim", dim), whole("sites", sites)
        self.fields, rest = divmod(dim, sites)
        if rest or (structure == "symplectic" and self.fields % 2):
            what = "equally many positions as momenta at " if structure == "symplectic" else ""
            raise InputError(f"states of {dim} components do not have {what}{sites} sites alike")
        self.structure = structure
        self.symplectic = structure == "symplectic"
        self.volume_preserving = structure != "none"
        self.offset = nn.Parameter(torch.zeros(self.fields, dtype=torch.float64))
        self.matrix = nn.Parameter(torch.eye(dim, dtype=torch.float64))
        parametrize.register_parametrization(self, "matrix", _Structured(structure, dim, sites))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return z @ self.matrix.mT + self.offset.repeat_interleave(self.sites)

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """Return the states that ``forward`` maps to z."""
        moved = z - self.offset.repeat_interleave(self.sites)
        if self.symplectic:
            J = canonical_form(self.dim).to(z)
            return moved @ (J @ self.matrix @ J.mT)
        return torch.linalg.solve(self.matrix, moved.unsqueeze(-1)).squeeze(-1)

    def projected(self, weight: torch.Tensor) -> torch.Tensor:
        """Return matrices (..., dim, dim) of the Lie algebra of the maps.

        Parameters
        ----------
        weight : Tensor, (..., fields, fields, sites)
            Any numbers: blocks of the first site to each site.
        """
        return _structured(self).projected(weight)


def _structured(layer: AffineMap) -> _Structured:
    found: _Structured = layer.parametrizations["matrix"][0]  # type: ignore[index, assignment]
    return found


class _Structured(nn.Module):
    """Parametrization of a matrix by the logarithms of its polar factors."""

    J: torch.Tensor
    mirrors: torch.Tensor
    places: torch.Tensor

    def __init__(self, structure: str, dim: int, sites: int) -> None:
        super().__init__()
        self.structure, self.dim, self.sites = structure, dim, sites
        self.fields = dim // sites
        if structure == "symplectic":
            self.register_buffer("J", canonical_form(dim), persistent=False)
        site = torch.arange(sites)
        self.register_buffer("places", (site - site[:, None]) % sites, persistent=False)
        # signs of the reflection of the mean over sites, and of the alternating pattern
        self.register_buffer("mirrors", torch.ones(2, dtype=torch.float64))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        X = self.projected(weight)
        if self.structure == "none":
            return X
        stretch, turn = (X + X.mT) / 2, (X - X.mT) / 2
        A = torch.linalg.matrix_exp(stretch) @ torch.linalg.matrix_exp(turn)
        return A if self.structure == "symplectic" else A @ self._reflection(A)

    def projected(self, weight: torch.Tensor) -> torch.Tensor:
        X = self.spread(weight)
        if self.structure == "symplectic":
            J = self.J.to(X)
            JX = J @ X
            return -J @ (JX + JX.mT) / 2
        if self.structure == "volume-preserving":
            trace = X.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
            return X - trace * torch.eye(self.dim, dtype=X.dtype, device=X.device)
        return X

    def spread(self, weight: torch.Tensor) -> torch.Tensor:
        """Return block-circulant matrices (..., dim, dim) of blocks to each site."""
        blocks = weight[..., self.places]  # (..., field, field, site, site)
        return blocks.transpose(-3, -2).flatten(-4, -3).flatten(-2, -1)

    def _reflection(self, like: torch.Tensor) -> torch.Tensor:
        one = torch.eye(self.dim, dtype=like.dtype, device=like.device)
        weight = like.new_zeros(self.fields, self.fields, self.sites)
        mean, alternating = ((self.mirrors.to(weight) - 1) / self.sites).unbind()
        weight[0, 0] = mean + alternating * (-1.0) ** torch.arange(self.sites).to(weight)
        return one + self.spread(weight)

    @torch.no_grad()
    def right_inverse(self, matrix: torch.Tensor) -> torch.Tensor:
        """Return weights (fields, fields, sites) of the nearest matrix of this form."""
        modes = np.fft.fft(self._blocks(matrix.detach().cpu().double().numpy()))
        self.mirrors.fill_(1.0)
        if self.structure != "none":
            found = modes.copy()
            for k in range(self.sites // 2 + 1):
                found[..., k] = self._logarithm(modes[..., k], k)
                found[..., -k] = found[..., k].conj()
            modes = found
        return torch.from_numpy(np.fft.ifft(modes).real.copy()).to(matrix)

    def _blocks(self, matrix: np.ndarray) -> np.ndarray:
        """Return the mean blocks (fields, fields, sites) from each site to those after it."""
        n, f = self.sites, self.fields
        parts = matrix.reshape(f, n, f, n)
        site = np.arange(n)
        return np.stack(
            [parts[:, site, :, (site + m) % n].mean(0) for m in range(n)], axis=-1
        )  # (f, f, n): advanced indices come first

    def _logarithm(self, mode: np.ndarray, k: int) -> np.ndarray:
        """Return the logarithms of the polar factors of mode k, added up."""
        is_real = 2 * k % self.sites == 0
        U, sizes, V = linalg.svd(mode.real if is_real else mode)
        sizes = np.maximum(sizes, _SMALLEST * max(sizes.max(), _SMALLEST))
        turn, stretch = U @ V, (U * np.log(sizes)) @ U.conj().T
        if self.structure == "symplectic":
            return stretch + _log_of_symplectic(turn, is_real)
        if not is_real:
            return stretch + _log_of_unitary(turn)
        if np.linalg.det(turn) < 0:
            self.mirrors[0 if k == 0 else 1] = -1.0
            turn[:, 0] *= -1
        return stretch + _log_of_rotation(turn)


def _log_of_unitary(turn: np.ndarray) -> np.ndarray:
    """Return a skew-Hermitian logarithm."""
    T, V = linalg.schur(turn, output="complex")
    found = (V * (1j * np.angle(np.diag(T)))) @ V.conj().T
    return (found - found.conj().T) / 2


def _log_of_symplectic(turn: np.ndarray, is_real: bool) -> np.ndarray:
    """Return a logarithm that commutes with J, of the part that does."""
    half = len(turn) // 2
    one = np.eye(half)
    basis = np.block([[one, one], [1j * one, -1j * one]]) / math.sqrt(2)
    own = basis.conj().T @ turn @ basis
    logs = []
    for part in (slice(0, half), slice(half, None)):
        U, _, V = linalg.svd(own[part, part])  # unitary but for what does not commute
        logs.append(_log_of_unitary(U @ V))
    if is_real:  # the second is the conjugate of the first, also where angles are half turns
        logs[1] = logs[0].conj()
    found = basis @ linalg.block_diag(*logs) @ basis.conj().T
    return found.real if is_real else found


def _log_of_rotation(turn: np.ndarray) -> np.ndarray:
    """Return a real skew logarithm of a matrix of determinant 1; half turns are in planes."""
    T, V = linalg.schur(turn, output="real")
    n, k, found, halves = len(T), 0, np.zeros_like(T), []
    while k < n:
        if k + 1 < n and abs(T[k + 1, k]) > np.finfo(float).eps:
            angle = math.atan2(T[k + 1, k] - T[k, k + 1], T[k, k] + T[k + 1, k + 1])
            found[k + 1, k], found[k, k + 1] = angle, -angle
            k += 2
            continue
        halves += [k] if T[k, k] < 0 else []
        k += 1
    for i, j in zip(halves[::2], halves[1::2], strict=True):
        found[j, i], found[i, j] = math.pi, -math.pi
    return V @ found @ V.T
