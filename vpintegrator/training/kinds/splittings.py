"""Learned splittings: exact flows of the parts of known equations, with trained times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.models import Model
from vpintegrator.nn.exact_flows import LearnedSplitting
from vpintegrator.training.choice import Fit
from vpintegrator.training.kinds.kind import (
    Budget,
    Kind,
    Sizes,
    Trial,
    count,
    forms,
    why_not_complete,
)
from vpintegrator.training.training_data import TrainingData


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
class Splittings(Kind):
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
    rounding: float = 2e-15
    name: ClassVar[str] = "splittings"

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why the equations have no splitting, or None."""
        system = data.system
        if not system.has_formulas or system.is_discrete or data.dataset.is_family:
            return "no equations of one step and one set of parameters are known"
        if not forms(data):
            return "the flow changes volumes"
        model = self.build(data, "split", 0, {"stages": 1, **self.options})
        return why_not_complete(data) or (model if isinstance(model, str) else None)

    def models(self, data: TrainingData, fits: Sequence[Fit], budget: Budget) -> Iterator[Trial]:
        """Yield splittings as long as one of the last two halved the error."""
        sizes, needed = Sizes(), 0.0
        schemes = self._schemes(data, budget)
        for scheme in schemes:
            if scheme.stages < needed and scheme is not schemes[-1]:
                continue
            model = self.build(data, "split", budget.seed, {"stages": scheme.stages})
            assert isinstance(model, Model)
            splitting_of(model).begin_as(scheme.factors)
            size = f"{scheme.stages} stages begun as {scheme.method}, {count(model)} coefficients"
            training = {"initial_scheme": "none"}
            yield Trial(model, size, self.iterations, self.patience, training)
            if sizes.end(fits[-1].error, 2, budget.target):
                return
            if not splitting_of(model).commutators.numel() and budget.target is None:
                needed = scheme.stages * (fits[-1].error / self.rounding) ** (1 / self.order)

    def _schemes(self, data: TrainingData, budget: Budget) -> Sequence[Scheme]:
        model = self.build(data, "split", 0, {"stages": 1, **self.options})
        assert isinstance(model, Model)
        schemes = SCHEMES if budget.target is None else (*COARSE, *SCHEMES)
        if splitting_of(model).commutators.numel():
            schemes = WITH_COMMUTATORS
        stages = self.options.get("stages")
        if stages is None:
            return schemes
        named = [each for each in (*schemes, *COARSE) if each.stages == stages]
        return named[:1] or [Scheme(stages)]


def splitting_of(model: Model) -> LearnedSplitting:
    """Return the layer of a splitting."""
    assert isinstance(model.core, LearnedSplitting)
    return model.core
