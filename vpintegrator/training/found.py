"""What a search for a model ends with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from vpintegrator.models import Integrator
from vpintegrator.training.cheapest import Cheapest
from vpintegrator.training.history import Budget, History


@dataclass
class Found:
    """What a search ended with.

    Attributes
    ----------
    model
        That of the smallest validation error, trained as far as the search went; an earlier one
        if others are not better by a tenth, and one whose attention is trained if that brings its
        orbits nearer to those of the data.
    error
        Its validation error.
    history
        Of its last training.
    tried
        A line for each model: sizes, parameters and validation error.
    seconds, epochs
        Used by the search.
    ended
        ``target``, ``interrupt`` or ``lost process`` if nothing is left to do; else empty.
    complete
        Whether further training changes nothing: the model is the result of a linear solve, or as
        good as one.
    rival
        Another model that is to be kept if training does not make this one better.
    cheapest
        All candidates, where the cheapest one below an error was asked for.
    """

    model: Integrator
    error: float
    history: History
    tried: list[str] = field(default_factory=list)
    seconds: float = 0.0
    epochs: int = 0
    ended: str = ""
    complete: bool = False
    rival: Found | None = None
    cheapest: Cheapest | None = None

    def left(self, budget: Budget) -> Budget:
        """What a budget has left after the search, for the training of its model."""
        return replace(
            budget,
            seconds=budget.seconds and max(budget.seconds - self.seconds, 0.1),
            epochs=budget.epochs and max(budget.epochs - self.epochs, 1),
        )
