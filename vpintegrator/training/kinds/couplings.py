"""Couplings: explicit maps of polynomials or neurons, which grow while training pays.

A small stack of polynomial couplings is trained until it gets no better. Then it is prolonged in
degree, which keeps the map, or in depth, which keeps the map or samples its layers anew. The larger
stack that promises more is trained, as long as that pays. Each training begins where least squares
converge in a few iterations; the same large model trained from the identity ends orders of
magnitude above, in a flat valley (see docs/theory/initialisation.md).
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from vpintegrator.data.pairs import Pair
from vpintegrator.errors import InputError
from vpintegrator.models import Model, prolong
from vpintegrator.models.arguments import arguments_of
from vpintegrator.models.building import suited
from vpintegrator.models.growth import attention, refine
from vpintegrator.nn.shears import explicit_shears
from vpintegrator.nn.symmetry import symmetry_group
from vpintegrator.runtime.deadline import check_time
from vpintegrator.training.initial_scheme import separable_blocks, start_as_splitting
from vpintegrator.training.kinds.kind import GOOD, Budget, Kind, Trial, count, forms, least
from vpintegrator.training.kinds.shooting import shooting_start
from vpintegrator.training.regression import fit_few_pairs
from vpintegrator.training.results import Fit
from vpintegrator.training.train import train
from vpintegrator.training.training_data import TrainingData

BETTER = 0.9  # times the least error so far: what a larger model must reach to be kept
FAR = 1e-3  # error beyond which segments of a step are tried
DEGREES = (1, 2, 3, 4, 6, 8, 10, 12)  # of models that begin as a splitting
# depths of reversible stacks and of others, for several steps of a method, or for few
STAGES = ((4, 7), (2, 3))


@dataclass(frozen=True)
class Couplings(Kind):
    """Stacks of couplings, whose step is explicit.

    Degree, depth, split, sweep and bases among the options stay as they are. Options that fix the
    functions leave nothing to search for: then :class:`Network` trains the one model.

    Attributes
    ----------
    form
        ``symplectic`` or ``volume``; None for the one that suits the system.
    architecture
        Name of the architecture, such as ``vpt``; None for maps of single states of the form.
    iterations, seconds
        Iterations of all trainings together, where the budget has none: so many in ``seconds`` or
        more, and fewer in a shorter fit. Parts of the growth take shares of them, and the growth
        ends after 0.6 of them.
    iterations_beside
        The same beside a map that errs by less than 1e-9: some ten seconds.
    patience
        Iterations without progress after which the last training ends.
    largest, first, splitting
        Most parameters of the last model, of the first one, and of one that begins as several steps
        of a splitting.
    exact
        Error at which the growth ends: that of data at usual tolerances.
    """

    form: str | None = None
    architecture: str | None = None
    iterations: int = 4_000
    seconds: float = 150.0
    iterations_beside: int = 200
    patience: int = 300
    largest: int = 1_100
    first: int = 500
    splitting: int = 700
    exact: float = 1e-13
    name: ClassVar[str] = "couplings"
    iterative: ClassVar[bool] = True

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these data have no couplings of the form, or None."""
        if data.dataset.dim < 2:
            return "couplings move components by others, and states have one"
        if {"functions", "width", "activation"} & self.options.keys():
            return "the functions are given, so that there are no others to compare"
        suitable = forms(data)
        if self.architecture is not None:
            return None
        if not suitable:
            return "couplings keep the volume, and the flow changes it"
        if self.form not in (None, *suitable):
            return f"the map of these states is {' or '.join(suitable)}, not {self.form}"
        return None

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether couplings can be chosen: no explicit map is good, and none is at rounding."""
        enough = GOOD if data.is_few else self.exact / 10
        return least([fit for fit in fits if fit.explicit]) > GOOD and least(fits) > enough

    def models(self, data: TrainingData, fits: Sequence[Fit], budget: Budget) -> Iterator[Trial]:
        """Yield models that grow as the errors of those before suggest."""
        growth = _Growth(self, data, fits, budget)
        model = growth.build(functions="polynomial", degree=4, depth=2)
        if isinstance(model, Model) and self._is_for_few(model, data):
            yield from growth.by_pairs(model)
        else:
            yield from growth.by_windows()

    def train(self, trial: Trial, data: TrainingData, budget: Budget) -> Fit:
        """Train on windows; of few pairs all are fitted, and leave-one-out errors judge."""
        if not self._is_for_few(trial.model, data):
            return super().train(trial, data, budget)
        before, after, parameters, folds = known = data.known_pairs
        pair = Pair(before[:, None], after[:, None], parameters)
        left_out = None if known.are_single else folds
        start = time.perf_counter()
        result = fit_few_pairs(trial.model, pair, left_out, trial.epochs or 1)
        fit = self.solved(trial, result, data, budget, start)
        fit.history.optimizer = "levenberg-marquardt"
        return fit

    def _is_for_few(self, model: Model, data: TrainingData) -> bool:
        """Whether the data are few, and the model consists of shears with derivatives."""
        if not data.is_few or {"optimizer", "loss", "horizon", "noise"} & self.training.keys():
            return False
        return model.window == 1 and explicit_shears(model.core) is not None


class _Growth:
    """Sizes of couplings from small to large, each by the errors of those before.

    Attributes
    ----------
    total, used
        Iterations of all trainings, and those that are used up.
    best
        Fit that a further model must improve by a tenth.
    way
        How the best model became larger.
    patience
        Iterations without progress after which a training ends.
    """

    def __init__(
        self, kind: Couplings, data: TrainingData, fits: Sequence[Fit], budget: Budget
    ) -> None:
        self.kind, self.data, self.fits, self.budget = kind, data, fits, budget
        form = kind.form or next(iter(forms(data)), "volume")
        named = {"functions": "polynomial", **kind.options}
        name = suited(data.system, named, kind.options.get("chart", data.chart))
        prefix = "sp" if form == "symplectic" else "vp"
        self.name = kind.architecture or (name if name.startswith(prefix) else f"{prefix}ff")
        self.is_beside = least(fits) <= GOOD
        share = min((budget.seconds or math.inf) / kind.seconds, 1.0)
        total, self.used = budget.epochs or max(round(share * kind.iterations), 1), 0
        self.total = min(total, kind.iterations_beside) if self.is_beside else total
        self.best: Fit | None = None
        self.way, self.patience = "", 20

    @property
    def error(self) -> float:
        """Least error so far."""
        return math.inf if self.best is None else self.best.error

    @property
    def is_windowed(self) -> bool:
        """Whether attention is trained, too."""
        return self.best is not None and self.best.model.window > 1

    @property
    def is_exact(self) -> bool:
        """Whether nothing is left to be learned."""
        return self.error <= max(self.kind.exact, self.budget.target or 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the error is reached, or the rest of the iterations is for the best model."""
        return self.error <= (self.budget.target or 0.0) or self.used > 0.6 * self.total

    def part(self, share: float) -> int:
        """Return a share of the iterations."""
        return max(round(share * self.total), 1)

    def build(self, **arguments: Any) -> Model | str:
        """Return a model, or why there is none; given options count first."""
        options = {**arguments, **self.kind.options}
        return self.kind.built(self.data, self.name, self.budget.seed, options)

    def fit(
        self, model: Model, epochs: int, patience: int | None = None, **training: Any
    ) -> Generator[Trial, None, Fit]:
        """Yield a trial, and return its fit, which may be the best one."""
        if epochs <= 40 and model.window == 1:
            training["compiled"] = False
        yield Trial(model, describe(model), epochs, patience, training)
        fit = self.fits[-1]
        self.used += fit.history.epochs
        limit = self.error if self.best and self.best.model is model else BETTER * self.error
        if self.best is None or fit.error < limit:
            self.best = fit
        return fit

    def by_pairs(self, model: Model) -> Iterator[Trial]:
        """Yield larger models as long as leave-one-out errors fall, and the best one twice."""
        self.data.normalise(model)
        best = yield from self.fit(model, 40)
        numbers = self.data.known_pairs.before.numel()
        while not self.is_exact:
            larger = self.larger(best.model)
            for way in ("degree", "sampled anew"):
                if way in larger and count(larger[way]) <= numbers // 2:
                    yield from self.fit(larger[way], 40)
            if self.best is None or self.best is best:
                break
            best = self.best
        yield from self.fit(best.model, 150)

    def by_windows(self) -> Iterator[Trial]:
        """Yield first models, larger ones, neurons, and the best one once more."""
        for functions in ("polynomial", "system"):
            yield from self.begin(functions)
        if self.error > FAR:
            yield from self.begin_by_segments()
        patience = (20,) if self.is_windowed else (20, 100)
        for self.patience in patience:
            while (yield from self.grow()):
                pass
        if self.error > 3e-6 and "degree" not in self.kind.options:
            yield from self.neurons()
        left = self.total - self.used
        if self.best is not None and left > 0 and not (self.is_beside or self.is_exact):
            best = self.best.model
            yield Trial(best, describe(best), left, self.kind.patience)

    def train(self, model: Model, share: float) -> Generator[Trial, None, float]:
        """Train one size as long as it gets better quickly, and return its error."""
        error, training = math.inf, dict[str, Any]()
        while True:
            fit = yield from self.fit(model, self.part(share), self.patience, **training)
            before, error = error, fit.error
            if fit.stopped_by != "epochs" or not error < before / 3 or self.is_over:
                return error
            training = {"batch": fit.history.windows} if fit.history.windows else {}

    def begin(self, functions: str) -> Iterator[Trial]:
        """Yield what there is to begin with: a few layers, and a splitting method."""
        model = None if self.is_exact else self.polynomials((4, 3, 2, 1), 2, functions)
        if model is not None:
            yield from self.train(model, 0.08)
        # windows that attention mixes are not near the flow as a splitting is
        is_far = self.is_windowed and self.error <= FAR
        model = None if self.is_exact or is_far else self.splitting(functions)
        if model is not None:
            yield from self.train(model, 0.08)

    def polynomials(
        self, degrees: Sequence[int], depth: int, functions: str = "polynomial"
    ) -> Model | None:
        """Return normalised polynomials of the given degree, or of the first one that is cheap."""
        degree = self.kind.options.get("degree")
        for each in degrees if degree is None else (degree,):
            model = self.build(functions=functions, degree=each, depth=depth)
            if isinstance(model, str) and degree is not None and functions == "polynomial":
                raise InputError(model)
            most = self.kind.largest if each == degrees[-1] else self.kind.first
            if isinstance(model, Model) and (degree is not None or _couplings(model) <= most):
                self.data.normalise(model)
                return model
        return None

    def splitting(self, functions: str) -> Model | None:
        """Return a model that begins as a splitting, of the lowest degree that fits the field.

        None where nothing comes near the field, or all is large.
        """
        if self.kind.training.get("initial_scheme") == "none":
            return None
        best: Model | None = None
        error = residual = math.inf
        degree = self.kind.options.get("degree")
        for structure in self.structures():
            residual, stalled = math.inf, 0
            for each in DEGREES if degree is None else (degree,):
                check_time()
                model = self.stack(functions=functions, degree=each, **structure)
                if model is None:
                    continue
                state = start_as_splitting(model, self.data)
                # a degree may add nothing that symmetries allow
                stalled = 0 if state.residual < residual / 2 else stalled + 1
                if stalled > 1:
                    break
                residual = min(residual, state.residual)
                # a better fit pays later, even if the method's own error hides its gain now
                if state.method and state.error < 1.1 * error:
                    best, error = model, state.error
                if residual < 1e-7 and best is not None:
                    arguments = {**structure, "functions": functions}
                    richer = self.richer(each, error, arguments) if degree is None else None
                    return richer or best
        return best if residual < 0.1 else None

    def richer(self, degree: int, error: float, arguments: Mapping[str, Any]) -> Model | None:
        """Return a splitting of more terms than follow the vector field, where they are cheap.

        Brackets of shears, of which the rest of the map is made, have a higher degree than these:
        with a step as a component, by two.
        """
        more, most = (1, 450) if self.data.family is None else (4, self.kind.first)
        for higher in range(degree + more, degree, -1):
            model = self.stack(**{**arguments, "degree": higher})
            if model is None or count(model) > most:
                continue
            if start_as_splitting(model, self.data).error < 1.1 * error:
                return model
        return None

    def stack(self, **arguments: Any) -> Model | None:
        """Return a normalised model with layers for several steps of a method, or for few."""
        for reversible, irreversible in STAGES:
            model = self.build(depth=reversible, **arguments)
            if isinstance(model, Model) and not len(model.reversing_symmetries):
                model = self.build(depth=irreversible, **arguments)
            if isinstance(model, str):
                return None
            if count(model) <= (self.kind.splitting if reversible > 2 else self.kind.largest):
                self.data.normalise(model)
                return model
        return None

    def structures(self) -> Iterator[Mapping[str, Any]]:
        """Yield arguments of stacks whose shears may add up to the field, few shears first.

        Where a component of the field depends on itself, shears along the coordinates are not
        enough: then those of more bases are tried.
        """
        model = self.build(functions="polynomial", degree=1)
        model = self.build() if isinstance(model, str) else model
        if isinstance(model, str):
            return
        known = arguments_of(type(model))
        if {"split", "sweep", "bases"} & self.kind.options.keys() or "sweep" not in known:
            yield {}
            return
        group = symmetry_group(model.reversing_symmetries, model.dim + model.parameter_count)
        system, (states, k) = self.data.system, self.data.some_states()
        if model.chart is not None:
            assert system.chart is not None
            system, states = system.chart.system, model.chart(states)
        states = model.coordinates.ordered(states)
        extended = self.data.extended(states.numpy(), k)
        blocks = separable_blocks(system.canonical, extended, group, model.moving)
        if blocks is not None:
            yield {"split": blocks, "sweep": "symmetric"}
            return
        for bases in (1, 2, 3):
            yield {"split": "coordinates", "sweep": "symmetric", "bases": bases}

    def begin_by_segments(self) -> Iterator[Trial]:
        """Yield layers that have learned segments of a step one by one."""

        def learn(part: Model, data: TrainingData) -> None:
            limits = {"epochs": self.part(0.03), "patience": 20, "target": FAR}
            off = dict.fromkeys(("normalise", "compiled", "progress", "judged"), False)
            options = {"initial_scheme": "none", "seed": self.budget.seed, **off}
            arguments: dict[str, Any] = {**limits, **self.kind.training, **options}
            self.used += train(part, data, **arguments).epochs
            check_time()

        model = shooting_start(partial(self.polynomials, (8, 6, 5, 4, 3)), self.data, learn)
        if model is not None:
            yield from self.train(model, 0.16)

    def grow(self) -> Generator[Trial, None, bool]:
        """Train larger models; return whether one does better."""
        if self.best is None or self.is_exact or self.is_over:
            return False
        size, error = count(self.best.model), self.error
        larger = self.larger(self.best.model)
        small = {way: model for way, model in larger.items() if count(model) <= 400}
        if self.is_windowed:  # the compiler takes longer than a short trial: ways take turns
            small, larger = {}, dict(sorted(larger.items(), reverse=self.way == "degree"))
        promises: dict[str, float] = {}
        for way, model in small.items():
            fit = yield from self.fit(model, 40)
            # orders of magnitude won for orders of magnitude more parameters
            won = math.log(error / min(max(fit.error, 1e-300), 1e300))
            promises[way] = won / math.log(count(model) / size)
            if self.is_over:
                break
        promising = sorted(promises, key=promises.__getitem__, reverse=True)
        if self.is_windowed:
            promising = [*larger]
        elif larger and not small:  # as it grew before, if it can
            promising = [self.way if self.way in larger else [*larger][-1]]
        for way in promising:
            if self.error <= (self.budget.target or 0.0):
                break
            if (yield from self.train(larger[way], 0.08)) < error / 1.5:
                self.way = way
                return True
            if self.is_over:
                break
        return False

    def larger(self, model: Model) -> dict[str, Model]:
        """Return larger models by their ways; sizes among the options are fixed."""
        degree, depth = model.arguments["degree"], model.arguments["depth"]
        ways = {
            "identity": partial(prolong, depth=depth + 1),
            "sampled anew": partial(refine, depth=depth + max(1, depth // 2)),
            "degree": partial(prolong, degree=degree + 2),
            "both": partial(prolong, degree=degree + 2, depth=depth + 1),
        }
        if self.is_windowed:
            del ways["identity"], ways["both"]
        if count(model) > 2 * _couplings(model):  # more layers would mostly be attention
            ways = {"degree": ways["degree"]}
        larger: dict[str, Model] = {}
        for way, enlarge in ways.items():
            if enlarge.keywords.keys() & self.kind.options.keys():
                continue
            with suppress(InputError):  # too many terms
                new = enlarge(model)
                if count(model) < count(new) <= self.kind.largest:
                    larger[way] = new
        return larger

    def neurons(self) -> Iterator[Trial]:
        """Yield neurons, which get better for longer than polynomials do."""
        least, model = self.error, self.build(functions="neurons", depth=3)
        if isinstance(model, str) and self.best is None:
            raise InputError(model)
        if isinstance(model, str) or self.used >= self.total:
            return
        error = yield from self.train(model, 0.1)
        left = 1 - self.used / self.total
        if least < error < 4 * least and left > 0:
            yield from self.train(model, left / 2)


def _couplings(model: Model) -> int:
    """Return the number of parameters without those of attention."""
    mixing = attention(model) if model.window > 1 else ()
    return count(model) - sum(p.numel() for layer in mixing for p in layer.parameters())


def describe(model: Model) -> str:
    """Return the sizes of a model in words."""
    arguments = model.arguments
    words = arguments.get("functions", "neurons")
    if words != "neurons":
        words += f"s of degree {arguments['degree']}"
    if expressions := arguments.get("expressions"):
        words += f" with {len(expressions)} of the system's functions"
    return f"{words}, depth {arguments.get('depth')}, {count(model)} parameters"
