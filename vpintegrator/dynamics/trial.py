"""Random points at which what a system file claims is tried.

An identity is tried at random points with a hundred digits: an analytic function that vanishes at
all of them to 30 digits vanishes everywhere, but for a coincidence nobody will live to see. No
formula is expanded for it, so that long ones are checked as quickly as they are computed. Where a
logarithm or a root leaves the real numbers it is continued into the complex.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import (
    Arithmetic,
    Call,
    Product,
    Symbol,
    TooLong,
    Value,
    below,
    evaluator,
)
from vpintegrator.dynamics.expressions.constants import HIGH, high
from vpintegrator.errors import InputError

POINTS = 12
FEWEST = 3  # points that must have finite values, if so many are tried
_FUNCTION = 10  # additions that a function or a power takes as long as
LARGEST_COST = 500_000  # operations at one point
OPERATIONS = 100_000  # at all points together, beyond which fewer points are taken
TOLERANCE = HIGH.mpf(10) ** -30
OF_ROUNDED = HIGH.mpf(10) ** -12  # tolerance if constants are rounded to doubles
_LARGEST_EXPONENT = 1100  # of 2: what a double cannot hold, 100 digits of a sine may take forever

Point = list[Any]


def tolerance_of(equations: Equations) -> Any:
    """Return the tolerance of a check, larger if constants of the equations are rounded."""
    return OF_ROUNDED if equations.rounded or "tables" in equations.table else TOLERANCE


def random_points(dim: int, count: int = POINTS) -> Iterator[Point]:
    """Yield the points, always the same."""
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


_EXACT = Arithmetic(lambda function: function.exact, high, _check_size)


class Formula:
    """Expressions as a function of points."""

    def __init__(self, expressions: Sequence[Value], symbols: Sequence[Symbol]) -> None:
        self._function = evaluator(expressions, symbols, _EXACT)

    def __call__(self, point: Point) -> Point:
        return [HIGH.convert(value) for value in self._function(*point)]

    def at(self, point: Point) -> Point | None:
        """Return values at a point, or None where there are none."""
        try:
            return self(point)
        except (ArithmeticError, ValueError):
            return None


def cost_of(expressions: Sequence[Value]) -> int:
    """Return the cost of an evaluation with 100 digits, in additions."""
    nodes = below(expressions)
    slow = sum(
        isinstance(node, Call)
        or (isinstance(node, Product) and any(e not in (1, -1) for _, e in node.factors))
        for node in nodes
    )
    return sum(len(node.parts) for node in nodes) + _FUNCTION * slow


class Trial:
    """The points at which the claims about a system are tried, with the vector field there.

    Parameters
    ----------
    equations
        Equations of the system.
    images
        Number of further vector field evaluations at each point, for symmetries of bodies.
    candidates
        Points of the trial, instead of random points.
    """

    def __init__(
        self, equations: Equations, images: int = 0, candidates: Iterable[Point] | None = None
    ) -> None:
        self.equations = equations
        self._images = images
        self._candidates = random_points(len(equations.symbols))
        if candidates is not None:
            self._candidates = iter(candidates)
        self.field = Formula(equations.vector_field, equations.symbols)
        self.tolerance = tolerance_of(equations)

    @cached_property
    def points(self) -> list[tuple[Point, Point]]:
        """Points where the vector field has a value, and that."""
        e = self.equations
        cost = cost_of(e.vector_field) * (
            1 + len(e.reversing_symmetries) + bool(e.periods) + self._images
        )
        cost += sum(3 * cost_of([value]) + len(e.symbols) for value in e.invariants.values())
        if cost > LARGEST_COST:
            raise TooLong(f"so much that checking them takes more than {LARGEST_COST} operations")
        wanted = min(max(OPERATIONS // (cost + 1), 1), POINTS)
        found: list[tuple[Point, Point]] = []
        for point in self._candidates:
            rates = self.field.at(point)
            if rates is not None:
                found.append((point, rates))
            if len(found) == wanted:
                break
        return found

    def require(self, judged: int, where: str) -> None:
        """Raise InputError where hardly any point could be judged."""
        if judged < min(max(len(self.points), 1), FEWEST):
            raise InputError(
                f"{where}: cannot be checked, the formula has no finite value at random points"
            )

    def check_image(
        self,
        image: Callable[[Point], Point],
        expected: Callable[[Point], Sequence[Any]],
        where: str,
        what: str,
    ) -> None:
        """Whether the field at images of points is what is expected from that at the points.

        Parameters
        ----------
        image
            Image of a point.
        expected
            Value that f(image(z)) must have, given f(z); None for components that are not compared.
        where, what
            Place of the declaration, and the declared property, for messages.

        Raises
        ------
        InputError
            With the largest deviation, and the point.
        """
        judged, worst, at = 0, HIGH.mpf(0), Point()
        for point, rates in self.points:
            images = self.field.at(image(point))
            if images is None:
                continue
            judged += 1
            pairs = zip(images, expected(rates), strict=True)
            defect = max((abs(a - b) for a, b in pairs if b is not None), default=HIGH.mpf(0))
            if defect > max(worst, self.tolerance * (1 + max(map(abs, rates)))):
                worst, at = defect, point
        if worst:
            raise InputError(
                f"{where}: {what} fails by {shown(worst)} at {place(self.equations, at)}"
            )
        self.require(judged, where)


def shown(value: Any) -> str:
    """Return a number of a hundred digits as messages write it."""
    return HIGH.nstr(value.real if not HIGH.im(value) else value, 3)


def place(equations: Equations, point: Point) -> str:
    """Return the text of a point for messages."""
    named = [
        f"{name} = {HIGH.nstr(value, 3)}"
        for name, value in zip(equations.components[:4], point, strict=False)
    ]
    return ", ".join(named) + (", ..." if len(point) > 4 else "")
