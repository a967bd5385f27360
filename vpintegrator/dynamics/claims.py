"""Checks of the invariants, symmetries, angles, volume and form that a system claims.

A claim is judged at states. Formulas are computed with 120 digits, and an identity holds to 30 of
them. Python functions are computed in double precision, and claims about them hold to rounding, or
to the error of finite differences.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import scipy  # loads scipy.linalg when it is used

from vpintegrator.dynamics.equations import DoubleFormulas, Equations
from vpintegrator.dynamics.expressions.evaluation import Arithmetic, ComponentFunction, evaluator
from vpintegrator.dynamics.expressions.nodes import (
    HIGH,
    Expression,
    Number,
    Symbol,
    Value,
    high,
)
from vpintegrator.dynamics.formula_map import FormulaMap
from vpintegrator.errors import InputError

POINTS = 12
FEWEST = 3  # states that must have finite values, if so many are tried
_OPERATIONS = 20_000  # at all states, with a hundred digits, beyond which fewer states are taken
TOLERANCE = HIGH.mpf(10) ** -30
OF_ROUNDED = 1e-12  # tolerance if constants are rounded to doubles
_LARGEST_EXPONENT = 1100  # of 2: what a double cannot hold, 100 digits of a sine may take forever
_LARGEST_SLOPE = 1e300  # whose size is a double
_LARGEST = 64  # components of a map whose determinant is computed with a hundred digits
_FORMS = {"symplectic": "the form dq dp is kept", "divergence_free": "the determinant is 1"}


def random_states(dim: int, count: int = POINTS) -> np.ndarray:
    """Return states (count, dim) of mpmath's numbers, always the same."""
    generator = random.Random(20231219)
    numbers = np.array([generator.gauss(0.0, 1.0) for _ in range(count * dim)])
    return exact_states(numbers.reshape(count, dim))


def exact_states(states: np.ndarray) -> np.ndarray:
    """Return states of mpmath's numbers that are equal to doubles."""
    return np.array([HIGH.mpf(x) for x in states.ravel()], dtype=object).reshape(states.shape)


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


@dataclass(frozen=True)
class Claim:
    """An identity with its defects at the states of a trial.

    Attributes
    ----------
    where, what
        Place of the claim, and the message where it fails, with ``{}`` for the defect.
    defects, sizes
        Defect of each state, (state,), NaN where it is not judged, and the size that it is relative
        to.
    tolerance
        Largest relative defect.
    declared
        Whether it must hold, or must not; None where that is found out.
    key
        Name of a property that is found out.
    """

    where: str
    what: str
    defects: np.ndarray
    sizes: Any
    tolerance: Any
    declared: bool | None = True
    key: str = ""


