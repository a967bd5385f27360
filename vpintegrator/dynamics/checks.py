"""What a system file claims is checked when it is loaded.

An identity is tried symbolically where expanding is quick, and otherwise at random points with 50
digits: an analytic function that vanishes at all of them to 30 digits vanishes everywhere, but for
a coincidence nobody will live to see.
"""

from __future__ import annotations

import math
import random

import mpmath
import numpy as np
import sympy

from vpintegrator.dynamics.compile import compile_expressions, high_precision
from vpintegrator.dynamics.equations import Equations
from vpintegrator.errors import InputError

_POINTS = 12
_DIGITS = 50
_TOLERANCE = mpmath.mpf(10) ** -30
_QUICK = 1000  # terms that SymPy expands in milliseconds


def check_claims(equations: Equations, source: str) -> bool:
    """Check invariants, reversing symmetries and divergence; return whether the latter is zero.

    Raises
    ------
    InputError
        Naming the first claim that does not hold, and a point where it fails.
    """
    field = equations.vector_field
    for name, invariant in equations.invariants.items():
        if invariant == equations.hamiltonian:
            continue  # constant by the antisymmetry of Hamilton's equations
        change = [
            invariant.diff(z) * f for z, f in zip(equations.symbols, field, strict=True) if f != 0
        ]
        _require(
            _vanishes(equations, [sympy.Add(*change)], f"{source}, [invariants] {name}"),
            f"{source}, [invariants] {name}: this is not constant along solutions: "
            "its time derivative {value} at {point}",
        )
    for number, rho in enumerate(equations.reversing_symmetries, start=1):
        images = rho * sympy.Matrix(equations.symbols)
        moved = dict(zip(equations.symbols, images, strict=True))
        defects = [
            f.xreplace(moved) + sum(rho[i, j] * field[j] for j in range(len(field)))
            for i, f in enumerate(field)
        ]
        where = f"{source}, [[reversing_symmetry]] {number}"
        _require(
            _vanishes(equations, defects, where),
            f"{where}: this does not reverse the system, f(rho z) = -rho f(z) fails by {{value}} "
            "at {point}",
        )
    if equations.hamiltonian is not None:
        free = True
        failure = None
    else:
        failure = _vanishes(equations, [equations.divergence], f"{source}, divergence")
        free = failure is None
    if equations.divergence_free and not free:
        _require(
            failure,
            f"{source}, divergence_free: the divergence of the vector field is {{value}}, "
            "not zero, at {{point}}",
        )
    if equations.divergence_free is False and free:
        raise InputError(f"{source}, divergence_free: the file says false, but the divergence is 0")
    return free


def _require(failure: tuple[str, str] | None, message: str) -> None:
    if failure is not None:
        raise InputError(message.replace("{value}", failure[0]).replace("{point}", failure[1]))


def _vanishes(
    equations: Equations, expressions: list[sympy.Expr], where: str
) -> tuple[str, str] | None:
    """None if all expressions vanish identically, else a value and the point where it stands."""
    rest = [e.xreplace(equations.values) for e in expressions]
    rest = [e for e in rest if not (_terms(e) < _QUICK and sympy.expand(e) == 0)]
    if not rest:
        return None
    # rounding is judged against the size of the terms that ought to cancel
    terms = [sympy.Add.make_args(e) for e in rest]
    flat = [t for group in terms for t in group]
    function = high_precision(flat, equations.symbols, {})
    estimate = compile_expressions(flat, equations.symbols, {}, "numpy")
    generator = random.Random(20231219)
    judged = 0
    with mpmath.workdps(_DIGITS):
        for _ in range(_POINTS):
            point = [mpmath.mpf(generator.gauss(0.0, 1.0)) for _ in equations.symbols]
            # where doubles overflow, exp(exp(...)) say, 50 digits would take forever
            with np.errstate(all="ignore"):
                if not np.isfinite([float(v) for v in estimate(*map(np.float64, point))]).all():
                    continue
            try:
                values = function(*point)
            except (ArithmeticError, ValueError, OverflowError, MemoryError):
                continue  # outside the domain
            judged += 1
            start = 0
            for group in terms:
                part = [mpmath.mpmathify(v) for v in values[start : start + len(group)]]
                start += len(group)
                total, size = abs(mpmath.fsum(part)), mpmath.fsum(abs(v) for v in part)
                if total > _TOLERANCE * (1 + size):
                    return mpmath.nstr(total, 3), _describe(equations, point)
    if judged < 3:
        raise InputError(
            f"{where}: cannot be checked, the formula has no finite value at random points"
        )
    return None


def _terms(expression: sympy.Expr) -> float:
    """Upper bound of the number of terms that expanding gives."""
    if expression.is_Add:
        return sum(_terms(term) for term in expression.args)
    if expression.is_Mul:
        return math.prod(_terms(factor) for factor in expression.args)
    if expression.is_Pow and expression.exp.is_Integer:
        base = _terms(expression.base)
        return base ** min(abs(int(expression.exp)), 30) if base > 1 else 1
    return max((_terms(argument) for argument in expression.args), default=1)


def _describe(equations: Equations, point: list[mpmath.mpf]) -> str:
    shown = [
        f"{name} = {mpmath.nstr(value, 3)}"
        for name, value in zip(equations.components[:4], point, strict=False)
    ]
    return ", ".join(shown) + (", ..." if len(point) > 4 else "")
