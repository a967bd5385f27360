"""Maps that the equations suggest: learned splittings, and generating functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.nn.exact_flows import LearnedSplitting
from vpintegrator.training.degrees import (
    apparent_angles,
    relative_rates,
    scaled_weights,
    tied_components,
)
from vpintegrator.training.kinds.kind import (
    ModelKind,
    Sizes,
    count,
    forms,
    least,
    least_explicit,
)
from vpintegrator.training.linear import ROWS, enough_pairs, layer_pairs
from vpintegrator.training.options import TrainingOptions
from vpintegrator.training.regression import solve
from vpintegrator.training.results import TOLERANCES, Fit
from vpintegrator.training.trainer import Trainer
from vpintegrator.training.training_data import FOLDS, TrainingData

ARCHITECTURES = {"symplectic": "sgf", "volume": "vpgf"}
HAMILTONIAN = {"functions": "hamiltonian"}


class Scheme(NamedTuple):
    """Stages, and the method that they begin as, in steps of equal size."""

    stages: int
    method: str = "strang-splitting"

    @property
    def factors(self) -> tuple[float, ...]:
        """Fractions of the step of each half stage."""
        factors = FACTORS[self.method]
        steps = 2 * self.stages // len(factors)
        return tuple(factor / steps for factor in factors) * steps


SCHEMES = tuple(Scheme(10 * k, "blanes-moan-6") for k in (1, 2, 4, 6))
COARSE = (Scheme(3), Scheme(6, "blanes-moan-4"))  # where an error is asked for that they may reach
# with commutators equal stages end below methods with negative ones: Kepler's ten stages at 3e-10
# instead of 2e-9
WITH_COMMUTATORS = tuple(Scheme(k) for k in (3, 5, 8, 12, 20, 32))


@dataclass(frozen=True)
class Splittings(ModelKind):
    """Splittings of more and more stages.

    They begin as a classical method and are trained by Levenberg-Marquardt, so none errs more than
    that method.

    Attributes
    ----------
    iterations, patience
        Iterations of each, a second or two, and those without progress; 1,000 gain a factor of two
        at most.
    order, rounding
        Power of the number of stages by which the error is expected to fall, and the error that is
        looked for: smaller schemes are left out. A larger ``rounding`` makes cheaper steps.
    """

    iterations: int = 300
    patience: int = 40
    order: int = 6
    rounding: float = TOLERANCES.rounding / 5
    name: ClassVar[str] = "splittings"

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why the equations have no splitting, or None."""
        system = data.system
        if not system.has_formulas or system.is_discrete or data.dataset.is_family:
            return "no equations of one step and one set of parameters are known"
        if not forms(data):
            return "the flow changes volumes"
        return super().admits(data) or self.refusal(data, "split", {"stages": 1})

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Train splittings as long as one of the last two halved the error."""
        sizes = Sizes()
        needed = 0.0
        target = train.budget.target
        core: Any = self.build(data, "split", 0, {"stages": 1}).core
        has_commutators = bool(core.commutators.numel())
        schemes = (*COARSE, *SCHEMES) if target else SCHEMES
        schemes = WITH_COMMUTATORS if has_commutators else schemes
        stages = self.arguments.get("stages")
        if stages is not None:
            named = [each for each in (*schemes, *COARSE) if each.stages == stages]
            schemes = (*named[:1],) or (Scheme(stages),)
        for scheme in schemes:
            if scheme.stages < needed and scheme is not schemes[-1]:
                continue
            model = self.build(data, "split", train.seed, {"stages": scheme.stages})
            assert isinstance(model.core, LearnedSplitting)
            model.core.begin_as(scheme.factors)
            size = f"{scheme.stages} stages begun as {scheme.method}, {count(model)} coefficients"
            options = TrainingOptions(initial_scheme="none")
            fit = train(
                model, size, epochs=self.iterations, patience=self.patience, options=options
            )
            if sizes.end(fit.error, 2, target):
                return
            if not has_commutators and not target:
                needed = scheme.stages * (fit.error / self.rounding) ** (1 / self.order)


@dataclass(frozen=True)
class GeneratingFunctions(ModelKind):
    """Generating functions of polynomials, and of what is known of the equations.

    Exact terms of the Hamiltonian, then two to six equal maps in a row, are tried where polynomials
    err by more than 1e-14. Without exact terms, components get weights in the degree where
    polynomials of equal weights err by more than 1e-13; of states without declared angles also
    components that are angles in effect.

    Attributes
    ----------
    components
        Largest number of moving components: polynomials of more have too many terms. Beside exact
        terms the iteration inverts a matrix of ``exact_components`` at most.
    coefficients, first_coefficients
        Most coefficients, some ten seconds; and those of polynomials that exact terms may replace.
    highest
        Largest degree.
    compared
        Degree from which on a fit with a linear map in front is compared with one without.
    weighted_degree, weighted_terms, fewest_terms
        First degree that counts components by weights, and most and fewest terms of the functions
        by whose errors weights are chosen.
    """

    form: str = "symplectic"
    components: int = 5
    exact_components: int = 16
    coefficients: int = 1_500
    first_coefficients: int = 500
    highest: int = 64
    compared: int = 6
    weighted_degree: int = 6
    weighted_terms: int = 200
    fewest_terms: int = 50
    name: ClassVar[str] = "generating functions"
    explicit: ClassVar[bool] = False

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these data have no such generating function, or None."""
        moving = data.dataset.dim
        largest = self._largest(data)
        if not 2 <= moving <= largest:
            return f"{moving} components move, and polynomials have too many terms from {largest}"
        return super().admits(data)

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether the map keeps the form, and no explicit one is at rounding.

        Volume alone is not kept where a symplectic map is as good as data of usual tolerances.
        """
        known = forms(data)
        if self.form == "volume" and "symplectic" in known and least(fits) <= TOLERANCES.exact:
            return False
        return self.form in known and super().is_needed(data, fits)

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Solve for polynomials by degree, then beside exact terms, and for maps in a row."""
        if "functions" in self.arguments:
            self._degrees(data, train, fits, {}, self.coefficients)
            return
        exact = False
        with suppress(InputError):
            exact = bool(self._model(data, 2, train.seed, HAMILTONIAN))
        if not exact:
            self._weighted(data, train, fits)
        else:
            self._degrees(data, train, fits, {}, self.first_coefficients)
            for maps in (1, 2, 3, 4, 6):
                if least(fits) <= (train.budget.target or TOLERANCES.rounding):
                    return
                # the order of exact terms is six: six maps err by the sixth power of six less
                if maps > 1 and fits[-1].error / 6**6 > least_explicit(fits):
                    break
                # halving the step divides the error of five exact terms by a hundred, at twice
                # the cost
                row = HAMILTONIAN | ({"repeats": maps} if maps > 1 else {})
                degree = {"degree": 2} if maps > 1 else {}
                self._degrees(data, train, fits, row | degree, self.coefficients)

    def _weighted(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Solve for polynomials of small degrees, then of degrees that count by weights."""
        first = len(fits)
        if {"degree", "weights"} & self.arguments.keys() or data.dataset.is_family:
            self._degrees(data, train, fits, {}, self.coefficients)
            return
        few = self.first_coefficients // 2
        self._degrees(data, train, fits, {}, few)
        polynomials = fits[first:]
        least = min((fit.error for fit in polynomials), default=math.inf)
        if not polynomials or least <= max(train.budget.target, 10 * TOLERANCES.rounding):
            return
        highest = polynomials[-1].model.arguments["degree"]  # with and without a linear map
        goes_on = any(
            fit.error <= least for fit in polynomials if fit.model.arguments["degree"] == highest
        )
        if self._is_symplectic(polynomials[-1], fits):
            return
        trial = _Trial(self, data, train.seed)
        if trial.terms < min(self.weighted_terms, self.fewest_terms):
            if goes_on:  # too few terms for weights: higher degrees follow
                degree = fits[-1].model.arguments["degree"] + 2
                self._degrees(data, train, fits, {}, self.coefficients, degree, 2)
            return
        angles: dict[int, float] = {}
        if data.system.is_measured and not data.system.periods:
            states = data.held("train").reshape(-1, data.dataset.dim)
            angles = apparent_angles(states, lambda each: trial(np.ones(trial.size), each))
        if not angles and least > 0.3 * trial.change:  # the map keeps another form
            return
        rates = relative_rates(lambda each: trial(each, angles), trial.ties)
        functions = trial.functions(rates, angles)
        if angles or not (rates == 1).all() or goes_on:
            self._degrees(data, train, fits, functions, self.coefficients, self.weighted_degree)

    def _degrees(
        self,
        data: TrainingData,
        train: Trainer,
        fits: Sequence[Fit],
        functions: Mapping[str, Any],
        most: int,
        first: int = 2,
        every: int | None = None,
    ) -> None:
        """Solve for models of higher and higher degree while the error falls by a factor of two."""
        sizes = Sizes()
        far: bool | None = None  # whether a linear map is fitted first, once that is known
        before: Model | None = None
        given = functions.get("degree", self.arguments.get("degree"))
        # where blocks of time are left out, a degree too many costs more than it does elsewhere
        blocks = data.is_few and len(set(data.known_pairs.folds)) <= FOLDS
        # symmetries often leave even ones
        every = 1 if blocks else every or (1 if first > 2 else 2)
        degrees = range(first, self.highest + 1, every)
        for degree in degrees if given is None else [given]:
            try:
                model = self._model(data, degree, train.seed, functions)
            except InputError:  # too many terms, or none that the symmetries allow
                if "degree" in self.arguments:
                    raise
                if before is None:
                    continue
                return
            # few data give fewer equations than coefficients need
            scarce = data.is_few and data.known_pairs.before.numel() < count(model) / 2
            if before is not None and (count(model) > most or scarce):
                return
            row = f"{functions['repeats']} maps in a row, " if "repeats" in functions else ""
            exact = {**functions, **self.arguments}.get("functions") == "hamiltonian"
            words = "weighted " * any(w != 1 for w in functions.get("weights", ()))
            words += "degree" if not functions.get("periodic") else "degree with angles"
            size = f"{row}{'exact terms, ' * exact}{words} {degree}, {count(model)} coefficients"
            fit = train.solve(model, size, far=bool(far))
            is_compared = degree >= self.compared or "degree" in self.arguments
            if far is None and is_compared and fit.error > train.budget.target:
                far = False
                other = self._model(data, degree, train.seed, functions)
                # a linear map in front would not be the identity at vanishing parameters
                if not other.vanishing:
                    behind = train.solve(other, f"linear map, then {size}", far=True)
                    far = behind.error < fit.error / 2
                    fit = behind if far else fit
            before = model
            ratio = min(fit.error / sizes.error, 1.0)  # 0 at the first degree
            # terms are as many as the degree to the power of the number of components
            further = degree * ((most / count(model)) ** (1 / data.dataset.dim) - 1)
            if degree > 4 and fit.error * ratio ** max(further / 2, 0.0) > least_explicit(fits):
                return  # an explicit map stays better
            # a product of even polynomials gains at every second degree; small solves are cheap
            patience = 1 if functions or count(model) > 200 else 5
            patience = 3 if first > 2 else patience
            rounding = TOLERANCES.rounding if data.is_few else TOLERANCES.rounding / 10
            if sizes.end(fit.error, patience, train.budget.target, rounding):
                return
            if self._is_symplectic(fit, fits):
                return

    def _is_symplectic(self, fit: Fit, fits: Sequence[Fit]) -> bool:
        """Whether a map of this volume errs as much as a symplectic one of the same degree."""
        degree = fit.model.arguments["degree"]
        if self.form != "volume" or degree < self.compared:
            return False
        rivals = [
            other.error
            for other in fits
            if other.kind == self.name
            and other.model.name == ARCHITECTURES["symplectic"]
            and other.model.arguments["degree"] == degree
        ]
        return min(rivals, default=math.inf) <= 2 * fit.error

    def _model(
        self, data: TrainingData, degree: int, seed: int, functions: Mapping[str, Any]
    ) -> Model:
        arguments = {**functions, "degree": degree}
        return self.build(data, ARCHITECTURES[self.form], seed, arguments)

    def model_of(self, data: TrainingData, seed: int, functions: Mapping[str, Any]) -> Model:
        """Return an untrained model of the first weighted degree."""
        return self._model(data, self.weighted_degree, seed, functions)

    def _largest(self, data: TrainingData) -> int:
        """Return the most components: few if no Hamiltonian is known, or if it can be split."""
        system = data.system
        if system.chart is not None and self.chart_of(data) is not False:
            system = system.chart.system
        if not (system.is_canonical and system.hamiltonian_formula):
            return self.components
        fixed = (self.arguments, self.reversible, self.chart, self.dtype)
        splits = Splittings(*fixed).admits(data) is None
        return self.components if splits else self.exact_components


class _Trial:
    """Errors of small generating functions with weights and angles, by a solve each.

    Parameters
    ----------
    kind
        Kind of the models.
    data
        Training data.
    seed
        Seed of the choice of pairs.
    """

    def __init__(self, kind: GeneratingFunctions, data: TrainingData, seed: int) -> None:
        self.kind = kind
        self.data = data
        self.seed = seed
        self.model = kind.model_of(data, seed, {})
        self.size = self.model.moving
        shapes = data.dataset.shapes
        groups = ("train", "validation") if data.is_few else ("train",)
        known = [shapes.get(group, (0, 1, 0)) for group in groups]
        pairs = sum(count * max(times - 1, 0) for count, times, _ in known)
        self.terms = min(kind.weighted_terms, pairs * self.size // (ROWS + 1))

    @cached_property
    def ties(self) -> list[list[int]]:
        """Components that symmetries exchange."""
        return tied_components(self.model.reversing_symmetries.numpy(), self.size)

    @cached_property
    def change(self) -> float:
        """Root mean square change of a state by a step, in units of the spread."""
        self.data.normalise(self.model)
        pairs = layer_pairs(self.model, self.data, 1_000, self.seed)
        before, after = (states[:, -1] for states in pairs[: len(pairs)])
        z = self.model.coordinates(before)
        change = (self.model.coordinates(after, near=z) - z) / z.std(0).clamp(min=1e-300)
        return float(change.square().mean().sqrt())

    def functions(self, rates: np.ndarray, angles: Mapping[int, float]) -> dict[str, Any]:
        """Return the arguments of models with weights in proportion to rates, and with angles."""
        kind = self.kind
        periods = dict(self.model.arguments.get("periodic", ())) | dict(angles)
        terms = self.terms // (1 if kind.form == "symplectic" else self.size - 1)
        weights = scaled_weights(rates, kind.weighted_degree, terms, [*periods])
        return {"weights": weights} | ({"periodic": periods} if angles else {})

    def __call__(self, rates: np.ndarray, angles: Mapping[int, float]) -> float:
        """Return the error of pairs that are left out."""
        try:
            model = self.kind.model_of(self.data, self.seed, self.functions(rates, angles))
            self.data.normalise(model)
            return solve(model, self.data, self.seed, enough_pairs(model)).typical
        except InputError:  # too many terms, or none
            return math.inf
