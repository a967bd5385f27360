"""What a system file claims is checked when it is loaded.

An identity is tried at random points with a hundred digits: an analytic function that vanishes at
all of them to 30 digits vanishes everywhere, but for a coincidence nobody will live to see. No
formula is expanded for it, so that long ones are checked as quickly as they are computed. Where a
logarithm or a root leaves the real numbers it is continued into the complex.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from vpintegrator.dynamics.algebra import (
    Call,
    Expression,
    Power,
    Product,
    Symbol,
    TooLong,
    Value,
    below,
)
from vpintegrator.dynamics.constants import HIGH, HIGH_FUNCTIONS, Number, high
from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.evaluation import evaluator
from vpintegrator.errors import InputError

_POINTS = 12
_FEWEST = 3  # that must have finite values, where so many are tried
_FUNCTION = 10  # additions that a function or a power takes as long as
_LARGEST_COST = 500_000  # operations at one point
_OPERATIONS = 100_000  # at all points together, beyond which fewer points are taken
_TOLERANCE = HIGH.mpf(10) ** -30
_STEP = HIGH.mpf(10) ** -30  # of a central difference, whose error is its square
_LARGEST_EXPONENT = 1100  # of 2: what a double cannot hold, 100 digits of a sine may take forever

Point = list[Any]


def check_identities(equations: Equations, source: str) -> bool:
    """Check invariants, symmetries, periods and divergence; return whether the latter is zero.

    Raises
    ------
    InputError
        Naming the first claim that does not hold, and a point where it fails.
    """
    if not equations.vector_field:  # measured: what is said of it is believed
        return bool(equations.divergence_free)
    trial = _Trial(equations)
    trial.check_invariants(source)
    for number, rho in enumerate(equations.reversing_symmetries, start=1):
        trial.check_symmetry(rho, f"{source}, [[reversing_symmetry]] {number}")
    if equations.periods:
        trial.check_periods(f"{source}, [periodic]")
    free = equations.hamiltonian is not None or trial.divergence_vanishes(source)
    if equations.divergence_free is False and free:
        raise InputError(f"{source}, divergence_free: the file says false, but the divergence is 0")
    return free


def vanishes(value: Value, symbols: Sequence[Symbol]) -> bool:
    """Whether a formula is zero wherever it has a value, as far as random points tell."""
    if not isinstance(value, Expression):
        return value == 0
    formula = _Formula([value], symbols)
    found = [formula.at(point) for point in _points(len(symbols))]
    known = [entry[0] for entry in found if entry is not None]
    # all digits but those that rounding may have taken, as the size of the terms is not known
    return bool(known) and all(abs(entry) <= _TOLERANCE**2 for entry in known)


def _points(dim: int, count: int = _POINTS) -> Iterator[Point]:
    """The random points, always the same."""
    generator = random.Random(20231219)
    for _ in range(count):
        yield [HIGH.mpf(generator.gauss(0.0, 1.0)) for _ in range(dim)]


def _check_size(value: Any) -> None:
    """Refuse values that a double cannot hold, in the middle of a formula too."""
    parts = value._mpc_ if isinstance(value, HIGH.mpc) else (HIGH.convert(value)._mpf_,)
    for _, mantissa, exponent, length in parts:
        infinite = not mantissa and exponent
        if infinite or exponent + length > _LARGEST_EXPONENT:
            raise OverflowError


_FUNCTIONS = {**HIGH_FUNCTIONS, "sqrt": HIGH.sqrt}


class _Formula:
    """Expressions as a function of points."""

    def __init__(self, expressions: Sequence[Value], symbols: Sequence[Symbol]) -> None:
        self._function = evaluator(expressions, symbols, _FUNCTIONS, high, _check_size)

    def __call__(self, point: Point) -> Point:
        return [HIGH.convert(value) for value in self._function(*point)]

    def at(self, point: Point) -> Point | None:
        """Values at a point, or None where there are none."""
        try:
            return self(point)
        except (ArithmeticError, ValueError):
            return None


def _cost(expressions: Sequence[Value]) -> int:
    """How long 100 digits take, in additions."""
    nodes = below(expressions)
    slow = sum(
        isinstance(node, Call | Power)
        or (isinstance(node, Product) and any(e not in (1, -1) for _, e in node.factors))
        for node in nodes
    )
    return sum(len(node.parts) for node in nodes) + _FUNCTION * slow


class _Trial:
    """The points at which the claims about a system are tried, with the vector field there."""

    def __init__(self, equations: Equations) -> None:
        self.equations = equations
        self.field = _Formula(equations.vector_field, equations.symbols)

    @cached_property
    def points(self) -> list[tuple[Point, Point]]:
        """Points where the vector field has a value, and that."""
        e = self.equations
        cost = _cost(e.vector_field) * (1 + len(e.reversing_symmetries) + bool(e.periods))
        cost += sum(3 * _cost([value]) + len(e.symbols) for value in e.invariants.values())
        if cost > _LARGEST_COST:
            raise TooLong(f"so much that checking them takes more than {_LARGEST_COST} operations")
        wanted = min(max(_OPERATIONS // (cost + 1), 1), _POINTS)
        found: list[tuple[Point, Point]] = []
        for point in _points(len(e.symbols)):
            rates = self.field.at(point)
            if rates is not None:
                found.append((point, rates))
            if len(found) == wanted:
                break
        return found

    def require(self, judged: int, where: str) -> None:
        """Raise InputError where hardly any point could be judged."""
        if judged < min(max(len(self.points), 1), _FEWEST):
            raise InputError(
                f"{where}: cannot be checked, the formula has no finite value at random points"
            )

    def check_invariants(self, source: str) -> None:
        """Whether they are constant along solutions."""
        # a Hamiltonian is constant by the antisymmetry of Hamilton's equations
        for name, invariant in self.equations.invariants.items():
            if invariant is not self.equations.hamiltonian:
                self._check_invariant(invariant, f"{source}, [invariants] {name}")

    def _check_invariant(self, invariant: Value, where: str) -> None:
        formula = _Formula([invariant], self.equations.symbols)
        judged = 0
        for point, rates in self.points:
            speed = 1 + max(map(abs, rates))
            values = [
                formula.at([z + side * dz for z, dz in zip(point, rates, strict=True)])
                for side in (0, _STEP / speed, -_STEP / speed)
            ]
            if any(value is None for value in values):
                continue
            judged += 1
            value, ahead, behind = (entry[0] for entry in values if entry is not None)
            slope = (ahead - behind) / (2 * _STEP)
            if abs(slope) > _TOLERANCE * (1 + abs(value)):
                raise InputError(
                    f"{where}: this is not constant along solutions: its time derivative "
                    f"{_number(slope * speed)} at {_describe(self.equations, point)}"
                )
        self.require(judged, where)

    def check_symmetry(self, rho: Sequence[Mapping[int, Number]], where: str) -> None:
        """Whether f(rho z) = -rho f(z)."""
        entries = [[(j, high(c)) for j, c in row.items()] for row in rho]

        def moved(vector: Point) -> Point:
            return [HIGH.fsum(c * vector[j] for j, c in row) for row in entries]

        judged = 0
        for point, rates in self.points:
            images = self.field.at(moved(point))
            if images is None:
                continue
            judged += 1
            defects = [a + b for a, b in zip(images, moved(rates), strict=True)]
            if (defect := max(map(abs, defects))) > _TOLERANCE * (1 + max(map(abs, rates))):
                raise InputError(
                    f"{where}: this does not reverse the system, f(rho z) = -rho f(z) fails by "
                    f"{_number(defect)} at {_describe(self.equations, point)}"
                )
        self.require(judged, where)

    def check_periods(self, where: str) -> None:
        """Whether f is the same after random numbers of turns of all angles."""
        periods = {i: high(period) for i, period in self.equations.periods.items()}
        generator = random.Random(20231219)
        judged = 0
        for point, rates in self.points:
            turned = list(point)
            for i, period in periods.items():
                turned[i] += generator.randint(1, 1000) * period
            again = self.field.at(turned)
            if again is None:
                continue
            judged += 1
            defect = max(abs(a - b) for a, b in zip(again, rates, strict=True))
            if defect > _TOLERANCE * (1 + max(map(abs, rates))):
                raise InputError(
                    f"{where}: the vector field changes by {_number(defect)} where angles turn by "
                    f"their periods, at {_describe(self.equations, point)}"
                )
        self.require(judged, where)

    def divergence_vanishes(self, source: str) -> bool:
        """Whether the divergence is zero; raises InputError where the file says so in vain."""
        slopes = [slope for slope in self.equations.own_slopes if slope != 0]
        if not slopes:
            return True
        where = f"{source}, divergence_free"
        formula = _Formula(slopes, self.equations.symbols)
        judged = 0
        for point, _ in self.points:
            if (values := formula.at(point)) is None:
                continue
            judged += 1
            # rounding is judged against the size of the terms that ought to cancel
            total, size = HIGH.fsum(values), HIGH.fsum(map(abs, values))
            if abs(total) > _TOLERANCE * (1 + size):
                if self.equations.divergence_free:
                    raise InputError(
                        f"{where}: the divergence of the vector field is {_number(total)}, not "
                        f"zero, at {_describe(self.equations, point)}"
                    )
                return False
        self.require(judged, where)
        return True


def _number(value: Any) -> str:
    return HIGH.nstr(value.real if not HIGH.im(value) else value, 3)


def _describe(equations: Equations, point: Point) -> str:
    shown = [
        f"{name} = {HIGH.nstr(value, 3)}"
        for name, value in zip(equations.components[:4], point, strict=False)
    ]
    return ", ".join(shown) + (", ..." if len(point) > 4 else "")
