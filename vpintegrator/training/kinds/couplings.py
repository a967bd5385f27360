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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from vpintegrator.data.pairs import Pair
from vpintegrator.errors import InputError
from vpintegrator.models import Model, prolong
from vpintegrator.models.building import suited
from vpintegrator.models.growth import attention, refine
from vpintegrator.models.stored import arguments_of
from vpintegrator.names import DEFAULT_SECONDS
from vpintegrator.nn.shears import explicit_shears
from vpintegrator.nn.symmetry import symmetry_group
from vpintegrator.runtime.interrupts import check_time
from vpintegrator.training.initial_scheme import separable_blocks, start_as_splitting
from vpintegrator.training.kinds.kind import ModelKind, count, forms, least
from vpintegrator.training.kinds.shooting import shooting_start
from vpintegrator.training.options import TrainingOptions
from vpintegrator.training.regression import fit_few_pairs
from vpintegrator.training.results import TOLERANCES, Fit
from vpintegrator.training.trainer import Trainer
from vpintegrator.training.training_data import TrainingData

BETTER = 0.9  # times the least error so far: what a larger model must reach to be kept
FAR = 1e-3  # error beyond which segments of a step are tried
DEGREES = (1, 2, 3, 4, 6, 8, 10, 12)  # of models that begin as a splitting
# depths of reversible stacks and of others, for several steps of a method, or for few
STAGES = ((4, 7), (2, 3))


