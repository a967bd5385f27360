"""Table of one step: error and cost of models, beside classical methods of the same step."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from vpintegrator.arguments import check_integrator
from vpintegrator.compiled import CompiledMethod, CompiledModel, machine_code
from vpintegrator.compiled import one_step as steps
from vpintegrator.compiled.timing import repeat_states
from vpintegrator.data import Dataset
from vpintegrator.data.pairs import Pairs
from vpintegrator.errors import InputError
from vpintegrator.maps import ClassicalMap, Map
from vpintegrator.models import Model
from vpintegrator.runtime.deadline import time_left, unhurried
from vpintegrator.training.residuals import (
    estimated_error,
    lead_time_errors,
    relative,
    relative_error,
)
from vpintegrator.training.training_data import TrainingData

if TYPE_CHECKING:
    from vpintegrator.maps import ClassicalMethod

KEY = "one_step"  # key of the metadata of a model
_LARGEST = 10_000  # operations of a map that is compiled in some seconds

Maps = Map | Mapping[str, Map]


def one_step(
    maps: Maps,
    dataset: TrainingData | Dataset,
    *,
    methods: Sequence[str | ClassicalMethod] | None = None,
    group: Literal["test", "validation"] = "test",
    seconds: float = 10.0,
) -> steps.OneStepTable:
    """Measure error and cost of one step of models, beside classical methods of the same step.

    Parameters
    ----------
    maps
        A trained model, or several by name.
    dataset
        Dataset of the training.
    methods
        Names of classical methods, or methods. By default some usual ones that apply, ``METHODS``
        of :mod:`vpintegrator.compiled.one_step`; none for maps, families, and measured systems
        without equations.
    group
        Group of the states.
    seconds
        Time to measure costs in: none begins later, or where it would end later; 0 measures none.

    Returns
    -------
    steps.OneStepTable
        Of a family it has the models alone, and costs are those in the middle of what varies.
        Classical methods whose error is not known before the deadline are left out.

    Raises
    ------
    InputError
        If the group has no states, or a method that is given does not apply.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> model = vp.models.build(dataset.system, "sgf", {"degree": 10})
    >>> history = vp.train(model, dataset, optimizer="linear")
    >>> table = vp.one_step(model, dataset, seconds=0)
    >>> table.models[0].error < table.methods[0].error
    True
    """
    data = TrainingData.of(dataset)
    models = maps if isinstance(maps, Mapping) else {getattr(maps, "name", ""): maps}
    for model in models.values():
        if not isinstance(model, Map):
            check_integrator(model)
    if not data.has(group):
        raise InputError(f"{data.dataset.path} has no {group} trajectories to judge one step by")
    case, end = _Case(data, group), time.perf_counter() + min(seconds, time_left())
    system, is_family = data.dataset.system, data.dataset.is_family
    chosen = {} if is_family else steps.applicable_methods(system, methods)
    step = math.nan if is_family else data.dataset.step
    with steps.compiling(chosen, system, case.states, step, end) as ready:
        own = [case.of_map(*each, end) for each in models.items()]
        rivals = [case.of_method(method, ready(name)) for name, method in chosen.items()]
    return steps.measure_steps(own, rivals, end=end)


class _Case:
    """States that are stepped, and others by which costs are measured.

    Attributes
    ----------
    first, images : ndarray (state, dim)
        Some states of the group, and those a step later.
    states : ndarray (state, dim)
        1,000 states of the measurement.
    """

    def __init__(self, data: TrainingData, group: str, most: int = 500) -> None:
        self.data, self.group, self.most = data, group, most
        before, after, _ = Pairs.of_states(data.held(group), 1).evenly(most)
        self.first, self.images = before[:, 0].numpy(), after[:, 0].numpy()
        self.states = repeat_states(self.first)

    def of_method(self, method: ClassicalMethod, machine: CompiledMethod | str) -> steps.MethodStep:
        """Return the step of a classical method, as machine code if there is any."""
        dataset, scale = self.data.dataset, self.data.error_scale
        if isinstance(machine, str):
            map: ClassicalMap | CompiledMethod = ClassicalMap(method, dataset.system, dataset.step)
            note, every = machine, len(self.first) // 100 or 1
        else:
            map, note, every = machine, "", 1

        def images(states: np.ndarray, count: int, substeps: int) -> np.ndarray:
            return steps.images_of(map.at_step(dataset.step / substeps), states[:, None], count)

        def error(substeps: int) -> float:
            wrong = images(self.first[::every], substeps, substeps) - self.images[::every]
            squares = float((wrong[:, list(scale.components)] ** 2).sum())
            value = relative(squares, len(wrong), scale.spread)
            return math.inf if math.isnan(value) else value

        run = partial(images, self.states)
        return steps.MethodStep(method.name, error, run, note, not note)

    def of_map(self, name: str, map: Map, end: float) -> steps.ModelStep:
        """Return the step of any map, as machine code if there is any."""
        if isinstance(map, Model):
            return self.of_model(name, map, end)
        pair = self.data.pairs(map, self.group).evenly(self.most)
        error, _ = estimated_error(map, pair, self.data.error_scale)
        windows = repeat_states(pair.inputs.numpy())
        make = partial(machine_code, map, windows, True)
        machine = steps.machine_code(make, end) if isinstance(map, ClassicalMap) else map
        if isinstance(machine, str):
            return steps.ModelStep(name, error, note=machine)
        return steps.ModelStep(name, error, partial(steps.images_of, machine, windows))

    def of_model(self, name: str, model: Model, end: float) -> steps.ModelStep:
        """Return the step of a model, as machine code if there is any."""
        pair = self.data.pairs(model, self.group).evenly(self.most).to(model.scale)
        with unhurried():
            error = relative_error(model, *pair, scale=self.data.error_scale)
            errors = lead_time_errors(model, pair, self.data.error_scale)
        error = math.inf if math.isnan(error) else error
        later = tuple(errors) if model.prediction_window > 1 else ()
        with suppress(InputError):  # some families have no single models
            varied = self.data.dataset.varied.items()
            middle = {name: (low + high) / 2 for name, (low, high) in varied}
            model = model.at(**middle) if middle else model
        windows = repeat_states(pair.inputs.cpu().numpy())
        make = partial(CompiledModel, model, len(windows), windows, _LARGEST)
        machine = steps.machine_code(make, end)
        if isinstance(machine, str):
            return steps.ModelStep(name, error, note=machine, lead_time_errors=later)
        run = partial(machine.predict, windows.astype(machine.dtype))
        new = model.prediction_window
        return steps.ModelStep(name, error, run, new, lead_time_errors=later)
