"""Systems and maps of Python functions: formulas where NumPy finds them, else they are called."""

from __future__ import annotations

import inspect
import pickle
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.dynamics.conjugate import canonical_order
from vpintegrator.dynamics.expressions import Algebra, TooLong
from vpintegrator.dynamics.function_formulas import NotTraceable, Term, formulas_of, texts_of
from vpintegrator.dynamics.python_functions import (
    AUTOGRAD,
    DIFFERENCES,
    EXACT,
    BatchFunction,
    Halves,
    PythonCall,
    place,
    read_call,
)
from vpintegrator.dynamics.reading import MAXIMUM_DIMENSION, read_equations
from vpintegrator.dynamics.state_function import as_given, float_array
from vpintegrator.dynamics.system import System
from vpintegrator.errors import InputError, nearest, printable
from vpintegrator.names import STRUCTURES
from vpintegrator.storage.toml import toml_text

_TIME = "t"
_AGREEMENT = 1e-11  # relative difference of a function from its formulas
_STATES = 64  # of this comparison, and of checks of called functions
_TIME_SPAN = 10.0  # range of times for checks
_LONGEST_DESCRIPTION = 2000
_KEPT = {"symplectic": "symplectic", "volume-preserving": "divergence_free"}
_CLAIMS = {"invariants", "reversing_symmetry", "periodic", *_KEPT.values()}