@dataclass(frozen=True)
class Couplings(ModelKind):
    """Stacks of couplings, whose step is explicit, from small to large.

    Degree, depth, split, sweep and bases among the arguments stay as they are. Arguments that fix
    the functions leave nothing to search for: then :class:`Network` trains the one model.

    Attributes
    ----------
    architecture
        Name of the architecture, such as ``vpt``; None for maps of single states of the form.
    training
        How the models are trained.
    iterations, seconds
        Iterations of all trainings together, where the budget has none: so many in ``seconds`` or
        more, and fewer in a shorter fit. Parts of the growth take shares of them, and the growth
        ends after 0.6 of them.
    iterations_beside
        The same beside a map that errs by less than 1e-9: some ten seconds.
    patience
        Iterations without progress after which the last training ends.
    components
        Most components of a state: tables of terms grow with their cube.
    largest, first, splitting
        Most parameters of the last model, of the first one, and of one that begins as several steps
        of a splitting.
    exact
        Error at which the growth ends: that of data at usual tolerances.
    """

    architecture: str | None = None
    training: TrainingOptions = field(default_factory=TrainingOptions)
    iterations: int = 4_000
    seconds: float = DEFAULT_SECONDS
    iterations_beside: int = 200
    patience: int = 300
    components: int = 250
    largest: int = 1_100
    first: int = 500
    splitting: int = 700
    exact: float = TOLERANCES.exact / 10
    name: ClassVar[str] = "couplings"
    iterative: ClassVar[bool] = True

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these data have no couplings of the form, or None."""
        if data.dataset.dim < 2:
            return "couplings move components by others, and states have one"
        if data.dataset.dim > self.components:
            return f"couplings of {data.dataset.dim:,} components have too many terms"
        if {"functions", "width", "activation"} & self.arguments.keys():
            return "the functions are given, so that there are no others to compare"
        suitable = forms(data)
        if not suitable:
            return "couplings keep the volume, and the flow changes it"
        if self.architecture is None and self.form not in (None, *suitable):
            return f"the map of these states is {' or '.join(suitable)}, not {self.form}"
        return None

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether couplings can be chosen: no explicit map is good, and none is at rounding."""
        enough = TOLERANCES.good if data.is_few else self.exact / 10
        return (
            least([fit for fit in fits if fit.explicit]) > TOLERANCES.good and least(fits) > enough
        )

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Train models that grow as the errors of those before suggest."""
        growth = _Growth(self, data, train, fits)
        model = growth.build(functions="polynomial", degree=4, depth=2)
        if isinstance(model, Model) and growth.is_for_few(model):
            growth.by_pairs(model)
        else:
            growth.by_windows()


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
        self, kind: Couplings, data: TrainingData, train: Trainer, fits: Sequence[Fit]
    ) -> None:
        self.kind = kind
        self.data = data
        self.trainer = train
        form = kind.form or next(iter(forms(data)), "volume")
        named = {"functions": "polynomial", **kind.arguments}
        name = suited(data.system, named, kind.chart_of(data))
        prefix = "sp" if form == "symplectic" else "vp"
        self.name = kind.architecture or (name if name.startswith(prefix) else f"{prefix}ff")
        self.is_beside = least(fits) <= TOLERANCES.good
        share = min(train.budget.whole / kind.seconds, 1.0)
        total = train.budget.epochs or max(round(share * kind.iterations), 1)
        self.total = min(total, kind.iterations_beside) if self.is_beside else total
        self.used = 0
        self.best: Fit | None = None
        self.way = ""
        self.patience = 20

    @property
    def error(self) -> float:
        """Least error so far."""
        return math.inf if self.best is None else self.best.error

    @property
    def is_windowed(self) -> bool:
        """Whether attention is trained, too."""
        return self.best_model is not None and self.best_model.window > 1

    @property
    def is_exact(self) -> bool:
        """Whether nothing is left to be learned."""
        return self.error <= max(self.kind.exact, self.trainer.budget.target)

    @property
    def is_over(self) -> bool:
        """Whether the error is reached, or the rest of the iterations is for the best model."""
        return self.error <= self.trainer.budget.target or self.used > 0.6 * self.total

    @property
    def best_model(self) -> Model | None:
        """Model of the least error."""
        model = None if self.best is None else self.best.model
        assert model is None or isinstance(model, Model)
        return model

    def part(self, share: float) -> int:
        """Return a share of the iterations."""
        return max(round(share * self.total), 1)

    def build(self, **arguments: Any) -> Model | str:
        """Return a model, or why there is none; arguments of the kind count first."""
        try:
            return self.kind.build(self.data, self.name, self.trainer.seed, arguments)
        except InputError as error:
            return str(error)

    def is_for_few(self, model: Model) -> bool:
        """Whether the data are few, and the model consists of shears with derivatives."""
        other = {"optimizer", "loss", "horizon", "noise"} & self.kind.training.changed.keys()
        if not self.data.is_few or other:
            return False
        return model.window == 1 and explicit_shears(model.core) is not None

    def fit(
        self, model: Model, epochs: int, patience: int | None = None, batch: int | None = None
    ) -> Fit:
        """Train a model, and return its fit, which may be the best one."""
        if self.is_for_few(model):
            fit = self.fit_few(model, epochs)
        else:
            fit = self.fit_windows(model, epochs, patience, batch)
        self.used += fit.history.epochs
        limit = self.error if self.best_model is model else BETTER * self.error
        if self.best is None or fit.error < limit:
            self.best = fit
        return fit

    def fit_windows(
        self, model: Model, epochs: int, patience: int | None, batch: int | None = None
    ) -> Fit:
        """Train a model on windows."""
        options = self.kind.training
        if batch is not None:
            options = replace(options, batch=batch)
        if epochs <= 40 and model.window == 1:
            options = replace(options, compiled=False)
        return self.trainer(
            model, describe(model), epochs=epochs, patience=patience, options=options
        )

    def fit_few(self, model: Model, epochs: int) -> Fit:
        """Fit a model to all of few pairs; leave-one-out errors judge it."""
        before, after, parameters, folds = self.data.known_pairs
        pair = Pair(before[:, None], after[:, None], parameters)
        left_out = None if self.data.known_pairs.are_single else folds
        start = time.perf_counter()
        result = fit_few_pairs(model, pair, left_out, epochs)
        return self.trainer.solved(model, describe(model), result, start, "levenberg-marquardt")

    def by_pairs(self, model: Model) -> None:
        """Train larger models as long as leave-one-out errors fall, and the best one twice."""
        self.data.normalise(model)
        best = model
        self.fit(model, 40)
        numbers = self.data.known_pairs.before.numel()
        while not self.is_exact:
            larger = self.larger(best)
            for way in ("degree", "sampled anew"):
                if way in larger and count(larger[way]) <= numbers // 2:
                    self.fit(larger[way], 40)
            if self.best_model is None or self.best_model is best:
                break
            best = self.best_model
        self.fit(best, 150)

    def by_windows(self) -> None:
        """Train first models, larger ones, neurons, and the best one once more."""
        for functions in ("polynomial", "system"):
            self.begin(functions)
        if self.error > FAR:
            self.begin_by_segments()
        patience = (20,) if self.is_windowed else (20, 100)
        for self.patience in patience:
            while self.grow():
                pass
        if self.error > 3e-6 and "degree" not in self.kind.arguments:
            self.neurons()
        left = self.total - self.used
        best = self.best_model
        if best is not None and left > 0 and not (self.is_beside or self.is_exact):
            options = self.kind.training
            patience_at_end = self.kind.patience
            self.trainer(
                best, describe(best), epochs=left, patience=patience_at_end, options=options
            )

    def train(self, model: Model, share: float) -> float:
        """Train one size as long as it gets better quickly, and return its error."""
        error = math.inf
        batch: int | None = None
        while True:
            fit = self.fit(model, self.part(share), self.patience, batch)
            before = error
            error = fit.error
            if fit.stopped_by != "epochs" or not error < before / 3 or self.is_over:
                return error
            batch = fit.history.windows or None

    def begin(self, functions: str) -> None:
        """Train models to begin with: a few layers, and a splitting method."""
        model = None if self.is_exact else self.polynomials((4, 3, 2, 1), 2, functions)
        if model is not None:
            self.train(model, 0.08)
        # windows that attention mixes are not near the flow as a splitting is
        is_far = self.is_windowed and self.error <= FAR
        model = None if self.is_exact or is_far else self.splitting(functions)
        if model is not None:
            self.train(model, 0.08)

    def polynomials(
        self, degrees: Sequence[int], depth: int, functions: str = "polynomial"
    ) -> Model | None:
        """Return normalised polynomials of the given degree, or of the first one that is cheap."""
        degree = self.kind.arguments.get("degree")
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
        if self.kind.training.initial_scheme == "none":
            return None
        best: Model | None = None
        error = residual = math.inf
        degree = self.kind.arguments.get("degree")
        for structure in self.structures():
            residual = math.inf
            stalled = 0
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
                    best = model
                    error = state.error
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
        if {"split", "sweep", "bases"} & self.kind.arguments.keys() or "sweep" not in known:
            yield {}
            return
        group = symmetry_group(model.reversing_symmetries, model.dim + model.parameter_count)
        system = self.data.system
        (states, k) = self.data.some_states()
        if model.chart is not None:
            assert system.chart is not None
            system = system.chart.system
            states = model.chart(states)
        states = model.coordinates.ordered(states)
        extended = self.data.extended(states.numpy(), k)
        blocks = separable_blocks(system.canonical, extended, group, model.moving)
        if blocks is not None:
            yield {"split": blocks, "sweep": "symmetric"}
            return
        for bases in (1, 2, 3):
            yield {"split": "coordinates", "sweep": "symmetric", "bases": bases}

    def begin_by_segments(self) -> None:
        """Train layers that have learned segments of a step one by one."""
        options = replace(
            self.kind.training, initial_scheme="none", normalise=False, compiled=False
        )

        def learn(part: Model, data: TrainingData) -> None:
            fit = self.trainer.segment(
                part,
                data,
                f"segment of a step, {count(part)} parameters",
                epochs=self.part(0.03),
                patience=20,
                target=FAR,
                options=options,
            )
            self.used += fit.history.epochs

        model = shooting_start(partial(self.polynomials, (8, 6, 5, 4, 3)), self.data, learn)
        if model is not None:
            self.train(model, 0.16)

    def grow(self) -> bool:
        """Train larger models; return whether one does better."""
        best = self.best_model
        if best is None or self.is_exact or self.is_over:
            return False
        size = count(best)
        error = self.error
        larger = self.larger(best)
        small = {way: model for way, model in larger.items() if count(model) <= 400}
        if self.is_windowed:  # the compiler takes longer than a short trial: ways take turns
            small = {}
            larger = dict(sorted(larger.items(), reverse=self.way == "degree"))
        promises: dict[str, float] = {}
        for way, model in small.items():
            fit = self.fit(model, 40)
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
            if self.error <= self.trainer.budget.target:
                break
            if self.train(larger[way], 0.08) < error / 1.5:
                self.way = way
                return True
            if self.is_over:
                break
        return False

    def larger(self, model: Model) -> dict[str, Model]:
        """Return larger models by their ways; sizes among the options are fixed."""
        degree = model.arguments["degree"]
        depth = model.arguments["depth"]
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
            if enlarge.keywords.keys() & self.kind.arguments.keys():
                continue
            with suppress(InputError):  # too many terms
                new = enlarge(model)
                if count(model) < count(new) <= self.kind.largest:
                    larger[way] = new
        return larger

    def neurons(self) -> None:
        """Train neurons, which get better for longer than polynomials do."""
        least_error = self.error
        model = self.build(functions="neurons", depth=3)
        if isinstance(model, str) and self.best is None:
            raise InputError(model)
        if isinstance(model, str) or self.used >= self.total:
            return
        error = self.train(model, 0.1)
        left = 1 - self.used / self.total
        if least_error < error < 4 * least_error and left > 0:
            self.train(model, left / 2)


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