class ClaimTrial(ABC):
    """States at which claims are judged, with the values of the system there.

    The value is the vector field, or the image after one pass through the stages of a map. An
    identity of one pass holds for any number of iterations.

    Attributes
    ----------
    equations, is_map, halves
        The system, whether it is a map, and numbers of the positions and of their momenta.
    states, values
        Arrays (state, dim).
    is_exact
        Whether numbers are those of mpmath.
    tolerance, slope_tolerance
        Tolerances of a check of values, and of derivatives.
    scalars
        Functions of states that are claimed to be constant, by name.
    domain
        Least and largest value of each component in the domain. Symmetries and angles are then
        judged where the image of a state is in it, if there are such states.
    """

    equations: Equations
    is_map: bool
    halves: tuple[list[int], list[int]]
    states: np.ndarray
    values: np.ndarray
    is_exact = False
    tolerance: Any
    slope_tolerance: Any
    scalars: Mapping[str, Callable[..., np.ndarray]]
    domain: tuple[np.ndarray, np.ndarray] | None = None

    @abstractmethod
    def at(self, states: np.ndarray) -> np.ndarray:
        """Return the values at states, NaN where there are none."""

    @abstractmethod
    def rate_terms(self, name: str) -> np.ndarray:
        """Return the terms of the time derivative of a scalar along solutions, (state, term)."""

    @abstractmethod
    def divergence_terms(self) -> np.ndarray:
        """Return the terms df_i/dz_i of the divergence, (state, term)."""

    @abstractmethod
    def derivative(self) -> np.ndarray:
        """Return derivatives of a map, (state, dim, dim)."""

    def number(self, constant: Number) -> Any:
        """Return a number of the arithmetic of a constant."""
        return high(constant) if self.is_exact else float(constant)

    def worst(self, claim: Claim) -> tuple[Any, np.ndarray] | None:
        """Return the largest defect beyond the tolerance and its state, or None without one.

        Raises
        ------
        InputError
            If hardly any state can be judged.
        """
        known = _is_known(claim.defects[:, None])
        with np.errstate(invalid="ignore"):
            failing = np.abs(claim.defects) > claim.sizes * claim.tolerance
        if len(failing := np.flatnonzero(known & failing)):
            k = max(failing, key=lambda k: abs(claim.defects[k]))
            return claim.defects[k], self.states[k]
        if known.sum() < min(max(len(self.states), 1), FEWEST):
            words = "cannot be checked, there is no finite value at the states of the domain"
            raise InputError(f"{claim.where}: {words}")
        return None

    def require(self, claim: Claim) -> None:
        """Raise InputError where a claim does not hold, with the largest defect."""
        if (worst := self.worst(claim)) is not None:
            at = place(self.equations.components, worst[1])
            raise InputError(f"{claim.where}: {claim.what.format(shown(worst[0]))} at {at}")

    def compared(
        self,
        where: str,
        what: str,
        states: np.ndarray,
        expected: np.ndarray,
        sizes: np.ndarray,
        periods: Mapping[int, Any] | None = None,
    ) -> Claim:
        """Return the claim that values at other states, images of these, are the expected ones.

        Components have different units, so each is relative to itself: to the ``sizes`` of its
        terms, and to the rounding errors of the largest. Components with ``periods`` agree up to
        these.
        """
        images = self.at(states)
        floor = HIGH.mpf(10) ** -40 if self.is_exact else 10.0
        change = np.abs(less_turns(images - expected, periods or {}))
        largest = 1 + np.maximum(np.abs(self.values), np.abs(images)).max(axis=1, keepdims=True)
        size = np.abs(images) + np.abs(expected) + np.abs(sizes) + largest * floor
        worst = np.arange(len(change)), np.argmax(change / size, axis=1)
        defects = change[worst]
        if self.domain is not None:
            low, high_ = self.domain
            outside = ~((states >= low) & (states <= high_)).all(axis=1)
            if (~outside & _is_known(defects[:, None])).sum() >= FEWEST:
                defects[outside] = np.nan
        return Claim(where, what, defects, size[worst], self.tolerance)


