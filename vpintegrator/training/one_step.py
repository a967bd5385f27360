"""Table of one step: error and cost of maps, beside classical methods of the same step."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import numpy as np

from vpintegrator.data import Dataset
from vpintegrator.data.pairs import Pairs
from vpintegrator.errors import InputError
from vpintegrator.maps import ClassicalMap, Map
from vpintegrator.measure import table
from vpintegrator.measure.rows import OneStepTable
from vpintegrator.measure.steps import applicable_methods
from vpintegrator.models import Model
from vpintegrator.models.model import check_model
from vpintegrator.runtime.interrupts import time_left, unhurried
from vpintegrator.training.residuals import estimated_error, lead_time_errors
from vpintegrator.training.training_data import TrainingData

if TYPE_CHECKING:
    from vpintegrator.maps import ClassicalMethod

Maps = Map | Mapping[str, Map]


def one_step(
    maps: Maps,
    dataset: TrainingData | Dataset,
    *,
    methods: Sequence[str | ClassicalMethod] | None = None,
    group: Literal["test", "validation"] = "test",
    seconds: float = 10.0,
) -> OneStepTable:
    """Measure error and cost of one step of maps, beside classical methods of the same step.

    The error of a map is that on up to 10,000 windows of the test group, drawn at random, as a
    training prints it. Methods are given substeps by the error of each model at 500 of the windows.

    Parameters
    ----------
    maps
        A trained model or another map, or several by name.
    dataset
        Dataset of the training.
    methods
        Names of classical methods, or methods. By default some usual ones that apply, ``METHODS``
        of :mod:`vpintegrator.measure.steps`; none for maps, families, and measured systems
        without equations.
    group
        Group of the states.
    seconds
        Time to measure costs in: none begins later, or where it would end later; 0 measures none.

    Returns
    -------
    OneStepTable
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
    named = maps if isinstance(maps, Mapping) else {getattr(maps, "name", ""): maps}
    for map in named.values():
        if not isinstance(map, Map):
            check_model(map)
    if not data.has(group):
        raise InputError(f"{data.dataset.path} has no {group} trajectories to judge one step by")
    end = time.perf_counter() + min(seconds, time_left())
    system = data.dataset.system
    usual = {} if data.dataset.is_family else applicable_methods(system, methods)
    windows, images = _windows(named, data, group)
    components, spread = data.error_scale
    with unhurried():
        errors = {name: _errors(map, data, group) for name, map in named.items()}
    return table(
        {name: _member(map, data) for name, map in named.items()},
        windows,
        images,
        methods={n: ClassicalMap(m, system, data.dataset.step) for n, m in usual.items()},
        components=components,
        spread=spread,
        errors=errors,
        end=end,
    )


def _errors(map: Map, data: TrainingData, group: str) -> list[float]:
    """Return the error of each new state of a call: the one estimate of the map's error."""
    pair = data.test_windows(map) if group == "test" else data.held_out(map)
    error, _ = estimated_error(map, pair, data.error_scale)
    if map.prediction_window == 1 or not isinstance(map, Model):
        return [error]
    errors = lead_time_errors(map, pair, data.error_scale)
    return [math.inf if math.isnan(each) else each for each in errors]


def _windows(
    maps: Mapping[str, Map], data: TrainingData, group: str, most: int = 500
) -> tuple[np.ndarray, np.ndarray]:
    """Return windows (n, window, dim) of the longest map, and the next states (n, time, dim)."""
    window = max((map.window for map in maps.values()), default=1)
    new = max((map.prediction_window for map in maps.values()), default=1)
    where = f"{data.dataset.path}, {group}"
    inputs, targets, _ = Pairs.of_states(data.held(group), window, new, 1, where).evenly(most)
    return inputs.numpy(), targets[:, targets.shape[1] - new :].numpy()


def _member(map: Map, data: TrainingData) -> Map:
    """Return the map in the middle of the ranges of a family."""
    middle = {name: (low + high) / 2 for name, (low, high) in data.dataset.varied.items()}
    with suppress(InputError):  # some families have no single models
        return map.at(**middle) if middle and isinstance(map, Model) else map
    return map
