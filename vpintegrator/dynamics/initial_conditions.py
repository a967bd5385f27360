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
from functools import cache, cached_property
from typing import Any

import numpy as np

from vpintegrator.arguments import of_kind, whole
from vpintegrator.dynamics.equations import FormulaDomain
from vpintegrator.dynamics.expressions import (
    Algebra,
    Expression,
    Scope,
    Symbol,
    Value,
    check_name,
    parse,
    vectorised,
)
from vpintegrator.dynamics.properties import SystemProperties
from vpintegrator.dynamics.reading import MAXIMUM_DIMENSION, check_table, read_components
from vpintegrator.errors import InputError, nearest

_DRAWS = 100  # of a state, until it is in the domain of the equations
_MOST_NUMBERS = 2**31  # in the initial states of one call
_MOST_LISTED = 2e7  # in those of a list of curves
_PROPOSALS = 65_536  # of an energy shell at a time
_FEWEST_PROPOSALS = 1024
_MOST_PROPOSALS = 5_000_000  # unless this part of them is accepted:
_LEAST_ACCEPTED = 1e-4
_NUMBER = (str, int, float)
_VECTOR = (*_NUMBER, list, Mapping)
_KEYS: dict[str, dict[str, Any]] = {  # with kinds of their values
    "points": {"points": list},
    "curves": {"parameter": str, "start": _NUMBER, "stop": _NUMBER, "step": _NUMBER},
    "uniform": {"low": _VECTOR, "high": _VECTOR},
    "normal": {"mean": _VECTOR, "std": _VECTOR},
    "sphere": {"radius": _NUMBER, "centre": _VECTOR},
    "energy-shell": {"energy": list, "low": _VECTOR, "high": _VECTOR, "invariant": str},
    "formula": {"random": Mapping, "state": Mapping},
}
_KEYS["curves"]["curves"] = list
_DEFAULTS = {"mean": 0, "std": 1, "radius": 1, "centre": 0, "invariant": "energy"}

