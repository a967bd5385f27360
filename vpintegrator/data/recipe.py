"""Recipes: the trajectories of a dataset, from the catalogue, a file, or a system's defaults."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vpintegrator.arguments import positive, whole
from vpintegrator.catalogue import DATASETS, SYSTEMS, catalogue
from vpintegrator.data.observation import Observation
from vpintegrator.data.split import GROUPS, Split, consecutive
from vpintegrator.data.variation import Variation
from vpintegrator.dynamics import System, load_system, solve
from vpintegrator.dynamics.load import find_description, is_path
from vpintegrator.dynamics.solve import (
    ScaledFlow,
    check_solver,
    component_sizes,
    solve_varied,
)
from vpintegrator.dynamics.system import SMALLEST_TOLERANCE
from vpintegrator.errors import InputError, nearest
from vpintegrator.names import CLASSICAL_METHODS, SOLVERS, method_name
from vpintegrator.storage.toml import check_keys, read_toml, toml_text

_DEFAULT_TRAJECTORIES = {"train": 1000, "validation": 100, "test": 200}
_LARGEST = 2**63 - 1  # whole number that files can hold
_SOLVER = ("method", "rtol", "atol")
_RETURN_TOLERANCE = 1e-13
_TABLES: dict[str, Any] = {
    "split": Split.from_table,
    "vary": Variation.from_table,
    "observe": Observation.from_table,
}


@dataclass(frozen=True)
class Recipe:
    """Description from which a dataset can be generated again.

    Attributes
    ----------
    system
        The system, with its parameters.
    step
        Time between the states of a trajectory, if the step does not vary.
    steps
        Number of steps; a trajectory has ``steps + 1`` states.
    trajectories
        Number of trajectories in each of the groups train, validation and test.
    initial_conditions
        Table of the distribution; empty for the system's own.
    split
        Assignment of trajectories, or of parts of them in time, to the groups.
    vary
        Step and parameters that vary from trajectory to trajectory.
    observe
        Quantities that are observed of the states, hidden parameters, and noise.
    method, rtol, atol
        Solver and tolerances, see :func:`vpintegrator.dynamics.solve`; or a classical method such
        as ``"implicit-midpoint"``, which takes ``step`` and no tolerances. Tolerances are at least
        those that the system can meet (:attr:`System.smallest_tolerance`).
    seed
        Seed of the random initial states.
    title, reference
        Title and reference, for readers.
    source
        The file's name, for messages.

    Examples
    --------
    >>> recipe = vp.load_recipe("pendulum")
    >>> recipe.step, recipe.steps
    (0.2, 10)
    """

    system: System
    step: float
    steps: int
    trajectories: Mapping[str, int] = field(default_factory=lambda: dict(_DEFAULT_TRAJECTORIES))
    initial_conditions: Mapping[str, Any] = field(default_factory=dict)
    split: Split = field(default_factory=Split)
    vary: Variation = field(default_factory=Variation)
    observe: Observation = field(default_factory=Observation)
    method: str = "DOP853"
    rtol: float = 1e-12
    atol: float = 1e-12
    seed: int = 0
    title: str = ""
    reference: str = ""
    source: str = "recipe"

    def __post_init__(self) -> None:
        where = self.source
        system = self.system
        system.require_equations("integrating")
        check_keys(self.trajectories, GROUPS, f"{where}, [trajectories]")
        counts = {
            name: whole(f"{where}, [trajectories] {name}", count, int(name == "train"), _LARGEST)
            for name, count in {"train": 0, **self.trajectories}.items()
        }
        known = {name: counts[name] for name in self.trajectories}
        object.__setattr__(self, "trajectories", known)
        for name, least in (("steps", 1), ("seed", 0)):
            value = whole(f"{where}, {name}", getattr(self, name), least, _LARGEST)
            object.__setattr__(self, name, value)
        positive(f"{where}, step", self.step)
        positive(f"{where}, [solver] rtol", self.rtol)
        positive(f"{where}, [solver] atol", self.atol)
        if isinstance(self.method, str):
            object.__setattr__(self, "method", method_name(self.method))
        self._check_method(f"{where}, [solver]: ")
        if system.smallest_tolerance > SMALLEST_TOLERANCE:  # of a function in single precision
            for name in ("rtol", "atol"):
                value = max(getattr(self, name), system.smallest_tolerance)
                object.__setattr__(self, name, value)
        if system.is_discrete and self.step != 1:
            raise InputError(
                f"{where}, step: a step of {system.name}, a map, is one iteration; leave it out"
            )
        self.parts()  # there must be times enough to cut
        if self.split.by == "trajectory" and self.split.fractions is not None:
            raise InputError(
                f"{where}, [split]: the numbers of trajectories are given in [trajectories]; "
                "fractions are for a split by time"
            )
        if self.vary.ranges:
            system.require_formulas("varying a step or parameters")
            self.vary.check(system, where)
        if self.observe.table:
            self.observe.check(system, self.vary, self.steps, where)

    def __repr__(self) -> str:
        groups = ", ".join(f"{number:,} {group}" for group, number in self.trajectories.items())
        varied = f", {', '.join(self.vary.ranges)} vary" if self.vary.ranges else ""
        return (
            f"<Recipe {self.system.name}: {groups} trajectories of {self.steps:,} steps of "
            f"{self.step:g}{varied}, seed {self.seed}>"
        )

    @cached_property
    def varied(self) -> System:
        """The system, with the parameters left open that vary."""
        return self.system.with_open(self.vary.parameters) if self.vary.ranges else self.system

    def parameters(self, conditions: np.ndarray) -> np.ndarray | None:
        """Return the parameters of trajectories, (trajectory, name); None where nothing varies."""
        return self.vary.split(conditions, self.step)[1] if self.vary.ranges else None

    def conditions(self) -> np.ndarray:
        """Return the step and parameters that vary, for all trajectories: (trajectory, name).

        The values of each group cover the ranges evenly.
        """
        counts = [self.count] if self.split.by == "time" else self._counts
        return self.vary.draw(counts, self.seed)

    def solve(
        self,
        initial: np.ndarray,
        conditions: np.ndarray,
        counts: np.ndarray | None = None,
        *,
        method: str | None = None,
        tighter: float = 1.0,
        progress: Callable[[int], None] | None = None,
        sizes: np.ndarray | None = None,
    ) -> np.ndarray:
        """Exact states (trajectory, time, dim) after ``counts`` steps, by default after each.

        Parameters
        ----------
        initial, conditions
            Initial states of the trajectories, and step and parameters that vary.
        counts
            Increasing numbers of steps, 0 first.
        method, tighter
            The solver, by default the recipe's, and what the tolerances are divided by.
        progress
            Called now and then with the number of states found since the last call.
        sizes
            Sizes of the components, see :meth:`sizes`; by default those of these trajectories.
        """
        if method is None and self.is_classical:
            return self._integrate(initial, progress)
        counts = np.arange(self.steps + 1) if counts is None else counts
        rtol = max(self.rtol / tighter, SMALLEST_TOLERANCE)
        options = method or self.method, rtol, self.atol / tighter, progress, sizes
        if not self.vary.ranges:
            return solve(self.system, initial, self.step * counts, *options)
        steps, parameters = self.vary.split(conditions, self.step)
        return solve_varied(self.varied, initial, steps, parameters, counts, *options)

    def sizes(self, initial: np.ndarray, conditions: np.ndarray) -> np.ndarray | None:
        """Return the sizes of the components in all trajectories, (dim,); None for a map.

        Absolute tolerances are relative to them.
        """
        if self.system.is_discrete:
            return None
        flow = self.varied
        if self.vary.ranges:
            flow = ScaledFlow(flow, *self.vary.split(conditions, self.step))
        return component_sizes(flow, initial, self.duration)

    @property
    def is_solved(self) -> bool:
        """Whether states approximate a solution; those of a map or a classical method are exact."""
        return not (self.system.is_exact or self.is_classical)

    @property
    def is_classical(self) -> bool:
        """Whether the states are those of a classical method with the recipe's step."""
        return self.method in CLASSICAL_METHODS

    @property
    def solver(self) -> dict[str, Any]:
        """Method and tolerances as a table; those that have no part in the states are left out."""
        if self.system.is_exact:
            return {}
        tolerances = {} if self.is_classical else {"rtol": self.rtol, "atol": self.atol}
        return {"method": self.method, **tolerances}

    @property
    def duration(self) -> float:
        """Duration of a trajectory in time; in steps if something varies."""
        return self.steps if self.vary.ranges else self.step * self.steps

    @property
    def times(self) -> np.ndarray:
        """Times of the states of a trajectory, (time,); in steps if steps vary."""
        return (1.0 if self.vary.of_step else self.step) * np.arange(self.steps + 1)

    @property
    def count(self) -> int:
        """Number of trajectories in all groups together."""
        return sum(self._counts)

    @property
    def _counts(self) -> list[int]:
        return [self.trajectories.get(group, 0) for group in GROUPS]

    def _check_method(self, where: str) -> None:
        """Raise InputError unless there is the method, and it can make such states."""
        if not self.is_classical:
            known = (*SOLVERS, *CLASSICAL_METHODS)
            if self.method not in known:
                hint = nearest(str(self.method), known) or f"; there are {', '.join(known)}"
                raise InputError(f"{where}there is no solver '{self.method}'{hint}")
            check_solver(self.method, self.rtol, self.atol, where)
            return
        from vpintegrator.maps import find_method  # loads the methods where one is named

        find_method(self.method).require(self.system)
        if self.vary.ranges:
            raise InputError(
                f"{where}{self.method} takes one step and one set of parameters for all "
                "trajectories; leave out what varies, or take a solver"
            )

    def _integrate(self, initial: np.ndarray, progress: Callable[[int], None] | None) -> np.ndarray:
        """Return the states (trajectory, time, dim) of the classical method."""
        from vpintegrator.compiled import integrate

        states = integrate(self.system, self.method, initial, self.step, self.steps)
        lost = np.flatnonzero(~np.isfinite(states).all(axis=(1, 2)))
        if len(lost):
            state = ", ".join(f"{x:.6g}" for x in initial[lost[0], :8])
            raise InputError(
                f"{self.method} cannot continue {len(lost)} of {len(initial)} trajectories of "
                f"{self.system.name} with the step {self.step:g}, the first from ({state}); take "
                "a shorter step or other initial states"
            )
        if progress:
            progress(states[..., 0].size)
        return states

    def initial_states(self) -> np.ndarray:
        """Return the initial states of all trajectories, (trajectory, dim).

        Raises
        ------
        InputError
            If there are none, or fewer than are wanted.
        """
        # each state from the distribution of its own parameters
        table = self.initial_conditions
        system = self.varied
        conditions = system.states_of(table, self.source) if table else system.initial_conditions
        generator = np.random.default_rng(self.seed)
        parameters = self.parameters(self.conditions())
        return conditions.sample(self.count, generator, parameters)

    def parts(self) -> dict[str, tuple[slice, slice]]:
        """Return, for each group, the slices of its trajectories and of their times."""
        if self.split.by == "time":
            every = slice(0, self.count)
            cut = consecutive(self.split.counts(self.steps + 1, fewest=2))
            return {group: (every, times) for group, times in cut.items()}
        times = slice(0, self.steps + 1)
        return {group: (which, times) for group, which in consecutive(self._counts).items()}

    def with_count(self, count: int) -> Recipe:
        """Return the recipe for ``count`` trajectories in all, in the same proportions."""
        whole("count", count, 3 if self.split.by == "trajectory" else 1)
        share = [round(count * former / self.count) for former in self._counts]
        counts = [
            max(new, 1) if former else 0 for new, former in zip(share, self._counts, strict=True)
        ]
        counts[0] += count - sum(counts)
        return dataclasses.replace(self, trajectories=dict(zip(GROUPS, counts, strict=True)))

    @property
    def text(self) -> str:
        """The recipe as TOML, with every value it was run with."""
        system = self.system
        known = catalogue(SYSTEMS).get(system.name)
        entries = {"title": self.title, "reference": self.reference, "system_name": ""}
        entries["system"] = system.name
        if known is None or known.read_text(encoding="utf-8") != system.text:
            # one's own travels as its text; by the end of a line it is told from a name
            entries["system_name"] = system.name
            entries["system"] = system.text if "\n" in system.text else f"{system.text}\n"
        values: dict[str, Any] = {key: text for key, text in entries.items() if text}
        tables: dict[str, Mapping[str, Any]] = {
            "parameters": system.definitions,
            "trajectories": self.trajectories,
            "initial_conditions": self.initial_conditions,
            "split": self.split.table,
            "vary": self.vary.table,
            "observe": self.observe.table,
            "solver": self.solver,
        }
        values |= {"step": self.step, "steps": self.steps, "seed": self.seed}
        return toml_text(values, tables)


