"""Table of one step: error and cost of maps, and substeps of methods that err as little."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from vpintegrator.compiled.library import NotCompilable
from vpintegrator.compiled.method import CompiledMethod
from vpintegrator.compiled.timing import seconds_per_step
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.maps import ClassicalMethod, Map, find_method
from vpintegrator.rich_display import duration
from vpintegrator.runtime.deadline import TimeIsUp, check_time, until
from vpintegrator.storage.reading import read_json

METHODS = (
    *("stoermer-verlet", "strang-splitting", "rk4", "blanes-moan-4", "blanes-moan-6"),
    # implicit methods take longest: last, as the time may end
    *("dormand-prince-8", "gauss-legendre-4", "gauss-legendre-6"),
)
ALIKE = 1.3  # factor below which two costs are about the same: that of repeated measurements
Result = TypeVar("Result")


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
    >>> from vpintegrator.compiled.one_step import fewest_substeps
    >>> fewest_substeps(lambda n: 1e-3 / n**4, 1e-7)
    (10, '')
    >>> fewest_substeps(lambda n: max(1e-3 / n**4, 1e-13), 1e-14)
    (None, 'rounding ends at 1.0e-13')
    """
    low, high, last, least = 0, 1, math.inf, math.inf
    while (value := error(high)) > target:  # twice as many until the error is reached
        least = min(least, value)
        if value < rounding and last < 2 * value:
            return None, f"rounding ends at {least:.1e}"
        if high == most:
            return None, f"{most:,} substeps err by {value:.1e}"
        low, high, last = high, min(2 * high, most), value
    between = range(low + 1, high)
    return low + 1 + bisect_left(between, True, key=lambda n: error(n) <= target), ""


@dataclass(frozen=True)
class Rival:
    """A classical method with the fewest substeps whose error is at most that of a model.

    Attributes
    ----------
    name, substeps
        Name of the method and number of substeps, None where the error is not reached.
    cost
        Seconds for a step of one of 1,000 states; nan where it was not measured.
    reason
        Why the error is not reached.
    """

    name: str
    substeps: int | None = None
    cost: float = math.nan
    reason: str = ""

    @property
    def words(self) -> str:
        """Name and substeps."""
        return f"{self.name} with {_substeps(self.substeps)}"


@dataclass(frozen=True)
class OneStep:
    """Error and cost of one step of a map.

    Attributes
    ----------
    name, kind
        Name of the map, and ``model`` or ``classical``.
    error
        Root mean square error one step ahead, relative to the spread of the components that move;
        infinite if the map overflows.
    cost
        Seconds for a step of one of 1,000 states; nan where it was not measured.
    note
        Reason why the cost is none of machine code; empty if it is one.
    rivals
        Of a model: the classical methods in machine code with its error.
    lead_time_errors
        Of a map that predicts several states in a call: the errors 1, 2, ... steps ahead.
    """

    name: str
    kind: str
    error: float = math.inf
    cost: float = math.nan
    note: str = ""
    rivals: tuple[Rival, ...] = ()
    lead_time_errors: tuple[float, ...] = ()

    @property
    def cheapest_rival(self) -> Rival | None:
        """The cheapest classical method with the error of a model, None where none is compared.

        Maps that do not run as machine code are not compared, nor costs that were not measured.
        """
        known = [rival for rival in self.rivals if math.isfinite(rival.cost)]
        is_compared = not self.note and math.isfinite(self.cost)
        return min(known, key=attrgetter("cost"), default=None) if is_compared else None

    @property
    def relative_cost(self) -> float:
        """Cost of this method, relative to that of the model; nan without one."""
        return self.cheapest_rival.cost / self.cost if self.cheapest_rival else math.nan


