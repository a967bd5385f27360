"""Training after the training: orbits of noisy states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vpintegrator.cli.common import console, progress_bar

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.models import Integrator
    from vpintegrator.training import Budget, History
    from vpintegrator.training.search.options import SearchOptions

_FURTHER = 0.5  # of the budget of the training, spent in addition


@dataclass(frozen=True)
class Further:
    """Training that is asked for after the training.

    Attributes
    ----------
    orbits
        Steps of the orbits that a model is fitted to, None or 0 for none.
    """

    orbits: int | None = None

    def train(
        self,
        network: Integrator,
        data: Dataset,
        history: History,
        options: SearchOptions,
        path: Path,
    ) -> History:
        """Train a model on; an interrupt leaves it as it was written."""
        budget = replace(options.budget, target=None, patience=None).or_default().part(_FURTHER)
        try:
            if self.orbits and history.stopped_by != "interrupt":
                history = _fit_orbits(network, data, self.orbits, budget, history, path)
        except KeyboardInterrupt:
            return replace(history, stopped_by="interrupt")
        return history


def _fit_orbits(
    network: Integrator, data: Dataset, length: int, budget: Budget, history: History, path: Path
) -> History:
    """Fit a trained model to segments of orbits, and write it again."""
    from vpintegrator.models import save
    from vpintegrator.training import fit_orbits

    limits = {} if budget.epochs is None else {"epochs": budget.epochs}
    with progress_bar() as bar:
        task = bar.add_task("orbits", total=None)

        def show(iteration: int, distance: float) -> None:
            bar.update(task, description=f"orbits: {distance:.2g} after {iteration} iterations")

        fit = fit_orbits(network, data, length, seconds=budget.seconds, progress=show, **limits)
    save(network, path, overwrite=True)
    train, validation = (errors[fit.best - 1] for errors in (fit.training, fit.validation))
    console().print(
        f"  fitted to {fit.segments[0]:,} segments of {fit.length} steps: observations lie "
        f"{train:.2g} standard deviations off, {validation:.2g} in the validation group",
        soft_wrap=True,
    )
    return replace(history, best_validation_error=fit.validation_error, test_error=fit.test_error)