@dataclass
class GivenFunction:
    """A function with all that was said of it, in the words of system files.

    Attributes
    ----------
    function
        The vector field or the map; None where only a Hamiltonian is given.
    components, sample, step, parameters, name, hamiltonian, divergence_free
        Arguments of :meth:`vpintegrator.System.from_function`.
    reversing_symmetries, invariants, periodic, period
        The same.
    structure
        Argument of :meth:`Map.from_function`.
    is_map
        Whether the function is a map.
    """

    function: Callable[..., Any] | None
    components: list[str]
    sample: Any = None
    step: Any = None
    parameters: Any = None
    name: Any = None
    hamiltonian: Any = None
    divergence_free: Any = None
    reversing_symmetries: Any = ()
    invariants: Any = None
    periodic: Any = None
    period: Any = None
    structure: Any = None
    is_map: bool = False
    halves: Halves = field(init=False)
    scalars: dict[str, PythonCall] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.components)
        self.parameters = _parameter_values(self.parameters, self.components)
        order: Sequence[int] = range(count)
        if self.hamiltonian is not None:
            order = canonical_order(self.components, "components") or order
        self.halves = list(order[: count // 2]), list(order[count // 2 :])
        self.call = self.energy = None
        if self.function is not None:
            kind, what = ("map", "turn") if self.is_map else ("field", "f")
            self.call = read_call(self.function, what, self.parameters, self.halves, kind)
        named = self.invariants if self.invariants is not None else {}
        _require(isinstance(named, Mapping), "invariants", "a dictionary of functions", named)
        self.scalars = {str(k): self._scalar(f, f"invariants, {k}") for k, f in named.items()}
        if self.hamiltonian is not None:
            self.energy = self._scalar(self.hamiltonian, "hamiltonian")
        own = self.function if self.function is not None else self.hamiltonian
        usual = getattr(own, "__name__", type(own).__name__).replace("_", "-").strip("-<>")
        self.name = usual if self.name is None else str(self.name)
        about = inspect.getdoc(own) if inspect.isroutine(own) else None
        values: dict[str, Any] = {"title": printable(self.name)}
        if about and about.isascii():
            values["description"] = printable(about, _LONGEST_DESCRIPTION)
        values["state"] = self.components
        free = self.divergence_free
        _require(isinstance(free, bool | None), "divergence_free", "True, False or None", free)
        if self.divergence_free is not None:
            values["divergence_free"] = self.divergence_free
        if self.structure is not None and str(self.structure) not in STRUCTURES:
            hint = (
                nearest(str(self.structure), STRUCTURES) or f"; there are {', '.join(STRUCTURES)}"
            )
            raise InputError(
                f"there is no structure {self.structure!r}{hint}; there are {', '.join(STRUCTURES)}"
            )
        if str(self.structure) in _KEPT:
            values[_KEPT[str(self.structure)]] = True
        if symmetries := _symmetry_tables(self.reversing_symmetries, self.components):
            values["reversing_symmetry"] = symmetries
        self.values = values
        number = isinstance(self.step, int | float | np.number) and not isinstance(self.step, bool)
        positive = self.step is None or (number and self.step > 0)
        _require(positive, "step", "a positive number", self.step)
        self.tables: dict[str, Mapping[str, Any]] = {
            "periodic": _period_table(self.periodic, self.components),
            "initial_conditions": _initial_table(self.sample, len(self.components)),
            "defaults": {} if self.step is None else {"step": float(self.step)},
        }

    def _scalar(self, function: Any, what: str) -> PythonCall:
        return read_call(function, what, self.parameters, self.halves, "scalar")

    @property
    def source(self) -> str:
        """Name of the function for messages."""
        return f"function {self.name}"

    def text(self, formulas: Mapping[str, Any], timed: bool, fixed: Sequence[str] = ()) -> str:
        """Return a system file with formulas, or keys in their place."""
        values = {k: v for k, v in formulas.items() if not isinstance(v, Mapping)}
        if timed:
            values["time"] = _TIME
            values |= {} if self.period is None else {"period": _period_text(self.period)}
        tables = {k: v for k, v in formulas.items() if isinstance(v, Mapping)}
        parameters = {k: v for k, v in self.parameters.items() if k not in fixed}
        tables = {"parameters": parameters, **tables, **self.tables}
        return toml_text(self.values | values, tables)

    def traced(
        self, calls: Sequence[tuple[PythonCall, int]], fixed: Sequence[str] = ()
    ) -> tuple[list[str], dict[str, str], bool]:
        """Return formulas, auxiliary formulas, and whether time occurs in them.

        Parameters
        ----------
        calls
            Functions with the number of their values.
        fixed
            Parameters that are numbers in the formulas.

        Raises
        ------
        NotTraceable
            If no formulas say what the functions do.
        """
        algebra, names = Algebra(), dict[Any, str]()

        def symbol(name: str) -> Term:
            made = algebra.symbol(name)
            names[made] = name
            return Term(algebra, made)

        def array(symbols: list[Term]) -> np.ndarray:
            found = np.empty(len(symbols), dtype=object)
            found[:] = symbols
            return found

        state, time = array([symbol(name) for name in self.components]), symbol(_TIME)
        parameters = {
            name: array([symbol(f"{name}[{i}]") for i in range(len(value))])
            if isinstance(value, list)
            else value
            if name in fixed
            else symbol(name)
            for name, value in self.parameters.items()
        }
        values = []
        for call, count in calls:
            values += formulas_of(partial(call.of_state, time, parameters), [*state], count)
        used = [getattr(value, "depends", 0) for value in values]
        timed = any(depends & time.value.depends for depends in used)  # type: ignore[union-attr]
        return *texts_of(values, names), timed

    def recorded_text(self, fixed: Sequence[str]) -> str:
        """Return the system file of the formulas that the functions are.

        Raises
        ------
        NotTraceable
            If no formulas say what they do.
        """
        own = (self.call, len(self.components)) if self.energy is None else (self.energy, 1)
        calls = [own, *((call, 1) for call in self.scalars.values())]
        texts, auxiliary, timed = self.traced(calls, fixed)  # type: ignore[arg-type]
        # constants of Python functions are rounded, and declared properties hold to that
        formulas: dict[str, Any] = {"rounded": True, "auxiliary": auxiliary}
        if self.energy is not None:
            formulas["hamiltonian"] = texts.pop(0)
        else:
            rates = {name: texts.pop(0) for name in self.components}
            formulas["map" if self.is_map else "vector_field"] = rates
        formulas["invariants"] = dict(zip(self.scalars, texts, strict=True))
        text = self.text(formulas, timed, fixed)
        table = {k: v for k, v in tomllib.loads(text).items() if k not in _CLAIMS}
        try:  # the formulas of a function may be longer than those of files
            read_equations(table, self.source, {})
        except (InputError, TooLong, RecursionError, ArithmeticError) as error:
            raise NotTraceable(f"its formulas cannot be read: {error}") from None
        return text

    def sampled(self) -> tuple[np.ndarray, np.ndarray]:
        """Return states of the sampling domain, and times for the checks."""
        keys = {"title": self.name, "state": self.components, "measured": True}
        own = {"parameters": self.parameters, **self.tables}
        domain = System(toml_text(keys, own), self.name, source=self.source)
        generator = np.random.default_rng(20231219)
        available = domain.initial_conditions.available
        states = domain.sample_initial(min(_STATES, available or _STATES), generator)
        return states, generator.uniform(0.0, 0.0 if self.is_map else _TIME_SPAN, len(states))

    def made(self) -> System:
        """Return the system or map of the function."""
        reason = ""
        whole = [name for name, value in self.parameters.items() if isinstance(value, int)]
        for fixed in ([], whole)[: 1 + bool(whole)]:  # whole numbers may count
            try:
                text = self.recorded_text(fixed)
                system = (Map if self.is_map else System)(text, self.name, source=self.source)
                self._compare(system)
                return system
            except NotTraceable as error:
                reason = reason or str(error)
        return _CalledChecks(self, reason).system()

    def changed(self, changes: Mapping[str, Any]) -> System:
        """Return the system with other values of some parameters."""
        for name in changes:
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise InputError(f"the function has no parameter '{name}' (it has: {known})")
        return replace(self, parameters={**self.parameters, **changes}).made()

    def _compare(self, system: System) -> None:
        """Compare a function with its formulas; InputError where the Hamiltonian is another's."""
        if self.call is None:
            return
        states, times = self.sampled()
        called = BatchFunction(self.call, states.shape[1], self.parameters, states, times)
        extended = states
        if system.explicit_time is not None:
            extended = np.column_stack([states, times])
        with np.errstate(all="ignore"):
            found = called(states, times)
            known = (system.map if self.is_map else system.vector_field)(extended)
        size = 1 + np.abs(np.nan_to_num(found)).max(axis=1)
        defect = np.abs(found - known[:, : states.shape[1]]).max(axis=1)
        # formulas must have a value wherever the function has one
        defect = np.where(np.isfinite(found).all(axis=1), np.nan_to_num(defect, nan=np.inf), 0)
        worst = int(np.argmax(defect / size))
        if defect[worst] > _AGREEMENT * size[worst]:
            where = f"{defect[worst]:.3g} at {place(self.components, states[worst])}"
            if self.energy is not None:
                raise InputError(
                    f"{self.source}, hamiltonian: f is not (dH/dp, -dH/dq), they differ by {where}"
                )
            raise NotTraceable(f"its formulas differ from it by {where}")


class CalledFunction(System):
    """A system or map of a function that is called; its text says its properties, and no code.

    Attributes
    ----------
    reason
        Why no formulas say what the function does.
    """

    reason: str
    given: GivenFunction
    values: BatchFunction

    @property
    def is_measured(self) -> bool:
        return False

    def require_formulas(self, what: str) -> None:
        raise InputError(
            f"{what} needs formulas, but {self.name} is a Python function that was not recorded as "
            f"formulas ({self.reason})"
        )

    def with_parameters(self, values: Mapping[str, Any]) -> System:
        return self.given.changed(values)

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            pickle.dumps(self.given)
        except Exception:
            raise InputError(
                f"{self.name} cannot be sent to other processes, as its function is no function of "
                "a module; define it at the top of a file, or take one worker"
            ) from None
        return GivenFunction.made, (self.given,)

    def _of_rows(self, function: Callable[..., np.ndarray], state: Any) -> np.ndarray:
        """Return the values of a function of states and times, without its last axis split."""
        array = float_array(self.checked_state(state))
        rows = array.reshape(-1, self.dim)
        times = np.zeros(len(rows)) if self.explicit_time is None else rows[:, -1]
        found = function(rows[:, : self.phase_dim], times)
        return found.reshape((*array.shape[:-1], *found.shape[1:]))


class FunctionSystem(CalledFunction):
    """A system of differential equations whose function is called."""

    def vector_field(self, state: Any, parameters: Any = None) -> Any:
        found = self._of_rows(self.values, state)
        clock = np.ones((*found.shape[:-1], self.dim - self.phase_dim))
        return as_given(np.concatenate([found, clock], axis=-1), state)

    def vector_field_by_component(self, components: np.ndarray) -> np.ndarray:
        return np.moveaxis(self.vector_field(np.moveaxis(components, 0, -1)), -1, 0)

    def jacobian(self, state: Any) -> Any:
        found = self._of_rows(self.values.slopes, state)[..., : self.dim]
        result = np.zeros((*found.shape[:-2], self.dim, self.dim))
        result[..., : self.phase_dim, :] = found
        return as_given(result, state)

    def jacobian_by_component(self, components: np.ndarray) -> np.ndarray:
        return np.moveaxis(self.jacobian(np.moveaxis(components, 0, -1)), (-2, -1), (0, 1))

    def hamiltonian(self, state: Any) -> Any:
        if "energy" in self.invariants and self.is_canonical:
            return self.invariants["energy"](state)
        return super().hamiltonian(state)

    def divergence(self, state: Any) -> Any:
        return self.jacobian(state).diagonal(0, -2, -1).sum(-1)


class Map(System):
    """A map of a Python function, such as a turn of a ring, that is iterated.

    Made by :meth:`from_function`; a system like any other, whose step is 1.

    Parameters
    ----------
    text, name, parameters, source, parent, family, derive
        Arguments of :class:`vpintegrator.System`.

    Examples
    --------
    >>> def turn(x, px, K=0.6):
    ...     px = px + K * np.sin(x)
    ...     return x + px, px
    >>> standard = vp.Map.from_function(turn, dim=2, periodic=["x1"])
    >>> standard.structure, standard.map([0.0, 1.0])
    ('symplectic map', array([1., 1.]))
    """

    @classmethod
    def from_function(  # type: ignore[override]
        cls,
        turn: Callable[..., Any],
        dim: int | None = None,
        components: Sequence[str] | None = None,
        *,
        structure: str | None = None,
        reversing_symmetries: Sequence[Any] = (),
        invariants: Mapping[str, Callable[..., Any]] | None = None,
        periodic: Mapping[str, float | str] | Sequence[str] | None = None,
        sample: Any = None,
        parameters: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Map:
        r"""Make a map of a Python function from a state to the next one.

        Parameters
        ----------
        turn
            ``turn(z)`` of a state of shape (dim,), or of its components one by one,
            ``turn(x, px)``, with NumPy's functions or PyTorch's, and with ``parameters`` by
            keyword. A function for batches takes (..., dim) or (dim, ...).
        dim, components, sample, parameters, name
            Arguments of :meth:`vpintegrator.System.from_function`. Names such as ``x, px, y, py``
            tell positions from momenta; where they do not, the state of a symplectic map has all
            positions first. Default names are x1, x2, ...
        structure
            ``symplectic``, ``volume-preserving`` or ``none``; by default what is found.
        reversing_symmetries
            Matrices :math:`\rho`, or the signs on their diagonals, with
            :math:`\rho M \rho M = \mathrm{id}`.
        invariants, periodic
            Arguments of :meth:`vpintegrator.System.from_function`.

        Raises
        ------
        InputError
            If the function cannot be called so, returns something else, or a declared property
            does not hold; the message says by how much it fails, and where.

        Examples
        --------
        >>> map = vp.Map.from_function(lambda z: np.array([z[1], -z[0]]), dim=2)
        >>> map.structure
        'symplectic map'
        """
        _require(turn is not None, "turn", "a function", turn)
        claims: dict[str, Any] = {
            "reversing_symmetries": reversing_symmetries,
            "invariants": invariants,
        }
        claims |= {"periodic": periodic, "structure": structure}
        names = _component_names(dim, components, "x")
        given = GivenFunction(turn, names, sample, None, parameters, name, is_map=True, **claims)
        made = given.made()
        assert isinstance(made, Map)
        return made


class FunctionMap(CalledFunction, Map):
    """A map whose function is called."""

    is_discrete = is_exact = True

    @property
    def conserved(self) -> list[int]:
        return []

    def map(self, state: Any) -> Any:
        return as_given(self._of_rows(self.values, state), state)

    def map_jacobian(self, state: Any) -> np.ndarray:
        return self._of_rows(self.values.slopes, state)[..., : self.dim]

    def states_between(self, states: np.ndarray, parts: int) -> np.ndarray | None:
        return None


def system_from_function(
    function: Callable[..., Any] | None, dim: Any, components: Any, **given: Any
) -> System:
    """See :meth:`vpintegrator.System.from_function`."""
    _require(function is not None, "f", "a function", function)
    letter = "y" if given["hamiltonian"] is None else "q"
    return GivenFunction(function, _component_names(dim, components, letter), **given).made()


def system_from_hamiltonian(
    hamiltonian: Callable[..., Any] | None, freedoms: Any, components: Any, **given: Any
) -> System:
    """See :meth:`vpintegrator.System.from_hamiltonian`."""
    _require(hamiltonian is not None, "the Hamiltonian", "a function", hamiltonian)
    whole = isinstance(freedoms, int | np.integer) or freedoms is None
    _require(whole, "degrees_of_freedom", "a whole number", freedoms)
    names = _component_names(None if freedoms is None else 2 * freedoms, components, "q")
    return GivenFunction(None, names, hamiltonian=hamiltonian, **given).made()


class _CalledChecks:
    """A function that is called, at states where its declared properties are checked."""

    def __init__(self, given: GivenFunction, reason: str) -> None:
        self.given, self.reason = given, reason
        self.states, self.times = given.sampled()
        self.energy = None if given.energy is None else self._batch(given.energy, 0)
        call = given.call
        if call is None:
            assert given.energy is not None and self.energy is not None
            if self.energy.library != "torch":
                raise InputError(
                    f"{given.source} was not recorded as formulas ({reason}), and needs "
                    "derivatives: write it with torch's functions, or give the vector field too, "
                    "with System.from_function"
                )
            call = _HamiltonianField(**vars(given.energy))
        self.values = self._batch(call, len(given.components))
        self.found = self.values(self.states, self.times)
        finite = np.isfinite(self.found).all(axis=1)
        if not finite.any():
            raise InputError(
                f"{given.source} has no finite value at states of its sampling domain; give "
                "sample=(low, high), a box in which it has"
            )
        self.states, self.times, self.found = (
            each[finite] for each in (self.states, self.times, self.found)
        )
        self.slopes, self.tolerance = self.values.sound_slopes(self.states, self.times)
        self.size = np.abs(self.found).max(axis=1)

    def _batch(self, call: PythonCall, count: int) -> BatchFunction:
        return BatchFunction(call, count, self.given.parameters, self.states, self.times)

    def system(self) -> System:
        """Return the system with its properties checked.

        Raises
        ------
        InputError
            If a declared property does not hold; with a state where it fails.
        """
        given, is_map = self.given, self.given.is_map
        scalars = {name: self._batch(call, 0) for name, call in given.scalars.items()}
        for name, scalar in scalars.items():
            if is_map:
                before = scalar(self.states, self.times)
                terms = np.stack([scalar(self.found, self.times), -before], axis=1)
                tolerance = EXACT
            else:
                slopes, tolerance = scalar.sound_slopes(self.states, self.times)
                terms = slopes[:, 0] * np.c_[self.found, np.ones(len(self.found))]
            how = "the map changes it by" if is_map else "its rate is"
            words = f"invariants, {name}: this is not constant, {how}"
            self._holds(terms.sum(axis=1), np.abs(terms).sum(axis=1), tolerance, words)
        kept = self._map_structure() if is_map else self._flow_structure()
        timed = not is_map and self._depends_on_time()
        calls = dict(given.scalars)
        if self.energy is not None and given.energy is not None and not timed:
            calls, scalars = {"energy": given.energy, **calls}, {"energy": self.energy, **scalars}
        library = AUTOGRAD if self.values.library == "torch" else DIFFERENCES
        keys: dict[str, Any] = {"measured": True, "derivatives": library, **kept}
        if (reference := _reference_of(self.values.call.function)) is not None:
            keys["function"] = reference
        keys["invariants"] = {}
        for name, call in calls.items():
            try:  # files hold invariants that are formulas
                (text,), auxiliary, _ = given.traced([(call, 1)])
            except NotTraceable:
                continue
            keys["invariants"] |= {} if auxiliary else {name: text}
        if is_map:
            given.tables["defaults"] = {"step": 1.0}
        kind: Any = FunctionMap if is_map else FunctionSystem
        system = kind(given.text(keys, timed), given.name, source=given.source)
        system.given, system.values, system.reason = given, self.values, self.reason
        for name in scalars.keys() - keys["invariants"].keys():
            system.invariants[name] = _Invariant(system, scalars[name])
        self._check_symmetries(system)
        return system

    def _flow_structure(self) -> dict[str, bool]:
        """Return the keys of volume and form of a vector field."""
        positions, momenta = self.given.halves
        free = self.given.divergence_free
        if self.energy is not None:
            gradient, tolerance = self.energy.sound_slopes(self.states, self.times)
            expected = np.empty_like(self.found)
            expected[:, positions] = gradient[:, 0, momenta]
            expected[:, momenta] = -gradient[:, 0, positions]
            words = "hamiltonian: f is not (dH/dp, -dH/dq), they differ by"
            self._holds(self.found - expected, self.size, tolerance, words)
        own = np.diagonal(self.slopes[..., :-1], axis1=1, axis2=2)
        words, size = "divergence_free: the divergence is", np.abs(own).sum(axis=1)
        found = self._holds(own.sum(axis=1), size, self.tolerance, words, free is True)
        if free is False and found:
            raise InputError(f"{self.given.source}, divergence_free: it is said false, but is 0")
        return {"divergence_free": found} | ({} if self.energy is None else {"symplectic": True})

    def _map_structure(self) -> dict[str, bool]:
        """Return the keys of volume and form of a map."""
        given, slopes, dim = self.given, self.slopes[..., :-1], self.slopes.shape[1]
        declared, symplectic = str(given.structure), False
        size = np.abs(slopes).max(axis=(1, 2))
        if dim % 2 == 0 or declared == "symplectic":
            _require(dim % 2 == 0, "a symplectic state", "positions and as many momenta", dim)
            order = list(canonical_order(given.components, given.source) or range(dim))
            positions, momenta = order[: dim // 2], order[dim // 2 :]
            form = slopes[:, positions].transpose(0, 2, 1) @ slopes[:, momenta]
            form = form - form.transpose(0, 2, 1)
            form[:, positions, momenta] -= 1
            form[:, momenta, positions] += 1
            words = "structure: that the form dq dp is kept fails by"
            claimed = declared == "symplectic"
            symplectic = self._holds(form, size**2, self.tolerance, words, claimed)
        with np.errstate(all="ignore"):
            defects = np.linalg.det(slopes) - 1
        words = "structure: that the determinant of the derivative is 1 fails by"
        claimed = declared == "volume-preserving"
        volume = self._holds(defects, size**dim, self.tolerance, words, claimed)
        return {"divergence_free": volume} | ({"symplectic": True} if symplectic else {})

    def _depends_on_time(self) -> bool:
        count = len(self.states)
        values = [self.values(self.states, np.full(count, t)) for t in (0.0, 0.618, 2.718, 7.389)]
        return not all(np.array_equal(values[0], other, equal_nan=True) for other in values[1:])

    def _check_symmetries(self, system: System) -> None:
        """Check reversing symmetries and periods."""
        dim, is_map = len(self.given.components), self.given.is_map
        size = self.size + (np.abs(self.states).max(axis=1) if is_map else 0)
        for number, rho in enumerate(system.reversing_symmetries, start=1):
            start = self.found if is_map else self.states
            images = self.values(start @ rho[:dim, :dim].T, -self.times)
            back = self.states if is_map else -self.found
            words = "rho M rho M = identity" if is_map else "f(rho z) = -rho f(z)"
            words = f"reversing_symmetries, {number}: {words} fails by"
            defects = images - back @ rho[:dim, :dim].T
            self._holds(defects, size, 10 * EXACT, words)
        periods = np.array([system.periods.get(i, 0.0) for i in range(dim)])
        for turns in (1, -2) if system.periods else ():
            times = self.times + turns * (system.period or 0.0)
            changes = self.values(self.states + turns * periods, times) - self.found
            if is_map:
                angles = periods > 0
                whole = np.rint(changes[:, angles] / periods[angles])
                changes[:, angles] -= whole * periods[angles]
            words = f"periodic: the {'image' if is_map else 'function f'} changes after a period by"
            self._holds(changes, size + 2 * periods.max(), 10 * EXACT, words)

    def _holds(
        self, defects: np.ndarray, size: Any, tolerance: float, words: str, declared: bool = True
    ) -> bool:
        """Whether defects (state, ...) are small relative to a size; InputError where declared."""
        largest = np.abs(defects).reshape(len(self.states), -1).max(axis=1)
        relative = np.nan_to_num(largest / (1 + size))
        k = int(np.argmax(relative))
        if relative[k] > tolerance and declared:
            where = place(self.given.components, self.states[k])
            raise InputError(f"{self.given.source}, {words} {largest[k]:.3g} at {where}")
        return bool(relative[k] <= tolerance)


class _Invariant:
    """A scalar function of the states (..., dim) of a system whose function is called."""

    def __init__(self, system: CalledFunction, values: BatchFunction) -> None:
        self._system, self._values = system, values

    def __call__(self, state: Any) -> Any:
        return as_given(self._system._of_rows(self._values, state), state)


class _HamiltonianField(PythonCall):
    """The vector field (dH/dp, -dH/dq) of a Hamiltonian in PyTorch, by autograd."""

    def __call__(self, t: Any, y: Any, parameters: Mapping[str, Any], axis: int = 0) -> Any:
        import torch

        if not isinstance(y, torch.Tensor):
            raise TypeError("a Hamiltonian in PyTorch takes tensors")
        with torch.enable_grad():
            y = y if y.requires_grad else y.detach().requires_grad_()
            energy = super().__call__(t, y, parameters, axis)
            slopes = torch.autograd.grad(energy.sum(), y, create_graph=True)[0].movedim(axis, 0)
            order = np.argsort([*self.halves[0], *self.halves[1]])
            found = torch.cat([slopes[self.halves[1]], -slopes[self.halves[0]]])[order]
        found = found.movedim(0, axis)
        return found if torch.is_grad_enabled() else found.detach()


def _reference_of(function: Any) -> str | None:
    """Return ``module:name`` of the function, where it has one."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<>")
    if module == "__main__":
        module = getattr(sys.modules["__main__"], "__file__", None)
        module = None if module is None else Path(module).stem
    known = isinstance(module, str) and "<" not in name and "." not in name
    return f"{module}:{name}" if known else None


def _require(holds: bool, what: str, expected: str, given: Any) -> None:
    if not holds:
        raise InputError(f"{what} must be {expected}, not {printable(repr(given), 80)}")


def _component_names(dim: Any, components: Any, letter: str) -> list[str]:
    """Names of components: those given, or ``y1, y2, ...``; for q also the momenta."""
    if isinstance(components, str):
        components = [name.strip() for name in components.split(",")]
    if components is None:
        given = "say how many components a state has: dim=2, or components=['q', 'p']; dim"
        whole = isinstance(dim, int | np.integer) and not isinstance(dim, bool)
        most = f"a whole number, 1 to {MAXIMUM_DIMENSION}"
        _require(whole and 1 <= dim <= MAXIMUM_DIMENSION, given, most, dim)
        half, odd = divmod(int(dim), 2)
        if letter == "q" and not odd:
            return ["q", "p"] if half == 1 else [f"{x}{i + 1}" for x in "qp" for i in range(half)]
        return [f"{'y' if letter == 'q' else letter}{i + 1}" for i in range(dim)]
    listed = isinstance(components, list | tuple) and len(components) > 0
    _require(listed, "components", "a list of names", components)
    if dim is not None and len(components) != dim:
        raise InputError(f"dim = {dim}, but there are {len(components)} names of components")
    return [str(name) for name in components]


def _parameter_values(parameters: Any, components: Sequence[str]) -> dict[str, Any]:
    """Return values of parameters as numbers and lists of numbers of Python."""
    parameters = {} if parameters is None else parameters
    mapping = isinstance(parameters, Mapping)
    _require(mapping, "parameters", "a dictionary, as in {'k': 1.0}", parameters)
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        array = np.asarray(value)
        known = array.dtype.kind in "iuf" and array.ndim <= 1 and bool(np.isfinite(array).all())
        _require(known, f"parameters: {name}", "a number, or a list of them", value)
        found[str(name)] = array.tolist()
    return found


def _initial_table(sample: Any, dim: int) -> dict[str, Any]:
    """Return the table ``[initial_conditions]`` that ``sample`` means."""
    sample = (-1, 1) if sample is None else sample
    if isinstance(sample, Mapping):
        return {key: v.tolist() if isinstance(v, np.ndarray) else v for key, v in sample.items()}
    box = isinstance(sample, tuple) and len(sample) == 2
    try:
        if box:
            points = np.stack([np.broadcast_to(np.asarray(s, float), dim) for s in sample])
        else:
            points = np.asarray(sample, dtype=np.float64)
        known = points.ndim == 2 and points.shape[1] == dim and bool(np.isfinite(points).all())
    except (TypeError, ValueError):
        known = False
    words = f"a tuple (low, high) of the corners of a box, an array of states (state, {dim}), or a "
    words += "dictionary as the table [initial_conditions] of a system file"
    _require(known, "sample", words, sample)
    if box:
        return {"distribution": "uniform", "low": points[0].tolist(), "high": points[1].tolist()}
    return {"distribution": "points", "points": points.tolist()}


def _symmetry_tables(symmetries: Any, components: Sequence[str]) -> list[dict[str, str]]:
    """Return reversing symmetries as tables of expressions."""
    dim, tables = len(components), []
    symmetries = () if symmetries is None else symmetries
    listed = isinstance(symmetries, list | tuple | np.ndarray)
    _require(listed, "reversing_symmetries", "a list of matrices", symmetries)
    for given in symmetries:
        try:
            matrix = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.empty(0)
        matrix = np.diag(matrix) if matrix.shape == (dim,) else matrix
        known = matrix.shape == (dim, dim) and bool(np.isfinite(matrix).all())
        words = f"matrices ({dim}, {dim}) or the {dim} signs on their diagonals"
        _require(known, "reversing_symmetries", words, given)
        images = {}
        for name, row, same in zip(components, matrix, np.eye(dim), strict=True):
            terms = [f"({c!r})*{z}" for z, c in zip(components, row.tolist(), strict=True) if c]
            if not np.array_equal(row, same):
                images[name] = " + ".join(terms) or "0"
        tables.append(images)
    return tables


def _period_table(periodic: Any, components: Sequence[str]) -> dict[str, str]:
    """Return periods of angles as expressions, by the name of the component."""
    periodic = {} if periodic is None else periodic
    periodic = [periodic] if isinstance(periodic, str) else periodic
    if isinstance(periodic, list | tuple) and all(isinstance(name, str) for name in periodic):
        periodic = dict.fromkeys(periodic, "2*pi")
    mapping = isinstance(periodic, Mapping)
    _require(mapping, "periodic", "periods by names of components, or names", periodic)
    for name in periodic:
        if name not in components:
            raise InputError(f"periodic: there is no component '{name}' ({', '.join(components)})")
    return {name: _period_text(value) for name, value in periodic.items()}


def _period_text(value: Any) -> str:
    """Return a period as an expression."""
    number = isinstance(value, int | float | np.number) and bool(np.isfinite(value))
    _require(isinstance(value, str) or number, "a period", "a number or an expression", value)
    return value if isinstance(value, str) else repr(float(value))
