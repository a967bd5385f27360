"""Checks of the invariants, symmetries, angles, volume and form that a system file declares."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, product
from typing import Any

import numpy as np

from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import (
    Arithmetic,
    Call,
    Expression,
    Number,
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


class TrialPoints:
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


_STEP = HIGH.mpf(10) ** -30  # step of a central difference, whose error is the square of the step
_LARGEST = 64  # components of a map whose determinant is computed with a hundred digits
_KEPT = {
    "symplectic": ("the form dq dp is kept", "the symplectic form"),
    "divergence_free": ("the determinant is 1", "volume"),
}


def check_identities(trial: TrialPoints, source: str) -> tuple[bool, bool]:
    """Check the declared properties; return whether volume and the symplectic form are preserved.

    Raises
    ------
    InputError
        Naming the first property that does not hold, and a point where it fails.
    """
    e = trial.equations
    if not e.stages and not e.vector_field:  # measured: the declaration is believed
        if e.symplectic and e.divergence_free is False:
            raise InputError(
                f"{source}, divergence_free: the file says false, but symplectic maps preserve "
                "volume"
            )
        return bool(e.divergence_free or e.symplectic), bool(e.symplectic)
    for name, invariant in e.invariants.items():
        # a Hamiltonian without time is constant by the antisymmetry of Hamilton's equations
        if e.stages or invariant is not e.hamiltonian or e.explicit_time is not None:
            _check_invariant(trial, invariant, f"{source}, [invariants] {name}")
    for number, rho in enumerate(e.reversing_symmetries, start=1):
        _check_symmetry(trial, rho, f"{source}, [[reversing_symmetry]] {number}")
    time = e.explicit_time
    angles = {i: high(period) for i, period in e.periods.items() if i != time}
    if angles:
        what = "where angles turn by their periods,"
        _check_periods(trial, angles, f"{source}, [periodic]", what)
    if time in e.periods:
        periods = {time: high(e.periods[time])}
        _check_periods(trial, periods, f"{source}, period", "after whole periods,")
    if e.stages:
        return _map_structure(trial, source)
    free = e.hamiltonian is not None or _divergence_vanishes(trial, source)
    if e.divergence_free is False and free:
        raise InputError(f"{source}, divergence_free: the file says false, but the divergence is 0")
    return free, e.hamiltonian is not None or bool(e.symplectic)


def vanishes(value: Value, symbols: Sequence[Symbol]) -> bool:
    """Whether a formula is zero wherever it has a value, as far as random points tell."""
    if not isinstance(value, Expression):
        return value == 0
    formula = Formula([value], symbols)
    found = [formula.at(point) for point in random_points(len(symbols))]
    known = [entry[0] for entry in found if entry is not None]
    # all digits but those that rounding may have taken, as the size of the terms is not known
    return bool(known) and all(abs(entry) <= TOLERANCE**2 for entry in known)


def _check_invariant(trial: TrialPoints, invariant: Value, where: str) -> None:
    formula, is_map = Formula([invariant], trial.equations.symbols), bool(trial.equations.stages)

    def change(point: Point, value: Point) -> tuple[Any, Any] | None:
        before, after = formula.at(point), formula.at(value)
        if before is None or after is None:
            return None
        return after[0] - before[0], 1 + abs(before[0])

    def rate(point: Point, rates: Point) -> tuple[Any, Any] | None:
        speed = 1 + max(map(abs, rates))
        middle, ahead, behind = (
            formula.at([z + side * dz for z, dz in zip(point, rates, strict=True)])
            for side in (0, _STEP / speed, -_STEP / speed)
        )
        if middle is None or ahead is None or behind is None:
            return None
        return (ahead[0] - behind[0]) / (2 * _STEP) * speed, (1 + abs(middle[0])) * speed

    what = "the map changes it by {}" if is_map else "its time derivative is {}"
    along = "" if is_map else " along solutions"
    trial.check(where, f"this is not constant{along}: {what}", change if is_map else rate)


def _check_symmetry(trial: TrialPoints, rho: Sequence[Mapping[int, Number]], where: str) -> None:
    """Check f(rho z) = -rho f(z), or M(rho M(z)) = rho z."""
    entries = [[(j, high(c)) for j, c in row.items()] for row in rho]

    def moved(vector: Point) -> Point:
        return [HIGH.fsum(c * vector[j] for j, c in row) for row in entries]

    if trial.equations.stages:
        what = "this does not reverse the map M, rho M rho M = identity fails by {}"
        trial.check_image(lambda _, image: moved(image), lambda z, _: moved(z), where, what)
        return
    what = "this does not reverse the system, f(rho z) = -rho f(z) fails by {}"
    trial.check_image(
        lambda z, _: moved(z), lambda _, rates: [-rate for rate in moved(rates)], where, what
    )


def _check_periods(trial: TrialPoints, periods: Mapping[int, Any], where: str, what: str) -> None:
    """Check values after random numbers of turns of all angles."""
    generator, is_map = random.Random(20231219), bool(trial.equations.stages)

    def turned(point: Point, _: Point) -> Point:
        return [
            z + generator.randint(1, 1000) * periods[i] if i in periods else z
            for i, z in enumerate(point)
        ]

    text = f"the {'image' if is_map else 'vector field'} changes by {{}} {what}"
    defect = trial.image_defect(turned, lambda _, value: value, periods if is_map else None)
    trial.check(where, text, defect)


def _divergence_vanishes(trial: TrialPoints, source: str) -> bool:
    """Whether the divergence is zero; raises InputError where the file says so in vain."""
    slopes = [slope for slope in trial.equations.own_slopes if slope != 0]
    if not slopes:
        return True
    formula = Formula(slopes, trial.equations.symbols)

    def divergence(point: Point, _: Point) -> tuple[Any, Any] | None:
        values = formula.at(point)
        # rounding is judged against the size of the terms that ought to cancel
        return None if values is None else (HIGH.fsum(values), 1 + HIGH.fsum(map(abs, values)))

    where = f"{source}, divergence_free"
    if trial.equations.divergence_free:
        what = "the divergence of the vector field is {}, not zero,"
        trial.check(where, what, divergence)
    return trial.worst(where, divergence) is None


def _map_structure(trial: TrialPoints, source: str) -> tuple[bool, bool]:
    """Whether det DM = 1 and DM^T J DM = J; raises InputError where the file says otherwise."""
    e, dim = trial.equations, len(trial.equations.symbols)
    declared: dict[str, bool | None] = {key: getattr(e, key) for key in _KEPT}
    if dim > _LARGEST:
        if any(declared.values()):
            raise InputError(
                f"{source}: volume and form are checked for maps of up to {_LARGEST} components, "
                f"not {dim}"
            )
        return False, False
    slopes = _slopes(trial)
    if not slopes:
        raise InputError(f"{source}, [map]: cannot be checked, the map has no finite derivatives")
    found, proposals = {}, []
    for key, (what, name) in _KEPT.items():
        defects = [_structure_defect(matrix, key, e) for matrix, _ in slopes]
        worst, point = max(zip(defects, (at for _, at in slopes), strict=True), key=lambda d: d[0])
        if worst > OF_ROUNDED and declared[key]:
            raise InputError(
                f"{source}, {key}: that {what} fails by {shown(worst)}, relative to the "
                f"derivatives, at {place(e, point)}"
            )
        # declared identities may fail by the rounding of the file's decimals
        found[key] = bool(worst <= (OF_ROUNDED if declared[key] else trial.tolerance))
        if declared[key] is False and found[key]:
            raise InputError(f"{source}, {key}: the file says false, but the map keeps it")
        if worst <= OF_ROUNDED:
            proposals.append(f"the map preserves {name} to {shown(worst)}; say {key} = true")
    if proposals and not any(found.values()) and set(declared.values()) == {None}:
        warnings.warn(f"{source}: {proposals[0]}", stacklevel=2)
    # symplectic maps keep the volume, too
    return any(found.values()), found["symplectic"]


def _slopes(trial: TrialPoints) -> list[tuple[Any, Point]]:
    """Return the matrices of derivatives of a map with their points."""
    e = trial.equations
    slopes = [(list(each), Formula(list(each.values()), e.symbols)) for each in e.stage_slopes]
    found = []
    for start, _ in trial.points:
        dim, point = len(start), list(start)
        rows = [[HIGH.mpf(i == j) for j in range(dim)] for i in range(dim)]
        for (changed, formula), (places, factors) in zip(trial.stages, slopes, strict=True):
            values, numbers = formula.at(point), factors.at(point)
            if values is None or numbers is None:
                break
            new = {i: [HIGH.mpf(0)] * dim for i in changed}
            for (i, j), factor in zip(places, numbers, strict=True):
                new[i] = [a + factor * b for a, b in zip(new[i], rows[j], strict=True)]
            for i, value in zip(changed, values, strict=True):
                rows[i], point[i] = new[i], value
        else:
            found.append((HIGH.matrix(rows), start))
    return found


def _structure_defect(slopes: Any, key: str, e: Equations) -> Any:
    """Return det D - 1, or the largest entry of D^T J D - J, relative to the derivatives.

    Components are measured in units in which the derivatives are about 1.
    """
    units = _balancing_units(slopes)
    dim, ratios = range(slopes.rows), HIGH.matrix(slopes.rows)
    for i, j in product(dim, repeat=2):
        ratios[i, j] = slopes[i, j] * units[j] / units[i]
    scale = 1 + max(abs(entry) for entry in ratios)
    if key == "divergence_free":
        return abs(HIGH.det(ratios) - 1) / scale**slopes.rows
    if slopes.rows % 2:
        return HIGH.inf
    positions, momenta = (HIGH.matrix([list(slopes[i, :]) for i in each]) for each in e.halves)
    form = positions.T * momenta - momenta.T * positions
    for q, p in zip(*e.halves, strict=True):
        form[q, p] -= 1
        form[p, q] += 1
        ratio = HIGH.sqrt(units[q] / units[p])  # units that keep the form
        units[q], units[p] = ratio, 1 / ratio
    return max(abs(form[i, j]) * units[i] * units[j] for i, j in product(dim, repeat=2)) / scale**2


def _balancing_units(slopes: Any) -> list[Any]:
    """Return units of the components in which logarithms of derivatives are least in squares."""
    normal, right = np.zeros((slopes.rows, slopes.rows)), np.zeros(slopes.rows)
    for i, j in product(range(slopes.rows), repeat=2):
        if i != j and slopes[i, j] != 0:
            size = float(HIGH.log10(abs(slopes[i, j])))
            normal[[i, j], [i, j]] += 1
            normal[[i, j], [j, i]] -= 1
            right[[i, j]] += size, -size
    exponents = np.linalg.lstsq(normal, right, rcond=None)[0]
    return [HIGH.mpf(10) ** float(exponent) for exponent in exponents]
