"""Distributions of initial states that a system or a recipe can name.

    distribution = "points"         points = [[...], ...]
    distribution = "curves"         parameter = "a", start, stop, step,
                                    curves = [["sin(a)", ...], ...]
    distribution = "uniform"        low, high
    distribution = "normal"         mean, std
    distribution = "sphere"         radius, centre
    distribution = "energy-shell"   energy = [lowest, highest], low, high (the box of proposals),
                                    invariant
    distribution = "formula"        random = { a = ["-pi", "pi"], r = { mean = 1, std = 0.1 },
                                               u = { low = 0, high = 1, length = "n" } },
                                    state = { x = "r*cos(a)", y = "r*sin(a)", v = "u[i]" }

``low``, ``high``, ``mean``, ``std`` and ``centre`` are a number for all components, a list with one
entry each, or a table of them by component or array, ``{ q = "i", p = 0 }``; every number may be an
expression of the system's parameters, such as ``"-pi"``. A formula computes the state from
independent random numbers, uniform between two bounds or normal, single or arrays.

If the equations depend on time t, these are distributions of the other components. The initial time
is a number, ``t = 0``, or uniform in a range, ``t = [0, "2*pi"]``. By default the initial time is
uniform over a period, or 0 for equations without period.

States at which the vector field or the Hamiltonian has no value are drawn again.

If parameters vary, each state is drawn from the distribution at its own parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from vpintegrator.arguments import of_kind, one_of, whole
from vpintegrator.dynamics.equations import FormulaDomain, stack_rows
from vpintegrator.dynamics.expressions.algebra import Algebra
from vpintegrator.dynamics.expressions.evaluation import vectorised
from vpintegrator.dynamics.expressions.nodes import Expression, Symbol, Value
from vpintegrator.dynamics.expressions.parsing import check_name, parse
from vpintegrator.dynamics.properties import SystemProperties
from vpintegrator.dynamics.reading import MAXIMUM_DIMENSION, check_table, read_components
from vpintegrator.dynamics.section import parameter_scope
from vpintegrator.errors import InputError

_DRAWS = 100  # of a state, until it is in the domain of the equations
_MOST_NUMBERS = 2**31  # in the initial states of one call
_MOST_LISTED = 2e7  # in those of a list of curves
_PROPOSALS = 65_536  # of an energy shell at a time
_FEWEST_PROPOSALS = 1024
_MOST_PROPOSALS = 5_000_000  # unless this part of them is accepted:
_LEAST_ACCEPTED = 1e-4
_NUMBER = (str, int, float)
_VECTOR = (*_NUMBER, list, Mapping)
_BOX = {"low": _VECTOR, "high": _VECTOR}
_KEYS: dict[str, dict[str, Any]] = {  # with kinds of their values
    "points": {"points": list},
    "curves": {
        "parameter": str,
        "start": _NUMBER,
        "stop": _NUMBER,
        "step": _NUMBER,
        "curves": list,
    },
    "uniform": _BOX,
    "normal": {"mean": _VECTOR, "std": _VECTOR},
    "sphere": {"radius": _NUMBER, "centre": _VECTOR},
    "energy-shell": {"energy": list, **_BOX, "invariant": str},
    "formula": {"random": Mapping, "state": Mapping},
}
_DEFAULTS = {"mean": 0, "std": 1, "radius": 1, "centre": 0, "invariant": "energy"}
_PAIRS = {("low", "high"): "low is above high", ("mean", "std"): "std cannot be negative"}

# functions of the parameters that vary, (state, name): the same numbers for all states, or
# (state, number)
Numbers = Callable[[np.ndarray], np.ndarray]
Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


class InitialConditions:
    """A distribution of initial states of one system.

    Parameters
    ----------
    system
        The system whose states these are, perhaps with open parameters.
    table
        The table ``[initial_conditions]`` of a system file or recipe.
    source
        The file's name, for messages.

    Attributes
    ----------
    available
        Number of states of a distribution that is a list (points, curves); else None.

    Raises
    ------
    InputError
        If the table cannot be understood.

    Examples
    --------
    >>> system = vp.load_system("rigid-body")
    >>> system.initial_conditions.sample(4, np.random.default_rng(0)).shape
    (4, 3)
    """

    def __init__(self, system: SystemProperties, table: Mapping[str, Any], source: str) -> None:
        self.system = system
        self.where = f"{source}, [initial_conditions]"
        of_kind(self.where, table, Mapping, "a table")
        name = table.get("distribution", "")
        e = system.equations
        one_of(f"{self.where} distribution", name, _KEYS)
        self.distribution = name
        kinds = _KEYS[name]
        defaults = {key: _DEFAULTS[key] for key in kinds if key in _DEFAULTS}
        self.table: dict[str, Any] = {**defaults, **table}
        if missing := kinds.keys() - self.table.keys():
            needed = ", ".join(sorted(missing))
            raise InputError(f"{self.where}: distribution '{name}' needs {needed}")
        self._dim = system.phase_dim
        times = {} if system.time is None else {system.time: (*_NUMBER, list)}
        check_table(self.table, {"distribution": str, **kinds, **times}, self.where)
        scope = parameter_scope(e)
        if name in ("points", "curves"):  # of numbers, which no parameter that varies may change
            fixed = {k: v for k, v in scope.values.items() if not isinstance(v, Expression)}
            scope = replace(scope, values=fixed)
        self._scope = replace(scope, algebra=e.algebra if e.open else Algebra())
        self._start_times = self._times()
        self.corners: tuple[np.ndarray, np.ndarray] | None = None
        self._states: np.ndarray | None = None
        if name in ("points", "curves"):
            self._states = self._points() if name == "points" else self._curves()
        else:
            self._draw: Draw = getattr(self, f"_{name.replace('-', '_')}")()
        self.available = None if self._states is None else len(self._states)

    def sample(
        self,
        count: int | None,
        generator: np.random.Generator,
        parameters: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return initial states of shape (count, dim).

        From a list (points, curves), ``count`` of them in random order, all of them for None; from
        a distribution, ``count`` independent draws. Where parameters vary, ``parameters`` (count,
        name) are those of each state.

        Raises
        ------
        InputError
            If a list holds fewer than ``count`` states, or no state with the energy, or in the
            domain of the equations, is found.
        """
        count = self.available if count is None else count
        what = "the number of initial states"
        count = whole(f"{self.where}: {what}", count, 0, _MOST_NUMBERS // self.system.dim)
        parameters = np.empty((count, 0)) if parameters is None else parameters
        if self._states is None:
            return self._in_domain(generator, parameters)
        if count > len(self._states):
            raise InputError(
                f"{self.where}: {count} initial states are asked for, but the list of "
                f"{self.distribution} holds {len(self._states)}"
            )
        sample = self._states[generator.permutation(len(self._states))[:count]]
        return self._with_time(sample, generator, parameters)

    def _in_domain(self, generator: np.random.Generator, parameters: np.ndarray) -> np.ndarray:
        """Draw states in the domain of the equations; those outside are drawn again."""
        domain = FormulaDomain.of_motion(self.system.equations)
        count = len(parameters)
        told = ""
        states = np.empty((count, self.system.dim))
        outside = np.arange(count)
        for draws in range(_DRAWS + 1):
            values = parameters[outside]
            states[outside] = self._with_time(self._draw(generator, values), generator, values)
            outside = np.flatnonzero(domain.outside(states, parameters))
            if not len(outside):
                break
            if not draws:
                reason = domain.reason(states[outside[0]], parameters[outside[0]])
                told = f"{len(outside)} of {count} initial states were drawn again: {reason}"
        else:
            raise InputError(
                f"{self.where}: {told}; {len(outside)} of them are still outside of the domain of "
                f"the equations after {_DRAWS} draws; change the distribution"
            )
        if told:
            warnings.warn(f"{self.where}: {told}", stacklevel=3)
        return states

    def _times(self) -> Numbers:
        """Between which times trajectories start, where the equations depend on time."""
        name = str(self.system.time)
        period = self.system.period
        given = self.table.get(name, [0, period or 0.0])
        bounds = given if isinstance(given, list) else [given, given]
        return self._numbers(self._pair(bounds, name), f"{name}: the earliest time is the later")

    def _with_time(
        self, states: np.ndarray, generator: np.random.Generator, parameters: np.ndarray
    ) -> np.ndarray:
        """Return states (count, dim) of those without the time, if there is one."""
        if states.shape[1] == self.system.dim:
            return states
        first, last = _halves(self._start_times(parameters))
        times = np.array(np.broadcast_to(first, (len(states), 1)))
        if (last > first).any():
            times = generator.uniform(first, last, times.shape)
        return np.concatenate([states, times], axis=1)

    # each reader returns a list of states without the time, or a function that draws states

    def _points(self) -> np.ndarray:
        rows = [
            self._vector(p if isinstance(p, list) else [], f"points, entry {i}")
            for i, p in enumerate(self.table["points"])
        ]
        return np.array(rows, dtype=np.float64)

    def _curves(self) -> np.ndarray:
        numbers = (self._number(self.table[key], key) for key in ("start", "stop", "step"))
        start, stop, step = (float(number) for number in numbers)  # type: ignore[arg-type]
        curves = self.table["curves"]
        parameter = self.table["parameter"]
        if step <= 0 or not 0 < (stop - start) / step * self._dim * len(curves) < _MOST_LISTED:
            raise InputError(f"{self.where}: need curves, start < stop and a positive step of size")
        values = start + step * np.arange(int(np.ceil((stop - start) / step)))
        values = values[values < stop]
        symbol = self._scope.algebra.symbol(check_name(parameter, f"{self.where} parameter"))
        self._scope = replace(self._scope, values={**self._scope.values, parameter: symbol})
        rows = []
        for number, curve in enumerate(curves):
            key = f"curves, entry {number}"
            expressions = self._vector(curve if isinstance(curve, list) else [], key)
            with np.errstate(all="ignore"):
                columns = vectorised(expressions, [symbol], "numpy")(values)
            rows.append(stack_rows(columns, values, -1))
            if not np.isfinite(rows[-1]).all():
                raise InputError(f"{self.where} {key}: a state is not finite")
        return np.concatenate(rows)

    def _uniform(self) -> Draw:
        box = self._vectors("low", "high")
        self.corners = None if self.system.equations.open else _halves(box(np.empty((1, 0))))
        return lambda rng, given: rng.uniform(*_halves(box(given)), (len(given), self._dim))

    def _normal(self) -> Draw:
        numbers = self._vectors("mean", "std")
        return lambda rng, given: rng.normal(*_halves(numbers(given)), (len(given), self._dim))

    def _sphere(self) -> Draw:
        centre = self._vector(self.table["centre"], "centre")
        radius = self.table["radius"]
        values = self._numbers([*centre, self._number(radius, "radius")])

        def draw(generator: np.random.Generator, parameters: np.ndarray) -> np.ndarray:
            numbers = values(parameters)
            directions = generator.normal(size=(len(parameters), self._dim))
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
            return numbers[..., :-1] + numbers[..., -1:] * directions

        return draw

    def _energy_shell(self) -> Draw:
        box = self._vectors("low", "high")
        name = self.table["invariant"]
        limits = self._numbers(self._pair(self.table["energy"], "energy"))
        one_of(f"{self.where} invariant", name, self.system.invariants)
        invariant = self.system.invariants[name]
        varies = bool(self.system.equations.open)

        def draw(generator: np.random.Generator, parameters: np.ndarray) -> np.ndarray:
            count = len(parameters)
            proposed = 0
            low, high = _halves(np.broadcast_to(box(parameters), (count, 2 * self._dim)))
            least, most = np.broadcast_to(limits(parameters), (count, 2)).T
            states = np.empty((count, self.system.dim))
            missing = np.arange(count)
            while len(missing):
                left = len(missing)
                if varies:  # each state is of its own parameters
                    owners = np.repeat(missing, max(4, _FEWEST_PROPOSALS // left))
                else:
                    size = int(np.clip(4 * left, _FEWEST_PROPOSALS, _PROPOSALS))
                    owners = np.repeat(missing[:1], size)
                proposals = generator.uniform(low[owners], high[owners])
                proposals = self._with_time(proposals, generator, parameters[owners])
                with np.errstate(all="ignore"):
                    value = invariant(proposals, *([parameters[owners]] if varies else []))
                accepted = np.flatnonzero((value >= least[owners]) & (value <= most[owners]))
                if varies:
                    done, first = np.unique(owners[accepted], return_index=True)
                    accepted = accepted[first]
                else:
                    done = missing[: len(accepted)]
                    accepted = accepted[:left]
                states[done] = proposals[accepted]
                missing = np.setdiff1d(missing, done, assume_unique=True)
                proposed = proposed + len(owners)
                number = count - len(missing)
                if number < min(count, _LEAST_ACCEPTED * proposed) and proposed > _MOST_PROPOSALS:
                    lowest, highest = (f"{side[missing[0]]:g}" for side in (least, most))
                    raise InputError(
                        f"{self.where}: only {number} of {proposed} states in the box have an "
                        f"energy between {lowest} and {highest}; change low and high, or energy"
                    )
            return states

        return draw

    def _formula(self) -> Draw:
        where = f"{self.where} random"
        scope = self._scope
        open_ = self.system.equations.open
        taken = {*self.system.equations.scope.values, *scope.integers, "i"}
        drawn = dict[str, Any]()
        variables = list[Symbol]()
        parts: list[tuple[bool, Numbers, int]] = []  # uniform or normal, two numbers, how many
        for name, entry in self.table["random"].items():
            if check_name(name, f"{where} {name}") in taken:
                raise InputError(f"{where} {name}: the name '{name}' has a meaning already")
            parts.append(self._random(entry, f"random {name}"))
            symbols = [scope.algebra.symbol(name) for _ in range(parts[-1][2] or 1)]
            drawn[name] = tuple(symbols) if parts[-1][2] else symbols[0]
            variables += symbols
        self._scope = replace(scope, values={**scope.values, **drawn})
        expressions = self._by_component(self.table["state"], "state")
        # compiled when first needed: loading a system is to be quick
        formulas = cache(lambda: vectorised(expressions, [*variables, *open_], "numpy"))

        def draw(generator: np.random.Generator, parameters: np.ndarray) -> np.ndarray:
            columns: list[np.ndarray] = []
            for uniform, numbers, length in parts:
                first, second = np.moveaxis(numbers(parameters), -1, 0)[..., None]
                each = generator.uniform if uniform else generator.normal
                columns += [*each(first, second, (len(parameters), length or 1)).T]
            with np.errstate(all="ignore"):
                values = formulas()(*columns, *parameters.T)
            states = stack_rows(values, np.empty(len(parameters)), -1)
            if not np.isfinite(states).all():
                raise InputError(f"{self.where} state: a formula has no finite value")
            return states

        return draw

    def _random(self, entry: Any, key: str) -> tuple[bool, Numbers, int]:
        """Return whether a random number is uniform, its two numbers, and its length, 0 for one."""
        if isinstance(entry, list) and len(entry) == 2:
            entry = {"low": entry[0], "high": entry[1]}
        given = set(entry) - {"length"} if isinstance(entry, Mapping) else set()
        if (names := next((names for names in _PAIRS if given == {*names}), None)) is None:
            raise InputError(
                f"{self.where} {key}: expected [low, high], or a table with low and high or mean "
                "and std, and perhaps length"
            )
        length = self._number(entry.get("length", 0), f"{key} length")
        if "length" in entry:
            whole(f"{self.where} {key} length", length, 1, MAXIMUM_DIMENSION)
        values = [self._number(entry[name], f"{key} {name}") for name in names]
        numbers = self._numbers(values, f"{key}: {_PAIRS[names]}", "std" in names)
        return "low" in names, numbers, length  # type: ignore[return-value]

    # readers of numbers

    def _number(self, text: Any, key: str) -> Value:
        return parse(text, self._scope, f"{self.where} {key}")

    def _pair(self, bounds: list[Any], key: str) -> list[Value]:
        if len(bounds) != 2:
            raise InputError(f"{self.where} {key}: expected [lowest, highest]")
        return [self._number(bound, key) for bound in bounds]

    def _by_component(self, table: Any, key: str) -> list[Value]:
        """Return a number for each component, from a table by component or array."""
        where = f"{self.where} {key}"
        e = self.system.equations
        names = e.components[: self._dim]
        values = read_components(table, where, self._scope, names, e.arrays)
        if missing := [name for k, name in enumerate(names) if k not in values]:
            raise InputError(f"{where}: nothing is given for {', '.join(missing[:6])}")
        return [values[k] for k in range(len(names))]

    def _vector(self, value: Any, key: str) -> list[Value]:
        """Return a number for each component, from one, a list, or a table."""
        if isinstance(value, Mapping):
            return self._by_component(value, key)
        entries = value if isinstance(value, list) else [value] * self._dim
        if len(entries) != self._dim:
            raise InputError(f"{self.where} {key}: expected {self._dim} numbers")
        return [self._number(entry, key) for entry in entries]

    def _vectors(self, *names: str) -> Numbers:
        """Return the numbers of two vectors, lower and upper bounds or means and deviations."""
        values = [value for name in names for value in self._vector(self.table[name], name)]
        return self._numbers(values, _PAIRS[names], "std" in names)  # type: ignore[index]

    def _numbers(self, values: Sequence[Value], words: str = "", spread: bool = False) -> Numbers:
        """Return numbers as a function of the parameters that vary.

        Where there are ``words``, the first half must not be above the second; of a mean and a
        spread the second must not be negative.
        """

        def checked(numbers: np.ndarray) -> np.ndarray:
            first, second = _halves(numbers)
            if words and (second < (0 if spread else first)).any():
                raise InputError(f"{self.where} {words}")
            return numbers

        if not any(isinstance(value, Expression) for value in values):
            fixed = checked(np.array([float(value) for value in values]))  # type: ignore[arg-type]
            return lambda parameters: fixed
        function = cache(lambda: vectorised(values, self.system.equations.open, "numpy"))

        def varying(parameters: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                columns = function()(*parameters.T)
            return checked(stack_rows(columns, np.empty(len(parameters)), -1))

        return varying


def _halves(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the second half of the last axis."""
    half = numbers.shape[-1] // 2
    return numbers[..., :half], numbers[..., half:]
