"""Options of a search for a model, the same for everything that the search tries."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from vpintegrator.arguments import called, check, check_integrator, one_of, positive, whole
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.runtime.deadline import TimeIsUp
from vpintegrator.runtime.devices import check_device
from vpintegrator.training.history import History, Show
from vpintegrator.training.initial_scheme import check_initial_scheme
from vpintegrator.training.optimizers import BY_NAME
from vpintegrator.training.residuals import Objective
from vpintegrator.training.train import DEFAULT_SECONDS, LARGEST_SEED

Arguments = dict[str, Any]  # of a model, by name
Make = Callable[[Arguments], Integrator]
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Method:
    """Optimizer of a training: arguments of :func:`vpintegrator.train`."""

    optimizer: str = "auto"
    batch: int | None = None
    learning_rate: float | None = None
    seed: int = 0
    initial_scheme: str = "auto"

    def __post_init__(self) -> None:
        one_of("optimizer", self.optimizer, ("auto", *BY_NAME))
        check_initial_scheme(self.initial_scheme)
        seed = partial(whole, least=0, most=LARGEST_SEED)
        check(self, batch=whole, learning_rate=positive, seed=seed)


@dataclass(frozen=True)
class Execution:
    """Device and compilation of a training: arguments of :func:`vpintegrator.train`."""

    device: str | torch.device = "cpu"
    compiled: bool | None = None

    def __post_init__(self) -> None:
        check_device(str(self.device))


@dataclass(frozen=True)
class Files:
    """File that a training writes: arguments of :func:`vpintegrator.train`."""

    output: str | os.PathLike[str] | None = None
    overwrite: bool = False


@dataclass(frozen=True)
class Budget:
    """Limits of a training: arguments of :func:`vpintegrator.train`.

    Examples
    --------
    >>> vp.training.Budget(epochs=3, target=1e-9).or_default().epochs
    3
    """

    seconds: float | None = None
    epochs: int | None = None
    target: float | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        check(self, seconds=positive, epochs=whole, target=positive, patience=whole)

    def or_default(self) -> Budget:
        """Return the budget with default seconds, if it has neither seconds nor epochs."""
        if self.seconds is None and self.epochs is None:
            return replace(self, seconds=DEFAULT_SECONDS)
        return self

    def share(self, epochs: int, seconds: float) -> float:
        """Share of the budget that is used up, 0 to 1."""
        shares = [seconds / self.seconds] if self.seconds else []
        shares += [epochs / self.epochs] if self.epochs else []
        return min(max(shares, default=0.0), 1.0)


def keywords(*groups: Method | Budget | Objective | Execution | Files) -> dict[str, Any]:
    """Return the fields of groups of arguments as keywords of :func:`vpintegrator.train`."""
    return {name: value for group in groups for name, value in vars(group).items()}


def making(make: Any) -> Make:
    """Return a function whose models are checked to be such.

    Raises
    ------
    InputError
        If ``make`` cannot be called; later, if what it returns is no model.
    """
    called("make", make, "a function of the arguments of a model")

    def made(arguments: Arguments) -> Integrator:
        model: Integrator = make(arguments)
        check_integrator(model)
        return model

    return made


def _say_nothing(line: str) -> None:
    pass


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search, and of every training in it.

    Decisions of a search count iterations. Seconds count from the beginning of the search; they
    only end it.

    Attributes
    ----------
    budget
        Limits of the whole search.
    method, objective, execution
        Arguments of every training.
    sizes
        Arguments of the models that are given, and that the search leaves as they are.
    tell
        Called with a line about each model.
    progress
        Called with the history of the training at hand, whose share is that of the whole budget.
    start
        Value of ``time.perf_counter`` at the beginning.
    """

    budget: Budget = field(default_factory=Budget)
    method: Method = field(default_factory=Method)
    objective: Objective = field(default_factory=Objective)
    execution: Execution = field(default_factory=Execution)
    sizes: Arguments = field(default_factory=dict)
    tell: Tell = _say_nothing
    progress: Show | None = None
    start: float = field(default_factory=lambda: time.perf_counter())

    @property
    def used(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self.start

    def end(self, share: float = 1.0) -> float:
        """Return the time at which a share of the seconds is used up; infinite without seconds."""
        seconds = self.budget.seconds
        return math.inf if seconds is None else self.start + share * seconds

    def is_late(self, share: float = 1.0) -> bool:
        """Whether more than a share of the seconds is used."""
        return time.perf_counter() > self.end(share)

    def left(self) -> float | None:
        """Return the seconds that are left, a tenth at least; None without a limit."""
        seconds = self.budget.seconds
        return None if seconds is None else max(seconds - self.used, 0.1)

    def nothing(self, interruption: KeyboardInterrupt) -> BaseException:
        """Return what is raised by a search that is interrupted before it has any model."""
        if not isinstance(interruption, TimeIsUp):
            return interruption
        return InputError(f"no model was trained in {self.budget.seconds or 0:g} s; give more time")

    def limited(self, epochs: int | None) -> SearchOptions:
        """Return the options of a part of the search with other iterations."""
        return replace(self, budget=replace(self.budget, epochs=epochs))

    def rest(self, share: float = 1.0) -> SearchOptions:
        """Return the options of a search in a share of the seconds that are left."""
        left = self.left()
        budget = replace(self.budget, seconds=None if left is None else share * left)
        return replace(self, budget=budget, start=time.perf_counter())

    def show(self, history: History, epochs: int) -> None:
        """Report progress after so many epochs of the search."""
        if self.progress is not None:
            history.share = self.budget.share(epochs, self.used)
            self.progress(history)
