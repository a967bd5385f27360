"""Generating functions of several maps in a row from pairs of states before and after all of them.

The coefficients of one map are linear in pairs of its own states. Where these are not known, as
within a step of measured data, they follow from the pairs of the whole map by Gauss-Newton
iterations with Levenberg's damping. Derivatives are those of the implicit function theorem.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import torch

from vpintegrator.data.pairs import Pairs
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.nn.linearised import linearised
from vpintegrator.runtime.deadline import check_time
from vpintegrator.runtime.threads import one_blas_thread
from vpintegrator.training.least_squares import SequentialQR
from vpintegrator.training.linear import (
    LEFT_OUT,
    PENALTIES,
    ROWS,
    SETTLED,
    Judged,
    LinearFit,
    WholePairs,
    coefficients,
    enough_pairs,
    fit_linear,
    implicit_map,
    maps_of,
    normalised_pairs,
    roughness,
    set_coefficients,
    weights,
)

_FIRST, _STEP = 2, 2  # degrees, each of which begins as the map of the one before
_LEAST, _LARGEST = 1e-14, 1e4  # damping, relative to the number of equations
_DETERMINED = 1e-6  # relative size of pivots of the first solution
_SETTLED = 0.9  # times the error before, above which an iteration is the last
_ITERATIONS = 30
_ROUNDING = 1e-15
_BYTES = 1 << 26  # bytes of derivatives that are computed at once


def fit_pairs(
    model: Integrator,
    pairs: Pairs,
    far: bool = False,
    start: Integrator | None = None,
    folds: np.ndarray | None = None,
) -> LinearFit:
    """Fit a generating function to the pairs of ``layer_pairs``.

    Parameters
    ----------
    model, far
        Arguments of ``fit_linear``.
    pairs
        See ``layer_pairs``.
    start
        Argument of ``fit_composed``.
    folds
        Argument of ``fit_linear``.

    Raises
    ------
    InputError
        As of ``fit_linear``.
    """
    inputs, targets = (states[:, -1] for states in pairs[: len(pairs)])
    if isinstance(pairs, WholePairs):
        return fit_composed(model, inputs, targets, start)
    return fit_linear(model, inputs, targets, far, folds)


def fit_composed(
    model: Integrator,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    start: Integrator | None = None,
) -> LinearFit:
    r"""Set the coefficients of a generating function whose map is applied more than once.

    The first degree begins as the solution of the linear equations of a single map, divided by the
    number of maps; each further degree as the map of the one before.

    Parameters
    ----------
    model
        Normalised and adapted to its states.
    inputs, targets : (pair, dim)
        States before and after the whole map.
    start
        The fitted model of a lower degree, if there is one.

    Raises
    ------
    InputError
        If states are not finite, coincide, or there are fewer equations than coefficients need.
    """
    began = time.perf_counter()
    if start is None:
        start = _smaller(model)
        if start is not None:
            few = enough_pairs(start)
            fit_composed(start, inputs[:few], targets[:few])
    fit = _Fit(model, *normalised_pairs(model, inputs, targets))
    with one_blas_thread():
        fit.begin(start)
        fit.iterate()
        judged = fit.judged()
    implicit_map(model).settle(fit.before[:SETTLED])
    return LinearFit(
        coefficients=fit.count,
        rank=fit.count,
        pairs=len(fit.before),
        error=math.sqrt(judged.square),
        penalty=judged.penalty,
        deviation=judged.deviation,
        seconds=time.perf_counter() - began,
        typical=math.sqrt(judged.typical),
    )


def _smaller(model: Integrator) -> Integrator | None:
    """Return a model of a lower degree, if there is one."""
    degree = model.arguments["degree"] - _STEP
    if degree < _FIRST:
        return None
    try:
        smaller = type(model)(**{**model.arguments, "degree": degree})
    except InputError:  # no terms
        return None
    smaller.normalise_like(model)
    return smaller


class _Fit:
    """Gauss-Newton with Levenberg's damping, by normalised pairs of the whole map."""

    def __init__(self, model: Integrator, before: torch.Tensor, after: torch.Tensor) -> None:
        self.core: Any = model.core
        self.layer: Any = implicit_map(model)
        self.before, self.after = before, after
        self.size = after.shape[1] - int(getattr(self.layer, "conserved", 0))
        self.weight = weights(after[:, : self.size])
        self.count = sum(c.numel() for c in self.layer.coefficients())
        self.maps, self.damping = maps_of(model), _LEAST

    def begin(self, start: Integrator | None) -> None:
        """Set the coefficients to those of a lower degree, or by equations of a single map."""
        if start is not None:
            self.layer.prolong(implicit_map(start))
        else:
            matrix, right = self.layer.equations(self.before, self.after)
            qr = SequentialQR(self.count)
            qr.add(*self._rows(matrix, right / self.maps))
            set_coefficients(self.layer, qr.solve(_DETERMINED).coefficients)
        self.first = coefficients(self.layer)

    def _rows(self, matrix: torch.Tensor, right: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        weighted = (matrix[:, : self.size, : self.count] * self.weight[:, None]).detach()
        right = right[:, : self.size] * self.weight
        return weighted.reshape(-1, self.count).numpy(), right.reshape(-1).numpy()

    def _error(self) -> float:
        with torch.no_grad():
            images = self.core(self.before[:, None])[:, 0]
        residual = (self.after - images)[:, : self.size] * self.weight
        error = float(residual.square().mean().sqrt())
        return error if math.isfinite(error) else math.inf

    def _linearised(self, change: np.ndarray | float = 0.0) -> SequentialQR:
        """Equations of the change of the coefficients, from those that are less by ``change``."""
        qr, moved = SequentialQR(self.count), change + np.zeros(self.count)
        block = max(_BYTES // (8 * self.count * self.size), 1)
        for z, image in zip(self.before.split(block), self.after.split(block), strict=True):
            found, matrix = linearised(self.core, z)
            A, right = self._rows(matrix, image - found)
            qr.add(A, right + A @ moved)
        return qr

    def iterate(self) -> None:
        """Change the coefficients as long as the error falls."""
        error, rough = self._error(), roughness(self.layer)
        for _ in range(_ITERATIONS):
            if not _ROUNDING < error < math.inf:
                return
            check_time()
            qr, values, last = self._linearised(), coefficients(self.layer), error
            while self.damping < _LARGEST:
                change = next(qr.ridge(rough, [self.damping])).coefficients
                set_coefficients(self.layer, values + change)
                error = self._error()
                if error < last:
                    break
                self.damping *= 100
            else:
                set_coefficients(self.layer, values)
                return
            self.damping = max(self.damping / 100, _LEAST)
            if error > _SETTLED * last:
                return

    def judged(self) -> Judged:
        """Return leave-one-out error; where data are scarce, with a ridge penalty that it chooses.

        The penalty is on the change from the coefficients of a lower degree, so that directions
        that leave the map as it is stay as they are.
        """
        values = coefficients(self.layer)
        change = values - self.first
        qr = self._linearised(change)
        images, matrix = linearised(self.core, self.before[:LEFT_OUT])
        A, right = self._rows(matrix, self.after[:LEFT_OUT] - images)
        right = right + A @ change
        scarce = qr.rows < ROWS * self.count
        penalties = PENALTIES if scarce else [_LEAST]
        solutions = list(qr.ridge(roughness(self.layer), penalties))
        shape = (len(images), self.size, -1)
        projected = (A @ solutions[0].directions).reshape(shape)
        found = [
            Judged(
                *solution.left_out_error(
                    projected, (right - A @ solution.coefficients).reshape(shape[:2])
                ),
                penalty if scarce else 0.0,
                solution,
            )
            for solution, penalty in zip(solutions, penalties, strict=True)
        ]
        best = min(found, key=lambda each: each.square)
        if scarce:
            set_coefficients(self.layer, self.first + best.solution.coefficients)
            if self._error() > math.sqrt(best.square):  # too far for the linear equations
                set_coefficients(self.layer, values)
        return best
