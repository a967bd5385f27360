"""Quadratic functions whose flows rotate canonical planes, as an angular momentum does."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from vpintegrator.errors import InputError
from vpintegrator.nn.symmetry import canonical_form, check_even

NEAR = 1e-4  # error of what is found in data, relative: of frequencies, commutators, fixed points


@dataclass(frozen=True)
class Rotations:
    r"""Canonical planes that the flows of quadratic functions rotate.

    In coordinates :math:`u = M (z - z^*)`, of which :math:`(u_{2k}, u_{2k+1})` are canonical pairs,
    each function is :math:`\sum_k \omega_k (u_{2k}^2 + u_{2k+1}^2)/2` but for a constant.

    Attributes
    ----------
    planes : Tensor, (size, size)
        M, symplectic but for the order of its rows.
    centre : Tensor, (size,)
        The fixed point of all flows.
    frequencies : Tensor, (function, plane)
    """

    planes: torch.Tensor
    centre: torch.Tensor
    frequencies: torch.Tensor

    @classmethod
    def of(cls, forms: Any, size: int) -> Rotations:
        r"""Return the planes of quadratic functions :math:`(1, z)^T F (1, z)` of states (q, p).

        Parameters
        ----------
        forms : array, (function, 1 + size, 1 + size)
            The matrices F.
        size
            Components of a state, even.

        Raises
        ------
        InputError
            If the flows do not commute, have no common fixed point, or do more than rotate planes.

        Examples
        --------
        >>> from vpintegrator.nn.rotations import Rotations
        >>> momentum = torch.zeros(1, 5, 5)  # q_1 p_2 - q_2 p_1 of (1, q_1, q_2, p_1, p_2)
        >>> momentum[0, 1, 4] = momentum[0, 4, 1] = 0.5
        >>> momentum[0, 2, 3] = momentum[0, 3, 2] = -0.5
        >>> Rotations.of(momentum, 4).frequencies.abs()
        tensor([[1., 1.]], dtype=torch.float64)
        """
        check_even(size)
        F = np.asarray(forms, dtype=float)
        if F.ndim != 3 or F.shape[1:] != (1 + size, 1 + size) or not np.isfinite(F).all():
            raise InputError(
                f"quadratic invariants must be matrices of {1 + size} rows and columns, of 1 and "
                f"the {size} components"
            )
        F = (F + F.swapaxes(1, 2)) / 2
        J = canonical_form(size).numpy()
        flows = 2 * J @ F[:, 1:, 1:]  # (function, size, size), A of z' = A (z - z*)
        lengths = np.linalg.norm(flows, axis=(1, 2))
        if not lengths.all():
            raise InputError("a quadratic invariant has no quadratic part")
        scaled = flows / lengths[:, None, None]
        for A, B in itertools.combinations(scaled, 2):
            if np.abs(A @ B - B @ A).max() > NEAR:
                raise InputError("the flows of quadratic invariants must commute with each other")
        offsets = (F[:, 1:, 0] * 2 / lengths[:, None]).reshape(-1)
        slopes = (-J @ scaled).reshape(-1, size)
        centre = -np.linalg.lstsq(slopes, offsets, rcond=NEAR)[0]
        if np.abs(slopes @ centre + offsets).max() > NEAR * max(np.abs(offsets).max(), 1.0):
            raise InputError("the flows of quadratic invariants must have a common fixed point")
        # a combination of incommensurable weights has planes that all of them rotate
        weights = np.sqrt(2.0 + np.arange(len(scaled)))
        V = _canonical_planes(np.tensordot(weights, scaled, 1), J)
        pairs = np.kron(np.eye(size // 2), J[:: size // 2, :: size // 2])
        M = -pairs @ V.T @ J  # the inverse of V, to rounding
        turned = M @ flows @ V  # (function, size, size), blocks (0, w; -w, 0)
        frequencies = turned[:, range(0, size, 2), range(1, size, 2)]  # (function, plane)
        blocks = np.stack([np.kron(np.diag(own), pairs[:2, :2]) for own in frequencies])
        if (np.abs(turned - blocks).max((1, 2)) > NEAR * lengths).any():
            raise InputError("the flows of quadratic invariants must rotate planes alone")
        return cls(*(torch.from_numpy(each) for each in (M, centre, frequencies)))


def _canonical_planes(A: np.ndarray, J: np.ndarray) -> np.ndarray:
    """Return columns e_1, f_1, ... with e_k^T J f_k = 1 that span planes which A rotates.

    Raises
    ------
    InputError
        If A has other eigenvalues than imaginary ones, or is not diagonal with these.
    """
    size = len(A)
    left = [*np.linalg.eigvals(A)]
    columns = list[np.ndarray]()
    while left:
        value = 1j * max(left, key=lambda each: each.imag).imag
        near = [each for each in left if abs(each - value) < 10 * NEAR]
        vectors = _null_space(A - value * np.eye(size), 10 * NEAR)  # (size, direction)
        if not near or vectors.shape[1] != len(near):
            raise InputError("the flows of quadratic invariants must rotate planes alone")
        if abs(value) < 10 * NEAR:
            columns += _canonical_basis(_null_space(A, 10 * NEAR), J)
            left = [each for each in left if abs(each - value) >= 10 * NEAR]
            continue
        signs, own = np.linalg.eigh(-1j * vectors.conj().T @ J @ vectors)  # Krein signature
        for sign, v in zip(signs, (vectors @ own).T, strict=True):
            v = v if sign > 0 else v.conj()
            columns += [v.real, v.imag]
        pair = np.array([value, -value])
        left = [each for each in left if np.abs(each - pair).min() >= 10 * NEAR]
    if len(columns) != size:
        raise InputError("the flows of quadratic invariants must rotate planes alone")
    return np.stack(_canonical_basis(np.stack(columns, 1), J, is_paired=True), 1)


def _null_space(matrix: np.ndarray, tolerance: float) -> np.ndarray:
    """Return an orthonormal basis (size, direction) of what a matrix takes to almost zero."""
    _, sizes, rows = np.linalg.svd(matrix)
    return np.asarray(rows[sizes < tolerance].conj().T)


def _canonical_basis(basis: np.ndarray, J: np.ndarray, is_paired: bool = False) -> list[np.ndarray]:
    """Return vectors e_1, f_1, ... with e_k^T J f_k = 1, else 0, of the span of columns.

    Raises
    ------
    InputError
        If the form is degenerate on the span.
    """
    left = [*basis.T]
    result = list[np.ndarray]()
    while len(left) > 1:
        e = left.pop(0)
        values = [abs(e @ J @ f) for f in left]
        f = left.pop(0 if is_paired else int(np.argmax(values)))
        area = e @ J @ f
        if abs(area) < NEAR**2:
            break
        e = e * np.sign(area) / np.sqrt(abs(area))
        f = f / np.sqrt(abs(area))
        result += [e, f]
        for _ in range(2):  # twice is enough for rounding
            left = [v - (v @ J @ f) * e + (v @ J @ e) * f for v in left]
    if left or len(result) != basis.shape[1]:
        raise InputError("the flows of quadratic invariants must rotate planes alone")
    return result
