"""Levenberg-Marquardt: nonlinear least squares to high precision, for up to some 10^4 parameters.

Each iteration solves (J^T J + damping) delta = -J^T r with the residuals r of all windows in use
and their exact Jacobian J (Levenberg 1944, Marquardt 1963; Nocedal and Wright, Numerical
Optimization, section 10.3). Where first-order methods stop near 1e-3, this goes on to 1e-6 and
below.

What was measured on the rigid body (one step, 384 parameters): the plain norm |delta| does better
than Marquardt's scaling by the diagonal of J^T J, which lingers for a hundred iterations. Nielsen's
rule for the damping gets further in the same time than trying several dampings in an iteration,
and than geodesic acceleration. Steps from J^T J agree with those from a QR factorisation of J to
1e-8 at the dampings that occur (1e-6), at half the cost. Every damping that is tried has a Cholesky
factor of its own: what dampings could share, a tridiagonal form of J^T J, costs as much as four.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.func import jacrev, vmap

from vpintegrator.compiled import CompiledResidual, NotCompilable, SymmetricMatrix
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.runtime.deadline import check_time
from vpintegrator.training.optimizers.base import Optimizer
from vpintegrator.training.residuals import Objective, relative

_JACOBIAN_BYTES = 1 << 23  # bytes of a block of rows; the computation needs a few times as much
_ROWS_PER_PARAMETER = 4  # to begin with
# with more parameters J^T J takes most of the time: with two rows for each the error after
# 30 to 40 s is 1.5 to 3 times smaller (neurons of 1,440 and polynomials of 1,188 parameters on the
# rigid body, a transformer of 1,623)
_LARGE, _ROWS_OF_LARGE = 1_000, 2
_FEWEST_WINDOWS = 256
_LARGEST_MATRIX = 20_000  # parameters, of which J^T J takes 3.2 GB
_MACHINE_CODE = 1_000  # parameters from which on PyTorch's own products take longer than the rest
_FIRST_DAMPING = 1e-3  # times the curvature, for untrained models
_DAMPING_OF_TRAINED = 1e-7  # times the curvature, for models that were trained before
_LARGEST_DAMPING = 1e12  # times the curvature: the step is too short to change anything
_OVERFITTED = 1.3  # validation error relative to training error with four residuals a parameter
_IMPROVED = 0.9
_PATIENCE = 10  # iterations without improvement before more windows are taken


class LevenbergMarquardt(Optimizer):
    """Repeated minimisation of |r + J delta|^2 + damping |delta|^2 over steps delta.

    The damping follows Nielsen's rule. It falls, at most to a third, if the linear model predicts
    the gain of a step well. It grows at an increasing rate while steps fail (Madsen, Nielsen,
    Tingleff, Methods for non-linear least squares problems, 2nd ed., 2004, section 2.2 and 3.2).

    The windows in use are a random subset. A new subset is drawn when no step lowers the cost: the
    subset is fitted to rounding, or a minimum is reached. The subset is doubled when its error is
    below the validation error, and the latter has not improved for some iterations. A larger subset
    before that would only slow iterations down.

    Memory: a block of the Jacobian (8 MiB, and a few times that for intermediate values) and a
    matrix of (parameters)^2, 3.2 GB for 20,000; where there is no C++ compiler, and on a GPU, three
    of them. The number of windows does not matter.

    Parameters
    ----------
    model, pairs, objective, generator, compiled
        See :class:`vpintegrator.training.optimizers.base.Optimizer`.
    batch
        Windows in use to begin with; by default so many that there are four residuals for each
        parameter, two of more than 1,000 parameters, and at least 256 (or all there are).
    """

    name = "levenberg-marquardt"
    compiles = True
    step_seconds = 0.05

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.parameters = self.residuals.read()
        self.damping = 0.0  # not chosen yet
        self.best, self.stalled = math.inf, 0  # validation error, and iterations since it fell
        self.choose_windows()
        rows = self.objective.residuals_of_window(self.model)
        self.block = max(_JACOBIAN_BYTES // (8 * rows * len(self.parameters)), 16)
        self._matrix: NormalMatrix | None = None
        self.jacobian = vmap(jacrev(self._residual_twice, has_aux=True), (None, 0, 0))

    @classmethod
    def default_batch(cls, model: Integrator, objective: Objective) -> int:
        """Return the number of windows that determines the parameters well."""
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        rows = _ROWS_PER_PARAMETER if count <= _LARGE else _ROWS_OF_LARGE
        enough = rows * count // objective.residuals_of_window(model)
        return max(enough, _FEWEST_WINDOWS)

    def choose_windows(self) -> None:
        """Draw another subset of windows."""
        pairs = self.pairs.sample(self.batch, self.generator)
        self.inputs, self.targets = self.ready(pairs)
        self.size = self.targets[..., 0].numel()
        self.cost, self.squares = self._sums(self.parameters)

    def epoch(self, progress: float) -> float:
        """Do one iteration; ``progress`` is not used."""
        matrix, gradient = self.normal_equations()
        curvature = matrix.largest()
        trained = "training" in self.model.metadata
        first = _DAMPING_OF_TRAINED if trained else _FIRST_DAMPING
        damping = self.damping or first * curvature
        growth = 2.0
        # rounding of J^T J hides any damping smaller than this
        least = torch.finfo(self.parameters.dtype).eps * curvature
        while not self._take_step(matrix, gradient, max(damping, least)):
            damping *= growth
            growth *= 2
            # also where the curvature is zero, infinite or nan
            if not damping < _LARGEST_DAMPING * curvature:
                self.damping = 0.0
                self.choose_windows()
                break
        return relative(self.squares, self.size)

    def _take_step(self, matrix: NormalMatrix, gradient: torch.Tensor, damping: float) -> bool:
        """Whether the step of this damping lowers the cost; if so it is taken."""
        delta = matrix.solve(damping, -gradient)
        if delta is None:
            return False
        cost, squares = self._sums(self.parameters + delta)
        if not cost < self.cost:  # true for nan
            return False
        # both at once, as each number that is looked at makes a GPU wait
        length, slope = torch.stack([delta.dot(delta), gradient.dot(delta)]).tolist()
        foretold = damping * length - slope
        gain = (self.cost - cost) / foretold if foretold > 0 else 0.0
        self.damping = damping * max(1 / 3, 1 - (2 * gain - 1) ** 3)
        self.cost, self.squares, self.parameters = cost, squares, self.parameters + delta
        self.residuals.write(self.parameters)
        return True

    @property
    def windows(self) -> int:
        """The number of windows in use."""
        return len(self.inputs)

    def observe(self, training_error: float, validation_error: float) -> None:
        """Take twice as many windows when others get no better, and those in use do."""
        if validation_error < _IMPROVED * self.best:
            self.best, self.stalled = validation_error, 0
            return
        self.stalled += 1
        overfitted = validation_error > _OVERFITTED * training_error
        if overfitted and self.stalled >= _PATIENCE and self.batch < len(self.pairs):
            self.batch, self.stalled = 2 * self.batch, 0
            self.choose_windows()

    def roll_back(self) -> None:
        """The model was set back to better weights: go on from them with twice as many windows.

        What fits those in use and is far off on others says that these are too few.
        """
        self.batch = min(2 * self.batch, len(self.pairs))
        self.parameters = self.residuals.read()
        self.damping = 0.0
        self.choose_windows()

    def normal_equations(self) -> tuple[NormalMatrix, torch.Tensor]:
        """Return J^T J, overwritten by the next call, and J^T r."""
        machine = self.residuals.compiled
        compiled = machine is not None and self.parameters.device.type == "cpu"
        if self._matrix is None or (compiled and not isinstance(self._matrix, InMachineCode)):
            self._matrix = None  # there may be no room for another
            self._matrix = normal_matrix(self.parameters, compiled)
        matrix, gradient = self._matrix, torch.zeros_like(self.parameters)
        matrix.clear()
        for jacobian, residual in self._jacobians(machine):
            matrix.add(jacobian, residual, gradient)
        return matrix, gradient

    def _jacobians(
        self, compiled: CompiledResidual | None
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield J and r, block by block of windows, see ``NormalMatrix``."""
        if compiled is not None:
            tensors = (self.parameters, self.inputs, self.targets)
            for jacobian, residual in compiled.jacobians(*(t.detach().numpy() for t in tensors)):
                check_time()
                yield torch.from_numpy(jacobian), torch.from_numpy(residual)
            return
        for x, y in zip(self.inputs.split(self.block), self.targets.split(self.block), strict=True):
            check_time()
            jacobian, residual = self.jacobian(self.parameters, x, y)
            yield jacobian.reshape(-1, len(self.parameters)), residual.detach().reshape(-1)

    def _residual_twice(
        self, vector: torch.Tensor, x: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # once to be differentiated and once as it is
        residual = self.residuals(vector, x, y)
        return residual, residual

    def _sums(self, vector: torch.Tensor) -> list[float]:
        """Return weighted and plain sums of squares over the windows in use."""
        return self.residuals.sums(vector, self.inputs, self.targets).tolist()


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
        If memory does not suffice for the matrix, or the matrix is larger than 20,000 parameters.
    """
    size = len(like) ** 2 * like.element_size() / 1e9
    instead = "use the optimizer adam, which needs no matrix"
    if len(like) > _LARGEST_MATRIX:
        raise InputError(
            f"levenberg-marquardt trains up to {_LARGEST_MATRIX:,} parameters, and these are "
            f"{len(like):,}: J^T J would take {size:.1f} GB; {instead}"
        )
    try:
        if compiled or (like.device.type == "cpu" and len(like) >= _MACHINE_CODE):
            try:
                return InMachineCode(like)
            except NotCompilable:
                pass
        return InPyTorch(like)
    except (MemoryError, RuntimeError):  # PyTorch's, of the same
        raise InputError(
            f"there is no memory for J^T J of {len(like):,} parameters, {size:.1f} GB; {instead}"
        ) from None
