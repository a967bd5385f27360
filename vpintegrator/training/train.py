"""Training a neural integrator on a dataset: one call and one loop for all optimizers."""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from contextlib import suppress
from typing import Any

import torch

from vpintegrator.arguments import grouped
from vpintegrator.compiled import CompiledResidual
from vpintegrator.data import Dataset
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator, wrap
from vpintegrator.models.one_step import simplified
from vpintegrator.models.wrapped import check_model, is_own
from vpintegrator.runtime.deadline import BEYOND, TimeIsUp, ending_of, unhurried, until
from vpintegrator.runtime.interrupts import held_back
from vpintegrator.runtime.threads import torch_threads
from vpintegrator.training.history import Budget, History, NothingLearned, Show, shown
from vpintegrator.training.initial_scheme import start_as_splitting
from vpintegrator.training.method import Execution, Method, compile_for_training
from vpintegrator.training.output import Files, save_somewhere
from vpintegrator.training.residuals import Objective, doubt, relative_error
from vpintegrator.training.training_data import TrainingData

_EXPLODED = 100.0  # times the best error so far
_ROLLBACKS = 5


@grouped(method=Method, budget=Budget, objective=Objective, execution=Execution, files=Files)
def train(
    model: Integrator | torch.nn.Module,
    dataset: TrainingData | Dataset | str | os.PathLike[str],
    *,
    method: Method,
    budget: Budget,
    objective: Objective,
    normalise: bool = True,
    execution: Execution,
    files: Files,
    progress: Show | bool | None = None,
) -> History:
    """Train ``model`` in place; it ends with the weights of least validation error.

    Every argument but the first two is named. The groups ``method``, ``budget``, ``objective``,
    ``execution`` and ``files`` may be given whole as well.

    Parameters
    ----------
    model
        A neural integrator for states of the dataset's dimension; or a torch module that maps
        states (n, dim) to the next ones, whose parameters are trained in place (see
        :func:`vpintegrator.wrap` for windows).
    dataset
        A dataset or the path of one. Windows of its group ``train`` are used; of groups of more
        than 16 MiB of states random parts are read, and more as they are needed.
    optimizer
        Name out of ``vpintegrator.training.OPTIMIZERS``, or ``auto``. In double precision ``auto``
        is Levenberg-Marquardt up to 5,000 parameters. Beyond them, in single precision and with
        batch norm it is Adam.
    seconds, epochs, target, patience
        The budget: training ends when either is used up, at a validation error of ``target``, or
        when that error has not fallen by a tenth in so many epochs as ``patience`` says. An epoch
        that goes on for more than a tenth of the seconds beyond them is left. Of a first epoch that
        is left the weights are kept that it has reached: those at its beginning, and with Adam
        those of its steps so far.
        150 seconds if neither of the first two is given.
    loss, horizon, noise
        Objective, see :class:`vpintegrator.training.residuals.Objective`.
    initial_scheme
        The classical splitting method that polynomials begin as, if it errs less than their own
        weights: "auto", "none" or a name of ``vpintegrator.dynamics.compositions.FACTORS``, see
        :func:`vpintegrator.training.initial_scheme.start_as_splitting`.
    batch
        Windows in a step; each optimizer has a default.
    learning_rate
        Initial learning rate of first-order methods such as Adam.
    seed
        Seed of the choice and order of windows.
    normalise
        Set the model's normalisation to mean and standard deviation of the training states.
    device
        Device of the training, on which the model remains.
    compiled
        Whether residuals and their derivatives are computed as machine code (see
        ``vpintegrator.compiled``), equal up to rounding and some ten times faster, after seconds of
        compilation when a model is seen for the first time. By default where that is possible and
        takes less than half of the budget; ``not_compiled`` of the history says why not.
    output, overwrite
        File for the trained model, and whether it may exist. Where it cannot be written in the
        end, the model is kept in another place, which the error names.
    progress
        Called after every epoch; or True for a bar on standard error, False for none. By default
        there is a bar where standard error is a terminal.

    Returns
    -------
    History
        An interrupt (Ctrl-C) ends training early, and is noted there. If not even an epoch was done
        by then, no file is written.

    Raises
    ------
    InputError
        If model and dataset do not fit, an argument is wrong, the file cannot be written, or no
        validation error was finite: then no model is written.
    KeyboardInterrupt
        If it comes before training has begun, or while the result is written (which is finished).

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "swing.h5", count=20, steps=20, overwrite=True)
    >>> model = vp.models.VolumePreservingFeedForward(dim=2, depth=2, functions="polynomial")
    >>> history = vp.train(model, dataset, epochs=20)
    >>> history.best_validation_error < 1e-3
    True
    """
    data = TrainingData.of(dataset)
    model = _as_model(model, data)
    data.check(model)
    training = _Training(model, data, method, budget, objective, execution)
    with files.claimed():
        training.prepare(normalise)
        return training.finish(training.run(progress), files)