def load_recipe(
    source: str | os.PathLike[str] | Recipe | System,
    *,
    count: int | None = None,
    step: float | None = None,
    steps: int | None = None,
    trajectories: Mapping[str, int] | None = None,
    initial_conditions: Mapping[str, Any] | None = None,
    split: Split | Mapping[str, Any] | None = None,
    vary: Variation | Mapping[str, Any] | None = None,
    observe: Observation | Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    method: str | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int | None = None,
) -> Recipe:
    """Load a recipe, or make one for a system.

    Parameters
    ----------
    source
        A name in the catalogue (:func:`vpintegrator.list_recipes`), the path of a TOML file, TOML
        text, or the same for a system, whose defaults then make the recipe; or a system that is
        loaded.
    count
        Trajectories in all.
    step, steps, trajectories, initial_conditions, method, rtol, atol, seed
        Values that replace those of the recipe, see :class:`Recipe`.
    split, vary, observe
        The same, or dictionaries that replace some of their entries.
    parameters
        Values of the system's parameters.

    Raises
    ------
    InputError
        If there is no such recipe or system, or it cannot be understood.

    Examples
    --------
    >>> vp.load_recipe("rigid-body").system.name
    'rigid-body'
    """
    values: dict[str, Any] = {
        "step": step,
        "steps": steps,
        "trajectories": trajectories,
        "initial_conditions": initial_conditions,
        "method": method,
        "rtol": rtol,
        "atol": atol,
        "seed": seed,
    }
    if step is None:
        values["step"] = _middle_step(vary, "recipe")
    changes = {key: each for key, each in values.items() if each is not None}
    given = {"split": split, "vary": vary, "observe": observe}
    tables = {key: each for key, each in given.items() if each is not None}
    if isinstance(source, Recipe):
        if parameters:
            changes["system"] = source.system.with_parameters(parameters)
        recipe = dataclasses.replace(source, **changes)
    elif isinstance(source, System):
        system = source.with_parameters(parameters) if parameters else source
        recipe = _recipe(system, source.name, {"title": system.title}, changes)
    else:
        known = {**catalogue(SYSTEMS), **catalogue(DATASETS)}  # a dataset comes before its system
        text, known_name, path = find_description(source, known, "dataset or system")
        name = known_name or "text"
        label = name if path is None else f"{name}.toml"
        table = read_toml(text, label)
        if "state" in table or "system" not in table:
            system = System(text, name, parameters or {}, source=label)
            recipe = _recipe(system, label, {"title": system.title}, changes)
        else:
            folder = None if path is None else path.parent
            system, entries = _read(table, label, folder, parameters or {})
            recipe = _recipe(system, label, entries, changes)
    recipe = _with_tables(recipe, tables)
    return recipe if count is None else recipe.with_count(count)


