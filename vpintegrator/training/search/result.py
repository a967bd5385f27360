"""Result of a search for a model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from vpintegrator.models import Integrator
from vpintegrator.training.history import History
from vpintegrator.training.search.cheapest import Cheapest
from vpintegrator.training.search.options import Budget


@dataclass
class SearchResult:
    """Result of a search for a model.

    Attributes
    ----------
    model
        Model with the smallest validation error, trained as far as the search went. An earlier
        model is preferred unless a later one is better by a tenth. Trained attention is preferred
        if it brings orbits nearer to the data.
    error
        Validation error of the model.
    history
        History of the model's last training.
    tried
        A line for each model: sizes, parameters and validation error.
    seconds, epochs
        Seconds and epochs that the search used.
    ended
        ``target`` or ``interrupt`` if nothing is left to do; else empty.
    complete
        Whether further training changes nothing, as after a linear solve.
    rival
        Model to keep instead, unless training makes the model better.
    summary
        Each kind of model that was tried with its error, and why one was taken, in a line.
    noun
        Name of the kind of model in sentences: "the generating function".
    cheapest
        All candidates, if the cheapest model below an error was asked for.
    typical
        Leave-one-out error without the largest twentieth, of few single pairs.
    """

    model: Integrator
    error: float
    history: History
    tried: list[str] = field(default_factory=list)
    seconds: float = 0.0
    epochs: int = 0
    ended: str = ""
    complete: bool = False
    rival: SearchResult | None = None
    summary: str = ""
    noun: str = ""
    cheapest: Cheapest | None = None
    typical: float | None = None

    @property
    def compared(self) -> float:
        """Error by which kinds of models are compared."""
        return self.error if self.typical is None else self.typical

    @property
    def least(self) -> float:
        """Error of this model or its rival, by which structures are compared."""
        return min(self.compared, math.inf if self.rival is None else self.rival.compared)

    def left(self, budget: Budget) -> Budget:
        """Return the remaining budget after the search."""
        return replace(
            budget,
            seconds=budget.seconds and max(budget.seconds - self.seconds, 0.1),
            epochs=budget.epochs and max(budget.epochs - self.epochs, 1),
        )
