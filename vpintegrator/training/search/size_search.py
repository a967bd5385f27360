"""Search among the sizes of one kind of model: its lines, and its result."""

from __future__ import annotations

import json
import math

from vpintegrator.models import Integrator
from vpintegrator.runtime.deadline import unhurried
from vpintegrator.training.history import History
from vpintegrator.training.residuals import doubt, relative_error
from vpintegrator.training.search.options import Make, SearchOptions, making
from vpintegrator.training.search.result import SearchResult
from vpintegrator.training.training_data import TrainingData

_LAST = ("interrupt", "target")  # endings after which nothing more is tried


class SizeSearch:
    """Search among the sizes of one kind of model.

    Parameters
    ----------
    make
        The untrained model of some arguments.
    data
        Training data.
    options
        Options of the search.

    Attributes
    ----------
    tried
        A line for each model.
    """

    def __init__(self, make: Make, data: TrainingData, options: SearchOptions) -> None:
        self.make, self.data, self.options = making(make), data, options
        self.tried: list[str] = []

    def note(self, line: str) -> None:
        """Tell about a model that was tried."""
        self.options.tell(line)
        self.tried.append(line)

    def validation_error(self, model: Integrator) -> float:
        """Return the error on the validation windows; infinite if some states have no image."""
        with unhurried():
            error = relative_error(model, *self.data.held_out(model), scale=self.data.error_scale)
        return math.inf if math.isnan(error) else error

    def solved(self, model: Integrator, error: float, history: History, ended: str) -> SearchResult:
        """Return a model that nothing is left to train of, after it is judged and described."""
        history.best_validation_error = error
        history.test_error = self.data.test_error(model)
        held_out = self.data.held_out(model)
        history.warning = doubt(model, held_out, self.data.error_scale, history)
        history.stopped_by = ended or "solved"
        self.data.describe(model)
        model.metadata["training"] = json.dumps(history.summary())
        return self.found(SearchResult(model, error, history, epochs=history.epochs), ended)

    def found(self, best: SearchResult, ended: str) -> SearchResult:
        """Return the result, with all that was tried."""
        best.model.metadata["search"] = json.dumps(self.tried)
        best.tried, best.seconds, best.complete = self.tried, self.options.used, True
        best.ended = ended if ended in _LAST else ""
        return best
