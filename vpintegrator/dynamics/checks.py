"""What a system file claims is checked when it is loaded.

An identity is tried at random points with a hundred digits: an analytic function that vanishes at
all of them to 30 digits vanishes everywhere, but for a coincidence nobody will live to see. No
formula is differentiated or expanded for it, so that long ones are checked as quickly as they are
computed. Where a logarithm or a root leaves the real numbers it is continued into the complex.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import sympy

from vpintegrator.dynamics.compile import compile_expressions, high_precision
from vpintegrator.dynamics.equations import Equations
from vpintegrator.errors import InputError

_POINTS = 12
_DIGITS = 100
_TOLERANCE = mpmath.mpf(10) ** -30
_STEP = mpmath.mpf(10) ** -30  # of a central difference, whose error is its square

Point = list[Any]


def check_claims(equations: Equations, source: str) -> bool:
    """Check invariants, reversing symmetries and divergence; return whether the latter is zero.

    Raises
    ------
    InputError
        Naming the first claim that does not hold, and a point where it fails.
    """
    if not equations.vector_field:  # measured: what is said of it is believed
        return bool(equations.divergence_free)
    field = _Formulas(equations, list(equations.vector_field))
    with mpmath.workdps(_DIGITS):
        _check_invariants(equations, field, source)
        for number, rho in enumerate(equations.reversing_symmetries, start=1):
            where = f"{source}, [[reversing_symmetry]] {number}"
            _check_symmetry(rho, field, where)
        free = equations.hamiltonian is not None or _divergence_vanishes(equations, source)
    if equations.divergence_free is False and free:
        raise InputError(f"{source}, divergence_free: the file says false, but the divergence is 0")
    return free


class _Formulas:
    """Expressions as a function of points, and points where all of them have finite values."""

    def __init__(self, equations: Equations, expressions: list[sympy.Expr]) -> None:
        self.equations = equations
        symbols, values = equations.symbols, equations.values
        self._exact = high_precision(expressions, symbols, values)
        self._estimate = compile_expressions(expressions, symbols, values, "numpy")

    def __call__(self, point: Point) -> Point:
        return [mpmath.mpmathify(value) for value in self._exact(*point)]

    def finite(self, point: Point) -> bool:
        """Whether doubles hold the values: for exp(exp(...)), say, 100 digits take forever."""
        with np.errstate(all="ignore"):
            values = self._estimate(*[np.complex128(complex(z)) for z in point])
        return bool(np.isfinite(np.array(values, dtype=np.complex128)).all())


def _points(where: str, *formulas: _Formulas) -> Iterator[tuple[Point, list[Point]]]:
    """Random points with the values of formulas at them.

    Raises
    ------
    InputError
        If hardly any have finite values.
    """
    generator = random.Random(20231219)
    judged = 0
    for _ in range(_POINTS):
        symbols = formulas[0].equations.symbols
        point = [mpmath.mpf(generator.gauss(0.0, 1.0)) for _ in symbols]
        if not all(formula.finite(point) for formula in formulas):
            continue
        try:
            values = [formula(point) for formula in formulas]
        except (ArithmeticError, ValueError, MemoryError):
            continue  # outside the domain
        judged += 1
        yield point, values
    if judged < 3:
        raise InputError(
            f"{where}: cannot be checked, the formula has no finite value at random points"
        )


def _check_invariants(equations: Equations, field: _Formulas, source: str) -> None:
    # a Hamiltonian is constant by the antisymmetry of Hamilton's equations
    claims = {
        name: invariant
        for name, invariant in equations.invariants.items()
        if invariant != equations.hamiltonian
    }
    for name, invariant in claims.items():
        where = f"{source}, [invariants] {name}"
        formula = _Formulas(equations, [invariant])
        for point, (rates, (value,)) in _points(where, field, formula):
            speed = 1 + max(map(abs, rates))
            move = [_STEP / speed * rate for rate in rates]
            ahead, behind = (
                formula([z + sign * dz for z, dz in zip(point, move, strict=True)])[0]
                for sign in (1, -1)
            )
            slope = (ahead - behind) / (2 * _STEP)
            if abs(slope) > _TOLERANCE * (1 + abs(value)):
                raise InputError(
                    f"{where}: this is not constant along solutions: its time derivative "
                    f"{_number(slope * speed)} at {_describe(equations, point)}"
                )


def _check_symmetry(rho: sympy.ImmutableMatrix, field: _Formulas, where: str) -> None:
    equations = field.equations
    entries = [
        [(j, mpmath.mpmathify(rho[i, j])) for j in range(rho.cols) if rho[i, j] != 0]
        for i in range(rho.rows)
    ]

    def moved(vector: Point) -> Point:
        return [mpmath.fsum(entry * vector[j] for j, entry in row) for row in entries]

    for point, (rates,) in _points(where, field):
        defects = [a + b for a, b in zip(field(moved(point)), moved(rates), strict=True)]
        if (defect := max(map(abs, defects))) > _TOLERANCE * (1 + max(map(abs, rates))):
            raise InputError(
                f"{where}: this does not reverse the system, f(rho z) = -rho f(z) fails by "
                f"{_number(defect)} at {_describe(equations, point)}"
            )


def _divergence_vanishes(equations: Equations, source: str) -> bool:
    slopes = [f.diff(z) for f, z in zip(equations.vector_field, equations.symbols, strict=True)]
    slopes = [slope for slope in slopes if slope != 0]
    where = f"{source}, divergence_free"
    for point, (values,) in _points(where, _Formulas(equations, slopes)) if slopes else ():
        # rounding is judged against the size of the terms that ought to cancel
        total, size = mpmath.fsum(values), mpmath.fsum(map(abs, values))
        if abs(total) > _TOLERANCE * (1 + size):
            if equations.divergence_free:
                raise InputError(
                    f"{where}: the divergence of the vector field is {_number(total)}, not zero, "
                    f"at {_describe(equations, point)}"
                )
            return False
    return True


def _number(value: Any) -> str:
    return mpmath.nstr(value.real if not mpmath.im(value) else value, 3)


def _describe(equations: Equations, point: Point) -> str:
    shown = [
        f"{name} = {mpmath.nstr(value, 3)}"
        for name, value in zip(equations.components[:4], point, strict=False)
    ]
    return ", ".join(shown) + (", ..." if len(point) > 4 else "")
