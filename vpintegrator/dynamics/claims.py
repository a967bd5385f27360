"""Checks of the invariants, symmetries, angles, volume and form that a system claims.

A claim is tried at random states. Formulas are computed with 120 digits, and an identity holds to
30 of them. Python functions are computed in double precision, and claims about them hold to
rounding, or to the error of finite differences.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import product
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
from vpintegrator.dynamics.expressions.nodes import HIGH, high
from vpintegrator.errors import InputError

POINTS = 12
FEWEST = 3  # states that must have finite values, if so many are tried
_FUNCTION = 10  # additions that a function or a power takes as long as
LARGEST_COST = 500_000  # operations at one state
OPERATIONS = 100_000  # at all states together, beyond which fewer states are taken
TOLERANCE = HIGH.mpf(10) ** -30
OF_ROUNDED = 1e-12  # tolerance if constants are rounded to doubles
_LARGEST_EXPONENT = 1100  # of 2: what a double cannot hold, 100 digits of a sine may take forever
_STEP = HIGH.mpf(10) ** -30  # step of a central difference, whose error is the square of the step
_LARGEST = 64  # components of a map whose determinant is computed with a hundred digits
_STRUCTURES = {
    "symplectic": ("the form dq dp is kept", "the symplectic form"),
    "divergence_free": ("the determinant is 1", "volume"),
}


def random_states(dim: int, count: int = POINTS) -> np.ndarray:
    """Return states (count, dim) of mpmath's numbers, always the same."""
    generator = random.Random(20231219)
    numbers = [HIGH.mpf(generator.gauss(0.0, 1.0)) for _ in range(count * dim)]
    return np.array(numbers, dtype=object).reshape(count, dim)


def _check_size(value: Any) -> None:
    """Refuse values that a double cannot hold, in the middle of a formula too."""
    parts = value._mpc_ if isinstance(value, HIGH.mpc) else (HIGH.convert(value)._mpf_,)
    for _, mantissa, exponent, length in parts:
        infinite = not mantissa and exponent
        if infinite or exponent + length > _LARGEST_EXPONENT:
            raise OverflowError


_EXACT = Arithmetic(lambda function: function.exact, high, _check_size)


class ExactFormulas:
    """Expressions as a function of states (state, dim) of mpmath's numbers."""

    def __init__(self, expressions: Sequence[Value], symbols: Sequence[Symbol]) -> None:
        self._count = len(expressions)
        self._function = evaluator(expressions, symbols, _EXACT)

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """Return values (state, expression), NaN for states at which one of them has none."""
        values = np.full((len(states), self._count), HIGH.nan, dtype=object)
        for row, state in zip(values, states, strict=True):
            with suppress(ArithmeticError, ValueError):
                row[:] = [HIGH.convert(value) for value in self._function(*state)]
        return values


def vanishes(value: Value, symbols: Sequence[Symbol]) -> bool:
    """Whether a formula is zero wherever it has a value, as far as random states tell."""
    if not isinstance(value, Expression):
        return value == 0
    values = ExactFormulas([value], symbols)(random_states(len(symbols)))[:, 0]
    known = values[_is_known(values)]
    # all digits but those that rounding may have taken, as the size of the terms is not known
    return bool(len(known)) and bool((np.abs(known) <= TOLERANCE**2).all())


def cost_of(expressions: Sequence[Value]) -> int:
    """Return the cost of an evaluation with 100 digits, in additions."""
    nodes = below(expressions)
    slow = sum(
        isinstance(node, Call)
        or (isinstance(node, Product) and any(e not in (1, -1) for _, e in node.factors))
        for node in nodes
    )
    return sum(len(node.parts) for node in nodes) + _FUNCTION * slow


