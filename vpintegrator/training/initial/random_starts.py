"""Random starts, and the training of the best of them: each is a training of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from vpintegrator.models import Integrator
from vpintegrator.runtime.interrupts import held_back
from vpintegrator.training.checkpoint import Checkpoint, Stage
from vpintegrator.training.history import Budget, History
from vpintegrator.training.loop import Training
from vpintegrator.training.optimizers.state import Tensors


class Stages:
    """All that is trained, one after another.

    With several random starts half of the budget goes to as many trials, and the best of them gets
    the other half.

    Parameters
    ----------
    model
        The first of the starts, and in the end the result.
    prepare
        Makes the training of a model.
    budget
        Budget of all stages together.
    restarts
        Number of starts.
    seed
        Seed of the weights of all starts but the first.
    start
        Value of ``time.perf_counter`` from which the seconds count.
    saved
        Checkpoint from which to continue.

    Attributes
    ----------
    stage
        Number of finished trials, and their epochs and seconds.
    kept
        The best weights of these.
    training
        At work, if any is.
    """

    def __init__(
        self,
        model: Integrator,
        prepare: Callable[[Integrator], Training],
        budget: Budget,
        restarts: int,
        seed: int,
        start: float,
        saved: Checkpoint | None,
    ) -> None:
        self.model, self.prepare, self.budget = model, prepare, budget
        self.trials = restarts if restarts > 1 else 0
        self.seed, self.start, self.saved = seed, start, saved
        self.stage = saved.stage if saved else Stage()
        self.kept: Tensors = saved.kept if saved else {}
        self.training: Training | None = None

    @property
    def in_trial(self) -> bool:
        """Whether the best start is not known yet."""
        return self.stage.done < self.trials

    @property
    def nothing(self) -> bool:
        """Whether there are no weights yet that training gave, now or before."""
        trained = self.training is not None and (
            self.training.history.epochs > 0
            or math.isfinite(self.training.history.best_validation_error)
        )
        return not (self.stage.done or trained or self.saved)

    def run(self, after_epoch: Callable[[Training], None]) -> None:
        """Train until the budget is used up.

        Raises
        ------
        KeyboardInterrupt, LostProcess
            At any point. What was reached is in the attributes.
        """
        share = self.budget.part(0.5 / self.trials) if self.trials else self.budget
        training = self._begin()
        while self.in_trial:
            training.run(share, after_epoch)
            if training.history.stopped_by == "target":
                return
            with held_back():
                self._keep(training)
                training = self._begin()
        # the seconds count from the call on, the epochs from here on
        epochs = self.budget.epochs and max(self.budget.epochs - self.stage.epochs, 1)
        training.run(replace(self.budget, epochs=epochs), after_epoch, self.start)

    def checkpoint(self, identity: dict[str, Any]) -> Checkpoint:
        """Return all of this, to be written down, as of the end of the last epoch."""
        assert self.training is not None
        training = self.training
        return Checkpoint(
            identity=identity,
            budget=self.budget,
            history=training.history,
            training_state=training.training_state,
            best=training.best,
            stage=self.stage,
            kept=self.kept,
        )

    def settle(self, ending: str) -> History | None:
        """Give the model the best weights of all.

        Parameters
        ----------
        ending
            Why training ends early, if it does.

        Returns
        -------
        History
            History with that reason; None if nothing was begun.
        """
        at_work = self.training or self.saved
        if at_work is None:
            return None
        history, best = at_work.history, at_work.best
        if self.stage.error < history.best_validation_error:
            history = replace(history, best_epoch=0, best_validation_error=self.stage.error)
            best = self.kept
        self.model.load_state_dict(best)
        return replace(history, stopped_by=ending or history.stopped_by)

    def _begin(self) -> Training:
        """Return the training of the stage at hand, as it begins or as it was left."""
        with held_back():
            best_start = self.kept and not self.in_trial
            if best_start:
                self.model.load_state_dict(self.kept)
            training = self.prepare(
                self._candidate(self.stage.done) if self.in_trial else self.model
            )
            if self.saved is not None:
                training.restore(self.saved.training_state, self.saved.history, self.saved.best)
                self.saved = None
            elif best_start:
                training.begin_from(self.kept, self.stage.error)
            self.training = training
        return training

    def _keep(self, training: Training) -> None:
        """The end of a trial."""
        history = training.history
        if history.best_validation_error < self.stage.error or not self.kept:
            self.kept = training.best
        self.stage = Stage(
            done=self.stage.done + 1,
            epochs=self.stage.epochs + history.epochs,
            seconds=time.perf_counter() - self.start,
            error=min(self.stage.error, history.best_validation_error),
        )

    def _candidate(self, number: int) -> Integrator:
        """Return the model of a start."""
        model = self.model
        if number == 0:
            return model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed + number)
            candidate = type(model)(**model.arguments, dtype=model.scale.dtype)
        candidate.normalise_like(model)
        # weights that are not trained are the same in every trial
        for new, old in zip(candidate.parameters(), model.parameters(), strict=True):
            if not old.requires_grad:
                new.requires_grad_(False).data.copy_(old)
        return candidate.to(model.scale.device)