@dataclass(frozen=True)
class OneStepTable:
    """Errors and costs of one step: models in the order given, then methods by their error.

    Attributes
    ----------
    rows
        The maps.
    """

    rows: tuple[OneStep, ...]

    @property
    def models(self) -> list[OneStep]:
        """Rows of the models."""
        return [row for row in self.rows if row.kind == "model"]

    @property
    def methods(self) -> list[OneStep]:
        """Rows of the classical methods, the most accurate one first."""
        return [row for row in self.rows if row.kind == "classical"]

    def cheapest(self, target: float) -> OneStep:
        """Return the cheapest model of those that err by at most ``target``.

        Models of unknown cost come last; where none is below the target, the least error counts.
        """
        best = min(self.models, key=attrgetter("error"))
        below = [row for row in self.models if row.error <= target] or [best]
        return min(below, key=lambda row: (math.isnan(row.cost), row.cost, row.error))

    def row(self, name: str) -> OneStep:
        """Return the row of a map; one without numbers where the map was not measured."""
        return next((row for row in self.rows if row.name == name), OneStep(name, ""))

    @property
    def sentences(self) -> list[str]:
        """Comparison of each model with the cheapest classical method of its error."""
        return [self.sentence_of(model) for model in self.models if model.rivals]

    @property
    def sentence(self) -> str:
        """The sentence of the first model; empty without classical methods."""
        return next(iter(self.sentences), "")

    def sentence_of(self, model: OneStep, rounding: float = 1e-14) -> str:
        """Return the comparison of a model with the cheapest classical method of its error.

        Parameters
        ----------
        model
            A row of the table.
        rounding
            Error below which methods need not come.
        """
        below = "this error" if model.error > rounding else "an error at rounding"
        rival, ratio = model.cheapest_rival, model.relative_cost
        if rival is not None:
            cost = f"{two_digits(ratio)} times the cost"
            cost = "about the same cost" if 1 / ALIKE < ratio < ALIKE else cost
            verdict = f"The cheapest classical method with {below} is {rival.words}, at {cost}"
        elif model.note or math.isnan(model.cost):
            verdict = f"Its cost is not compared: {model.note or 'not measured in time'}"
        elif any(rival.substeps for rival in model.rivals):
            verdict = f"No cost of a classical method with {below} was measured in time"
        else:
            verdict = f"No classical method of the table reaches {below}"
        later = model.lead_time_errors
        ahead = f", and by up to {max(later):.1e} to {len(later)} steps ahead" if later else ""
        return f"{model.name} errs by {model.error:.1e} one step ahead{ahead}. {verdict}."

    def __str__(self) -> str:
        first = self.models[0] if self.models and self.methods else None
        rivals = {rival.name: rival for rival in first.rivals} if first else {}
        header = [f"as accurate as {first.name}", "cost then"] if first else []
        cells = [["one step ahead", "error", "cost", *header, ""]]
        for row in self.rows:
            rival, then = rivals.get(row.name), ["", ""]
            if rival is not None:
                then = ["not reached", ""]
                if rival.substeps is not None:
                    then = [_substeps(rival.substeps), _cost(rival.cost)]
            note = "; ".join(filter(None, [row.note, rival.reason if rival else ""]))
            numbers = [f"{row.error:.1e}", _cost(row.cost), *(then if first else ())]
            cells.append([row.name, *numbers, note])
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for name, *numbers, note in cells:
            aligned = map(str.rjust, numbers, widths[1:-1])
            lines.append("  ".join([name.ljust(widths[0]), *aligned, note]).rstrip())
        return "\n".join([*lines, *self.sentences])

    @property
    def text(self) -> str:
        """JSON text for the metadata of a file, without numbers that are not finite."""
        return json.dumps({"rows": [_known(asdict(row)) for row in self.rows]})

    @classmethod
    def from_text(cls, text: str, where: str) -> OneStepTable:
        """Return the table of a ``text``; ``where`` is its place for messages.

        Raises
        ------
        InputError
            If it is no such text.
        """
        try:
            rows = []
            for row in read_json(text, where)["rows"]:
                rivals = tuple(Rival(**rival) for rival in row.pop("rivals", ()))
                errors = tuple(map(float, row.pop("lead_time_errors", ())))
                rows.append(OneStep(**row, rivals=rivals, lead_time_errors=errors))
            str(table := cls(tuple(rows)))  # numbers can be written as numbers
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InputError(f"{where} is not what a training writes") from None
        return table


def machine_code(make: Callable[[], Result], end: float = math.inf) -> Result | str:
    """Return machine code, or the reason why there is none by ``time.perf_counter() == end``."""
    try:
        with until(end):
            check_time()
            return make()
    except NotCompilable as reason:
        return str(reason)
    except TimeIsUp:
        return "not measured in time"


@contextmanager
def compiling(
    methods: Mapping[str, ClassicalMethod],
    system: System,
    states: np.ndarray,
    step: float,
    end: float = math.inf,
) -> Iterator[Callable[[str], CompiledMethod | str]]:
    """Compile methods side by side while the block runs.

    The value is a function that waits for the machine code of a name, or gives the reason why there
    is none.

    Parameters
    ----------
    methods
        Methods by name.
    system, states, step
        See :class:`vpintegrator.compiled.CompiledMethod`.
    end
        Value of ``time.perf_counter`` at which compilers are ended.
    """

    def begin(method: ClassicalMethod) -> CompiledMethod | str:
        return machine_code(lambda: CompiledMethod(method, system, states, step, wait=False), end)

    machines = {name: begin(method) for name, method in methods.items()}

    def ready(name: str) -> CompiledMethod | str:
        machine = machines[name]
        return machine if isinstance(machine, str) else machine_code(machine.ready, end)

    try:
        yield ready
    finally:
        for machine in machines.values():
            if not isinstance(machine, str):
                machine.stop()


def applicable_methods(
    system: System, methods: Sequence[str | ClassicalMethod] | None = None
) -> dict[str, ClassicalMethod]:
    """Return the methods by name: those given, or those of ``METHODS`` that apply.

    Raises
    ------
    InputError
        If one that is given does not apply.
    """
    chosen: dict[str, ClassicalMethod] = {}
    for each in METHODS if methods is None else methods:
        method = find_method(each) if isinstance(each, str) else each
        try:
            method.require(system)
            chosen[method.name] = method
        except InputError:
            if methods is not None:
                raise
    return chosen


