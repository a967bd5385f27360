"""Table of one step: errors and costs of maps, and substeps of methods that err as little."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from typing import Any

import numpy as np

from vpintegrator.arguments import of_kind
from vpintegrator.compiled.library import NotCompilable
from vpintegrator.compiled.method import CompiledMethod, Machine
from vpintegrator.compiled.trajectories import compile_map
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.maps import ClassicalMap, ClassicalMethod, Map, find_method
from vpintegrator.measure.rows import OneStep, OneStepTable, Rival
from vpintegrator.runtime.interrupts import TimeIsUp, check_time, unhurried, until

METHODS = (
    *("stoermer-verlet", "strang-splitting", "rk4", "blanes-moan-4", "blanes-moan-6"),
    # implicit methods take longest: last, as the time may end
    *("dormand-prince-8", "gauss-legendre-4", "gauss-legendre-6"),
)
_LARGEST = 10_000  # operations of a model that is compiled in some seconds


def table(
    maps: Mapping[str, Map],
    windows: np.ndarray,
    images: np.ndarray,
    *,
    methods: Mapping[str, ClassicalMap] | None = None,
    components: Sequence[int] | None = None,
    spread: float = 1.0,
    errors: Mapping[str, Sequence[float]] | None = None,
    observe: Callable[[np.ndarray], np.ndarray] | None = None,
    as_they_are: bool = False,
    rounding: float = 1e-14,
    end: float = math.inf,
) -> OneStepTable:
    """Return errors and costs of a step of maps, and the substeps of methods that err as little.

    Parameters
    ----------
    maps
        Maps of one step by name. Learned maps are the models of the table.
    windows, images
        Windows (n, window, dim) of the longest of the maps, and the next states (n, time, dim).
    methods
        Classical methods beside them, which are given the fewest substeps with the error of each
        model at these windows.
    components
        Components that count for errors; by default all.
    spread
        Size that errors are relative to.
    errors
        Errors of models by name that are better known than at these windows: of the first new state
        of a call, the second, and so on.
    observe
        Function of states (..., dim) that gives the components that errors are taken of; by default
        all.
    as_they_are
        Whether maps are timed as they are given, and only those of ``methods`` are compiled and
        left out where that fails. By default all become machine code, where there is any.
    rounding
        Error below which methods need not come.
    end
        Value of ``time.perf_counter`` at which compilers, searches and timing end. A method whose
        error in one substep is not known before an outer deadline is left out.

    Returns
    -------
    OneStepTable
        The models in their order, then the other maps and methods by their error.

    Examples
    --------
    >>> pendulum = vp.load_system("pendulum")
    >>> first = pendulum.sample_initial(50, np.random.default_rng(0))
    >>> images = vp.solve(pendulum, first, [0.0, 0.1])[:, 1:]
    >>> maps = {name: vp.classical(name, pendulum, 0.1) for name in ("rk4", "rk4@2")}
    >>> [row.name for row in vp.measure.table(maps, first[:, None], images).rows]
    ['rk4@2', 'rk4']
    """
    seen = images if observe is None else observe(images)
    columns = [*range(seen.shape[2])] if components is None else [*components]
    others = methods or {}
    todo: dict[str, Map] = {**maps, **others}
    if as_they_are:  # machine code of models is made anew, for many trajectories
        codes = {n: map for n, map in maps.items() if isinstance(map, Machine) and _is_model(map)}
        todo = {**{name: map.original for name, map in codes.items()}, **others}
    most = None if as_they_are else _LARGEST
    machines = _machines(todo, repeat_states(windows), most, end)
    steps: list[MapStep] = []
    for name, map in {**maps, **others}.items():
        machine = machines.get(name, map)
        failed = isinstance(machine, str)
        if failed and as_they_are and name not in maps:
            continue
        step = MapStep(
            name,
            map if isinstance(machine, str) else machine,
            windows[:, -map.window :],
            seen,
            columns,
            spread,
            machine if isinstance(machine, str) else _note(machine),
            is_timed=as_they_are or not (failed and _is_model(map)),
            observe=observe,
        )
        steps.append(step)
    with np.errstate(all="ignore"):
        return _measured(steps, errors or {}, rounding, end)


@dataclass(frozen=True, eq=False)
class MapStep:
    """A step of a map.

    Attributes
    ----------
    name, map
        The map as it runs.
    windows, images
        Windows (n, window, dim) that it reads, and what is observed of the next states (n, time,
        component).
    components, spread
        Components that count for errors, and the size that these are relative to.
    note
        Reason why the map is no machine code; empty if it is.
    is_timed
        Whether its cost is measured.
    observe
        Function of states that gives the observed components; None for all.
    """

    name: str
    map: Map
    windows: np.ndarray
    images: np.ndarray
    components: Sequence[int]
    spread: float
    note: str = ""
    is_timed: bool = True
    observe: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def is_model(self) -> bool:
        """Whether the map is learned."""
        return _is_model(self.map)

    @property
    def is_rival(self) -> bool:
        """Whether it is given substeps: a method in machine code that has none of its own."""
        return isinstance(self.map, CompiledMethod) and self.map.classical.substeps == 1

    def at(self, substeps: int) -> Map:
        """Return the map with so many substeps."""
        if substeps > 1 and isinstance(self.map, CompiledMethod):
            return self.map.at_step(self.map.step, substeps)
        return self.map

    def errors(self, substeps: int = 1) -> list[float]:
        """Return the error of each new state of a call, with so many substeps."""
        ahead = min(self.map.prediction_window, self.images.shape[1])
        if not len(self.images):  # nothing follows the windows
            return [math.nan] * max(ahead, 1)
        # in NumPy, a part of the states will do
        every = len(self.windows) // 100 or 1 if self.note and not self.is_model else 1
        windows = self.windows[::every]
        new = self.map.prediction_window
        if self.is_model:
            states = self.map.map(windows)[:, self.map.window - new :]  # (n, new, dim)
        else:
            states = next(self.at(substeps).advance(windows, new))
        if self.observe is not None:
            states = self.observe(states)
        wrong = (states[:, :ahead] - self.images[::every, :ahead])[..., self.components]
        values = np.sqrt((wrong**2).sum(-1).mean(0)) / (self.spread or 1.0)
        return [math.inf if math.isnan(value) else float(value) for value in values]

    def run(self, substeps: int = 1) -> Callable[[int], object]:
        """Return the function that makes so many calls from 1,000 windows."""
        map = self.at(substeps)
        batch = repeat_states(self.windows)
        if isinstance(map, Machine) and not isinstance(map, CompiledMethod):
            predict: Any = map
            return partial(predict.predict, batch.astype(predict.dtype))
        return lambda count: _advance(map, batch, count * map.prediction_window)

    def row(self, errors: Sequence[float], cost: float, rivals: Sequence[Rival] = ()) -> OneStep:
        """Return the row of the table."""
        new = self.map.prediction_window
        late = not self.note and math.isnan(cost)
        return OneStep(
            self.name,
            "model" if self.is_model else "classical",
            errors[0],
            cost / new,
            self.note or ("not measured in time" if late else ""),
            tuple(rivals),
            tuple(errors) if new > 1 else (),
        )


def fewest_substeps(
    error: Callable[[int], float], target: float, most: int = 1024, rounding: float = 1e-10
) -> tuple[int | None, str]:
    """Return the least number of substeps whose error is at most a target, by bisection.

    Parameters
    ----------
    error
        Error of a step in so many substeps.
    target
        Largest error that is allowed.
    most
        Largest number of substeps that is tried.
    rounding
        Error below which rounding is taken to end convergence, where twice the substeps do not
        halve the error.

    Returns
    -------
    substeps
        The number, None where the error is not reached.
    reason
        Why it is not reached, or nothing.

    Examples
    --------
    >>> from vpintegrator.measure.steps import fewest_substeps
    >>> fewest_substeps(lambda n: 1e-3 / n**4, 1e-7)
    (10, '')
    >>> fewest_substeps(lambda n: max(1e-3 / n**4, 1e-13), 1e-14)
    (None, 'rounding ends at 1.0e-13')
    """
    low = 0
    high = 1
    last = math.inf
    least = math.inf
    while (value := error(high)) > target:  # twice as many until the error is reached
        least = min(least, value)
        if value < rounding and last < 2 * value:
            return None, f"rounding ends at {least:.1e}"
        if high == most:
            return None, f"{most:,} substeps err by {value:.1e}"
        low = high
        high = min(2 * high, most)
        last = value
    between = range(low + 1, high)
    return low + 1 + bisect_left(between, True, key=lambda n: error(n) <= target), ""


def applicable_methods(
    system: System, methods: Sequence[str | ClassicalMethod] | None = None
) -> dict[str, ClassicalMethod]:
    """Return the methods by name: those given, or those of ``METHODS`` that apply.

    Raises
    ------
    InputError
        If one that is given does not apply.
    """
    result: dict[str, ClassicalMethod] = {}
    for each in METHODS if methods is None else methods:
        method = find_method(each) if isinstance(each, str) else each
        try:
            method.require(system)
            result[method.name] = method
        except InputError:
            if methods is not None:
                raise
    return result


def _machines(
    maps: Mapping[str, Map], batch: np.ndarray, most: int | None, end: float
) -> dict[str, Map | str]:
    """Return the machine code of maps, or the reasons why there is none.

    Compilers of methods run side by side, while models are traced and compiled.
    """
    machines: dict[str, Map | str] = {}

    def attempt(make: Callable[[], Map]) -> Map | str:
        try:
            with until(end):
                check_time()
                return make()
        except NotCompilable as reason:
            return str(reason)
        except TimeIsUp:
            return "not measured in time"

    try:
        for name in sorted(maps, key=lambda name: _is_model(maps[name])):
            windows = batch[:, -maps[name].window :]
            make = partial(compile_map, maps[name], windows, most=most, wait=False)
            machines[name] = attempt(make)
        for name, machine in machines.items():
            if isinstance(machine, CompiledMethod):
                machines[name] = attempt(machine.ready)
    finally:
        for machine in machines.values():
            if isinstance(machine, CompiledMethod):
                machine.stop()
    return machines


def _measured(
    steps: Sequence[MapStep], errors: Mapping[str, Sequence[float]], rounding: float, end: float
) -> OneStepTable:
    """Measure errors, then substeps with the errors of models, then costs."""
    models = [step for step in steps if step.is_model]
    methods: list[MapStep] = []

    @cache
    def error_of(step: MapStep, substeps: int) -> float:
        return step.errors(substeps)[0]

    with suppress(TimeIsUp):  # all errors first: a table without accurate methods misleads
        for step in steps:
            if not step.is_model:
                error_of(step, 1)
                methods.append(step)
    rivals = [method for method in methods if method.is_rival]
    searches: dict[tuple[MapStep, MapStep], tuple[int | None, str]] = {}
    runs = {model.name: model.run() for model in models if model.is_timed}
    with unhurried():
        known = {model: errors.get(model.name) or model.errors() for model in models}
        # methods err less than a model at the same windows
        targets = {model: max(error_of(model, 1), rounding) for model in models if rivals}
    with until(end):
        for method in methods:
            for model in models if method.is_rival else ():
                searches[model, method] = None, "not found in time"
                with suppress(TimeIsUp):
                    search = partial(error_of, method)
                    searches[model, method] = fewest_substeps(search, targets[model])
            counts = [n for (_, other), (n, _) in searches.items() if other is method]
            for count in {1, *filter(None, counts)}:
                runs[f"{method.name} {count}"] = method.run(count)
        costs = seconds_per_step(runs)

    def cost_of(method: MapStep, substeps: int | None) -> float:
        return costs.get(f"{method.name} {substeps}", math.nan)

    def rival_of(model: MapStep, method: MapStep) -> Rival:
        substeps, reason = searches[model, method]
        return Rival(method.name, substeps, cost_of(method, substeps), reason)

    rows = [
        model.row(
            known[model],
            costs.get(model.name, math.nan),
            [rival_of(model, method) for method in rivals],
        )
        for model in models
    ]
    beside = [method.row([error_of(method, 1)], cost_of(method, 1)) for method in methods]
    return OneStepTable((*rows, *sorted(beside, key=attrgetter("error"))))


def _is_model(map: Map) -> bool:
    return map.kind == "learned"


def _note(map: Map) -> str:
    """Return the reason why a map that is taken as it is is no machine code, if that is one."""
    if isinstance(map, Machine):
        return ""
    is_method = isinstance(getattr(map, "original", map), ClassicalMap)
    return "in PyTorch" if _is_model(map) else "in NumPy" if is_method else ""


def _advance(map: Map, windows: np.ndarray, steps: int) -> None:
    for _ in map.advance(windows, steps, chunk=64):  # (n, 64, dim): fewer cost more
        check_time()


def seconds_per_step(
    runs: Mapping[str, Callable[[int], object]],
    *,
    states: int = 1000,
    repeats: int = 31,
    seconds: float = 0.5,
    steps: int = 30,
) -> dict[str, float]:
    """Return the processor seconds for a step of one state, of maps that run in turn.

    Each round runs each map once, so that other work on the machine meets all of them. The result
    is the lower quartile over the rounds: at load 5 it rose by at most 18 %, the median by 40 %.
    Seconds are those of the processor, summed over threads; those of other programs do not count.

    Parameters
    ----------
    runs
        Functions by name. ``run(count)`` makes ``count`` steps of all states of a batch. It holds
        the batch itself (:func:`repeat_states`), as models read windows and methods read states.
    states
        Number of states in the batch.
    repeats
        Number of rounds.
    seconds
        Time for the rounds of one map: a slow map has fewer rounds, but one.
    steps
        Largest number of steps in a run; a run of slower maps takes about 2 ms.

    Returns
    -------
    dict
        Seconds by name, above zero; nan where a deadline (:mod:`vpintegrator.runtime.interrupts`)
        left no time, or the clock does not resolve all rounds together.

    Examples
    --------
    >>> pendulum = vp.load_system("pendulum")
    >>> first = pendulum.sample_initial(50, np.random.default_rng(0))
    >>> batch = vp.measure.repeat_states(first)[:, None]  # windows (1000, 1, 2)
    >>> machine = vp.compiled.machine_code(vp.classical("rk4", pendulum, 0.1), first)
    >>> cost = vp.measure.seconds_per_step({"rk4": lambda n: next(machine.advance(batch, n))})
    >>> 1e-9 < cost["rk4"] < 1e-5
    True
    """
    of_kind("runs", runs, Mapping, "a mapping of names to functions")
    counts: dict[str, int] = {}
    times: dict[str, list[float]] = {name: [] for name in runs}
    with suppress(TimeIsUp):
        for name, run in runs.items():
            check_time()
            once = _spent(run, 1)
            if once < seconds:
                once = _spent(run, 1)  # the first call may trace or compile
            counts[name] = min(max(int(2e-3 / max(once, 1e-9)), 1), steps)
            if counts[name] == 1:
                times[name].append(once)
        for _ in range(repeats):
            for name, run in runs.items():
                spent = times[name]
                if not spent or sum(spent) + spent[-1] < seconds:
                    check_time(spent[-1] if spent else 0.0)
                    spent.append(_spent(run, counts[name]))
    return {
        name: _typical(spent) / counts[name] / states if spent else math.nan
        for name, spent in times.items()
    }


def _typical(spent: list[float]) -> float:
    """Return the lower quartile of the times of some rounds; nan where none is above zero.

    The clock counts in ticks of milliseconds where a process has a limit of processor time
    (``ulimit -t``); a quartile of zero is then replaced by the mean.
    """
    quartile = sorted(spent)[len(spent) // 4]
    return quartile or sum(spent) / len(spent) or math.nan


def repeat_states(states: np.ndarray, count: int = 1000) -> np.ndarray:
    """Return ``count`` of the ``states`` or windows (n, ...), in their order over and over again.

    Examples
    --------
    >>> vp.measure.repeat_states(np.ones((3, 2))).shape
    (1000, 2)
    """
    return states[np.arange(count) % len(states)]


def _spent(run: Callable[[int], object], count: int) -> float:
    if count > 1:
        run(count)  # the map before has filled the caches, and freed the memory
    start = time.process_time()
    run(count)
    return time.process_time() - start
