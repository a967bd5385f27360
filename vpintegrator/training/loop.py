"""The training loop: one for all optimizers, stopped and resumed at the end of any epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from vpintegrator.compiled import CompiledResidual
from vpintegrator.models import Integrator
from vpintegrator.runtime.deadline import BEYOND, TimeIsUp, unhurried, until
from vpintegrator.runtime.interrupts import HeldBack, held_back
from vpintegrator.training import processes
from vpintegrator.training.history import Budget, History
from vpintegrator.training.optimizers.base import Optimizer
from vpintegrator.training.optimizers.state import State, Tensors
from vpintegrator.training.residuals import ErrorScale, relative_error

_EXPLODED = 100.0  # times the best error so far
_ROLLBACKS = 5


@dataclass(frozen=True)
class TrainingState:
    """A training between two epochs.

    Attributes
    ----------
    model
        Weights and all else that a model keeps.
    optimizer
        The optimizer's state.
    generator
        State of the random numbers.
    """

    model: Tensors
    optimizer: State
    generator: torch.Tensor


class Training:
    """A model that is being trained, with all that changes on the way.

    An epoch may be cut short at any point: history, best weights and :attr:`training_state` are
    those at the end of the last whole epoch.

    Parameters
    ----------
    model, optimizer
        The optimizer works on this model. It is in evaluation mode from now on, but for the steps
        of first-order methods.
    generator
        Random numbers of the optimizer.
    held_out
        Pairs of windows by which the best weights are chosen.
    history
        Empty, to be filled.
    compiled
        The residuals as machine code.
    scale
        The size that errors are relative to.

    Attributes
    ----------
    best
        The weights of least validation error so far.
    moment
        State from which a resumed training continues.
    """

    def __init__(
        self,
        model: Integrator,
        optimizer: Optimizer,
        generator: torch.Generator,
        held_out: tuple[torch.Tensor, torch.Tensor],
        history: History,
        compiled: CompiledResidual | None = None,
        *,
        scale: ErrorScale,
    ) -> None:
        self.compiled, self.scale = compiled, scale
        self.model, self.optimizer, self.generator = model, optimizer, generator
        self.held_out, self.history = held_out, history
        model.eval()
        self.best = self._weights()
        self.training_state = self._now(self.best)

    def run(
        self,
        budget: Budget,
        after_epoch: Callable[[Training], None] | None = None,
        start: float | None = None,
    ) -> None:
        """Train until the budget is used up; end with the best weights.

        Parameters
        ----------
        budget
            Budget of all epochs, including those before a checkpoint.
        after_epoch
            Called after every epoch.
        start
            Value of ``time.perf_counter`` from which the seconds count, if not from now on.

        Raises
        ------
        KeyboardInterrupt
            At any point; with several processes at the end of an epoch, in all of them at once.
        LostProcess
            If one of several processes is gone.
        """
        if start is None:
            start = time.perf_counter() - self.history.used
        like, alone = self.model.scale, processes.count() == 1
        if self.history.stopped_by != "divergence":  # a larger budget does not help
            self.history.stopped_by = budget.ended(self.history)
        # several processes wait for one another, so that none may leave alone
        waiting: AbstractContextManager[HeldBack | None] = nullcontext() if alone else held_back()
        with waiting as held:
            while not self.history.stopped_by:
                used = processes.first_says(time.perf_counter() - start, like)
                try:
                    with until(self._latest(budget, start)):
                        errors = self._epoch(budget.share(self.history.epochs, used))
                except TimeIsUp:
                    self.history.stopped_by = "seconds"
                    self._judge_as_it_is()
                    break
                used, interrupted = processes.agree(time.perf_counter() - start, bool(held), like)
                with held_back():
                    self._note(used, *errors, budget)
                    own = self.history.stopped_by or self.optimizer.finished
                    self.history.stopped_by = own or budget.ended(self.history)
                if interrupted and held is not None:
                    held.forget()
                    raise KeyboardInterrupt
                if after_epoch:
                    after_epoch(self)
        self.model.load_state_dict(self.best)
        self.model.eval()

    def _judge_as_it_is(self) -> None:
        """Keep the weights of an epoch that was left where there are no others."""
        if math.isfinite(self.history.best_validation_error):
            return
        with unhurried():
            error = relative_error(self.model, *self.held_out, scale=self.scale)
        if math.isfinite(error):
            self.begin_from(self._weights(), error)

    def _latest(self, budget: Budget, start: float) -> float:
        """Return the time at which an epoch is interrupted; never the first epoch, or with several
        processes.
        """
        nothing = math.isinf(self.history.best_validation_error)
        if nothing or budget.seconds is None or processes.count() > 1:
            return math.inf
        return start + BEYOND * budget.seconds

    def _epoch(self, progress: float) -> tuple[float, float]:
        """Return errors of training and validation after one more epoch."""
        distance = self.optimizer.epoch(progress)
        error = relative_error(self.model, *self.held_out, self.compiled, self.scale)
        return distance / (self.scale.spread or 1.0), error

    def _note(self, used: float, training_error: float, error: float, budget: Budget) -> None:
        """The end of an epoch."""
        history = self.history
        before = history.best_validation_error
        weights = self._weights()
        if history.add(used, training_error, error):
            self.best = weights
        if math.isfinite(training_error + error) and error < _EXPLODED * max(before, 0.01):
            self.optimizer.observe(training_error, error)
        else:
            weights = self._roll_back()
        history.windows = self.optimizer.windows
        history.share = budget.share(history.epochs, used)
        self.training_state = self._now(weights)

    def _roll_back(self) -> Tensors:
        """Return to the best weights after the error exploded, or give up after a few times."""
        if self.history.rollbacks == _ROLLBACKS:
            self.history.stopped_by = "divergence"
        else:
            self.history.rollbacks += 1
            self.model.load_state_dict(self.best)
            self.optimizer.roll_back()
        return self.best

    def restore(self, training_state: TrainingState, history: History, best: Tensors) -> None:
        """Go on from an earlier moment."""
        self.history = history
        self.model.load_state_dict(training_state.model)
        self.optimizer.restore(training_state.optimizer)
        training_state.optimizer.all_taken()
        self.generator.set_state(training_state.generator)
        self.best, self.training_state = self._here(best), training_state

    def begin_from(self, best: Tensors, error: float) -> None:
        """Take weights, of a validation error, as the best so far."""
        self.best, self.history.best_validation_error = self._here(best), error

    def _now(self, weights: Tensors) -> TrainingState:
        state = State.of(self.optimizer.state())
        return TrainingState(weights, state, self.generator.get_state())

    def _here(self, tensors: Tensors) -> Tensors:
        return {name: tensor.to(self.model.scale.device) for name, tensor in tensors.items()}

    def _weights(self) -> Tensors:
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
