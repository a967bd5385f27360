"""Maps with a parameter of each orbit that nobody wrote down."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vpintegrator.errors import InputError
from vpintegrator.models.hidden_parameter import HiddenParameterMap
from vpintegrator.training.hidden_parameter import FEWEST, SHORTEST, HiddenParameters, find_hidden
from vpintegrator.training.kinds.kind import ModelKind, Sizes, count
from vpintegrator.training.results import TOLERANCES, Fit
from vpintegrator.training.trainer import Trainer
from vpintegrator.training.training_data import TrainingData


@dataclass(frozen=True)
class HiddenParameterMaps(ModelKind):
    """Polynomial maps with a hidden parameter, by degree, then by the length of the window.

    Attributes
    ----------
    coefficients
        Most coefficients for each component, some ten seconds.
    highest
        Largest degree.
    gain
        Factor by which the parameter must lower the error of polynomials.
    judged
        Degree up to which it must do so.
    shortest, longest
        States of the windows that are tried.
    longer
        Part of the error to which a longer window must lower it.
    incomplete
        Error of maps of single states above which orbits may differ in a parameter.
    """

    coefficients: int = 1_200
    highest: int = 12
    gain: float = 5.0
    judged: int = 5
    shortest: int = 2
    longest: int = 16
    longer: float = 0.9
    incomplete: float = 1e-6
    name: ClassVar[str] = "hidden parameters"
    structured: ClassVar[bool] = False
    of_observations: ClassVar[bool] = True
    architecture: ClassVar[str] = "hidden-parameter"

    def admits(self, data: TrainingData) -> str | None:
        """Return the reason why these orbits show no parameter, or None."""
        if reason := self.unsuited(data):
            return reason
        orbits, times, _ = data.dataset.shapes["train"]
        if orbits < FEWEST or times < SHORTEST:
            return f"a hidden parameter shows in {FEWEST} or more orbits of {SHORTEST} states"
        return super().admits(data)

    def is_needed(self, data: TrainingData, fits: Sequence[Fit]) -> bool:
        """Whether no map of single states follows the data, and no window does to 1e-9."""
        single = [fit.error for fit in fits if fit.model.window == 1]
        every = [fit.error for fit in fits if not fit.segment]
        is_incomplete = min(single, default=1.0) > self.incomplete
        return is_incomplete and min(every, default=1.0) > TOLERANCES.good

    def search(self, data: TrainingData, train: Trainer, fits: Sequence[Fit]) -> None:
        """Raise the degree while the error falls by a half, then the length of the window."""
        given = self.arguments.get("degree")
        sizes = Sizes()
        found: HiddenParameters | None = None
        made: list[Fit] = []
        is_seen = False
        last = self.highest if given is None else given
        for degree in range(min(2, last), last + 1):
            start = time.perf_counter()
            try:
                model = self._model(data, train, {"degree": degree, "window": self.shortest})
                if given is None and count(model) > self.coefficients * model.dim:
                    break
                data.normalise(model)
                found = find_hidden(model, data, found)
            except InputError:
                if not made:
                    raise
                break  # too few orbits, or too many terms
            is_seen = is_seen or found.fit.error * self.gain <= found.without
            if given is None and degree == self.judged and not is_seen:
                return
            if given is None or degree == given:
                words = "variable projection"
                made.append(train.solved(model, _size(model), found.fit, start, words))
                if sizes.end(made[-1].error, 2, train.budget.target):
                    break
        if not made:  # too many terms
            return
        best = min(made, key=lambda fit: fit.error)
        if "window" not in self.arguments and best.judged_by == "held out":
            self._windows(best, data, train)

    def _windows(self, best: Fit, data: TrainingData, train: Trainer) -> None:
        """Let maps with the same coefficients read longer windows, while the error falls."""
        assert isinstance(best.model, HiddenParameterMap)
        longest = min(self.longest, data.dataset.shapes["train"][1] - 1)
        window = best.model.window + 1
        error = best.error
        while window <= longest:
            arguments = {**best.model.arguments, "window": window}
            model = self._model(data, train, arguments)
            data.normalise(model)
            model.load_state_dict(best.model.state_dict())
            model.record = best.model.record
            own, deviation = data.held_out_error(model)
            train.record(model, _size(model), own, deviation, best.history)
            if own > self.longer * error:
                return
            error = own
            window = 2 * (window - 1)

    def _model(
        self, data: TrainingData, train: Trainer, arguments: dict[str, Any]
    ) -> HiddenParameterMap:
        model = self.build(data, self.architecture, train.seed, arguments)
        assert isinstance(model, HiddenParameterMap)
        return model


def _size(model: HiddenParameterMap) -> str:
    """Return window, degree and coefficients in words."""
    return f"window {model.window}, degree {model.core.degree}, {count(model)} coefficients"
