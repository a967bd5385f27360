"""Functions of the language that a table gives: cubic splines through its points.

A spline and its derivatives are NaN outside the table, or periodic. Arithmetic with many digits,
in which declared properties are checked at random points, continues every table periodically.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # loads scipy.interpolate when it is used

from vpintegrator.dynamics.expressions.constants import HIGH
from vpintegrator.dynamics.expressions.nodes import Function, Value

_MOST_COMPILED = 64  # points; machine code finds a piece by comparisons with all of them


@dataclass(frozen=True, eq=False)
class PiecewisePolynomial:
    """Polynomials in the distance from the left end of each piece.

    Attributes
    ----------
    points
        Ends of the pieces, increasing, (point,).
    coefficients
        Coefficients, that of the highest power first, (power, piece).
    periodic
        Whether the function is periodic, with the length of the table; else it is NaN outside.
    """

    points: np.ndarray
    coefficients: np.ndarray
    periodic: bool

    @property
    def domain(self) -> tuple[float, float]:
        """First and last point."""
        return float(self.points[0]), float(self.points[-1])

    def derivative(self) -> PiecewisePolynomial:
        """Return the derivative."""
        powers = np.arange(len(self.coefficients) - 1, 0, -1)
        slopes = self.coefficients[:-1] * powers[:, None]
        return PiecewisePolynomial(self.points, slopes, self.periodic)

    def of_arrays(self, x: Any) -> Any:
        """Return values at an array, real or complex (for complex-step derivatives)."""
        first, last = self.domain
        x = np.asarray(x)
        if self.periodic:
            x = x - (last - first) * np.floor((np.real(x) - first) / (last - first))
        real = np.real(x)
        piece = np.searchsorted(self.points, real, side="right") - 1
        piece = np.clip(piece, 0, len(self.points) - 2)
        distance = x - self.points[piece]
        value = self.coefficients[0][piece]
        for coefficient in self.coefficients[1:]:
            value = value * distance + coefficient[piece]
        inside = self.periodic | ((real >= first) & (real <= last))
        return np.where(inside & ~np.isnan(real), value, np.nan)[()]

    def of_tensors(self, x: Any) -> Any:
        """Return values at a tensor, with derivatives by autograd."""
        import torch

        first, last = self.domain
        if self.periodic:
            x = x - (last - first) * torch.floor((x.detach() - first) / (last - first))
        points, coefficients = (
            torch.as_tensor(array, dtype=x.dtype, device=x.device)
            for array in (self.points, self.coefficients)
        )
        # with a last dimension, as vmap refuses an index that is a single number
        real = x.detach().unsqueeze(-1).clone(memory_format=torch.contiguous_format)
        piece = (torch.bucketize(real, points, right=True) - 1).clamp(0, len(points) - 2)
        distance = x.unsqueeze(-1) - points[piece]
        value = coefficients[0][piece] + 0 * distance  # NaN for NaN, of a constant too
        for coefficient in coefficients[1:]:
            value = value * distance + coefficient[piece]
        if not self.periodic:
            inside = (real >= first) & (real <= last)
            value = value * torch.where(inside, 1.0, torch.nan).to(x.dtype)
        return value.squeeze(-1)

    @cached_property
    def _exact(self) -> tuple[list[Any], list[list[Any]]]:
        points = [HIGH.mpf(float(point)) for point in self.points]
        return points, [[HIGH.mpf(float(c)) for c in row] for row in self.coefficients.T]

    def exact(self, x: Any) -> Any:
        """Return the value at a number of mpmath, of the periodic continuation."""
        points, pieces = self._exact
        length = points[-1] - points[0]
        if not points[0] <= HIGH.re(x) <= points[-1]:
            x = x - length * HIGH.floor((HIGH.re(x) - points[0]) / length)
        piece = min(max(bisect_right(points, HIGH.re(x)) - 1, 0), len(pieces) - 1)
        value = HIGH.mpf(0)
        for coefficient in pieces[piece]:
            value = value * (x - points[piece]) + coefficient
        return value

    def machine(self, graph: Any, x: int) -> int:
        """Return the node of a scalar graph: the coefficients by comparisons, then Horner."""

        def chosen(values: Any, start: int, end: int) -> int:
            if end - start == 1:
                return int(graph.constant(float(values[start])))
            middle = (start + end) // 2
            before = graph.greater(graph.constant(float(self.points[middle])), x)
            left, right = chosen(values, start, middle), chosen(values, middle, end)
            return int(graph.where(before, left, right))

        count = len(self.points) - 1
        distance = graph.sub(x, chosen(self.points, 0, count))
        value = graph.mul(graph.constant(0.0), x)
        for coefficient in self.coefficients:
            value = graph.add(graph.mul(value, distance), chosen(coefficient, 0, count))
        nan = graph.constant(np.nan)
        for outside in (
            graph.greater(graph.constant(self.domain[0]), x),
            graph.greater(x, graph.constant(self.domain[1])),
        ):
            value = graph.where(outside, nan, value)
        return int(value)


def cubic_spline(x: np.ndarray, y: np.ndarray, boundary: str) -> PiecewisePolynomial:
    """Return the cubic spline through points, with continuous second derivatives.

    Parameters
    ----------
    x, y
        Coordinates (point,) of the points; ``x`` increases.
    boundary
        Boundary condition: ``"not-a-knot"`` or ``"periodic"``.
    """
    made = scipy.interpolate.CubicSpline(x, y, bc_type=boundary, extrapolate=False)
    return PiecewisePolynomial(made.x, made.c, boundary == "periodic")


def table_function(name: str, spline: PiecewisePolynomial) -> Function:
    """Return the function of the language that a spline defines.

    Derivatives are functions of their own, up to the third, which is constant between points.
    """
    pieces = [spline]
    while len(pieces[-1].coefficients) > 1:
        pieces.append(pieces[-1].derivative())
    function = None
    for order, piece in reversed(list(enumerate(pieces))):
        function = _function(name + "'" * order, piece, function)
    assert function is not None
    return function


def _function(name: str, piece: PiecewisePolynomial, derivative: Function | None) -> Function:
    def slope(algebra: Any, x: Value, _: Value) -> Value:
        return 0 if derivative is None else algebra.call(derivative, x)

    compiled = not piece.periodic and len(piece.points) <= _MOST_COMPILED
    return Function(
        name=name,
        slopes=(slope,),
        numpy=piece.of_arrays,
        torch=lambda torch: piece.of_tensors,
        exact=piece.exact,
        sympy=lambda sympy: sympy.Function(name),
        machine=piece.machine if compiled else None,
        domain=None if piece.periodic else piece.domain,
        local=True,
    )
