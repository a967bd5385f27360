"""Discrete Lagrangians: maps of two positions of mechanical systems, by linear solves."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.models.discrete_lagrangian import DiscreteLagrangianMap
from vpintegrator.training.kinds.kind import ModelKind, Sizes, count
from vpintegrator.training.lagrangian import solve_lagrangian
from vpintegrator.training.results import TOLERANCES, Fit, History
from vpintegrator.training.trainer import Trainer
from vpintegrator.training.training_data import TrainingData

Flips = list[list[list[float]]]  # reversing symmetries of positions


@dataclass(frozen=True)
class DiscreteLagrangians(ModelKind):
    """Discrete Lagrangians of positions, by degree, with the symmetries that the error admits.

    Reversible ones come first. Changes of signs that do not raise the error at a low degree are
    built in. Without an error of 1e-9, ones with terms of both parities follow.

    Attributes
    ----------
    components
        Largest number of components: a Lagrangian has twice as many variables.
    coefficients
        Most coefficients, some ten seconds.
    highest
        Largest degree.
    probed
        Degree at which symmetries are compared.
    alike, apart
        Ratio of errors up to which a symmetry counts as one of the data, and the ratio of errors
        of reversible Lagrangians and others from which on reversible ones are left out.
    incomplete
        Error of maps of single states above which states may be positions alone.
    """

    components: int = 4
    coefficients: int = 1_500
    highest: int = 40
    probed: int = 4
    alike: float = 1.05
    apart: float = 10.0
    incomplete: float = 1e-6
    name: ClassVar[str] = "discrete Lagrangians"
    explicit: ClassVar[bool] = False

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these states cannot be positions alone, or None."""
        system = data.dataset.system
        dataset = data.dataset
        if not system.is_measured or dataset.is_family:
            return "states of a system with known equations, or of many steps, are complete"
        if system.is_canonical or system.divergence_free:
            return "the states claim another structure"
        if dataset.dim > self.components:
            return f"polynomials of {2 * dataset.dim} variables have too many terms"
        if dataset.shapes["train"][1] < 3:
            return "no three positions follow one another"
        if system.equations.divergence_free is False and not system.is_lagrangian:
            return "the states claim that their map keeps nothing"
        return None

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether no map of single states follows the data."""
        return min((fit.error for fit in fits), default=1.0) > self.incomplete

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Solve for Lagrangians of higher and higher degree."""
        with warnings.catch_warnings():  # many are tried; the one that is chosen is checked
            warnings.filterwarnings("ignore", "D1 D2 L", UserWarning)
            for symmetries in self._symmetries(data, train):
                if self._degrees(data, train, symmetries) <= TOLERANCES.good:
                    return

    def _symmetries(self, data: TrainingData, train: Trainer) -> list[Flips]:
        """Return sets of symmetries in the order in which they are tried, by their errors."""
        if self.reversible is False or "reversing_symmetries" in self.arguments:
            return [[]]
        n = data.dataset.dim
        probed = self.arguments.get("degree", self.probed)
        result: Flips = [np.eye(n).tolist()]

        def error(symmetries: Flips) -> float:
            model = self._model(data, train, probed, symmetries)
            return solve_lagrangian(model, data, train.seed).error

        with suppress(InputError):  # too few equations
            least = error(result)
            if error([]) < least / self.apart:
                return [[]]
            for signs in itertools.product((1.0, -1.0), repeat=n):
                extended = [*result, np.diag(signs).tolist()]
                if min(signs) < 0 and error(extended) <= self.alike * least:
                    result = extended
        return [result, []]

    def _degrees(self, data: TrainingData, train: Trainer, symmetries: Flips) -> float:
        """Solve while the error falls by a half, and return the least one."""
        sizes = Sizes()
        given = self.arguments.get("degree")
        words = "" if symmetries or self.reversible is False else ", no symmetries"
        degree = 2 if given is None else given
        while degree <= self.highest or given is not None:
            try:
                model = self._model(data, train, degree, symmetries)
                if given is None and count(model) > self.coefficients:
                    break
                start = time.perf_counter()
                result = solve_lagrangian(model, data, train.seed)
            except InputError:
                if given is not None or degree == 2:
                    raise
                break  # too many terms, or too few equations
            size = f"degree {degree}, {count(model)} coefficients{words}"
            history = History("linear", train.seed, result.coefficients, stopped_by="solved")
            history.windows = result.pairs
            error = result.error
            judged_by = "left out"
            deviation = error * result.deviation / 2
            if not data.is_few:
                judged_by = "held out"
                error, deviation = data.held_out_error(model)
            history.add(time.perf_counter() - start, result.error, error)
            train.record(model, size, error, deviation, history, judged_by)
            # products that are even gain at every second degree; small solves are cheap
            is_large = count(model) > 200
            if sizes.end(
                error, 1 if is_large else 3, train.budget.target, TOLERANCES.rounding / 10
            ):
                break
            if given is not None:
                break
            degree += 2 if is_large else 1
        return sizes.error

    def _model(
        self, data: TrainingData, train: Trainer, degree: int, symmetries: Flips
    ) -> DiscreteLagrangianMap:
        arguments: dict[str, Any] = {"degree": degree}
        if symmetries:
            arguments["reversing_symmetries"] = symmetries
        model = self.build(data, "lagrangian", train.seed, arguments)
        assert isinstance(model, DiscreteLagrangianMap)
        return model