class TrialStates:
    """States at which claims are tried, with the values of the system there.

    The value is the vector field, or the image after one pass through the stages of a map. An
    identity of one pass holds for any number of iterations.

    Parameters
    ----------
    equations
        Equations of the system.
    candidates
        States (state, dim) of the trial, instead of random states; those at which the system has
        no value are left out.

    Attributes
    ----------
    states, values
        Arrays (state, dim).
    is_exact
        Whether numbers are those of mpmath.
    tolerance, slope_tolerance
        Tolerances of a check of values, and of derivatives.
    floor
        Size of the rounding errors of a component that vanishes, relative to the largest component
        and the tolerance.
    most_turns
        Largest number of turns of an angle.
    number
        Makes a number of the arithmetic of a constant.
    halves
        Numbers of the positions, and of their momenta.
    """

    is_exact = True
    floor: Any = HIGH.mpf(10) ** -40
    most_turns = 1000
    number: Callable[[Number], Any] = staticmethod(high)

    def __init__(self, equations: Equations, candidates: np.ndarray | None = None) -> None:
        self.equations, self.is_map = equations, bool(equations.stages)
        self.halves = equations.halves
        self.tolerance = self.slope_tolerance = OF_ROUNDED if equations.rounded else TOLERANCE
        parts = equations.stages or (dict(enumerate(equations.vector_field)),)
        self._stages = [
            (list(part), ExactFormulas(list(part.values()), equations.symbols)) for part in parts
        ]
        self._candidates = candidates

    @cached_property
    def _known(self) -> tuple[np.ndarray, np.ndarray]:
        e = self.equations
        cost = sum(cost_of(list(part.values())) for part in e.stages) or cost_of(e.vector_field)
        cost *= 1 + e.is_map + len(e.reversing_symmetries) + bool(e.periods)
        cost += sum(3 * cost_of([value]) + len(e.symbols) for value in e.invariants.values())
        if cost > LARGEST_COST:
            raise TooLong(f"so much that checking them takes more than {LARGEST_COST} operations")
        wanted = min(max(OPERATIONS // (cost + 1), 1), POINTS)
        candidates = self._candidates
        pairs = list[tuple[np.ndarray, np.ndarray]]()
        for state in random_states(len(e.symbols)) if candidates is None else candidates:
            value = self.at(state[None])[0]
            if len(pairs) < wanted and _is_known(value):
                pairs.append((state, value))
            if len(pairs) == wanted:
                break
        rows = np.array(pairs, dtype=object).reshape(len(pairs), 2, len(e.symbols))
        return rows[:, 0], rows[:, 1]

    @cached_property
    def states(self) -> np.ndarray:
        return self._known[0]

    @cached_property
    def values(self) -> np.ndarray:
        return self._known[1]

    def at(self, states: np.ndarray) -> np.ndarray:
        """Return the values at states, NaN where there are none."""
        states = states.copy()
        for changed, formulas in self._stages:
            states[:, changed] = formulas(states)
        return states

    @cached_property
    def scalars(self) -> dict[str, Callable[..., np.ndarray]]:
        """Functions of states that are claimed to be constant, by name."""
        e, found = self.equations, dict[str, Callable[..., np.ndarray]]()
        for name, value in e.invariants.items():
            # a Hamiltonian without time is constant by the antisymmetry of Hamilton's equations
            if e.stages or value is not e.hamiltonian or e.explicit_time is not None:
                formulas = ExactFormulas([value], e.symbols)
                found[name] = lambda states, formulas=formulas: formulas(states)[:, 0]
        return found

    def rate(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return time derivatives of a scalar along solutions, and sizes that they are relative to.

        They are central differences along the vector field.
        """
        speed = 1 + np.abs(self.values).max(axis=1)
        direction = self.values / speed[:, None]
        middle, ahead, behind = (
            self.scalars[name](self.states + side * direction) for side in (0, _STEP, -_STEP)
        )
        return (ahead - behind) / (2 * _STEP) * speed, (1 + np.abs(middle)) * speed

    def own_slopes(self) -> np.ndarray:
        """Return the terms df_i/dz_i of the divergence, (state, term)."""
        slopes = [slope for slope in self.equations.own_slopes if slope != 0]
        return ExactFormulas(slopes, self.equations.symbols)(self.states)

    def derivative(self) -> np.ndarray:
        """Return derivatives of a map, (state, dim, dim)."""
        points, dim = self.states.copy(), self.states.shape[1]
        result = np.tile(np.eye(dim, dtype=object), (len(points), 1, 1))
        for (changed, values), slopes in zip(
            self._stages, self.equations.stage_slopes, strict=True
        ):
            factors = ExactFormulas(list(slopes.values()), self.equations.symbols)(points)
            new = {i: np.zeros((len(points), dim), dtype=object) for i in changed}
            for (i, j), factor in zip(slopes, factors.T, strict=True):
                new[i] = new[i] + factor[:, None] * result[:, j]
            points[:, changed] = values(points)
            for i, rows in new.items():
                result[:, i] = rows
        return result

    def worst(
        self, where: str, defects: np.ndarray, sizes: Any, tolerance: Any = None
    ) -> tuple[Any, np.ndarray] | None:
        """Return the largest defect beyond the tolerance and its state, or None without one.

        Parameters
        ----------
        where
            Place of the claim, for messages.
        defects, sizes
            Defect of each state, (state,), NaN where it cannot be judged, and the size that it is
            relative to.
        tolerance
            By default that of values.

        Raises
        ------
        InputError
            If hardly any state can be judged.
        """
        known = _is_known(defects[:, None])
        limit = self.tolerance if tolerance is None else tolerance
        with np.errstate(invalid="ignore"):
            failing = np.flatnonzero(known & (np.abs(defects) > limit * sizes))
        if len(failing):
            k = max(failing, key=lambda k: abs(defects[k]))
            return defects[k], self.states[k]
        if known.sum() < min(max(len(self.states), 1), FEWEST):
            what = "map" if self.is_map else "formula"
            raise InputError(
                f"{where}: cannot be checked, the {what} has no finite value at random points"
            )
        return None

    def require(
        self, where: str, what: str, defects: np.ndarray, sizes: Any, tolerance: Any = None
    ) -> None:
        """Raise InputError where a claim does not hold, with the largest defect.

        Parameters
        ----------
        where, defects, sizes, tolerance
            Arguments of :meth:`worst`.
        what
            Message, with ``{}`` for the defect.
        """
        if (worst := self.worst(where, defects, sizes, tolerance)) is not None:
            at = place(self.equations.components, worst[1])
            raise InputError(f"{where}: {what.format(shown(worst[0]))} at {at}")

    def differences(
        self,
        found: np.ndarray,
        expected: np.ndarray,
        sizes: np.ndarray,
        periods: Mapping[int, Any] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest difference of values of each state, (state,), and its size.

        Components have different units, so each is relative to itself. Components with
        ``periods`` agree up to these.
        """
        change = less_turns(found - expected, periods or {})
        largest = 1 + np.maximum(np.abs(self.values), np.abs(found)).max(axis=1, keepdims=True)
        size = np.abs(found) + np.abs(expected) + np.abs(sizes) + self.floor * largest
        rows, columns = np.arange(len(change)), np.argmax(np.abs(change) / size, axis=1)
        return np.abs(change)[rows, columns], size[rows, columns]


def check_claims(trial: TrialStates, source: str) -> tuple[bool, bool]:
    """Check what a system claims; return whether it preserves volume, and the symplectic form.

    Raises
    ------
    InputError
        Naming the first claim that does not hold, and a state where it fails.
    """
    e = trial.equations
    for name, scalar in trial.scalars.items():
        where = f"{source}, [invariants] {name}"
        if trial.is_map:
            before, after = scalar(trial.states), scalar(trial.values)
            what = "this is not constant: the map changes it by {}"
            trial.require(where, what, after - before, 1 + np.abs(before))
        else:
            what = "this is not constant along solutions: its time derivative is {}"
            trial.require(where, what, *trial.rate(name), trial.slope_tolerance)
    for number, rho in enumerate(e.reversing_symmetries, start=1):
        _check_symmetry(trial, rho, f"{source}, [[reversing_symmetry]] {number}")
    time = e.explicit_time
    angles = {i: period for i, period in e.periods.items() if i != time}
    _check_periods(trial, angles, f"{source}, [periodic]", "where angles turn by their periods,")
    if time in e.periods:
        _check_periods(trial, {time: e.periods[time]}, f"{source}, period", "after whole periods,")
    if trial.is_map:
        return _map_structure(trial, source)
    where = f"{source}, divergence_free"
    free = e.hamiltonian is not None or _divergence_vanishes(trial, where)
    if e.divergence_free is False and free:
        raise InputError(f"{where}: the system says false, but the divergence is 0")
    return free, e.hamiltonian is not None or bool(e.symplectic)


def check_declared(equations: Equations, source: str) -> tuple[bool, bool]:
    """Return the structure that measured states are said to have, which is believed."""
    e = equations
    if e.symplectic and e.divergence_free is False:
        raise InputError(
            f"{source}, divergence_free: the file says false, but symplectic maps preserve volume"
        )
    return bool(e.divergence_free or e.symplectic), bool(e.symplectic)


def _check_symmetry(trial: TrialStates, rho: Sequence[Mapping[int, Number]], where: str) -> None:
    """Check f(rho z) = -rho f(z), or M(rho M(z)) = rho z."""

    def moved(rows: np.ndarray) -> np.ndarray:
        columns = [sum(trial.number(c) * rows[:, j] for j, c in row.items()) for row in rho]
        return np.stack(columns, axis=1)

    if trial.is_map:
        what = "this does not reverse the map M, rho M rho M = identity fails by {}"
        start, expected = moved(trial.values), moved(trial.states)
    else:
        what = "this does not reverse the system, f(rho z) = -rho f(z) fails by {}"
        start, expected = moved(trial.states), -moved(trial.values)
    sizes = start if trial.is_map else trial.values
    trial.require(where, what, *trial.differences(trial.at(start), expected, sizes))


def _check_periods(
    trial: TrialStates, periods: Mapping[int, Number], where: str, what: str
) -> None:
    """Check values after random numbers of turns of all angles."""
    if not periods:
        return
    generator, turned = random.Random(20231219), trial.states.copy()
    own = {i: trial.number(period) for i, period in periods.items()}
    for i, period in own.items():
        turned[:, i] += [generator.randint(1, trial.most_turns) * period for _ in turned]
    text = f"the {'image' if trial.is_map else 'vector field'} changes by {{}} {what}"
    sizes = turned if trial.is_map else trial.values
    found = trial.at(turned)
    trial.require(
        where, text, *trial.differences(found, trial.values, sizes, own if trial.is_map else None)
    )


def _divergence_vanishes(trial: TrialStates, where: str) -> bool:
    """Whether the divergence is zero; raises InputError where it is claimed in vain."""
    slopes = trial.own_slopes()
    if not slopes.shape[1]:
        return True
    # rounding is judged against the size of the terms that ought to cancel
    defects, sizes = slopes.sum(axis=1), 1 + np.abs(slopes).sum(axis=1)
    if trial.equations.divergence_free:
        what = "the divergence of the vector field is {}, not zero,"
        trial.require(where, what, defects, sizes, trial.slope_tolerance)
    return trial.worst(where, defects, sizes, trial.slope_tolerance) is None


def _map_structure(trial: TrialStates, source: str) -> tuple[bool, bool]:
    """Whether det DM = 1 and DM^T J DM = J; raises InputError where the system says otherwise."""
    e, dim = trial.equations, len(trial.equations.symbols)
    declared: dict[str, bool | None] = {key: getattr(e, key) for key in _STRUCTURES}
    if dim > _LARGEST and trial.is_exact:
        if any(declared.values()):
            raise InputError(
                f"{source}: volume and form are checked for maps of up to {_LARGEST} components, "
                f"not {dim}"
            )
        return False, False
    slopes = trial.derivative()
    known = np.flatnonzero(_is_known(slopes.reshape(-1, dim * dim)))
    if not len(known):
        raise InputError(f"{source}, [map]: cannot be checked, the map has no finite derivatives")
    found, proposals = {}, []
    rounded = max(OF_ROUNDED, trial.slope_tolerance)
    for key, (what, name) in _STRUCTURES.items():
        defects = [_structure_defect(slopes[k], key, trial) for k in known]
        worst = max(range(len(known)), key=lambda k: defects[k])
        defect = defects[worst]
        if defect > rounded and declared[key]:
            raise InputError(
                f"{source}, {key}: that {what} fails by {shown(defect)}, relative to the "
                f"derivatives, at {place(e.components, trial.states[known[worst]])}"
            )
        # declared identities may fail by the rounding of the file's decimals
        found[key] = bool(defect <= (rounded if declared[key] else trial.slope_tolerance))
        if declared[key] is False and found[key]:
            raise InputError(f"{source}, {key}: the system says false, but the map keeps it")
        if defect <= rounded:
            proposals.append(f"the map preserves {name} to {shown(defect)}; say {key} = true")
    if proposals and not any(found.values()) and set(declared.values()) == {None}:
        warnings.warn(f"{source}: {proposals[0]}", stacklevel=2)
    # symplectic maps keep the volume, too
    return any(found.values()), found["symplectic"]


def _structure_defect(slopes: np.ndarray, key: str, trial: TrialStates) -> Any:
    """Return det D - 1, or the largest entry of D^T J D - J, relative to the derivatives.

    Components are measured in units in which the derivatives are about 1.
    """
    units, dim = _balancing_units(slopes, trial), len(slopes)
    ratios = slopes * units / units[:, None]
    scale = 1 + np.abs(ratios).max()
    if key == "divergence_free":
        matrix = HIGH.matrix(ratios.tolist()) if trial.is_exact else ratios
        det = HIGH.det(matrix) if trial.is_exact else np.linalg.det(matrix)
        return abs(det - 1) / scale**dim
    if dim % 2:
        return HIGH.inf
    positions, momenta = trial.halves
    form = slopes[positions].T @ slopes[momenta] - slopes[momenta].T @ slopes[positions]
    form[positions, momenta] -= 1
    form[momenta, positions] += 1
    for q, p in zip(positions, momenta, strict=True):
        ratio = (units[q] / units[p]) ** 0.5  # units that keep the form
        units[q], units[p] = ratio, 1 / ratio
    return np.abs(form * units * units[:, None]).max() / scale**2


def _balancing_units(slopes: np.ndarray, trial: TrialStates) -> np.ndarray:
    """Return units of the components in which logarithms of derivatives are least in squares."""
    dim = len(slopes)
    # errors of differences are no derivatives
    least = 0 if trial.is_exact else trial.slope_tolerance * np.abs(slopes).max()
    normal, right = np.zeros((dim, dim)), np.zeros(dim)
    for i, j in product(range(dim), repeat=2):
        if i != j and abs(slopes[i, j]) > least:
            size = float(HIGH.log10(abs(slopes[i, j])))
            normal[[i, j], [i, j]] += 1
            normal[[i, j], [j, i]] -= 1
            right[[i, j]] += size, -size
    exponents = np.linalg.lstsq(normal, right, rcond=None)[0]
    units = [HIGH.mpf(10) ** float(exponent) for exponent in exponents]
    return np.array(units, dtype=slopes.dtype)


def less_turns(change: np.ndarray, periods: Mapping[int, Any]) -> np.ndarray:
    """Return changes (state, component) less whole periods."""
    change = change.copy()
    for i, period in periods.items():
        turns = [HIGH.nint(HIGH.re(ratio)) for ratio in change[:, i] / period]
        change[:, i] -= np.array(turns, dtype=change.dtype) * period
    return change


def _is_known(values: np.ndarray) -> np.ndarray:
    """Whether all entries in the last axis are finite."""
    with np.errstate(invalid="ignore"):
        return (values - values == 0).astype(bool).all(axis=-1)


def shown(value: Any) -> str:
    """Return a number of any precision as messages write it."""
    value = HIGH.convert(value)
    return str(HIGH.nstr(value if HIGH.im(value) else HIGH.re(value), 3))


def place(components: Iterable[str], state: Any) -> str:
    """Return a state as messages write it."""
    named = [f"{name} = {shown(x)}" for name, x in list(zip(components, state, strict=False))[:4]]
    return ", ".join(named) + (", ..." if len(state) > 4 else "")