class TrialStates(ClaimTrial):
    """States at which formulas are computed, with 120 digits or in double precision.

    Parameters
    ----------
    equations
        Equations of the system.
    candidates
        States (state, dim), random ones by default. Those at which the system has no value are left
        out; with 120 digits the first are taken, fewer of costly formulas.
    domain
        Attribute of :class:`ClaimTrial`.
    exact
        Whether numbers are those of mpmath, with 120 digits.
    """

    def __init__(
        self,
        equations: Equations,
        candidates: np.ndarray | None = None,
        domain: tuple[np.ndarray, np.ndarray] | None = None,
        *,
        exact: bool = True,
        most: int = POINTS,
    ) -> None:
        self.equations = equations
        self.is_map = bool(equations.stages)
        self.halves = equations.halves
        self.domain = domain
        self.is_exact = exact
        self.tolerance = self.slope_tolerance = OF_ROUNDED if equations.rounded else TOLERANCE
        stages = equations.stages or (dict(enumerate(equations.vector_field)),)
        self._map = FormulaMap(replace(equations, stages=stages, iterations=1), self._columns)
        if candidates is None:
            candidates = random_states(len(equations.symbols))
        if exact:
            self.states, self.values = self._affordable(candidates, most)
        else:
            values = self.at(candidates)
            known = _is_known(values)
            self.states = candidates[known]
            self.values = values[known]

    def _function(self, values: Iterable[Value]) -> ExactFormulas | DoubleFormulas:
        kind = ExactFormulas if self.is_exact else DoubleFormulas
        return kind(list(values), self.equations.symbols)

    def _columns(self, values: Sequence[Value], *_: Any) -> ComponentFunction:
        formulas = self._function(values)
        return lambda *columns: [*formulas(np.stack(columns, axis=1)).T]

    def _affordable(self, candidates: np.ndarray, most: int) -> np.ndarray:
        """Return the first states with values there, (2, state, dim); fewer of costly formulas."""
        e = self.equations
        checks = 1 + e.is_map + len(e.reversing_symmetries) + bool(e.periods)
        cost = (checks + 3 * len(e.invariants)) * len(e.nodes) + 1
        wanted = min(max(_OPERATIONS // cost, 1), most)
        pairs = ((state, self.at(state[None])[0]) for state in candidates)
        known = islice((pair for pair in pairs if _is_known(pair[1])), wanted)
        return np.array([*known], dtype=object).reshape(-1, 2, len(e.symbols)).swapaxes(0, 1)

    def at(self, states: np.ndarray) -> np.ndarray:
        return np.stack(self._map.columns([*states.T], "numpy"), axis=1)

    @cached_property
    def scalars(self) -> dict[str, Callable[..., np.ndarray]]:  # type: ignore[override]
        e = self.equations
        functions = dict[str, Callable[..., np.ndarray]]()
        for name, value in e.invariants.items():
            # a Hamiltonian without time is constant by the antisymmetry of Hamilton's equations
            if e.stages or value is not e.hamiltonian or e.explicit_time is not None:
                formulas = self._function([value])
                functions[name] = lambda states, formulas=formulas: formulas(states)[:, 0]
        return functions

    def rate_terms(self, name: str) -> np.ndarray:
        e = self.equations
        e.algebra.allow_derivatives()
        slopes = e.algebra.gradient(e.invariants[name])
        used = [i for i, symbol in enumerate(e.symbols) if symbol in slopes]
        gradient = self._function(slopes[e.symbols[i]] for i in used)
        return gradient(self.states) * self.values[:, used]

    def divergence_terms(self) -> np.ndarray:
        slopes = [slope for slope in self.equations.own_slopes if slope != 0]
        return self._function(slopes)(self.states)

    def derivative(self) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(self._map.jacobian(self.states.T), -1, 0))


def claims_of(trial: ClaimTrial, source: str) -> Iterator[Claim]:
    """Yield what a system claims, and what can be found out, with the defects at the states."""
    e = trial.equations
    for name, scalar in trial.scalars.items():
        where = f"{source}, [invariants] {name}"
        what = "this is not constant: the map changes it by {}"
        tolerance = trial.tolerance
        if trial.is_map:
            terms = np.stack([scalar(trial.values), -scalar(trial.states)], axis=1)
        else:
            terms = trial.rate_terms(name)
            tolerance = trial.slope_tolerance
            what = "this is not constant along solutions: its time derivative is {}"
        yield _sum_claim(where, what, terms, tolerance)
    for number, rho in enumerate(e.reversing_symmetries, start=1):
        yield symmetry_claim(trial, rho, f"{source}, [[reversing_symmetry]] {number}")
    time = {e.explicit_time}
    for where, angles, words in (
        ("[periodic]", e.periods.keys() - time, "where angles turn by their periods,"),
        ("period", e.periods.keys() & time, "after a period,"),
    ):
        if angles:
            yield _period_claim(trial, sorted(angles), f"{source}, {where}", words)
    if trial.is_map:
        yield from _form_claims(trial, source)
    elif e.hamiltonian is None:
        what = "the divergence of the vector field is {}, not zero,"
        key = "divergence_free"
        terms = trial.divergence_terms()
        claim = _sum_claim(f"{source}, {key}", what, terms, trial.slope_tolerance)
        yield replace(claim, declared=e.divergence_free, key=key)


def check_claims(trial: ClaimTrial, source: str) -> tuple[bool, bool]:
    """Check what a system claims; return whether it preserves volume, and the symplectic form.

    Raises
    ------
    InputError
        Naming the first claim that does not hold, and a state where it fails.
    """
    e = trial.equations
    properties = dict[str, bool]()
    if e.hamiltonian is not None:
        properties = {"divergence_free": True, "symplectic": True}
        if e.divergence_free is False:
            raise InputError(f"{source}, divergence_free: the file says false, but H keeps volume")
    for claim in claims_of(trial, source):
        if claim.declared:
            trial.require(claim)
        holds = claim.declared or trial.worst(claim) is None
        if holds and claim.declared is False:
            raise InputError(f"{claim.where}: the system says false, but that holds everywhere")
        if claim.key:
            properties[claim.key] = holds
    # symplectic maps keep the volume, too
    symplectic = properties.get("symplectic", bool(e.symplectic) and not trial.is_map)
    return any(properties.values()), symplectic


def _sum_claim(where: str, what: str, terms: np.ndarray, tolerance: Any) -> Claim:
    """Return the claim that terms (state, term) cancel; rounding is judged against their size."""
    return Claim(where, what, terms.sum(axis=1), 1 + np.abs(terms).sum(axis=1), tolerance)


def symmetry_claim(trial: ClaimTrial, rho: Sequence[Mapping[int, Number]], where: str) -> Claim:
    """Return the claim f(rho z) = -rho f(z), or M(rho M(z)) = rho z."""

    def moved(rows: np.ndarray) -> np.ndarray:
        columns = [sum(rows[:, j] * trial.number(c) for j, c in row.items()) for row in rho]
        return np.stack(columns, axis=1)

    if trial.is_map:
        what = "this does not reverse the map M, rho M rho M = identity fails by {}"
        start = moved(trial.values)
        return trial.compared(where, what, start, moved(trial.states), start)
    what = "this does not reverse the system, f(rho z) = -rho f(z) fails by {}"
    return trial.compared(where, what, moved(trial.states), -moved(trial.values), trial.values)


def _period_claim(trial: ClaimTrial, angles: Sequence[int], where: str, words: str) -> Claim:
    """Return the claim that values are the same after one turn of all angles, either way."""
    generator = random.Random(20231219)
    turned = trial.states.copy()
    periods = {i: trial.number(trial.equations.periods[i]) for i in angles}
    for i, period in periods.items():
        turned[:, i] += [generator.choice((-1, 1)) * period for _ in turned]
    what = f"the {'image' if trial.is_map else 'vector field'} changes by {{}} {words}"
    sizes, images = (turned, periods) if trial.is_map else (trial.values, None)
    return trial.compared(where, what, turned, trial.values, sizes, images)


def _form_claims(trial: ClaimTrial, source: str) -> Iterator[Claim]:
    """Yield the claims DM^T J DM = J and det DM = 1, which decimals of a file may round."""
    e = trial.equations
    dim = len(trial.equations.symbols)
    if dim > _LARGEST and trial.is_exact:
        if e.symplectic or e.divergence_free:
            words = "volume and form are checked for maps of up to"
            raise InputError(f"{source}: {words} {_LARGEST} components, not {dim}")
        return
    slopes = trial.derivative()
    known = _is_known(slopes.reshape(-1, dim * dim))
    for key, words in _FORMS.items():
        if key == "symplectic" and dim % 2:
            continue
        defects = np.full(len(slopes), np.nan, dtype=slopes.dtype)
        defects[known] = [_structure_defect(each, key, trial) for each in slopes[known]]
        what = f"that {words} fails by {{}}, relative to the derivatives,"
        tolerance = max(OF_ROUNDED, trial.slope_tolerance)
        yield Claim(f"{source}, {key}", what, defects, 1, tolerance, getattr(e, key), key)


def _structure_defect(slopes: np.ndarray, key: str, trial: ClaimTrial) -> Any:
    """Return det D - 1, or the largest entry of D^T J D - J, relative to the derivatives.

    Components are measured in units in which the derivatives are about 1.
    """
    sizes = np.minimum(np.abs(slopes), _LARGEST_SLOPE).astype(np.float64)
    dim = len(slopes)
    # errors of differences are no derivatives
    sizes[sizes <= (0 if trial.is_exact else trial.slope_tolerance * sizes.max())] = 0
    with np.errstate(invalid="ignore"):  # SciPy makes a permutation of the scales
        units = scipy.linalg.matrix_balance(sizes, permute=False, separate=True)[1][0]
    ratios = slopes * units / units[:, None]
    scale = 1 + np.abs(ratios).max()
    if key == "divergence_free":
        det = HIGH.det(HIGH.matrix(ratios.tolist())) if trial.is_exact else np.linalg.det(ratios)
        return abs(det - 1) / scale**dim
    positions, momenta = trial.halves
    form = slopes[positions].T @ slopes[momenta] - slopes[momenta].T @ slopes[positions]
    form[positions, momenta] -= 1
    form[momenta, positions] += 1
    root = np.sqrt(units[positions] / units[momenta])  # units that keep the form
    units[positions] = root
    units[momenta] = 1 / root
    return np.abs(form * units * units[:, None]).max() / scale**2


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
