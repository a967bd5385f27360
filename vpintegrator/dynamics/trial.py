"""Random points at which the declared properties of a system file are tried.

An identity is tried at random points with a hundred digits: an analytic function that vanishes at
all of them to 30 digits vanishes everywhere, but for a coincidence nobody will live to see. No
formula is expanded for it, so that long ones are checked as quickly as they are computed. Where a
logarithm or a root leaves the real numbers it is continued into the complex.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
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
_NOTHING = HIGH.mpf(10) ** -40  # of the largest component: far above rounding
OF_ROUNDED = HIGH.mpf(10) ** -12  # tolerance if constants are rounded to doubles
_LARGEST_EXPONENT = 1100  # of 2: what a double cannot hold, 100 digits of a sine may take forever

Point = list[Any]


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


Defect = Callable[[Point, Point], tuple[Any, Any] | None]


class Trial:
    """Points at which the declared properties of a system are tried, with its values there.

    The value at a point is the vector field, or the image after one pass through the stages of a
    map. An identity of one pass holds for any number of iterations.

    Parameters
    ----------
    equations
        Equations of the system.
    candidates
        Points of the trial, instead of random points.

    Attributes
    ----------
    tolerance
        Tolerance of a check, larger if constants of the equations are rounded.
    """

    def __init__(self, equations: Equations, candidates: Iterable[Point] | None = None) -> None:
        self.equations = equations
        self._candidates = random_points(len(equations.symbols))
        if candidates is not None:
            self._candidates = iter(candidates)
        self.tolerance = OF_ROUNDED if equations.rounded else TOLERANCE
        parts = equations.stages or (dict(enumerate(equations.vector_field)),)
        self.stages = [
            (list(part), Formula(list(part.values()), equations.symbols)) for part in parts
        ]

    def at(self, point: Point) -> Point | None:
        """Return the value at a point, or None where there is none."""
        point = list(point)
        for changed, formula in self.stages:
            values = formula.at(point)
            if values is None:
                return None
            for i, value in zip(changed, values, strict=True):
                point[i] = value
        return point

    @cached_property
    def points(self) -> list[tuple[Point, Point]]:
        """Points where the system has a value, and that."""
        e = self.equations
        cost = sum(cost_of(list(part.values())) for part in e.stages) or cost_of(e.vector_field)
        cost *= 1 + e.is_map + len(e.reversing_symmetries) + bool(e.periods)
        cost += sum(3 * cost_of([value]) + len(e.symbols) for value in e.invariants.values())
        if cost > LARGEST_COST:
            raise TooLong(f"so much that checking them takes more than {LARGEST_COST} operations")
        wanted = min(max(OPERATIONS // (cost + 1), 1), POINTS)
        found = ((point, self.at(point)) for point in self._candidates)
        known = ((point, value) for point, value in found if value is not None)
        return list(islice(known, wanted))

    def worst(self, where: str, defect: Defect) -> tuple[Any, Point] | None:
        """Return the largest defect beyond rounding and its point, or None if there is none.

        Parameters
        ----------
        where
            Place of the declaration, for messages.
        defect
            Function of a point and the value there: a defect and the size that it is relative to;
            None where it cannot be judged.

        Raises
        ------
        InputError
            If hardly any point can be judged.
        """
        judged, worst, at = 0, HIGH.mpf(0), None
        for point, value in self.points:
            if (found := defect(point, value)) is None:
                continue
            judged += 1
            if abs(found[0]) > max(abs(worst), self.tolerance * found[1]):
                worst, at = found[0], point
        if at is not None:
            return worst, at
        if judged < min(max(len(self.points), 1), FEWEST):
            what = "map" if self.equations.stages else "formula"
            raise InputError(
                f"{where}: cannot be checked, the {what} has no finite value at random points"
            )
        return None

    def check(self, where: str, what: str, defect: Defect) -> None:
        """Raise InputError where a property does not hold, with the largest deviation.

        Parameters
        ----------
        where, defect
            Arguments of :meth:`worst`.
        what
            Message, with ``{}`` for the deviation.
        """
        if (found := self.worst(where, defect)) is not None:
            at = place(self.equations, found[1])
            raise InputError(f"{where}: {what.format(shown(found[0]))} at {at}")

    def image_defect(
        self,
        image: Callable[[Point, Point], Point],
        expected: Callable[[Point, Point], Sequence[Any]],
        periods: Mapping[int, Any] | None = None,
    ) -> Defect:
        """Return how far values at images of points are from what is expected.

        Parameters
        ----------
        image, expected
            Image of a point, and the value there, from a point and the value at the point.
        periods
            Periods up to which components agree.
        """

        def defect(point: Point, value: Point) -> tuple[Any, Any] | None:
            moved = image(point, value)
            found = self.at(moved)
            if found is None:
                return None
            wanted, worst = expected(point, value), (HIGH.mpf(0), HIGH.mpf(1))
            turns = periods or {}
            largest = 1 + max(map(abs, [*value, *found]))
            sizes = moved if self.equations.stages else value
            for i, (a, b, size) in enumerate(zip(found, wanted, sizes, strict=True)):
                if b is not None:
                    change = difference([a], [b], {0: turns[i]} if i in turns else {})
                    # components have different units; one that vanishes has rounding errors alone
                    relative = change, abs(a) + abs(b) + abs(size) + _NOTHING * largest
                    worst = max(worst, relative, key=lambda each: each[0] / each[1])
            return worst

        return defect

    def check_image(
        self,
        image: Callable[[Point, Point], Point],
        expected: Callable[[Point, Point], Sequence[Any]],
        where: str,
        what: str,
    ) -> None:
        """Check that values at images are what is expected: ``check`` and ``image_defect``."""
        self.check(where, what, self.image_defect(image, expected))


def difference(found: Point, expected: Sequence[Any], periods: Mapping[int, Any]) -> Any:
    """Return the largest difference of components, those of angles up to their periods."""
    largest = HIGH.mpf(0)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        change = a - b
        if i in periods:
            change -= HIGH.nint(HIGH.re(change) / periods[i]) * periods[i]
        largest = max(largest, abs(change))
    return largest


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
