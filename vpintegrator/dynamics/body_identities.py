"""Checks of the symmetries ``[[symmetry]]`` that a system file declares, at loading.

Translations, rotations and permutations are checked at random points. In a row each body depends on
neighbours up to a certain distance, the reach. Bodies farther than the reach from both ends must
have the same equations. Near a wall bodies must move as bodies inside do if the pattern of states
is odd about a body at rest. A row shorter than the reach requires is checked at a larger length, if
a parameter sets the length.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vpintegrator.dynamics.bodies import Bodies
from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions import Expression
from vpintegrator.dynamics.expressions.constants import HIGH
from vpintegrator.dynamics.reading import read_equations
from vpintegrator.dynamics.trial import Point, Trial
from vpintegrator.errors import InputError

_IMAGES = {"pairs": 2, "ring": 1, "chain": 1, "walls": 3}  # values of the field at each point
_LONG_ENOUGH = 16  # a row in which all bodies see each other is none
_MOST_TRIED = 3  # parameters that might set the length of a row
_SEED = 20231219


def images_of(bodies: Bodies | None) -> int:
    """Return the number of evaluations of the vector field that the checks take at each point."""
    if bodies is None:
        return 0
    return bodies.translations + bodies.rotations + _IMAGES.get(bodies.topology, 0)


def check_bodies(trial: Trial, bodies: Bodies, source: str) -> None:
    """Check translations, rotations and permutations.

    Raises
    ------
    InputError
        Naming the first that is no symmetry, the largest deviation, and a point where it is found.
    """
    if not trial.equations.vector_field:  # measured: what is said of it is believed
        return
    where = f"{source}, [[symmetry]]"
    if bodies.translations:
        _check_translations(trial, bodies, where)
    if bodies.rotations:
        _check_rotations(trial, bodies, where)
    if bodies.topology == "pairs":
        _check_exchanges(trial, bodies, where)
    elif bodies.topology == "ring":
        places = [(body + 1) % bodies.count for body in range(bodies.count)]
        what = "along = ring: f, where all bodies move on by a place,"
        _check_permutation(trial, bodies, places, where, what)
    elif bodies.topology:
        _check_row(trial, bodies, where)


def _check_translations(trial: Trial, bodies: Bodies, where: str) -> None:
    generator = random.Random(_SEED)
    vector = [HIGH.mpf(generator.gauss(0.0, 1.0)) for _ in range(bodies.dimension)]
    half = bodies.count * bodies.dimension

    def image(point: Point, _: Point) -> Point:
        return [z + vector[i % bodies.dimension] if i < half else z for i, z in enumerate(point)]

    what = "translate: f(q + shift, p) = f(q, p) fails by {}"
    trial.check_image(image, lambda _, rates: rates, where, what)


def _check_rotations(trial: Trial, bodies: Bodies, where: str) -> None:
    turn = _rotation(bodies.dimension)

    def turned(point: Point) -> Point:
        vectors = (point[i : i + bodies.dimension] for i in range(0, len(point), bodies.dimension))
        return [HIGH.fdot(row, vector) for vector in vectors for row in turn]

    what = "rotate: f(R z) = R f(z) for a rotation R fails by {}"
    trial.check_image(lambda z, _: turned(z), lambda _, rates: turned(rates), where, what)


def _rotation(dimension: int) -> list[Point]:
    """Return a matrix that turns the plane, or space about an axis that is none of coordinates."""
    generator = random.Random(_SEED)
    matrix = [[HIGH.mpf(i == j) for j in range(dimension)] for i in range(dimension)]
    for i, j in [(0, 1), (1, 2), (0, 2)] if dimension == 3 else [(0, 1)]:
        angle = HIGH.mpf(generator.uniform(0.5, 2.5))
        c, s = HIGH.cos(angle), HIGH.sin(angle)
        rows = [*zip(matrix[i], matrix[j], strict=True)]
        matrix[i] = [c * a - s * b for a, b in rows]
        matrix[j] = [s * a + c * b for a, b in rows]
    return matrix


def _check_exchanges(trial: Trial, bodies: Bodies, where: str) -> None:
    """Check a cycle and an exchange within each species, which generate all permutations."""
    generator = random.Random(_SEED)
    cycle, exchange = list(range(bodies.count)), list(range(bodies.count))
    for kind in {*bodies.species}:
        alike = [body for body in range(bodies.count) if bodies.species[body] == kind]
        order = generator.sample(alike, len(alike))
        for body, place in zip(order, order[1:] + order[:1], strict=True):
            cycle[body] = place
        for body, place in zip(order[:2], order[:2][::-1], strict=True):
            exchange[body] = place
    what = "permute: f, where like bodies are exchanged,"
    for places in (exchange, cycle):
        _check_permutation(trial, bodies, places, where, what)


def _check_permutation(
    trial: Trial, bodies: Bodies, places: list[int], where: str, what: str
) -> None:
    """Whether the field is the same where each body has the state of the one in ``places``."""

    def moved(point: Point) -> Point:
        vectors = _vectors(point, bodies)
        return [z for half in vectors for place in places for z in half[place]]

    what = f"{what} fails by {{}}"
    trial.check_image(lambda z, _: moved(z), lambda _, rates: moved(rates), where, what)


def _check_row(trial: Trial, bodies: Bodies, where: str) -> None:
    """Bodies in a chain with free ends, or between walls."""
    far = reach(trial.equations, bodies)
    needed = max(2 * far + 2, 3 * far + 1 if bodies.topology == "walls" else 0)
    if bodies.count >= needed:
        _check_shift(trial, bodies, far, where)
        if bodies.topology == "walls":
            for right in (False, True):
                _check_wall(trial, bodies, far, right, where)
        return
    longer = _longer(trial.equations) if bodies.count < _LONG_ENOUGH else None
    count = 0 if longer is None else len(longer.components) // 2 // bodies.dimension
    if longer is not None and count > bodies.count:
        larger = replace(bodies, count=count, species=(0,) * count)
        _check_row(Trial(longer, images_of(larger)), larger, where)
    elif bodies.count >= _LONG_ENOUGH // 2:
        raise InputError(
            f"{where}, along = {bodies.topology}: a body acts on others {far} places away, too far "
            f"for a row of {bodies.count} to have an inner part"
        )


def reach(equations: Equations, bodies: Bodies) -> int:
    """Return the largest distance, in places of a row or ring, at which bodies interact."""
    half = bodies.count * bodies.dimension
    farthest = 0
    for i, component in enumerate(equations.vector_field):
        if isinstance(component, Expression):
            own = i % half // bodies.dimension
            # the variables of a system are its components, in order
            seen = (component.depends | component.depends >> half) & ((1 << half) - 1)
            farthest = max(farthest, _farthest(seen, own, bodies))
    return farthest


def _farthest(seen: int, own: int, bodies: Bodies) -> int:
    """Return the largest distance from body ``own`` to the bodies of the bits ``seen``."""
    if not seen:
        return 0
    d, n = bodies.dimension, bodies.count
    if bodies.topology != "ring":
        first, last = ((seen & -seen).bit_length() - 1) // d, (seen.bit_length() - 1) // d
        return max(own - first, last - own)
    turned = (seen >> own * d | seen << (n - own) * d) & ((1 << n * d) - 1)
    ahead = turned & ((1 << (n // 2 + 1) * d) - 1)
    behind = turned ^ ahead
    nearest_behind = n - ((behind & -behind).bit_length() - 1) // d if behind else 0
    return max((ahead.bit_length() - 1) // d if ahead else 0, nearest_behind)


def _longer(equations: Equations) -> Equations | None:
    """Return the same system with a longer row, if a parameter sets its length."""
    lengths = " ".join(map(str, equations.table["state"].values()))
    named = {*re.findall(r"\w+", lengths)}
    whole = [k for k, value in equations.definitions.items() if type(value) is int and k in named]
    for name in whole[:_MOST_TRIED]:
        try:
            given = {**equations.definitions, name: _LONG_ENOUGH}
            return read_equations(equations.table, equations.source, given)[0]
        except InputError:  # the parameter sets more than the length
            continue
    return None


def _check_shift(trial: Trial, bodies: Bodies, far: int, where: str) -> None:
    """Check that inner bodies move alike if a pattern of states is shifted by a place."""
    count = bodies.count

    def image(point: Point, _: Point) -> Point:
        # the last body enters at the first place; any other body would do
        return [z for half in _vectors(point, bodies) for v in (half[-1:] + half[:-1]) for z in v]

    def expected(_: Point, rates: Point) -> list[Any]:
        return _compared(rates, bodies, lambda body: body - 1 if far < body < count - far else None)

    what = f"along = {bodies.topology}: f, where a pattern is moved on by a place, fails by {{}}"
    trial.check_image(image, expected, where, what)


def _check_wall(trial: Trial, bodies: Bodies, far: int, right: bool, where: str) -> None:
    """Check that a wall acts as an odd reflection of the states about a body at rest."""
    count, centre = bodies.count, far
    # seen from the wall: the k-th body of the pattern stands at 1 + k beyond the centre
    order = list(range(count))[::-1] if right else list(range(count))

    def image(point: Point, _: Point) -> Point:
        found = []
        for half in _vectors(point, bodies):
            moved = [[HIGH.mpf(0)] * bodies.dimension for _ in range(count)]
            for k in range(count):
                for place, sign in ((centre + 1 + k, 1), (centre - 1 - k, -1)):
                    if 0 <= place < count:
                        moved[order[place]] = [sign * z for z in half[order[k]]]
            found += [z for vector in moved for z in vector]
        return found

    def expected(_: Point, rates: Point) -> list[Any]:
        seen = {order[centre + 1 + k]: order[k] for k in range(far)}
        return _compared(rates, bodies, seen.get)

    side = "right" if right else "left"
    what = f"along = walls: f at the {side} end, compared with an odd pattern inside, fails by {{}}"
    trial.check_image(image, expected, where, what)


def _compared(rates: Point, bodies: Bodies, origin: Callable[[int], int | None]) -> list[Any]:
    """Return rates of the body that each one's come from, None where it is compared with none."""
    found: list[Any] = []
    for half in _vectors(rates, bodies):
        for body in range(bodies.count):
            source = origin(body)
            found += [None] * bodies.dimension if source is None else half[source]
    return found


def _vectors(point: Point, bodies: Bodies) -> list[list[Point]]:
    """Return positions and momenta as vectors, one for each body."""
    d = bodies.dimension
    vectors = [point[i : i + d] for i in range(0, len(point), d)]
    return [vectors[: bodies.count], vectors[bodies.count :]]