Parameters = np.ndarray | None  # values of the parameters that vary, (state, name)
Numbers = Callable[[Parameters], np.ndarray]  # the same for all states, or (state, number)
Draw = Callable[[int, np.random.Generator, Parameters], np.ndarray]


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
        self.system, self.where = system, f"{source}, [initial_conditions]"
        of_kind(self.where, table, Mapping, "a table")
        name, e = table.get("distribution"), system.equations
        if not isinstance(name, str) or name not in _KEYS:
            raise InputError(
                f"{self.where} distribution: {name!r} is none of {', '.join(_KEYS)}"
                f"{nearest(str(name), _KEYS)}"
            )
        self.distribution, kinds = name, _KEYS[name]
        defaults = {key: _DEFAULTS[key] for key in kinds if key in _DEFAULTS}
        self.table: dict[str, Any] = {**defaults, **table}
        if missing := kinds.keys() - self.table.keys():
            needed = ", ".join(sorted(missing))
            raise InputError(f"{self.where}: distribution '{name}' needs {needed}")
        self._dim = system.phase_dim
        times = {} if system.time is None else {system.time: (*_NUMBER, list)}
        check_table(self.table, {"distribution": str, **kinds, **times}, self.where)
        self._symbols: tuple[Symbol, ...] = e.open
        self._start_times = self._times()
        read: Callable[[], Draw | np.ndarray] = getattr(self, f"_{name.replace('-', '_')}")
        result = read()
        self._states = result if isinstance(result, np.ndarray) else None
        self._draw: Any = result
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
        most = _MOST_NUMBERS // self.system.dim
        count = self.available if count is None else count
        count = int(whole(f"{self.where}: the number of initial states", count, 0, most))
        if self._states is None:
            return self._in_domain(count, generator, parameters)
        if count > len(self._states):
            raise InputError(
                f"{self.where}: {count} initial states are asked for, but the list of "
                f"{self.distribution} holds {len(self._states)}"
            )
        chosen = self._states[generator.permutation(len(self._states))[:count]]
        return self._with_time(chosen, generator, parameters)

    @property
    def corners(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Corners (component,) of the box of a uniform distribution, without the time."""
        if self.distribution != "uniform" or self._symbols:
            return None
        low, high = _halves(self._box()(None))
        return low, high

    def _in_domain(
        self, count: int, generator: np.random.Generator, parameters: Parameters
    ) -> np.ndarray:
        """Draw states in the domain of the equations; those outside are drawn again."""
        states, first, total = self._draw(count, generator, parameters), "", 0
        domain = FormulaDomain.of_motion(self.system.equations)
        for _ in range(_DRAWS):
            outside = np.flatnonzero(domain.outside(states, parameters))
            if not len(outside):
                break
            own = None if parameters is None else parameters[outside]
            first = first or domain.reason(states[outside[0]], None if own is None else own[0])
            total = total or len(outside)
            states[outside] = self._draw(len(outside), generator, own)
        else:
            raise InputError(
                f"{self.where}: of {count} initial states {len(outside)} are outside of the domain "
                f"of the equations, and still are after {_DRAWS} draws: {first}; change the "
                "distribution"
            )
        if first:
            told = f"{total} of {count} initial states were drawn again: {first}"
            warnings.warn(f"{self.where}: {told}", stacklevel=3)
        return states

    def _times(self) -> Numbers:
        """Between which times trajectories start, where the equations depend on time."""
        name, period = self.system.time, self.system.period
        if name is None:
            return self._numbers([0, 0])
        given = self.table.get(name, [0, period or 0.0])
        bounds = given if isinstance(given, list) else [given, given]
        return self._numbers(self._pair(bounds, name), f"{name}: the earliest time is the later")

    def _with_time(
        self, states: np.ndarray, generator: np.random.Generator, parameters: Parameters
    ) -> np.ndarray:
        """Return states (count, dim) of those without the time, if there is one."""
        if self._dim == self.system.dim:
            return states
        first, last = _halves(self._start_times(parameters))
        times = np.array(np.broadcast_to(first, (len(states), 1)))
        if (last > first).any():
            times = generator.uniform(first, last, times.shape)
        return np.concatenate([states, times], axis=1)

    # each reader returns a list of states without the time, or a function that draws states with it

    def _points(self) -> np.ndarray:
        rows = [
            self._vector(p if isinstance(p, list) else [], f"points, entry {i}")
            for i, p in enumerate(self.table["points"])
        ]
        return np.array([[self._fixed(entry, "points") for entry in row] for row in rows])

    def _curves(self) -> np.ndarray:
        keys = ("start", "stop", "step")
        start, stop, step = (self._fixed(self._number(self.table[k], k), k) for k in keys)
        curves, parameter = self.table["curves"], self.table["parameter"]
        if step <= 0 or not 0 < (stop - start) / step * self._dim * len(curves) < _MOST_LISTED:
            raise InputError(f"{self.where}: need curves, start < stop and a positive step of size")
        values = start + step * np.arange(int(np.ceil((stop - start) / step)))
        values = values[values < stop]
        symbol = self._algebra.symbol(check_name(parameter, f"{self.where} parameter"))
        scope, rows = replace(self._scope, values={**self._scope.values, parameter: symbol}), []
        for number, curve in enumerate(curves):
            key = f"curves, entry {number}"
            if not isinstance(curve, list) or len(curve) != self._dim:
                raise InputError(
                    f"{self.where} {key}: expected {self._dim} expressions of {parameter}"
                )
            expressions = [parse(text, scope, f"{self.where} {key}") for text in curve]
            for expression in expressions:
                self._fixed(expression, key, but=symbol)
            with np.errstate(all="ignore"):
                columns = vectorised(expressions, [symbol], "numpy")(values)
            rows.append(np.stack([np.broadcast_to(c, values.shape) for c in columns], -1))
            if not np.isfinite(rows[-1]).all():
                raise InputError(f"{self.where} {key}: a state is not finite")
        return np.concatenate(rows).astype(np.float64)

    def _uniform(self) -> Draw:
        box, dim = self._box(), self._dim
        return self._timed(lambda n, rng, given: rng.uniform(*_halves(box(given)), (n, dim)))

    def _normal(self) -> Draw:
        dim, values = self._dim, [*self._vector(self.table["mean"], "mean")]
        values += self._vector(self.table["std"], "std")
        numbers = self._numbers(values, "std: a standard deviation cannot be negative", True)
        return self._timed(lambda n, rng, given: rng.normal(*_halves(numbers(given)), (n, dim)))

    def _sphere(self) -> Draw:
        radius = self._number(self.table["radius"], "radius")
        values = self._numbers([*self._vector(self.table["centre"], "centre"), radius])

        def draw(count: int, generator: np.random.Generator, parameters: Parameters) -> np.ndarray:
            numbers = values(parameters)
            directions = generator.normal(size=(count, self._dim))
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
            return numbers[..., :-1] + numbers[..., -1:] * directions

        return self._timed(draw)

    def _energy_shell(self) -> Draw:
        box, name = self._box(), self.table["invariant"]
        limits = self._numbers(self._pair(self.table["energy"], "energy"))
        if name not in self.system.invariants:
            raise InputError(
                f"{self.where} invariant: the system has no invariant '{name}'"
                f"{nearest(name, self.system.invariants)}"
            )
        invariant = self.system.invariants[name]

        def draw(count: int, generator: np.random.Generator, parameters: Parameters) -> np.ndarray:
            low, high = _halves(np.broadcast_to(box(parameters), (count, 2 * self._dim)))
            least, most = _halves(np.broadcast_to(limits(parameters), (count, 2)))
            states = np.empty((count, self.system.dim))
            missing, proposed = np.arange(count), 0
            while len(missing):
                owners = missing[:1]
                size = int(np.clip(4 * len(missing), _FEWEST_PROPOSALS, _PROPOSALS))
                if parameters is not None:  # each state is of its own parameters
                    owners = np.repeat(missing, max(4, _FEWEST_PROPOSALS // len(missing)))
                    size = len(owners)
                own = None if parameters is None else parameters[owners]
                proposals = generator.uniform(low[owners], high[owners], (size, self._dim))
                proposals = self._with_time(proposals, generator, own)
                with np.errstate(all="ignore"):
                    value = invariant(proposals) if own is None else invariant(proposals, own)
                inside = (value >= least[owners, 0]) & (value <= most[owners, 0])
                accepted = np.flatnonzero(inside)
                if own is None:
                    done, accepted = missing[: len(accepted)], accepted[: len(missing)]
                else:
                    done, first = np.unique(owners[accepted], return_index=True)
                    accepted = accepted[first]
                states[done] = proposals[accepted]
                missing = np.setdiff1d(missing, done, assume_unique=True)
                proposed += size
                found = count - len(missing)
                hopeless = proposed > _MOST_PROPOSALS and found < _LEAST_ACCEPTED * proposed
                if hopeless and len(missing):
                    lowest, highest = (f"{side[missing[0], 0]:g}" for side in (least, most))
                    raise InputError(
                        f"{self.where}: only {found} of {proposed} states in the box have an "
                        f"energy between {lowest} and {highest}; change low and high, or energy"
                    )
            return states

        return draw

    def _formula(self) -> Draw:
        where, table = f"{self.where} random", self.table["random"]
        taken = {*self.system.equations.scope.values, *self.system.equations.scope.integers, "i"}
        drawn: dict[str, Any] = {}
        own = list[Symbol]()
        parts: list[tuple[bool, Numbers, int]] = []  # uniform or normal, two numbers, how many
        for name, entry in table.items():
            if check_name(name, f"{where} {name}") in taken:
                raise InputError(f"{where} {name}: the name '{name}' has a meaning already")
            parts.append(self._random(name, entry))
            symbols = tuple(self._algebra.symbol(name) for _ in range(parts[-1][2] or 1))
            drawn[name] = symbols if parts[-1][2] else symbols[0]
            own += symbols
        scope = replace(self._scope, values={**self._scope.values, **drawn})
        expressions = self._components(self.table["state"], "state", scope)
        # compiled when first needed: loading a system is to be quick
        formulas = cache(lambda: vectorised(expressions, [*own, *self._symbols], "numpy"))

        def draw(count: int, generator: np.random.Generator, parameters: Parameters) -> np.ndarray:
            columns: list[np.ndarray] = []
            for uniform, numbers, length in parts:
                first, second = np.moveaxis(numbers(parameters), -1, 0)[..., None]
                each = generator.uniform if uniform else generator.normal
                columns += [*each(first, second, (count, length or 1)).T]
            with np.errstate(all="ignore"):
                values = formulas()(*columns, *(() if parameters is None else parameters.T))
            states = np.empty((count, self._dim))
            for column, value in zip(states.T, values, strict=True):
                column[:] = value
            if not np.isfinite(states).all():
                raise InputError(f"{self.where} state: a formula has no finite value")
            return states

        return self._timed(draw)

    def _random(self, name: str, entry: Any) -> tuple[bool, Numbers, int]:
        """Return whether a random number is uniform, its two numbers, and its length, 0 for one."""
        key = f"random {name}"
        if isinstance(entry, list) and len(entry) == 2:
            entry = {"low": entry[0], "high": entry[1]}
        kinds = ({"low", "high"}, {"mean", "std"})
        if not isinstance(entry, Mapping) or entry.keys() - {"length"} not in kinds:
            raise InputError(
                f"{self.where} {key}: expected [low, high], or a table with low and high or mean "
                "and std, and perhaps length"
            )
        length = 0
        if "length" in entry:
            given = self._fixed(self._number(entry["length"], f"{key} length"), f"{key} length")
            length = int(given) if given.is_integer() else 0
            whole(f"{self.where} {key} length", length, 1, MAXIMUM_DIMENSION)
        uniform = "low" in entry
        names = ("low", "high") if uniform else ("mean", "std")
        values = [self._number(entry[n], f"{key} {n}") for n in names]
        words = "low is above high" if uniform else "std cannot be negative"
        return uniform, self._numbers(values, f"{key}: {words}", not uniform), length

    def _timed(self, draw: Draw) -> Draw:
        """Append the time as the last component, if there is one."""
        return lambda count, generator, parameters: self._with_time(
            draw(count, generator, parameters), generator, parameters
        )

    def _box(self) -> Numbers:
        """Return the lower and then upper bounds."""
        values = [v for key in ("low", "high") for v in self._vector(self.table[key], key)]
        return self._numbers(values, "low is above high")

    @cached_property
    def _algebra(self) -> Algebra:
        return self.system.equations.algebra if self._symbols else Algebra()

    @cached_property
    def _scope(self) -> Scope:
        scope = self.system.equations.scope
        state = {*self.system.equations.arrays, *self.system.components}
        values = {name: value for name, value in scope.values.items() if name not in state}
        return replace(scope, values=values, algebra=self._algebra)

    def _numbers(self, values: Sequence[Value], words: str = "", spread: bool = False) -> Numbers:
        """Return numbers as a function of the parameters that vary.

        Where there are ``words``, the first half must not be above the second; of a mean and a
        spread the second must not be negative.
        """

        def checked(numbers: np.ndarray) -> np.ndarray:
            first, second = _halves(numbers)
            if words and (second < 0 if spread else first > second).any():
                raise InputError(f"{self.where} {words}")
            return numbers

        if not any(isinstance(value, Expression) for value in values):
            fixed = checked(np.array([float(value) for value in values]))  # type: ignore[arg-type]
            return lambda parameters: fixed
        function = cache(lambda: vectorised(values, self._symbols, "numpy"))

        def varying(parameters: Parameters) -> np.ndarray:
            assert parameters is not None
            with np.errstate(all="ignore"):
                columns = function()(*parameters.T)
            return checked(np.stack([np.broadcast_to(c, len(parameters)) for c in columns], -1))

        return varying

    def _number(self, text: Any, key: str) -> Value:
        return parse(text, self._scope, f"{self.where} {key}")

    def _pair(self, bounds: list[Any], key: str) -> list[Value]:
        if len(bounds) != 2:
            raise InputError(f"{self.where} {key}: expected [lowest, highest]")
        return [self._number(bound, key) for bound in bounds]

    def _fixed(self, value: Value, key: str, but: Symbol | None = None) -> float:
        """A number that no parameter which varies may change, or a formula of one variable."""
        if not isinstance(value, Expression):
            return float(value)
        if others := [s.name for s in self._algebra.symbols(value) if s is not but]:
            names = ", ".join(others)
            raise InputError(f"{self.where} {key}: this cannot depend on {names}, which varies")
        return float("nan")

    def _components(self, table: Any, key: str, scope: Scope) -> list[Value]:
        """An expression for every component of the state, from a table by component or array."""
        where, e = f"{self.where} {key}", self.system.equations
        names = e.components[: self._dim]
        found = read_components(table, where, scope, names, e.arrays)
        if missing := [name for k, name in enumerate(names) if k not in found]:
            raise InputError(f"{where}: nothing is given for {', '.join(missing[:6])}")
        return [found[k] for k in range(len(names))]

    def _vector(self, value: Any, key: str) -> list[Value]:
        if isinstance(value, Mapping):
            return self._components(value, key, self._scope)
        if isinstance(value, list) and len(value) != self._dim:
            raise InputError(f"{self.where} {key}: expected {self._dim} numbers")
        entries = value if isinstance(value, list) else [value] * self._dim
        return [self._number(entry, key) for entry in entries]


def _halves(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the second half of the last axis."""
    half = numbers.shape[-1] // 2
    return numbers[..., :half], numbers[..., half:]
