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
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from vpintegrator.dynamics.energy_shell import Draw, EnergyShell
from vpintegrator.dynamics.expressions import (
    Algebra,
    ComponentFunction,
    Expression,
    Scope,
    Symbol,
    Value,
    check_name,
    parse,
    vectorised,
)
from vpintegrator.dynamics.formula_domain import FormulaDomain
from vpintegrator.dynamics.formula_tables import read_components
from vpintegrator.dynamics.properties import SystemProperties
from vpintegrator.dynamics.reading import MAXIMUM_DIMENSION
from vpintegrator.dynamics.varying_numbers import VaryingNumbers, halves
from vpintegrator.errors import InputError, nearest
from vpintegrator.storage.toml import check_keys

_DRAWS = 100  # of a state, until it is in the domain of the equations
_MOST_NUMBERS = 2**31  # in the initial states of one call
_MOST_LISTED = 2e7  # in those of a list of curves
_REQUIRED: dict[str, set[str]] = {
    "points": {"points"},
    "curves": {"parameter", "start", "stop", "step", "curves"},
    "uniform": {"low", "high"},
    "normal": set(),
    "sphere": set(),
    "energy-shell": {"energy", "low", "high"},
    "formula": {"random", "state"},
}
_OPTIONAL: dict[str, set[str]] = {
    "normal": {"mean", "std"},
    "sphere": {"radius", "centre"},
    "energy-shell": {"invariant"},
}


