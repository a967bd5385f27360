"""J^T J of Levenberg-Marquardt: summed up block by block, and solved with for any damping."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch

from vpintegrator.compiled import NotCompilable, SymmetricMatrix
from vpintegrator.errors import InputError

LARGEST = 20_000  # parameters, of which J^T J takes 3.2 GB
_LARGE = 1_000  # parameters from which on PyTorch's own products take longer than the rest


class NormalMatrix(ABC):
    """J^T J, (parameter, parameter)."""

    @abstractmethod
    def clear(self) -> None:
        """Make it zero."""

    @abstractmethod
    def add(self, jacobian: torch.Tensor, residual: torch.Tensor, gradient: torch.Tensor) -> None:
        """Add J^T J of some rows, and to a gradient (parameter,) J^T r.

        Parameters
        ----------
        jacobian, residual, gradient
            J (row, parameter), r (row,), and what is added to. Compiled residuals give J and r in
            another order, which only machine code knows, see
            :class:`vpintegrator.compiled.SymmetricMatrix`.
        """

    @abstractmethod
    def largest(self) -> float:
        """Return the largest element."""

    @abstractmethod
    def solve(self, damping: float, right: torch.Tensor) -> torch.Tensor | None:
        """Return (J^T J + damping)^-1 times a vector, or None where rounding leaves no factor."""


class InPyTorch(NormalMatrix):
    """Normal matrix on any device; three matrices, two of them only during the solution."""

    def __init__(self, like: torch.Tensor) -> None:
        self._matrix = like.new_zeros(len(like), len(like))

    def clear(self) -> None:
        """Make it zero."""
        self._matrix.zero_()

    def add(self, jacobian: torch.Tensor, residual: torch.Tensor, gradient: torch.Tensor) -> None:
        """Add J^T J of some rows, and J^T r to a gradient."""
        self._matrix.addmm_(jacobian.mT, jacobian)
        gradient.addmv_(jacobian.mT, residual)

    def largest(self) -> float:
        """Return the largest element, which is on the diagonal."""
        return self._matrix.diagonal().max().item()

    def solve(self, damping: float, right: torch.Tensor) -> torch.Tensor | None:
        """Return (J^T J + damping)^-1 times a vector, or None where rounding leaves no factor."""
        damped = self._matrix.clone()
        damped.diagonal().add_(damping)
        factor, failed = torch.linalg.cholesky_ex(damped)
        return None if failed.item() else torch.cholesky_solve(right[:, None], factor)[:, 0]


class InMachineCode(NormalMatrix):
    """Normal matrix on the CPU, which takes the memory of one matrix."""

    def __init__(self, like: torch.Tensor) -> None:
        dtype = like.numpy().dtype.type
        self._matrix = SymmetricMatrix(len(like), dtype, torch.get_num_threads())

    def clear(self) -> None:
        """Make it zero."""
        self._matrix.clear()

    def add(self, jacobian: torch.Tensor, residual: torch.Tensor, gradient: torch.Tensor) -> None:
        """Add J^T J of some rows, and J^T r to a gradient."""
        self._matrix.add(jacobian.numpy(), residual.numpy(), gradient.numpy())

    def largest(self) -> float:
        """Return the largest element, which is on the diagonal."""
        return float(np.max(self._matrix.array.diagonal(), initial=0.0))

    def solve(self, damping: float, right: torch.Tensor) -> torch.Tensor | None:
        """Return (J^T J + damping)^-1 times a vector, or None where rounding leaves no factor."""
        if not self._matrix.factor(damping):
            return None
        return torch.from_numpy(self._matrix.solve(right.numpy()))


def normal_matrix(like: torch.Tensor, compiled: bool) -> NormalMatrix:
    """Return a matrix for a vector of parameters, all zero.

    Parameters
    ----------
    like
        The vector.
    compiled
        Whether residuals are machine code, so that there is a compiler. Otherwise large matrices
        still are machine code if possible.

    Raises
    ------
    InputError
        If memory does not suffice for the matrix, or the matrix is larger than ``LARGEST``.
    """
    size = len(like) ** 2 * like.element_size() / 1e9
    instead = "use the optimizer adam, which needs no matrix"
    if len(like) > LARGEST:
        raise InputError(
            f"levenberg-marquardt trains up to {LARGEST:,} parameters, and these are "
            f"{len(like):,}: J^T J would take {size:.1f} GB; {instead}"
        )
    try:
        if compiled or (like.device.type == "cpu" and len(like) >= _LARGE):
            try:
                return InMachineCode(like)
            except NotCompilable:
                pass
        return InPyTorch(like)
    except (MemoryError, RuntimeError):  # PyTorch's, of the same
        raise InputError(
            f"there is no memory for J^T J of {len(like):,} parameters, {size:.1f} GB; {instead}"
        ) from None
