"""Discrete Lagrangians: maps of two positions of mechanical systems, by linear solves."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.models.discrete_lagrangian import DiscreteLagrangianMap
from vpintegrator.models.stored import History
from vpintegrator.training.kinds.kind import ModelKind, Sizes, count
from vpintegrator.training.lagrangian import (
    distance_of_orbits,
    left_out_error,
    pieces_of,
    probe_lagrangian,
    refine_lagrangian,
    solve_lagrangian,
    successive_correlation,
)
from vpintegrator.training.orbits import StateRange, lost_orbits
from vpintegrator.training.results import TOLERANCES, Fit
from vpintegrator.training.trainer import Trainer
from vpintegrator.training.training_data import TrainingData

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class DiscreteLagrangians(ModelKind):
    """Discrete Lagrangians of positions, by degree, with the properties that the error admits.

    Solves of a low degree decide what is built in: terms that are even in displacements, harmonics
    of angles in radians, fewer powers of displacements, changes of signs, permutations, and linear
    damping. Without an error of 1e-9, Lagrangians with terms of both parities follow. Where
    successive errors look like noise, orbits are refined, and held-out orbits decide.

    Attributes
    ----------
    variables
        Largest number of variables: twice that of the components.
    coefficients
        Most coefficients, some ten seconds.
    highest
        Largest degree.
    probed
        Degree at which properties are compared; lower where there are many variables.
    few
        Most coefficients of these solves.
    alike, apart
        Ratio of errors up to which a symmetry counts as one of the data, and the ratio of errors
        of reversible Lagrangians and others from which on reversible ones are left out.
    gain
        Factor by which angles, and linear damping, must lower the error.
    steps
        Most steps after which an orbit that is lost makes an error infinite.
    incomplete
        Error of maps of single states above which states may be positions alone.
    noise
        Correlation of successive errors below which they are taken for noise.
    refined
        Most coefficients that are refined.
    simple
        Error, relative to the least one, above which a Lagrangian is too simple to be refined.
    """

    variables: int = 16
    coefficients: int = 1_500
    highest: int = 40
    probed: int = 4
    few: int = 200
    alike: float = 1.05
    apart: float = 10.0
    gain: float = 2.0
    steps: int = 100
    incomplete: float = 1e-6
    noise: float = -0.3
    refined: int = 300
    simple: float = 2.0
    name: ClassVar[str] = "discrete Lagrangians"
    of_observations: ClassVar[bool] = True
    explicit: ClassVar[bool] = False

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these states cannot be positions alone, or None."""
        system = data.dataset.system
        dataset = data.dataset
        if reason := self.unsuited(data):
            return reason
        if 2 * dataset.dim > self.variables:
            return f"polynomials of {2 * dataset.dim} variables have too many terms"
        if dataset.shapes["train"][1] < 3:
            return "no three positions follow one another"
        if system.equations.divergence_free is False and not system.is_lagrangian:
            return "the states claim that their map keeps nothing"
        return None

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether no map of single states follows the data."""
        single = [fit.error for fit in fits if fit.model.window == 1]
        return min(single, default=1.0) > self.incomplete

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Solve for Lagrangians of higher and higher degree, and refine these on noisy orbits."""
        first = len(train.fits)
        with warnings.catch_warnings():  # many are tried; the one that is chosen is checked
            warnings.filterwarnings("ignore", "D1 D2 L", UserWarning)
            for arguments in self._properties(data, train):
                if self._degrees(data, train, arguments) <= TOLERANCES.good:
                    return
            self._refine(data, train, first)

    def _properties(self, data: TrainingData, train: Trainer) -> list[Arguments]:
        """Return sets of arguments in the order in which they are tried, by their errors."""
        reversible = self.reversible is not False and "reversing_symmetries" not in self.arguments
        one = np.eye(data.dataset.dim)
        plain: Arguments = {"reversing_symmetries": [one.tolist()]} if reversible else {}

        def error(arguments: Arguments) -> float:
            probed = self._probed(data, train, arguments)
            model = self._model(data, train, {**arguments, "degree": probed})
            return probe_lagrangian(model, data, train.seed)

        result = dict(plain)
        with suppress(InputError):  # too few equations
            least = error(result)
            if reversible and error({}) < least / self.apart:
                reversible = False
                result = {}
                least = error(result)
            if not data.dataset.system.periods and "periodic" not in self.arguments:
                angles = self._angles(result, least, data, train)
                if angles:
                    result = {**result, "periodic": angles}
                    least = error(result)
            if train.form is None and "damping" not in self.arguments:
                other = error({**result, "damping": "linear"})
                if other < least / self.gain:
                    result = {**result, "damping": "linear"}
                    least = other
            if "damping" in result:  # friction is reversed by nothing
                reversible = False
                result.pop("reversing_symmetries", None)
            if reversible:
                for rho in _symmetries(one):
                    extended = [*result["reversing_symmetries"], rho.tolist()]
                    with suppress(InputError):  # an angle and another component exchanged
                        other = error({**result, "reversing_symmetries": extended})
                        if other <= self.alike * least < math.inf:
                            result = {**result, "reversing_symmetries": extended}
            result = {**result, **self._order(data, train, result)}
        free = {key: value for key, value in result.items() if key != "reversing_symmetries"}
        return [result, free] if reversible else [result]

    def _angles(
        self, arguments: Arguments, least: float, data: TrainingData, train: Trainer
    ) -> list[tuple[int, float]]:
        """Return the components that are angles in radians, with their periods.

        Harmonics of all components must err less by a factor than polynomials do. Then those are
        left out one by one without which polynomials err no more. Errors are compared at equal
        numbers of coefficients, as any further function lowers the error.
        """

        def of(components: Sequence[int]) -> list[tuple[int, float]]:
            return [(i, 2 * math.pi) for i in components]

        def error(components: Sequence[int], coefficients: int = 0) -> tuple[float, int]:
            changed = {**arguments, "periodic": of(components)}
            degree = self._probed(data, train, changed)
            model = self._model(data, train, {**changed, "degree": degree})
            while count(model) < coefficients and "degree" not in self.arguments:
                degree += 1
                model = self._model(data, train, {**changed, "degree": degree})
            with suppress(InputError):  # too few equations
                return probe_lagrangian(model, data, train.seed), count(model)
            return math.inf, count(model)

        chosen = [*range(data.dataset.dim)]
        lowest, coefficients = error(chosen)
        if not lowest < least / self.gain:
            return []
        while chosen:
            others = [[i for i in chosen if i != out] for out in chosen]
            errors = [error(each, coefficients)[0] for each in others]
            nearest = min(range(len(others)), key=errors.__getitem__)
            if not errors[nearest] <= self.gain * lowest:
                break
            chosen = others[nearest]
            lowest, coefficients = error(chosen)
        return of(chosen)

    def _order(self, data: TrainingData, train: Trainer, arguments: Arguments) -> Arguments:
        """Return the order of powers of displacements of which the lower error is expected.

        Errors of two low degrees are taken further to the largest number of coefficients, as powers
        of this number.
        """
        if {"displacement_order", "degree"} & self.arguments.keys():
            return {}
        degree = self._probed(data, train, arguments)
        expected = []
        for order in (1, 2):
            sizes = []
            errors = []
            for further in (0, 2):
                sizes_of_order = {
                    "degree": degree + 2 * (order - 1) + further,
                    "displacement_order": order,
                }
                model = self._model(data, train, {**arguments, **sizes_of_order})
                sizes.append(count(model))
                errors.append(
                    min(max(probe_lagrangian(model, data, train.seed), TOLERANCES.rounding), 1.0)
                )
            slope = math.log(errors[0] / errors[1]) / math.log(max(sizes[1] / sizes[0], 1.1))
            last = errors[1] * (self.coefficients / sizes[1]) ** -max(slope, 0.0)
            expected.append(max(last, TOLERANCES.rounding / 10))
        return {"displacement_order": 2} if expected[1] < expected[0] else {}

    def _probed(self, data: TrainingData, train: Trainer, arguments: Arguments) -> int:
        """Return the degree at which properties are compared."""
        for degree in range(self.arguments.get("degree", self.probed), 2, -1):
            with suppress(InputError):
                model = self._model(data, train, {**arguments, "degree": degree})
                if "degree" in self.arguments or count(model) <= self.few:
                    return degree
        return 2

    def _degrees(self, data: TrainingData, train: Trainer, arguments: Arguments) -> float:
        """Solve while the error falls by a half, and return the least one."""
        sizes = Sizes()
        given = self.arguments.get("degree")
        degree = 2 if given is None else given
        before = 0
        while degree <= self.highest or given is not None:
            try:
                model = self._model(data, train, {**arguments, "degree": degree})
                if given is None and count(model) > self.coefficients:
                    break
                if given is None and count(model) == before:  # parities leave this degree nothing
                    degree += 1
                    continue
                start = time.perf_counter()
                result = solve_lagrangian(model, data, train.seed)
                error, deviation, judged_by = self._judged(model, data)
            except InputError:
                if given is not None or not before:
                    raise
                break  # too many terms, or too few equations
            before = count(model)
            history = History("linear", train.seed, result.coefficients, stopped_by="solved")
            history.windows = result.pairs
            history.add(time.perf_counter() - start, result.error, error)
            train.record(model, _size(model), error, deviation, history, judged_by)
            # products that are even gain at every second degree, of even powers that count twice
            # at every fourth; small solves are cheap
            is_large = count(model) > 200
            order = model.arguments.get("displacement_order", 1)
            patience = 2 if is_large else 3 * order
            if sizes.end(error, patience, train.budget.target, TOLERANCES.rounding / 10):
                break
            if given is not None:
                break
            degree += 2 if is_large else 1
        return sizes.error

    def _judged(self, model: DiscreteLagrangianMap, data: TrainingData) -> tuple[float, float, str]:
        """Return error, deviation and how it was judged: of the map on orbits that are held out."""
        if data.is_few:
            return *left_out_error(model, data), "blocks"
        error, deviation = data.held_out_error(model)
        held_out = data.held("validation")
        begins = held_out[np.isfinite(held_out[:, :2]).all((1, 2)), :2]
        steps = min(held_out.shape[1] - 2, self.steps)
        bounds = StateRange.of(data, model.core.angles)
        if len(begins) and lost_orbits(model.advance(begins, steps), bounds, most=1):
            return math.inf, 0.0, "held out"
        return error, deviation, "held out"

    def _refine(self, data: TrainingData, train: Trainer, first: int) -> None:
        """Refine Lagrangians on noisy orbits; those nearest to held-out orbits are kept."""
        candidates = [fit for fit in train.fits[first:] if math.isfinite(fit.error)]
        if not candidates or candidates[0].model.core.damped:
            return
        linear = min(candidates, key=lambda fit: fit.error)
        orbits = pieces_of(data.held("train"))
        held_out = pieces_of(data.held("validation")) if data.has("validation") else orbits[:0]
        if len(held_out) < 2:
            held_out = orbits[::5]
            orbits = np.delete(orbits, np.s_[::5], 0)
        is_known = len(orbits) and len(held_out) and orbits.shape[1] > 3
        if not is_known or successive_correlation(linear.model, orbits) > self.noise:
            return
        nearest = min(candidates, key=lambda fit: distance_of_orbits(fit.model, held_out))
        least = distance_of_orbits(nearest.model, held_out)
        selection = nearest
        sizes = Sizes()
        alike = [
            fit
            for fit in candidates
            if _properties_of(fit.model) == _properties_of(nearest.model)
            and fit.error <= self.simple * linear.error
        ]
        for fit in alike:
            if fit.parameters > self.refined:
                break
            model = deepcopy(fit.model)
            start = time.perf_counter()
            refine_lagrangian(model, orbits)
            distance = distance_of_orbits(model, held_out)
            error, deviation, judged_by = self._judged_refined(model, data, fit)
            history = History("refinement", train.seed, fit.parameters, stopped_by="solved")
            history.windows = orbits.shape[0] * (orbits.shape[1] - 2)
            history.add(time.perf_counter() - start, distance, error)
            size = f"{fit.size}, refined on noisy orbits"
            result = train.record(model, size, error, deviation, history, judged_by)
            candidates.append(result)
            if math.isfinite(error) and distance < least:
                least = distance
                selection = result
            sizes.end(distance, 2, 0.0)
            if sizes.stalled > 3:
                break
        train.supersede([fit for fit in candidates if fit is not selection])

    def _judged_refined(
        self, model: DiscreteLagrangianMap, data: TrainingData, fit: Fit
    ) -> tuple[float, float, str]:
        """Return error, deviation and how it was judged, of a refined map."""
        if not data.is_few:
            return self._judged(model, data)
        error = data.known_error(model)  # refined on most of these: noise hides the difference
        return max(error, fit.error), fit.deviation, fit.judged_by

    def _model(
        self, data: TrainingData, train: Trainer, arguments: Arguments
    ) -> DiscreteLagrangianMap:
        model = self.build(data, "lagrangian", train.seed, arguments)
        assert isinstance(model, DiscreteLagrangianMap)
        return model


def _symmetries(one: np.ndarray) -> Iterator[np.ndarray]:
    """Yield reversing symmetries of positions (dim, dim): flips of signs, then permutations."""
    n = len(one)
    if n <= 4:
        for signs in itertools.product((1.0, -1.0), repeat=n):
            if min(signs) < 0:
                yield np.diag(signs)
    else:  # 2^n are too many: all at once, or each
        yield -one
        yield from (one - 2 * np.outer(row, row) for row in one)
    if n > 1:
        yield one[::-1]
        if n > 2:  # shifts are products of two reflections
            yield np.roll(one[::-1], 1, 0)


def _properties_of(model: DiscreteLagrangianMap) -> dict[str, Any]:
    return {key: value for key, value in model.arguments.items() if key != "degree"}


def _size(model: DiscreteLagrangianMap) -> str:
    """Return degree, coefficients and properties in words."""
    words = [f"degree {model.arguments['degree']}", f"{count(model)} coefficients"]
    if model.arguments.get("displacement_order") == 2:
        words.append("fewer powers of displacements")
    if model.core.angles:
        words.append("angles")
    if model.core.damped:
        words.append("linear damping")
    elif not model.structure.reversing_symmetries:
        words.append("no symmetries")
    return ", ".join(words)