@dataclass(frozen=True)
class _RandomNumbers:
    """A name that a formula draws: one number a state, or an array of ``length``."""

    algebra: Algebra
    name: str
    length: int | None
    uniform: bool
    bounds: VaryingNumbers  # the lower and the upper bound, or the mean and the standard deviation

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(self.algebra.symbol(self.name) for _ in range(self.length or 1))

    @property
    def value(self) -> Symbol | tuple[Symbol, ...]:
        return self.symbols[0] if self.length is None else self.symbols

    def draw(self, count: int, generator: np.random.Generator, parameters: Any) -> np.ndarray:
        draw = generator.uniform if self.uniform else generator.normal
        first, second = np.moveaxis(self.bounds(parameters), -1, 0)[..., None]
        return draw(first, second, (count, self.length or 1))


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
        if not isinstance(table, Mapping):
            raise InputError(f"{self.where}: expected a table, written [initial_conditions]")
        self.table = dict(table)
        name = self.table.get("distribution")
        if not isinstance(name, str) or name not in _REQUIRED:
            raise InputError(
                f"{self.where} distribution: {name!r} is none of {', '.join(_REQUIRED)}"
                f"{nearest(str(name), _REQUIRED)}"
            )
        self.distribution: str = name
        known = {"distribution"} | _REQUIRED[name] | _OPTIONAL.get(name, set())
        self._dim = system.dim
        if (explicit_time := system.equations.explicit_time) is not None:
            self._dim -= 1
            known |= {system.components[explicit_time]}
        if (section := system.equations.returns) is not None:
            self._dim = len(section.kept)  # without the time since the start, which begins at 0
        check_keys(self.table, known, self.where)
        if missing := _REQUIRED[name] - self.table.keys():
            raise InputError(
                f"{self.where}: distribution '{name}' needs {', '.join(sorted(missing))}"
            )
        make: Callable[[], None] = getattr(self, "_read_" + name.replace("-", "_"))
        self._symbols: tuple[Symbol, ...] = system.equations.open
        self._states: np.ndarray | None = None
        self._draw: Draw
        self._start_times = self._times()
        make()
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
            If a list holds fewer than ``count`` states, or no state with the energy is found.
        """
        if count is not None:
            count = self._count(count)
        if self._states is not None:
            if count is None:
                count = len(self._states)
            if count > len(self._states):
                raise InputError(
                    f"{self.where}: {count} initial states are asked for, but the list of "
                    f"{self.distribution} holds {len(self._states)}"
                )
            chosen = self._states[generator.permutation(len(self._states))[:count]]
            return self._with_time(chosen, generator, parameters)
        if count is None:
            raise InputError(f"{self.where}: say how many states to draw")
        return self._in_domain(count, generator, parameters)

    def _in_domain(
        self, count: int, generator: np.random.Generator, parameters: np.ndarray | None
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
            warnings.warn(
                f"{self.where}: {total} of {count} initial states were drawn again: {first}",
                stacklevel=3,
            )
        return states

    def _count(self, count: Any) -> int:
        whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if not whole or not 0 <= count <= _MOST_NUMBERS // self.system.dim:
            raise InputError(
                f"{self.where}: {count!r} is no number of initial states; give a whole number up "
                f"to {_MOST_NUMBERS // self.system.dim}"
            )
        return int(count)

    def _times(self) -> VaryingNumbers:
        """Between which times trajectories start, where the equations depend on time."""
        e = self.system.equations
        if e.explicit_time is None:
            return self._values([0, 0])
        name = self.system.components[e.explicit_time]
        given = self.table.get(name, [0, float(e.periods.get(e.explicit_time, 0))])
        bounds = given if isinstance(given, list) else [given, given]
        if len(bounds) != 2:
            raise InputError(f"{self.where} {name}: expected a time or [earliest, latest]")

        def check(numbers: np.ndarray) -> None:
            if (numbers[..., 0] > numbers[..., 1]).any():
                raise InputError(f"{self.where} {name}: the earliest time is above the latest")

        return self._values([self._number(bound, name) for bound in bounds], check)

    def _with_time(
        self, states: np.ndarray, generator: np.random.Generator, parameters: np.ndarray | None
    ) -> np.ndarray:
        """Return states (count, dim) of those without the time, if there is one."""
        if self._dim == self.system.dim:
            return states
        first, last = halves(self._start_times(parameters))
        times = np.array(np.broadcast_to(first, (len(states), 1)))
        if (last > first).any():
            times = generator.uniform(first, last, times.shape)
        return np.concatenate([states, times], axis=1)

    def _timed(self, draw: Draw) -> Draw:
        """Append the time as the last component, if there is one."""
        return lambda count, generator, parameters: self._with_time(
            draw(count, generator, parameters), generator, parameters
        )

    # each reader sets _states, a list of states without the time, or _draw, a function of count,
    # generator and parameters that gives states with it

    def _read_points(self) -> None:
        points = self.table["points"]
        if not isinstance(points, list) or not points:
            raise InputError(f"{self.where} points: expected a list of states")
        rows = [
            self._vector(p if isinstance(p, list) else None, f"points, entry {i}")
            for i, p in enumerate(points)
        ]
        self._states = np.array(
            [[self._fixed(entry, f"{self.where} points") for entry in row] for row in rows]
        )

    def _read_curves(self) -> None:
        start, stop, step = (
            self._fixed(self._number(self.table[k], k), f"{self.where} {k}")
            for k in ("start", "stop", "step")
        )
        if step <= 0 or stop <= start or not (stop - start) / step * self._dim < _MOST_LISTED:
            raise InputError(f"{self.where}: need start < stop and a positive step that fits")
        parameter = check_name(str(self.table["parameter"]), f"{self.where} parameter")
        values = start + step * np.arange(int(np.ceil((stop - start) / step)))
        values = values[values < stop]
        symbol = self._algebra.symbol(parameter)
        known = self._scope
        scope = replace(known, values={**known.values, parameter: symbol})
        curves = self.table["curves"]
        rows = []
        if not isinstance(curves, list) or not curves:
            raise InputError(f"{self.where} curves: expected a list of curves")
        if len(curves) * len(values) * self._dim > _MOST_LISTED:
            raise InputError(f"{self.where} curves: too many states; take a larger step")
        for number, curve in enumerate(curves):
            where = f"{self.where} curves, entry {number}"
            if not isinstance(curve, list) or len(curve) != self._dim:
                raise InputError(f"{where}: expected {self._dim} expressions of {parameter}")
            expressions = [parse(text, scope, where) for text in curve]
            for expression in expressions:
                self._fixed(expression, where, but=symbol)
            function = vectorised(expressions, [symbol], "numpy")
            with np.errstate(all="ignore"):
                columns = [np.broadcast_to(c, values.shape) for c in function(values)]
            rows.append(np.stack(columns, -1))
            if not np.isfinite(rows[-1]).all():
                raise InputError(f"{where}: a state is not finite")
        self._states = np.concatenate(rows).astype(np.float64)

    def _read_uniform(self) -> None:
        box, dim = self._box(), self._dim
        self._draw = self._timed(
            lambda count, generator, parameters: generator.uniform(
                *halves(box(parameters)), (count, dim)
            )
        )

    def _read_normal(self) -> None:
        def check(numbers: np.ndarray) -> None:
            if (numbers[..., dim:] < 0).any():
                raise InputError(f"{self.where} std: a standard deviation cannot be negative")

        dim = self._dim
        values = self._values(
            [
                *self._vector(self.table.get("mean", 0), "mean"),
                *self._vector(self.table.get("std", 1), "std"),
            ],
            check,
        )
        self._draw = self._timed(
            lambda count, generator, parameters: generator.normal(
                *halves(values(parameters)), (count, dim)
            )
        )

    def _read_sphere(self) -> None:
        radius = self._number(self.table.get("radius", 1), "radius")
        values = self._values([*self._vector(self.table.get("centre", 0), "centre"), radius])
        dim = self._dim

        def draw(
            count: int, generator: np.random.Generator, parameters: np.ndarray | None
        ) -> np.ndarray:
            numbers = values(parameters)
            centre, radius = numbers[..., :-1], numbers[..., -1:]
            directions = generator.normal(size=(count, dim))
            return centre + radius * directions / np.linalg.norm(directions, axis=1, keepdims=True)

        self._draw = self._timed(draw)

    def _read_energy_shell(self) -> None:
        box = self._box()
        energy = self.table["energy"]
        if not isinstance(energy, list) or len(energy) != 2:
            raise InputError(f"{self.where} energy: expected [lowest, highest]")
        limits = self._values([self._number(e, "energy") for e in energy])
        name = self.table.get("invariant", "energy")
        if not isinstance(name, str) or name not in self.system.invariants:
            raise InputError(
                f"{self.where} invariant: the system has no invariant '{name}'"
                f"{nearest(str(name), self.system.invariants)}"
            )
        invariant = self.system.invariants[name]
        shell = EnergyShell(box, limits, invariant, self._with_time, self.where)
        self._draw = shell.draw_each if self._symbols else shell.draw

    def _read_formula(self) -> None:
        numbers = self._random_numbers()
        known = self._scope
        symbols = [symbol for number in numbers for symbol in number.symbols]
        drawn = {number.name: number.value for number in numbers}
        scope = replace(known, values={**known.values, **drawn})
        expressions = self._components(self.table["state"], "state", scope)

        @cache  # compiled when first needed: loading a system is to be quick
        def formulas() -> ComponentFunction:
            return vectorised(expressions, [*symbols, *self._symbols], "numpy")

        def draw(
            count: int, generator: np.random.Generator, parameters: np.ndarray | None
        ) -> np.ndarray:
            columns = np.empty((len(symbols), count))
            start = 0
            for number in numbers:
                stop = start + len(number.symbols)
                columns[start:stop] = number.draw(count, generator, parameters).T
                start = stop
            own: Any = () if parameters is None else parameters.T
            with np.errstate(all="ignore"):
                values = formulas()(*columns, *own)
            states = np.empty((count, self._dim))
            for column, value in zip(states.T, values, strict=True):
                column[:] = value
            if not np.isfinite(states).all():
                raise InputError(f"{self.where} state: a formula has no finite value")
            return states

        self._draw = self._timed(draw)

    def _random_numbers(self) -> list[_RandomNumbers]:
        """Return the entries of the table ``random``, in its order."""
        where = f"{self.where} random"
        table = self.table["random"]
        if not isinstance(table, Mapping):
            raise InputError(f"{where}: expected a table of names, as in {{ a = [0, 1] }}")
        taken = {*self.system.equations.scope.values, *self.system.equations.scope.integers, "i"}
        numbers = []
        for name, entry in table.items():
            here = f"{where} {name}"
            if check_name(name, here) in taken:
                raise InputError(f"{here}: the name '{name}' has a meaning already")
            if isinstance(entry, list):
                if len(entry) != 2:
                    raise InputError(f"{here}: expected [low, high]")
                entry = {"low": entry[0], "high": entry[1]}
            kinds = ({"low", "high"}, {"mean", "std"})
            if not isinstance(entry, Mapping) or entry.keys() - {"length"} not in kinds:
                raise InputError(
                    f"{here}: expected [low, high], or a table with low and high or mean and std, "
                    "and perhaps length"
                )
            length = None
            if "length" in entry:
                where = f"{here} length"
                count = self._fixed(self._number(entry["length"], f"random {name} length"), where)
                if not 1 <= count <= MAXIMUM_DIMENSION or count != int(count):
                    raise InputError(
                        f"{here} length: {count:g} is no whole number between 1 and "
                        f"{MAXIMUM_DIMENSION}"
                    )
                length = int(count)
            uniform = "low" in entry
            values = [
                self._number(entry[key], f"random {name} {key}")
                for key in (("low", "high") if uniform else ("mean", "std"))
            ]
            bounds = self._values(values, partial(_check_bounds, uniform=uniform, where=here))
            numbers.append(_RandomNumbers(self._algebra, name, length, uniform, bounds))
        return numbers

    def _box(self) -> VaryingNumbers:
        """Return the lower and then upper bounds."""

        def check(numbers: np.ndarray) -> None:
            low, high = halves(numbers)
            if (low > high).any():
                raise InputError(f"{self.where}: low is above high")

        bounds = [self._vector(self.table[key], key) for key in ("low", "high")]
        return self._values([*bounds[0], *bounds[1]], check)

    @cached_property
    def _algebra(self) -> Algebra:
        return self.system.equations.algebra if self._symbols else Algebra()

    @cached_property
    def _scope(self) -> Scope:
        scope = self.system.equations.scope
        state = {*self.system.equations.arrays, *self.system.components}
        values = {name: value for name, value in scope.values.items() if name not in state}
        return replace(scope, values=values, algebra=self._algebra)

    def _values(
        self, values: Sequence[Value], check: Callable[[np.ndarray], None] = lambda _: None
    ) -> VaryingNumbers:
        return VaryingNumbers(values, self._symbols, check)

    def _number(self, text: Any, key: str) -> Value:
        return parse(text, self._scope, f"{self.where} {key}")

    def _fixed(self, value: Value, where: str, but: Symbol | None = None) -> float:
        """A number that no parameter which varies may change, or a formula of one variable."""
        if isinstance(value, Expression):
            others = [symbol for symbol in self._algebra.symbols(value) if symbol is not but]
            if others:
                names = ", ".join(symbol.name for symbol in others)
                raise InputError(f"{where}: this cannot depend on {names}, which varies")
            return float("nan")
        return float(value)

    def _components(self, table: Any, key: str, scope: Scope) -> list[Value]:
        """An expression for every component of the state, from a table by component or array."""
        where = f"{self.where} {key}"
        if not isinstance(table, Mapping):
            raise InputError(f"{where}: expected a table of components, as in {{ q = ... }}")
        e = self.system.equations
        names = e.components[: self._dim]
        found = read_components(table, where, scope, names, e.arrays)
        missing = [name for k, name in enumerate(names) if k not in found]
        if missing:
            raise InputError(f"{where}: nothing is given for {', '.join(missing[:6])}")
        return [found[k] for k in range(len(names))]

    def _vector(self, value: Any, key: str) -> list[Value]:
        dim = self._dim
        if isinstance(value, Mapping):
            return self._components(value, key, self._scope)
        if value is None or (isinstance(value, list) and len(value) != dim):
            raise InputError(f"{self.where} {key}: expected {dim} numbers")
        entries = value if isinstance(value, list) else [value] * dim
        return [self._number(entry, key) for entry in entries]


def _check_bounds(numbers: np.ndarray, uniform: bool, where: str) -> None:
    first, second = numbers[..., 0], numbers[..., 1]
    if (first > second).any() if uniform else (second < 0).any():
        raise InputError(
            f"{where}: " + ("low is above high" if uniform else "std cannot be negative")
        )