def _recipe(
    system: System, label: str, entries: Mapping[str, Any], changes: Mapping[str, Any]
) -> Recipe:
    """Return the recipe of the system's defaults, entries of a file, and changes of these."""
    system.require_equations("integrating")
    suggested = {key: value for key, value in system.defaults.items() if key in ("step", "steps")}
    if system.flow is not None:  # a step is a whole solution, whose errors add up
        suggested |= {"rtol": _RETURN_TOLERANCE, "atol": _RETURN_TOLERANCE}
    values = {"steps": 100, **suggested, **entries, **changes}
    if "step" not in values:
        raise InputError(f"{label} suggests no step; give one with --step (step=... in Python)")
    return Recipe(system=system, source=label, **values)


def _read(
    table: Mapping[str, Any], label: str, folder: Path | None, parameters: Mapping[str, Any]
) -> tuple[System, dict[str, Any]]:
    """Return the system of the table of a recipe, and the other arguments of the recipe."""
    names = [field.name for field in dataclasses.fields(Recipe)]
    plain = [name for name in names if name not in (*_SOLVER, *_TABLES, "system", "source")]
    texts = ["title", "reference", "system", "system_name"]
    kinds = {
        **dict.fromkeys(["parameters", "trajectories", "initial_conditions", "solver"], dict),
        **dict.fromkeys(_TABLES, dict),
        **dict.fromkeys(texts, str),
    }
    check_keys(table, [*plain, *kinds], label)
    for key, kind in kinds.items():
        if not isinstance(table.get(key, kind()), kind):
            words = "text in quotes" if kind is str else f"a table, written [{key}]"
            raise InputError(f"{label}: '{key}' must be {words}, not {table[key]!r}")
    solver = table.get("solver", {})
    name = table["system"]
    check_keys(solver, _SOLVER, f"{label}, [solver]")
    values = {**table.get("parameters", {}), **parameters}
    if "\n" in name:
        system = System(name, table.get("system_name") or None, values, source=f"{label}, system")
    elif is_path(name) and folder is not None:  # meant from the recipe's own folder
        system = load_system(folder / name, **values)
    else:
        system = load_system(name, **values)
    middle = _middle_step(table.get("vary"), label)
    return system, {
        **({} if middle is None else {"step": middle}),
        **{key: table[key] for key in plain if key in table},
        **solver,
        **{key: read(table[key], label) for key, read in _TABLES.items() if key in table},
    }


def _middle_step(vary: Any, where: str) -> float | None:
    """Return the middle of the steps, where they vary: the step that stands for all of them."""
    if isinstance(vary, Mapping):
        vary = Variation.from_table(vary, where)
    return vary.of_step.middle if isinstance(vary, Variation) and vary.of_step else None


def _with_tables(recipe: Recipe, tables: Mapping[str, Any]) -> Recipe:
    """Return the recipe with entries of such tables replaced."""
    changes: dict[str, Any] = dict(tables)
    for key, given in tables.items():
        if isinstance(given, Mapping):
            table = dict(getattr(recipe, key).table)
            if any(name in given for name in GROUPS):
                table = {k: v for k, v in table.items() if k not in GROUPS}
            changes[key] = _TABLES[key]({**table, **given}, "recipe")
    split = changes.get("split", recipe.split)
    if split.by == "trajectory" and split.fractions is not None:
        counts = split.counts(recipe.count)
        changes |= {"split": Split(), "trajectories": dict(zip(GROUPS, counts, strict=True))}
    return dataclasses.replace(recipe, **changes) if changes else recipe
