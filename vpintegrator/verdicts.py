"""Verdict of a training: the model beside classical methods of the same step."""

from __future__ import annotations

import json
import math
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import torch

from vpintegrator.arguments import check_integrator
from vpintegrator.data import Dataset
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, compile_method, integrate
from vpintegrator.maps.base import ClassicalMethod
from vpintegrator.models import Integrator
from vpintegrator.models.one_step import simplified
from vpintegrator.rollout.start import find_system
from vpintegrator.runtime.deadline import TimeIsUp, check_time, time_left, unhurried, until
from vpintegrator.training.performance import (
    STEPS,
    TRAJECTORIES,
    Performance,
    cost_of_model,
    cost_of_steps,
    read_performances,
)
from vpintegrator.training.residuals import Objective, relative, relative_error
from vpintegrator.training.training_data import TrainingData

KEY = "verdict"  # key of the metadata
NAMES = (
    "stoermer-verlet",
    "strang-splitting",
    "rk4",
    "blanes-moan-4",
    "blanes-moan-6",
    "gauss-legendre-4",  # implicit methods take longest: last, as the time may end
    "gauss-legendre-6",
)
_PAIRS = 500  # pairs of the test group, for a root mean square known to 3 percent
_ROUNDING = 1e-14  # error that no method can fall below
_ALIKE = 2.0  # ratio of errors that are called the same


@dataclass(frozen=True)
class Verdict:
    """A trained model beside the classical methods that apply, at the same step.

    Attributes
    ----------
    model
        Performance of the model.
    methods
        Performance of the classical methods, the most accurate one first.
    """

    model: Performance
    methods: list[Performance]

    @property
    def sentence(self) -> str:
        """Return whether the model or a method is better, and by how much."""
        own, best = self.model, self.methods[0]
        cost = best.cost / own.cost
        if own.error <= best.error or own.error <= _ROUNDING:
            if best.error <= _ALIKE * max(own.error, _ROUNDING):
                return f"A step of this model errs as little as {best.name}{_at(cost)}."
            times = _times(best.error / own.error)
            return f"A step of this model errs {times} times less than {best.name}{_at(cost)}."
        times = _times(own.error / best.error)
        return f"{best.name} is better here: it errs {times} times less{_at(1 / cost)}."

    @property
    def text(self) -> str:
        """JSON of the verdict for the metadata of a model."""
        methods = [each.row for each in self.methods]
        return json.dumps({"model": self.model.row, "methods": methods})

    @classmethod
    def from_text(cls, text: str, where: str) -> Verdict:
        """Return what ``text`` wrote.

        Raises
        ------
        InputError
            If it is no such text; says ``where`` it stands.
        """
        _, rows = read_performances(text, where, "model", "methods")
        if len(rows) < 2:
            raise InputError(f"{where} names no classical method")
        return cls(rows[0], rows[1:])


def verdict(
    model: Integrator, dataset: TrainingData | Dataset, *, seconds: float = 10.0
) -> Verdict | None:
    """Compare one step of a trained model with classical methods of the same step.

    Parameters
    ----------
    model
        Trained model.
    dataset
        Dataset of the training.
    seconds
        Time for the measurement of costs: none begins later, or where it would end later; 0
        measures none.

    Returns
    -------
    Verdict or None
        None where the vector field is not known, for maps, and where no method applies, or none
        was judged before the deadline. For a family each state has the step and the parameters of
        its own trajectory, and costs are those in the middle of what varies.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=40, steps=20, overwrite=True)
    >>> model = vp.models.build(dataset.system, "sgf", degree=10)
    >>> history = vp.train(model, dataset, optimizer="linear")
    >>> found = vp.verdict(model, dataset, seconds=0)
    >>> found.model.error < found.methods[0].error
    True
    """
    check_integrator(model)
    data = TrainingData.of(dataset)
    system = data.dataset.system
    if system.is_measured or system.is_discrete or not data.tested:
        return None
    model = simplified(model)  # rollouts use the simplified model too
    inputs, targets = data.test_pairs(model, _PAIRS)
    new_states = Objective().new_states(model, targets)[:, 0].double().cpu().numpy()
    first, scale = inputs[:, -1].double().cpu().numpy(), data.error_scale
    deadline = time.perf_counter() + min(seconds, time_left())
    one = _Case(model, system, data.dataset.step, inputs)
    if system.family is not None and seconds > 0:
        one = _typical(one, data)
    errors, spent = {}, {}
    with suppress(TimeIsUp):  # all errors first: a verdict without the accurate methods misleads
        for name in NAMES:
            method, start = METHODS[name], time.perf_counter()
            try:
                method.require(system)
                image = integrate(system, method, first, data.dataset.step, 1)[:, 1]
            except InputError:
                continue
            wrong = (image - new_states)[:, list(scale.components)]
            error = relative(float((wrong**2).sum()), len(wrong), scale.spread)
            if math.isfinite(error):
                errors[name] = error
                spent[name] = (time.perf_counter() - start) / len(first)
    if not errors:
        return None
    found = [
        Performance(name, errors[name], _cost_of_method(METHODS[name], one, spent[name], deadline))
        for name in errors
    ]
    with until(deadline):
        late = time.perf_counter() >= deadline
        cost = math.nan if late else cost_of_model(one.model, one.windows)
    with unhurried():
        error = relative_error(model, inputs, targets, scale=scale)
    own = Performance(model.name, math.inf if math.isnan(error) else error, cost)
    return Verdict(own, sorted(found, key=lambda each: each.error))


class _Case(NamedTuple):
    """Map with initial states."""

    model: Integrator
    system: System
    step: float
    windows: torch.Tensor


def _typical(family: _Case, data: TrainingData) -> _Case:
    """Return the model in the middle of the ranges, or the family if it has no single models."""
    middle = {name: (low + high) / 2 for name, (low, high) in data.dataset.varied.items()}
    try:
        model = family.model.at(**middle)
    except InputError:
        return family
    step = float(model.metadata["step"])
    system = find_system({model.name: model}, None)
    return _Case(model, system, step, family.windows[..., : model.dim])


def _cost_of_method(method: ClassicalMethod, one: _Case, seconds: float, deadline: float) -> float:
    """Return the seconds of a step; nan where they are not measured before the deadline.

    Parameters
    ----------
    seconds
        Time of a step of one trajectory without machine code, at most.
    """
    if time.perf_counter() >= deadline:
        return math.nan
    states = one.windows[torch.arange(TRAJECTORIES) % len(one.windows), -1]
    first = states.double().cpu().numpy()
    try:
        with warnings.catch_warnings(), until(deadline):
            warnings.simplefilter("ignore")  # about models that cannot be compiled
            machine = compile_method(method, one.system, first, one.step)
            check_time(0.0 if machine else STEPS * TRAJECTORIES * seconds)
    except TimeIsUp:
        return math.nan

    def run() -> None:
        if machine:
            machine.start(first, one.step).advance(STEPS)
        else:
            method.start(one.system, first, one.step).advance(STEPS)

    with until(deadline):
        return cost_of_steps(run)


def _times(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}" if ratio < 1e4 else f"{ratio:.0e}"


def _at(ratio: float) -> str:
    """Return words for a ratio of two costs; empty if the ratio is not known."""
    if not math.isfinite(ratio):
        return ""
    if 1 / _ALIKE < ratio < _ALIKE:
        return " at about the same cost"
    if ratio > 1:
        return f" at 1/{_times(ratio)} of its cost"
    return f" at {_times(1 / ratio)} times its cost"
