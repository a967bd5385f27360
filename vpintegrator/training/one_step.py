"""Table of one step: error and cost of models, beside classical methods of the same step."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from vpintegrator.arguments import check_integrator, one_of
from vpintegrator.compiled import CompiledMethod, CompiledModel
from vpintegrator.compiled.one_step import (
    MethodStep,
    ModelStep,
    OneStepTable,
    applicable_methods,
    compiling,
    images_of,
    machine_code,
    measure_steps,
)
from vpintegrator.compiled.timing import repeat_states
from vpintegrator.data import Dataset
from vpintegrator.data.pairs import Pairs
from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.runtime.deadline import time_left, unhurried
from vpintegrator.training.residuals import relative, relative_error
from vpintegrator.training.training_data import TrainingData

if TYPE_CHECKING:
    from vpintegrator.maps import ClassicalMethod

KEY = "one_step"  # key of the metadata of a model
_LARGEST = 10_000  # operations of a map that is compiled in some seconds

Maps = Model | Sequence[Model] | Mapping[str, Model]


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
        of :mod:`vpintegrator.compiled.one_step`; none for maps, families, and measured systems
        without equations.
    seconds
        Time to measure costs in: none begins later, or where it would end later; 0 measures none.
    group
        Group of the dataset whose states are stepped: ``test`` or ``validation``.

    Returns
    -------
    OneStepTable
        Of a family it has the models alone, and costs are those in the middle of what varies.
        Classical methods whose error is not known before the deadline are left out.

    Raises
    ------
    InputError
        If the group is empty, or a method that is given does not apply.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> model = vp.models.build(dataset.system, "sgf", {"degree": 10})
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
    if data.dataset.is_family:
        return measure_steps([case.of_model(*each, end) for each in models.items()], [], end=end)
    system, step = data.dataset.system, data.dataset.step
    chosen = applicable_methods(system, methods)
    with compiling(chosen, system, case.states, step, end) as ready:
        own = [case.of_model(*each, end) for each in models.items()]
        rivals = [case.of_method(method, ready(name)) for name, method in chosen.items()]
    return measure_steps(own, rivals, end=end)


def _named(maps: Maps) -> dict[str, Model]:
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
        pairs = Pairs.of_states(data.held(group), 1, 1, 1, f"{data.dataset.path}, {group}")
        before, after, _ = pairs.evenly(most)
        self.first, self.images = before[:, 0].numpy(), after[:, 0].numpy()
        self.states = repeat_states(self.first)

    def of_method(self, method: ClassicalMethod, machine: CompiledMethod | str) -> MethodStep:
        """Return the step of a classical method, as machine code if there is any."""
        from vpintegrator.maps import ClassicalMap

        dataset, scale = self.data.dataset, self.data.error_scale
        if isinstance(machine, str):
            map: ClassicalMap | CompiledMethod = ClassicalMap(method, dataset.system, dataset.step)
            note, every = machine, len(self.first) // 100 or 1
        else:
            map, note, every = machine, "", 1

        def error(substeps: int) -> float:
            images = images_of(map.at_step(dataset.step / substeps), self.first[::every], substeps)
            wrong = (images - self.images[::every])[:, list(scale.components)]
            value = relative(float((wrong**2).sum()), len(wrong), scale.spread)
            return math.inf if math.isnan(value) else value

        def run(count: int, substeps: int) -> None:
            images_of(map.at_step(dataset.step / substeps), self.states, count)

        return MethodStep(method.name, error, run, note, not note)

    def of_model(self, name: str, model: Model, end: float) -> ModelStep:
        """Return the step of a model, as machine code if there is any."""
        is_test = self.group == "test"
        pair = self.data.test_pairs(model, self.most) if is_test else self.data.held_out(model)
        with unhurried():
            error = relative_error(model, *pair, scale=self.data.error_scale)
        error = math.inf if math.isnan(error) else error
        with suppress(InputError):  # some families have no single models
            varied = self.data.dataset.varied.items()
            middle = {name: (low + high) / 2 for name, (low, high) in varied}
            model = model.at(**middle) if middle else model
        windows = repeat_states(pair.inputs.cpu().numpy())
        machine = machine_code(partial(CompiledModel, model, len(windows), windows, _LARGEST), end)
        if isinstance(machine, str):
            return ModelStep(name, error, note=machine)
        run = partial(machine.predict, windows.astype(machine.dtype))
        return ModelStep(name, error, run, model.prediction_window)
