"""Cheapest of the cheapest model below an error."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.one_step import simplified
from vpintegrator.training.performance import Performance, cost_of_model, read_performances
from vpintegrator.training.training_data import TrainingData

KEY = "fastest"  # key of the metadata


@dataclass(frozen=True)
class Cheapest:
    """Candidates, of which the cheapest one below an error is taken.

    Attributes
    ----------
    limit
        Largest error one step ahead that is allowed.
    candidates
        Validation error of each model and the cost of its step.
    """

    limit: float
    candidates: list[Performance]

    @property
    def place(self) -> int:
        """Number of the candidate that is taken: that of least error where none is below."""
        rows = self.candidates
        below = [i for i, row in enumerate(rows) if row.error <= self.limit]
        if not below:
            return min(range(len(rows)), key=lambda i: rows[i].error)
        # unknown costs are those of long maps
        return min(below, key=lambda i: (_known(rows[i].cost), rows[i].error))

    @property
    def sentence(self) -> str:
        """Return which candidate is taken, and why."""
        taken = self.candidates[self.place]
        if not taken.error <= self.limit:
            return (
                f"No map errs by at most {self.limit:g}: the one of least error is kept, "
                f"{taken.name}, {taken.error:.1e}."
            )
        if not math.isfinite(taken.cost):
            return (
                f"The cost of no map below {self.limit:g} is known: the one of least error is "
                f"kept, {taken.name}."
            )
        return f"The cheapest map below {self.limit:g}: {taken.cost * 1e9:,.3g} ns, {taken.name}."

    @property
    def text(self) -> str:
        """JSON text of the candidates, stored in model files."""
        rows = [row.row for row in self.candidates]
        return json.dumps({"limit": self.limit, "candidates": rows, "taken": self.place})

    @classmethod
    def from_text(cls, text: str, where: str) -> Cheapest:
        """Return what ``text`` wrote.

        Raises
        ------
        InputError
            If it is no such text; says ``where`` it stands.
        """
        found, rows = read_performances(text, where, "candidates")
        limit = found.get("limit")
        if not isinstance(limit, (int, float)):
            raise InputError(f"{where} is not what a training writes")
        if not rows:
            raise InputError(f"{where} names no candidate")
        return cls(float(limit), rows)

    def trained(self, error: float) -> Cheapest:
        """Return the same with another error of the last candidate, which was trained on."""
        *others, last = self.candidates
        return replace(self, candidates=[*others, replace(last, error=error)])


def compare_costs(
    models: Sequence[tuple[Integrator, float]], data: TrainingData, limit: float
) -> Cheapest:
    """Measure the cost of a step of each model.

    Parameters
    ----------
    models
        Models with their validation errors.
    data
        Training data of the models.
    limit
        Largest error that is allowed.
    """
    rows = []
    for model, error in models:
        alone = simplified(model)  # as rollouts do
        cost = cost_of_model(alone, data.held_out(alone)[0])
        rows.append(Performance(_words(model), error, cost))
    return Cheapest(limit, rows)


def _words(model: Integrator) -> str:
    """Return words that tell a model from the other candidates."""
    given = model.arguments
    parts = [model.name]
    if "stages" in given:
        return f"{model.name}, {given['stages']} stages"
    if "hamiltonian" in given:
        parts.append("exact terms")
    if given.get("expressions"):
        parts.append("functions of the system")
    if "degree" not in given:
        parts.append("neurons")
    parts += [f"{name} {given[name]}" for name in ("degree", "depth") if name in given]
    if given.get("repeats", 1) > 1:
        parts.append(f"{given['repeats']} maps in a row")
    return ", ".join(parts)


def _known(cost: float) -> float:
    return cost if math.isfinite(cost) else math.inf