class _Training:
    """Training of a model: preparation, epochs, and the model in the end.

    An epoch may be cut short at any point: history and best weights are those at the end of the
    last whole epoch.

    Attributes
    ----------
    kind
        Class of the optimizer.
    trained
        The model, or its map of single states if its attention is the identity.
    best
        The weights of least validation error so far; empty before the optimizer is made.
    """

    def __init__(
        self,
        model: Integrator,
        data: TrainingData,
        method: Method,
        budget: Budget,
        objective: Objective,
        execution: Execution,
    ) -> None:
        self.start = time.perf_counter()
        self.model, self.data, self.method, self.objective = model, data, method, objective
        self.kind = method.chosen(model, execution.compiled)
        self.execution, self.budget = execution, budget.or_default()
        count = sum(p.numel() for p in model.parameters())
        self.history = History(self.kind.name, method.seed, count, device=str(execution.device))
        self.best: dict[str, torch.Tensor] = {}

    def prepare(self, normalise: bool) -> None:
        """Read what is needed, and give the model its first weights and its device."""
        model = self.model
        if normalise:
            self.data.normalise(model)
            if "training" not in model.metadata:  # untrained
                with suppress(TimeIsUp), until(self._end):
                    start_as_splitting(model, self.data, self.method.initial_scheme)
        model.to(self.execution.device)
        self.trained = simplified(model, fixed=True)
        with until(self._end):
            self.pairs = self.kind.pairs_of(self.data, self.trained, self.objective)
        self.held_out = self.data.held_out(self.trained)
        self.scale = self.data.error_scale
        self.data.check_test(model)

    def run(self, progress: Show | bool | None) -> str:
        """Train until the budget is used up; return what ended it early, if anything did."""
        history = self.history
        try:
            machine, self.history.not_compiled = self._compiled()
            with torch_threads(), shown(progress) as show, until(self._end):
                self._begin(machine)
                while not history.stopped_by:
                    try:
                        errors = self._epoch()
                    except TimeIsUp:
                        history.stopped_by = "seconds"
                        self._judge_as_it_is()
                        break
                    with held_back():
                        self._note(*errors)
                    if show is not None:
                        show(history)
        except KeyboardInterrupt as interruption:
            return ending_of(interruption)
        return ""

    def finish(self, ending: str, files: Files) -> History:
        """Give the model its best weights, judge it, and write it."""
        model, history = self.model, self.history
        with held_back() as held, torch_threads():
            history.stopped_by = ending or history.stopped_by
            if self.best:
                self.trained.load_state_dict(self.best)
                self.trained.eval()
            self._check()
            if history.epochs or math.isfinite(history.best_validation_error):
                history.test_error = self.data.test_error(model)
                history.warning = doubt(self.trained, self.held_out, self.scale, history)
                if history.warning:
                    warnings.warn(history.warning, stacklevel=4)
                self.data.describe(model)
                model.metadata["training"] = json.dumps(history.summary())
                if files.output is not None:
                    save_somewhere(model, files.output, files.overwrite)
            if ending:
                held.forget()  # the interrupt asks again for an end that is reached
        return history

    @property
    def _end(self) -> float:
        """Return the time at which even the first epoch ends."""
        seconds = self.budget.seconds
        return math.inf if seconds is None else self.start + BEYOND * seconds

    def _compiled(self) -> tuple[CompiledResidual | None, str]:
        """Return the machine code of the training, or None and the reason."""
        batch = self.method.batch or self.kind.default_batch(self.trained, self.objective)
        try:
            with until(self._end):
                return compile_for_training(
                    self.trained,
                    self.objective,
                    self.kind,
                    self.execution,
                    seconds=self.budget.seconds,
                    epochs=self.budget.epochs,
                    steps=self.kind.steps(len(self.pairs), batch),
                )
        except TimeIsUp:
            return None, "the time was up before its machine code was ready"

    def _begin(self, machine: CompiledResidual | None) -> None:
        """Make the optimizer, whatever the time; a model that was trained before loses nothing."""
        method, model = self.method, self.trained
        with held_back(), unhurried():
            self.machine, self.history.compiled = machine, machine is not None
            self.optimizer = self.kind(
                model,
                self.pairs,
                self.objective,
                batch=method.batch,
                generator=torch.Generator().manual_seed(method.seed),
                compiled=machine,
                **method.options,
            )
            model.eval()
            self.best = self._weights()
            if "training" in model.metadata:
                error = relative_error(model, *self.held_out, scale=self.scale)
                self.history.best_validation_error = error
            self.history.stopped_by = self.budget.ended(self.history)

    def _epoch(self) -> tuple[float, float]:
        """Return errors of training and validation after one more epoch."""
        nothing = math.isinf(self.history.best_validation_error)  # the first one is not cut short
        with until(math.inf if nothing else self._end):
            used = time.perf_counter() - self.start
            distance = self.optimizer.epoch(self.budget.share(self.history.epochs, used))
            error = relative_error(self.trained, *self.held_out, self.machine, self.scale)
        return distance / (self.scale.spread or 1.0), error

    def _note(self, training_error: float, error: float) -> None:
        """Keep the weights of an epoch if they are the best, and see whether training ends."""
        history, used = self.history, time.perf_counter() - self.start
        before = history.best_validation_error
        if history.add(used, training_error, error):
            self.best = self._weights()
        if math.isfinite(training_error + error) and error < _EXPLODED * max(before, 0.01):
            self.optimizer.observe(training_error, error)
        elif history.rollbacks == _ROLLBACKS:
            history.stopped_by = "divergence"
        else:
            history.rollbacks += 1
            self.trained.load_state_dict(self.best)
            self.optimizer.roll_back()
        history.windows = self.optimizer.windows
        history.share = self.budget.share(history.epochs, used)
        own = history.stopped_by or self.optimizer.finished
        history.stopped_by = own or self.budget.ended(history)

    def _judge_as_it_is(self) -> None:
        """Keep the weights of an epoch that was left where there are no others."""
        if math.isfinite(self.history.best_validation_error):
            return
        with unhurried():
            error = relative_error(self.trained, *self.held_out, scale=self.scale)
        if math.isfinite(error):
            self.best, self.history.best_validation_error = self._weights(), error

    def _check(self) -> None:
        """Refuse weights of no finite error; where every epoch exploded the first ones are kept."""
        history = self.history
        if not history.epochs or math.isfinite(history.best_validation_error):
            return
        with unhurried():
            error = relative_error(self.trained, *self.held_out, scale=self.scale)
        if not math.isfinite(error):
            raise NothingLearned(self.model.name, history)
        history.best_validation_error = error

    def _weights(self) -> dict[str, torch.Tensor]:
        return {name: tensor.clone() for name, tensor in self.trained.state_dict().items()}


def _as_model(model: Any, data: TrainingData) -> Integrator:
    """Return the model, or one that shares the parameters of a torch module."""
    check_model(model, "model")
    if is_own(model):
        model = wrap(model, data.dataset.dim, data.dataset.step)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"{model.name} has no parameters to train")
    return model
