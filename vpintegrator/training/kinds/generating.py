"""Maps that the equations suggest: learned splittings, and generating functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.nn.exact_flows import LearnedSplitting
from vpintegrator.runtime.interrupts import check_time
from vpintegrator.training.degrees import (
    PERIODS,
    apparent_angles,
    odd_products,
    possible_angles,
    relative_rates,
    reversals,
    scaled_weights,
    tied_components,
)
from vpintegrator.training.invariants import find_quadratic_invariants
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
    err by more than 1e-14. Without exact terms, where polynomials of equal weights err by more than
    1e-13, functions are tried that keep quadratic invariants which the data show. Then components
    get weights in the degree; of states without declared angles also components that are angles in
    effect.

    Attributes
    ----------
    components, known_components
        Largest number of moving components of measured states, and of others: polynomials of more
        have too many terms. Beside exact terms the iteration inverts a matrix of
        ``exact_components`` at most.
    coefficients, first_coefficients
        Most coefficients, some ten seconds; and those of polynomials that exact terms may replace.
    highest
        Largest degree.
    compared
        Degree from which on a fit with a linear map in front is compared with one without.
    weighted
        Whether functions suit the data by quadratic invariants, weights, angles and symmetries:
        False for polynomials alone, a matter of a second; True for what follows where they are
        among the fits; None for both.
    weighted_degree, weighted_terms, fewest_terms
        First degree that counts components by weights, and most and fewest terms of the functions
        by whose errors weights are chosen.
    """

    form: str = "symplectic"
    components: int = 8
    known_components: int = 5
    exact_components: int = 16
    coefficients: int = 1_500
    first_coefficients: int = 500
    highest: int = 64
    compared: int = 6
    weighted: bool | None = None
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
            if self.weighted is not True:
                self._degrees(data, train, fits, {}, self.coefficients)
            return
        exact = False
        with suppress(InputError):
            exact = bool(self._model(data, 2, train.seed, HAMILTONIAN))
        if exact and self.weighted is not True:
            self._exact(data, train, fits)
        if not exact and self.weighted is not True:
            self._plain(data, train, fits)
        if not exact and self.weighted is not False:
            self._weighted(data, train, fits)

    def _exact(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Solve for polynomials, then for those beside exact terms, and for maps in a row."""
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

    def _plain(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Solve for polynomials of small degrees, and of higher ones where they converge."""
        if self._is_given(data):
            self._degrees(data, train, fits, {}, self.coefficients)
            return
        first = len(fits)
        self._degrees(data, train, fits, {}, self.first_coefficients // 2)
        is_met = any(fit.error <= train.budget.target for fit in fits[first:])
        if not is_met and self._converges(fits[first:]):  # weights take dozens of solves
            self._higher(data, train, fits)

    def _invariant(
        self, data: TrainingData, train: Trainer, fits: Sequence[Fit], error: float
    ) -> None:
        """Solve for functions that keep the quadratic invariants that the data show."""
        if self.form != "symplectic":
            return
        model = self._model(data, 2, train.seed, {})
        if model.moving < model.dim or model.coordinates.periods:
            return
        data.normalise(model)
        if forms := find_quadratic_invariants(model, data, error):
            functions = {"quadratic_invariants": forms, "reversing_symmetries": ()}
            self._degrees(data, train, fits, functions, self.coefficients, 4, 2)

    def _is_given(self, data: TrainingData) -> bool:
        """Whether degree or weights are given, or the maps are a family."""
        return bool({"degree", "weights"} & self.arguments.keys()) or data.dataset.is_family

    def _higher(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Solve for polynomials of equal weights from the next degree on."""
        degree = self._polynomials(fits)[-1].model.arguments["degree"] + 2
        self._degrees(data, train, fits, {}, self.coefficients, degree, 2)

    def _polynomials(self, fits: Sequence[Fit]) -> list[Fit]:
        """Return the fits of this form whose components have equal weights."""
        own = [fit for fit in fits if fit.kind == self.name]
        name = ARCHITECTURES[self.form]
        other = ("weights", "quadratic_invariants")
        return [
            f for f in own if f.model.name == name and not any(map(f.model.arguments.get, other))
        ]

    def _weighted(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Solve for polynomials whose degrees count by weights, and for harmonics of angles."""
        polynomials = self._polynomials(fits)
        least = min((fit.error for fit in polynomials), default=math.inf)
        if self._is_given(data) or not polynomials:
            return
        enough = max(train.budget.target, 10 * TOLERANCES.rounding)
        if least <= enough:
            return
        first = len(fits)
        self._invariant(data, train, fits, least)
        if any(fit.error <= enough for fit in fits[first:]):
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
                self._higher(data, train, fits)
            return
        variables = trial.equal
        if data.system.is_measured:
            variables = trial.with_combinations(trial.with_angles(variables))
        if not trial.periods(variables) and least > 0.3 * trial.change:
            return  # the map keeps another form
        variables = trial.with_rates(variables)
        if variables.angles:  # harmonics also approximate functions that are not periodic
            variables = trial.least(trial.with_rates(trial.equal), variables)
        if data.system.is_measured:
            variables = trial.with_symmetries(variables)
        if not variables.changes:
            if goes_on:
                self._higher(data, train, fits)
            return
        first = len(fits)
        functions = trial.functions(variables)
        self._degrees(data, train, fits, functions, self.coefficients, self.weighted_degree)
        own = [*polynomials, *fits[first:]]
        if variables.signs and trial.misses(min(own, key=lambda fit: fit.error), variables):
            functions = trial.functions(replace(variables, signs=()))
            self._degrees(data, train, fits, functions, self.coefficients, self.weighted_degree)

    def _converges(self, fits: Sequence[Fit]) -> bool:
        """Whether errors fall so fast that degrees of a few more terms reach rounding."""
        errors: dict[int, float] = {}  # with and without a linear map
        for fit in fits:
            degree = fit.model.arguments["degree"]
            errors[degree] = min(fit.error, errors.get(degree, math.inf))
        if len(errors) < 2:
            return False
        before, last = [*errors.values()][-2:]
        if not 0 < last < math.inf:
            return False
        ratio = min(last / before, 1.0)
        steps = self._further(fits[-1].model, self.coefficients) / 2
        rounding = 10 * TOLERANCES.rounding
        return last * ratio**steps <= rounding < last

    @staticmethod
    def _further(model: Model, most: int) -> float:
        """Return by how much the degree may rise until there are so many coefficients."""
        # terms are as many as the degree to the power of the number of components
        growth = (most / count(model)) ** (1 / model.dim)
        return float(model.arguments["degree"] * (growth - 1))

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
            if invariants := len(functions.get("quadratic_invariants", ())):
                words = f"{invariants} quadratic invariant{'s' * (invariants > 1)}, {words}"
            size = f"{row}{'exact terms, ' * exact}{words} {degree}, {count(model)} coefficients"
            fit = train.solve(model, size, far=bool(far))
            is_compared = degree >= self.compared or "degree" in self.arguments
            if far is None and is_compared and fit.error > train.budget.target:
                far = False
                other = self._model(data, degree, train.seed, functions)
                # a linear map in front would not be the identity at vanishing parameters, nor
                # keep invariants
                if not (other.vanishing or other.quadratic_invariant_count):
                    behind = train.solve(other, f"linear map, then {size}", far=True)
                    far = behind.error < fit.error / 2
                    fit = behind if far else fit
            before = model
            ratio = min(fit.error / sizes.error, 1.0)  # 0 at the first degree
            further = max(self._further(model, most), 0.0)
            if degree > 4 and fit.error * ratio ** (further / 2) > least_explicit(fits):
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
        if system.is_measured:
            return self.components
        if system.chart is not None and self.chart_of(data) is not False:
            system = system.chart.system
        if not (system.is_canonical and system.hamiltonian_formula):
            return self.known_components
        fixed = (self.arguments, self.reversible, self.chart, self.dtype)
        splits = Splittings(*fixed).admits(data) is None
        return self.known_components if splits else self.exact_components


@dataclass(frozen=True)
class _Variables:
    """Variables of a generating function, and how they count in the degree of a term.

    Attributes
    ----------
    rates
        Weight of each variable but for a common factor.
    angles
        Period of each component that is an angle in effect.
    combinations
        Rows of integers: the variables as combinations of components, if they are others.
    signs
        Signs of the components under reversing symmetries that generate all of them.
    """

    rates: tuple[float, ...]
    angles: Mapping[int, float] = field(default_factory=dict)
    combinations: tuple[tuple[float, ...], ...] = ()
    signs: tuple[tuple[float, ...], ...] = ()

    @property
    def changes(self) -> bool:
        """Whether they are other than components of equal weights."""
        other = bool(self.angles or self.combinations or self.signs)
        return other or any(rate != 1 for rate in self.rates)


def _rows(matrix: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())


class _Trial:
    """Errors of small generating functions of some variables, by a solve each.

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
        self.equal = _Variables((1.0,) * self.size)
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

    def periods(self, variables: _Variables) -> dict[int, float]:
        """Return the periods of all angles, declared and found."""
        return dict(self.model.arguments.get("periodic", ())) | dict(variables.angles)

    def functions(self, variables: _Variables, terms: int = 0) -> dict[str, Any]:
        """Return the arguments of models of these variables.

        There are as many coefficients whatever the symmetries are, unless a number of terms is
        given.
        """
        kind = self.kind
        periods = self.periods(variables)
        terms = terms or self.terms << len(variables.signs)
        terms //= 1 if kind.form == "symplectic" else self.size - 1
        rates = np.array(variables.rates)
        result: dict[str, Any] = {
            "weights": scaled_weights(rates, kind.weighted_degree, terms, [*periods])
        }
        if variables.angles:
            result["periodic"] = periods
        if variables.combinations:
            result["combinations"] = [list(row) for row in variables.combinations]
        if variables.signs:
            idle = [1.0] * (self.data.dataset.dim - self.size)
            result["reversing_symmetries"] = [
                np.diag([*signs, *idle]).tolist() for signs in variables.signs
            ]
        return result

    def solved(self, variables: _Variables, terms: int = 0) -> tuple[Model | None, float]:
        """Return a model of these variables, and the error of pairs that are left out."""
        try:
            functions = self.functions(variables, terms)
            model = self.kind.model_of(self.data, self.seed, functions)
            self.data.normalise(model)
            return model, solve(model, self.data, self.seed, enough_pairs(model)).typical
        except InputError:  # too many terms, or none
            return None, math.inf

    @cached_property
    def widths(self) -> np.ndarray:
        """Ranges (component,) of the training states."""
        states = self.data.held("train").reshape(-1, self.data.dataset.dim)
        return np.asarray(np.ptp(states, axis=0))

    def with_angles(self, variables: _Variables) -> _Variables:
        """Return variables with the components that are angles in effect."""
        if self.periods(variables):
            return variables

        def error(angles: Mapping[int, float]) -> float:
            return self.solved(replace(variables, angles=dict(angles)))[1]

        return replace(variables, angles=apparent_angles(self.widths, error))

    def least(self, plain: _Variables, angled: _Variables, gain: float = 0.1) -> _Variables:
        """Return variables with angles if they err so much less than those without, or those."""
        errors = [self.solved(variables)[1] for variables in (plain, angled)]
        return angled if errors[1] < gain * errors[0] else plain

    def with_rates(self, variables: _Variables) -> _Variables:
        """Return variables with the weights of the least error, from theirs on."""

        def at(rates: np.ndarray) -> _Variables:
            return replace(variables, rates=tuple((rates * first).tolist()))

        first = np.array(variables.rates)
        return at(relative_rates(lambda rates: self.solved(at(rates))[1], self.ties))

    def with_combinations(self, variables: _Variables, gain: float = 0.5) -> _Variables:
        """Return variables with sums and differences of positions that are angles.

        First differences from one of them, then one sum or difference after the other is taken as
        long as the error falls by the factor.
        """
        half = self.size // 2
        if self.kind.form != "symplectic" or any(len(tie) > 1 for tie in self.ties):
            return variables
        trials = []
        for period in PERIODS:
            angles = self.periods(variables)
            if not self.model.arguments.get("periodic"):
                narrow = possible_angles(self.widths[:half], period, 0.25)
                angles = dict.fromkeys(narrow, period) | angles
            own = [k for k in angles if k < half]
            for first in own if len(own) > 1 else []:
                rows = np.eye(self.size)
                rows[own, first] -= np.array(own) != first
                trials.append(replace(variables, angles=angles, combinations=_rows(rows)))
        best = variables
        least = self.solved(variables)[1]
        while trials:
            error, trial = min(map(self._with_error, trials), key=lambda each: each[0])
            if not error < gain * least:
                break
            least = error
            best = trial
            own = [k for k in self.periods(best) if k < half]
            trials = []
            for (i, j), sign in itertools.product(itertools.permutations(own, 2), (-1.0, 1.0)):
                rows = np.array(best.combinations)
                rows[i] += sign * rows[j]
                trials.append(replace(best, combinations=_rows(rows)))
        return best

    def _with_error(self, variables: _Variables) -> tuple[float, _Variables]:
        check_time()
        return self.solved(variables)[1], variables

    def with_symmetries(self, variables: _Variables) -> _Variables:
        """Return variables with the changes of signs that are reversing symmetries.

        They do not raise the error of the terms that they leave.
        """
        known = len(self.model.reversing_symmetries)
        if self.kind.form != "symplectic" or known:
            return variables
        least = self.solved(variables)[1]
        for signs in reversals(self.size):
            if signs in odd_products(variables.signs):
                continue
            trial = replace(variables, signs=(*variables.signs, signs))
            check_time()
            if self.solved(trial, self.terms)[1] <= max(1.1 * least, TOLERANCES.rounding):
                variables = trial
        return variables

    def misses(self, fit: Fit, variables: _Variables) -> bool:
        """Whether symmetries are only near: as many coefficients without them err less."""
        if fit.error <= TOLERANCES.exact:
            return False
        plain = replace(variables, signs=())
        return self.solved(plain, count(fit.model))[1] < fit.error