@dataclass(frozen=True)
class ModelStep:
    """A step of a model.

    Attributes
    ----------
    name, error, note
        See :class:`OneStep`.
    run
        ``run(count)`` makes ``count`` calls of the model from 1,000 windows; None where the cost is
        not measured.
    prediction_window
        Steps of a call.
    lead_time_errors
        Errors of the new states of a call, if there are several.
    """

    name: str
    error: float
    run: Callable[[int], object] | None = None
    prediction_window: int = 1
    note: str = ""
    lead_time_errors: tuple[float, ...] = ()


@dataclass(frozen=True)
class MethodStep:
    """A step of a classical method.

    Attributes
    ----------
    name, note
        See :class:`OneStep`.
    error
        Error of a step in so many substeps.
    run
        ``run(count, substeps)`` makes ``count`` substeps from 1,000 states, of which so many are a
        step; None where the cost is not measured.
    is_rival
        Whether it is given substeps: not methods without machine code, nor those that choose steps.
    """

    name: str
    error: Callable[[int], float]
    run: Callable[[int, int], object] | None = None
    note: str = ""
    is_rival: bool = True


def images_of(map: Map, windows: np.ndarray, count: int) -> np.ndarray:
    """Return the states (n, dim) so many steps of a map after windows, without those before.

    Parameters
    ----------
    map
        A map.
    windows
        (n, window, dim).
    count
        Number of steps.
    """
    for part in map.advance(windows, count, chunk=64):  # (n, 64, dim): fewer cost more
        check_time()
        last = part[:, -1]
    return last


def measure_steps(
    models: Sequence[ModelStep],
    methods: Sequence[MethodStep],
    *,
    rounding: float = 1e-14,
    end: float = math.inf,
) -> OneStepTable:
    """Measure costs of a step, and the substeps with which methods reach the errors of models.

    Parameters
    ----------
    models, methods
        The maps.
    rounding
        Error below which methods need not come.
    end
        Value of ``time.perf_counter`` at which searches and timing end. A method whose error in one
        substep is not known before an outer deadline is left out.
    """
    errors = {method.name: cache(method.error) for method in methods}
    known = []
    with suppress(TimeIsUp):  # all errors first: a table without accurate methods misleads
        for method in methods:
            errors[method.name](1)
            known.append(method)
    searches: dict[tuple[str, str], tuple[int | None, str]] = {}
    runs = {model.name: model.run for model in models if model.run is not None}
    with until(end):
        for method in known:
            for model in models if method.is_rival else ():
                searches[model.name, method.name] = None, "not found in time"
                with suppress(TimeIsUp):
                    searches[model.name, method.name] = fewest_substeps(
                        errors[method.name], max(model.error, rounding)
                    )
            if method.run is not None:
                found = [n for (_, name), (n, _) in searches.items() if name == method.name]
                for count in {1, *filter(None, found)}:
                    run = partial(_whole_steps, method.run, count)
                    runs[f"{method.name} {count}"] = run
        costs = seconds_per_step(runs)

    def row_of(step: ModelStep | MethodStep, cost: float, error: float, **others: Any) -> OneStep:
        late = step.run is not None and math.isnan(cost)
        note = step.note or ("not measured in time" if late else "")
        return OneStep(step.name, error=error, cost=cost, note=note, **others)

    def cost_of(name: str, substeps: int | None) -> float:
        return costs.get(f"{name} {substeps}", math.nan)

    rows = []
    for model in models:
        rivals = []
        for method in filter(attrgetter("is_rival"), known):
            substeps, reason = searches[model.name, method.name]
            rivals.append(Rival(method.name, substeps, cost_of(method.name, substeps), reason))
        cost = costs.get(model.name, math.nan) / model.prediction_window
        of_model = {"rivals": tuple(rivals), "lead_time_errors": model.lead_time_errors}
        rows.append(row_of(model, cost, model.error, kind="model", **of_model))
    others = [row_of(m, cost_of(m.name, 1), errors[m.name](1), kind="classical") for m in known]
    return OneStepTable((*rows, *sorted(others, key=attrgetter("error"))))


def _whole_steps(run: Callable[[int, int], object], substeps: int, count: int) -> None:
    run(count * substeps, substeps)


def _substeps(count: int | None) -> str:
    return f"{count} substep{'s' if count != 1 else ''}"


def _cost(seconds: float) -> str:
    return "-" if math.isnan(seconds) else duration(float(f"{seconds:.2g}"))


def two_digits(number: float) -> str:
    """Return a positive number with two significant digits, such as 0.34, 1.0 and 120."""
    if not 1e-3 < number < 1e4:
        return f"{number:.1e}"
    digits = max(1 - math.floor(math.log10(number)), 0)
    return f"{float(f'{number:.1e}'):.{digits}f}"


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that JSON can hold: no number that is not finite, and no empty text."""
    values = dict(row)
    if "rivals" in values:
        values["rivals"] = [*map(_known, values["rivals"])]
    unknown = ("", None, (), math.inf)
    if not all(map(math.isfinite, values.get("lead_time_errors", ()))):
        values["lead_time_errors"] = ()
    return {k: v for k, v in values.items() if v not in unknown and v == v}  # nor nan
