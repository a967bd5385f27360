"""Table of one step: error and cost of models, beside classical methods of the same step."""

from __future__ import annotations

import html
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vpintegrator.arguments import check_integrator, one_of
from vpintegrator.compiled import NotCompilable, compile_model, repeat_states, seconds_per_step
from vpintegrator.data import Dataset
from vpintegrator.data.pairs import Pairs
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.rich_display import duration
from vpintegrator.runtime.deadline import TimeIsUp, check_time, time_left, unhurried, until
from vpintegrator.storage.reading import read_json
from vpintegrator.training.residuals import relative, relative_error
from vpintegrator.training.training_data import TrainingData

if TYPE_CHECKING:
    from vpintegrator.compiled import CompiledMethod
    from vpintegrator.maps import ClassicalMethod
    from vpintegrator.maps.cursor import Cursor

KEY = "one_step"  # key of the metadata of a model
METHODS = (
    *("stoermer-verlet", "strang-splitting", "rk4", "blanes-moan-4", "blanes-moan-6"),
    # implicit methods take longest: last, as the time may end
    *("dormand-prince-8", "gauss-legendre-4", "gauss-legendre-6"),
)
_LARGEST = 10_000  # operations of a map that is compiled in some seconds

Maps = Integrator | Sequence[Integrator] | Mapping[str, Integrator]
Made = TypeVar("Made")


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
    """

    name: str
    kind: str
    error: float = math.inf
    cost: float = math.nan
    note: str = ""


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
        best = min(self.models, key=lambda row: row.error)
        below = [row for row in self.models if row.error <= target] or [best]
        return min(below, key=lambda row: (math.isnan(row.cost), row.cost, row.error))

    @property
    def sentence(self) -> str:
        """Comparison of the first model with a classical method; empty where there is none.

        The method is the cheapest of those that err as little as the model, within a factor of two,
        or else the most accurate one. Costs are compared where both are of machine code.
        """
        if not self.models or not self.methods:
            return ""
        own, best = self.models[0], self.methods[0]
        rivals = [row for row in self.methods if row.error <= max(2 * own.error, 1e-14)]
        if not rivals:
            less = f"errs {_factor(best.error / own.error)} times less than {best.name}"
            return f"A step of {own.name} {less}{_at(own, best)}."
        rival = min(rivals, key=lambda row: (bool(row.note), row.cost, row.error))
        if own.error <= 1e-14:
            return f"{own.name} and {rival.name} err by rounding alone{_at(own, rival)}."
        if own.error <= 2 * rival.error:
            return f"A step of {own.name} errs as little as {rival.name}{_at(own, rival)}."
        less = f"it errs {_factor(own.error / rival.error)} times less"
        return f"{rival.name} is better here: {less}{_at(rival, own)}."

    @property
    def _cells(self) -> list[tuple[str, str, str, str]]:
        cells = [("one step ahead", "error", "cost of a step", "")]
        for row in self.rows:
            cost = "-" if math.isnan(row.cost) else duration(float(f"{row.cost:.2g}"))
            cells.append((row.name, f"{row.error:.1e}", cost, row.note))
        return cells

    def __str__(self) -> str:
        width = max(len(cells[0]) for cells in self._cells)
        lines = [f"{a:<{width}}  {b:>7}  {c:>14}  {d}".rstrip() for a, b, c, d in self._cells]
        return "\n".join(filter(None, [*lines, self.sentence]))

    def _repr_html_(self) -> str:
        rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in self._cells)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table>{body}</table><p>{html.escape(self.sentence)}</p>"

    @property
    def text(self) -> str:
        """JSON text for the metadata of a model file, without numbers that are not finite."""
        rows = [asdict(row).items() for row in self.rows]
        return json.dumps({"rows": [{k: v for k, v in row if _is_told(v)} for row in rows]})

    @classmethod
    def from_text(cls, text: str, where: str) -> OneStepTable:
        """Return the table of a ``text``; ``where`` is its place for messages.

        Raises
        ------
        InputError
            If it is no such text.
        """
        try:
            table = cls(tuple(OneStep(**row) for row in read_json(text, where)["rows"]))
            str(table)  # numbers can be written as numbers
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InputError(f"{where} is not what a training writes") from None
        return table


def one_step(
    maps: Maps,
    dataset: TrainingData | Dataset,
    *,
    methods: Sequence[str | ClassicalMethod] | None = None,
    seconds: float = 10.0,
    group: str = "test",
) -> OneStepTable:
    """Measure error and cost of one step of models, beside classical methods of the same step.

    Parameters
    ----------
    maps
        A trained model, several, or models by name.
    dataset
        Dataset of the training.
    methods
        Names of classical methods, or methods. By default some usual ones that apply, ``METHODS``
        of this module; none for maps, and for measured systems without equations.
    seconds
        Time to measure costs in: none begins later, or where it would end later; 0 measures none.
    group
        Group of the dataset whose states are stepped: ``test`` or ``validation``.

    Returns
    -------
    OneStepTable
        For a family each state has the step and the parameters of its own trajectory, and costs are
        those in the middle of what varies. Classical methods whose error is not known before the
        deadline are left out.

    Raises
    ------
    InputError
        If the group is empty, or a method that is given does not apply.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> model = vp.models.build(dataset.system, "sgf", degree=10)
    >>> history = vp.train(model, dataset, optimizer="linear")
    >>> table = vp.one_step(model, dataset, seconds=0)
    >>> table.models[0].error < table.methods[0].error
    True
    """
    models, data = _named(maps), TrainingData.of(dataset)
    one_of("group", group, ("test", "validation"))
    if group == "validation" and not data.has(group) and data.is_few:
        group = "train"  # by which few data are judged
    if not data.has(group):
        raise InputError(f"{data.dataset.path} has no {group} trajectories to judge one step by")
    case, end = _Case(data, group), time.perf_counter() + min(seconds, time_left())
    chosen = _applicable(methods, data)
    machines = {name: case.begin(method, end) for name, method in chosen.items()}
    trials: list[_Trial] = []
    try:
        with suppress(TimeIsUp):  # all errors first: a table without accurate methods misleads
            trials += map(case.of_method, chosen.values())
        trials = [trial for trial in trials if math.isfinite(trial.row.error)]
        trials.sort(key=lambda trial: trial.row.error)
        own = [case.of_model(name, model, end) for name, model in models.items()]
        for trial in trials:
            case.take(trial, machines[trial.row.name], end)
    finally:
        for machine in machines.values():
            if not isinstance(machine, str):
                machine.stop()
    with until(end):
        return OneStepTable(tuple(_with_costs([*own, *trials])))


def _named(maps: Maps) -> dict[str, Integrator]:
    """Return models by name: that given, or that of the architecture, numbered if taken."""
    if isinstance(maps, Mapping):
        named = dict(maps)
    else:
        models: Sequence[Any] = maps if isinstance(maps, list | tuple) else [maps]
        names = [getattr(model, "name", "") for model in models]
        numbers = [names[:place].count(name) + 1 for place, name in enumerate(names)]
        unique = [f"{a}-{n}" if n > 1 else a for a, n in zip(names, numbers, strict=True)]
        named = dict(zip(unique, models, strict=True))
    for model in named.values():
        check_integrator(model)
    return named


def _applicable(
    methods: Sequence[str | ClassicalMethod] | None, data: TrainingData
) -> dict[str, ClassicalMethod]:
    """Return the methods by name: those given, or those of the table that apply."""
    from vpintegrator.maps import find_method  # loads scipy.integrate, which is slow

    chosen: dict[str, ClassicalMethod] = {}
    for each in METHODS if methods is None else methods:
        method = find_method(each) if isinstance(each, str) else each
        try:
            method.require(data.dataset.system)
            chosen[method.name] = method
        except InputError:
            if methods is not None:
                raise
    return chosen


@dataclass
class _Trial:
    """A row without its cost, and what the cost is measured by.

    Attributes
    ----------
    run
        Applies the map so many times to 1,000 states; None if there is nothing to measure.
    steps
        Steps in one application.
    """

    row: OneStep
    run: Callable[[int], object] | None = None
    steps: int = 1


def _with_costs(trials: Sequence[_Trial]) -> list[OneStep]:
    """Return the rows with the costs of a step."""
    # numbers for names: a model may be called like a method
    runs = {str(k): trial.run for k, trial in enumerate(trials) if trial.run is not None}
    seconds = seconds_per_step(runs)
    rows = []
    for k, trial in enumerate(trials):
        cost = seconds.get(str(k), math.nan) / trial.steps
        note = "not measured in time" if trial.run and math.isnan(cost) else ""
        rows.append(replace(trial.row, cost=cost, note=note or trial.row.note))
    return rows


def _machine_code(make: Callable[[], Made], end: float) -> Made | str:
    """Return machine code, or the reason why there is none."""
    try:
        with until(end):
            check_time()
            return make()
    except NotCompilable as reason:
        return str(reason)
    except TimeIsUp:
        return "not measured in time"


class _Case:
    """States that are stepped, and others by which costs are measured.

    Attributes
    ----------
    first, images : ndarray (state, dim)
        Some states of the group, and those a step later.
    system, step, states
        System, step and 1,000 states of the measurement: of a family those in the middle of what
        varies.
    """

    def __init__(self, data: TrainingData, group: str, most: int = 500) -> None:
        self.data, self.group, self.most = data, group, most
        self.system, self.step = data.dataset.system, data.dataset.step
        pairs = Pairs.of_states(data.held(group), 1, 1, 1, f"{data.dataset.path}, {group}")
        before, after = pairs[pairs.places(most)]
        self.first, self.images = before[:, 0].numpy(), after[:, 0].numpy()
        self.middle: dict[str, float] = {}
        if (family := self.system.family) is not None:
            varied = data.dataset.varied.items()
            self.middle = {name: (low + high) / 2 for name, (low, high) in varied}
            values = dict(self.middle)
            self.step = values.pop("step", family.step or self.step)
            self.system = family.system.with_parameters(values)
        self.states = repeat_states(self.first)[:, : self.system.dim]

    def begin(self, method: ClassicalMethod, end: float) -> CompiledMethod | str:
        """Let a compiler begin, or return the reason why there is no machine code."""
        from vpintegrator.compiled import CompiledMethod

        arguments = (method, self.system, self.states, self.step, False)
        return _machine_code(partial(CompiledMethod, *arguments), end)

    def of_method(self, method: ClassicalMethod) -> _Trial:
        """Return the error of a classical method, and its run in NumPy."""
        from vpintegrator.compiled import integrate

        dataset, scale = self.data.dataset, self.data.error_scale
        for some in (slice(None, None, 20), slice(None)):  # few states of a method that is slow
            start, first = time.process_time(), self.first[some]
            images = integrate(dataset.system, method, first, dataset.step, 1)[:, 1]
            spent = (time.process_time() - start) / len(first)
            wrong = (images - self.images[some])[:, list(scale.components)]
            if spent * len(self.first) > 0.3:
                break
        error = relative(float((wrong**2).sum()), len(wrong), scale.spread)
        run = partial(_iterate, partial(method.start, self.system), self.states, self.step)
        row = OneStep(method.name, "classical", error, note="in NumPy")
        return _Trial(row, run)

    def take(self, trial: _Trial, machine: CompiledMethod | str, end: float) -> None:
        """Replace NumPy by machine code, if there is any."""
        if not isinstance(machine, str):
            machine = _machine_code(machine.ready, end)
        if not isinstance(machine, str):
            trial.run = partial(_iterate, machine.start, self.states, self.step)
            trial.row = replace(trial.row, note="")

    def of_model(self, name: str, model: Integrator, end: float) -> _Trial:
        """Return the error of a model, and its run as machine code."""
        is_test = self.group == "test"
        pair = self.data.test_pairs(model, self.most) if is_test else self.data.held_out(model)
        with unhurried():
            error = relative_error(model, *pair, scale=self.data.error_scale)
        row = OneStep(name, "model", math.inf if math.isnan(error) else error)
        with suppress(InputError):  # some families have no single models
            model = model.at(**self.middle) if self.middle else model
        windows = repeat_states(pair[0][..., : model.dim].cpu().numpy())
        machine = _machine_code(partial(compile_model, model, len(windows), windows, _LARGEST), end)
        if isinstance(machine, str):
            return _Trial(replace(row, note=machine))
        run = partial(machine.advance, windows.astype(machine.dtype))
        return _Trial(row, run, model.prediction_window)


def _iterate(
    start: Callable[[np.ndarray, float], Cursor], states: np.ndarray, step: float, steps: int
) -> None:
    start(states, step).advance(steps)


def _is_told(value: Any) -> bool:
    return value != "" and (isinstance(value, str) or math.isfinite(value))


def _factor(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}" if ratio < 1e4 else f"{ratio:.0e}"


def _at(own: OneStep, other: OneStep) -> str:
    """Return words for a cost relative to another; empty if one of them is not known."""
    ratio = own.cost / other.cost
    if own.note or other.note or math.isnan(ratio):
        return ""
    if 1 / 2 < ratio < 2:
        return " at about the same cost"
    times = f"{_factor(ratio)} times" if ratio > 1 else f"1/{_factor(1 / ratio)} of"
    return f" at {times} the cost"
