"""Preparation, epochs and results of one training."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from vpintegrator.compiled import CompiledResidual
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.models.one_step import simplified
from vpintegrator.runtime.deadline import BEYOND, TimeIsUp, ending_of, unhurried, until
from vpintegrator.runtime.devices import AUTO
from vpintegrator.runtime.interrupts import held_back
from vpintegrator.runtime.threads import torch_threads
from vpintegrator.training import processes
from vpintegrator.training.checkpoint import Checkpoint
from vpintegrator.training.compilation import Execution, compile_for_training
from vpintegrator.training.history import Budget, History, NothingLearned
from vpintegrator.training.initial.random_starts import Stages
from vpintegrator.training.initial.splitting import start_as_splitting
from vpintegrator.training.judgement import doubt
from vpintegrator.training.log import logging_to
from vpintegrator.training.loop import Training
from vpintegrator.training.method import BY_NAME, Method
from vpintegrator.training.objective import Objective
from vpintegrator.training.optimizers.base import Optimizer
from vpintegrator.training.optimizers.choice import BY_TIME, by_time, device_for
from vpintegrator.training.output import Files, save_somewhere, sentence
from vpintegrator.training.posterior import set_posterior
from vpintegrator.training.progress import Show, shown
from vpintegrator.training.residuals import relative_error
from vpintegrator.training.stored_checkpoint import load_checkpoint, stored_identity
from vpintegrator.training.training_data import TrainingData


@dataclass
class Trainer:
    """State of :func:`vpintegrator.training.train`, which prepares, works and finishes.

    Attributes are the arguments of that function, in groups. ``kind`` is the optimizer's class.
    ``trained`` is the model, or its map of single states if its attention is the identity.
    """

    model: Integrator
    data: TrainingData
    method: Method
    budget: Budget
    objective: Objective
    execution: Execution
    files: Files
    normalise: bool
    kind: type[Optimizer] = field(init=False)
    trained: Integrator = field(init=False)
    machine: CompiledResidual | None = None
    not_compiled: str = ""
    saved: Checkpoint | None = None
    device_reason: str = ""

    def __post_init__(self) -> None:
        self.kind = self.method.chosen(self.model, self.execution.compiled)
        self.first = processes.rank() == 0

    def prepare(self) -> None:
        """Read what is needed, and the checkpoint to go on from."""
        start = time.perf_counter()
        model = self.model
        if self.normalise:
            self.data.normalise(model)
            if "training" not in model.metadata:  # untrained
                with suppress(TimeIsUp), until(self._end(start)):
                    start_as_splitting(model, self.data, self.method.initial_scheme)
        self._choose_device()
        model.to(self.execution.device)
        # random starts are of the whole model
        trained = simplified(model, fixed=True) if self.method.restarts == 1 else model
        self.trained = trained
        with until(self._end(start)):
            self.pairs = self.kind.pairs_of(self.data, trained, self.objective)
        self.held_out = self.data.held_out(trained)
        self.data.check_test(model)
        self.identity = self._identity()
        checkpoint = self.files.checkpoint
        if self.files.resume and checkpoint is not None and Path(checkpoint).exists():
            if self.method.optimizer == "auto" and self.kind.name in BY_TIME:
                stored = stored_identity(checkpoint).get("optimizer")
                self._take(stored if stored in BY_TIME else self.kind.name)
            self.saved = load_checkpoint(checkpoint, self.identity, trained)
            if self.saved.version < 5:
                true = self.objective.new_states(trained, self.held_out[1])
                size = true.square().sum(-1).mean().sqrt().item()
                self.saved = self.saved.rescaled(size / (self.data.error_scale.spread or 1.0))
            trained.load_state_dict(self.saved.training_state.model)
            self.budget = self.saved.continued(self.budget, checkpoint)
        self.budget = self.budget.or_default()
        method = self.method
        self.stages = Stages(
            trained, self._begun, self.budget, method.restarts, method.seed, start, self.saved
        )
        self.written = time.perf_counter()

    def work(self, progress: Show | bool | None) -> str:
        """Train until the budget is used up; say what ended it early, if anything did."""
        try:
            try:
                with until(self._end(self.stages.start)):
                    self.machine, self.not_compiled = self._compiled()
            except TimeIsUp:
                self.not_compiled = "the time was up before its machine code was ready"
            if self.saved is not None:
                self.stages.start = time.perf_counter() - self.saved.seconds
            with (
                torch_threads(self.execution.threads),
                logging_to(self.files.log) as note,
                shown(progress if self.first else False) as show,
            ):
                end = self._end(self.stages.start)
                if self.method.optimizer == "auto" and self.saved is None and self.machine is None:
                    with suppress(TimeIsUp), until(end):
                        self._choose_by_time()
                with until(end):
                    self.stages.run(partial(self._after_epoch, note, show))
        except KeyboardInterrupt as interruption:
            return ending_of(interruption)
        except processes.LostProcess:
            return "lost process"
        except Exception:
            self._record()
            raise
        return ""

    def finish(self, ending: str) -> History:
        """Give the model its best weights, judge it, and write it."""
        checkpoint, output = self.files.checkpoint, self.files.output
        with held_back() as held, torch_threads(self.execution.threads):
            nothing = History(self.kind.name, self.method.seed, 0, stopped_by=ending)
            history = self.stages.settle(ending) or nothing
            self._check(history)
            if not self.stages.nothing:
                history.test_error = self.data.test_error(self.model)
                history.warning = doubt(self.trained, self.held_out, self.data.error_scale, history)
                if history.warning and self.first:
                    warnings.warn(history.warning, stacklevel=4)
                with unhurried():
                    set_posterior(self.model, self.data)
                self.data.describe(self.model)
                self.model.metadata["training"] = json.dumps(history.summary())
            if self.first and not self.stages.nothing:
                if ending:
                    self._record()
                if output is not None:
                    save_somewhere(self.model, output, self.files.overwrite)
                if checkpoint is not None and not ending:
                    with suppress(OSError):
                        Path(checkpoint).unlink(missing_ok=True)
            if ending:
                held.forget()  # the interrupt asks again for an end that is reached
        return history

    def _end(self, start: float) -> float:
        """Return the time at which even the first epoch ends; never with several processes."""
        budget = self.budget.or_default()
        if budget.seconds is None or processes.count() > 1:
            return math.inf
        return start + BEYOND * budget.seconds

    def _check(self, history: History) -> None:
        """Refuse weights of no finite error; where every epoch exploded the first ones are kept."""
        if not history.epochs or math.isfinite(history.best_validation_error):
            return
        with unhurried():
            error = relative_error(self.trained, *self.held_out, scale=self.data.error_scale)
        if math.isfinite(error):
            history.best_validation_error = error
            return
        checkpoint = self.files.checkpoint
        if self.first and checkpoint is not None:
            with suppress(OSError):
                Path(checkpoint).unlink(missing_ok=True)
        raise NothingLearned(self.model.name, history)

    def _begun(self, candidate: Integrator) -> Training:
        """Return the training of one of the starts, whatever the time."""
        with unhurried():
            return self._prepared(candidate)

    def _prepared(self, candidate: Integrator) -> Training:
        method = self.method
        generator = torch.Generator().manual_seed(method.seed)
        optimizer = self.kind(
            candidate,
            self.pairs,
            self.objective,
            batch=method.batch,
            generator=generator,
            compiled=self.machine,
            **method.options,
        )
        count = sum(p.numel() for p in self.model.parameters())
        history = History(self.kind.name, method.seed, count, compiled=self._is_compiled)
        history.not_compiled = self.not_compiled
        machine, scale = self.machine, self.data.error_scale
        given = (candidate, optimizer, generator, self.held_out, history, machine)
        training = Training(*given, scale=scale)
        if "training" in candidate.metadata:  # trained before: nothing may be lost
            error = relative_error(candidate, *self.held_out, scale=scale)
            training.begin_from(training.best, error)
        return training

    def _after_epoch(
        self, note: Callable[[History], None] | None, show: Show | None, training: Training
    ) -> None:
        training.history.compiled = self._is_compiled
        training.history.device = str(self.trained.scale.device)
        training.history.device_reason = self.device_reason
        if time.perf_counter() - self.written >= self.files.checkpoint_seconds:
            self._record()
        for tell in (note, show):
            if tell is not None and not self.stages.in_trial:
                tell(training.history)

    def _record(self) -> None:
        """Write a checkpoint, or warn if that fails; the training continues."""
        checkpoint = self.files.checkpoint
        if checkpoint is not None and self.stages.training is not None and self.first:
            with held_back():
                try:
                    self.stages.checkpoint(self.identity).save(checkpoint)
                except (InputError, OSError) as error:
                    warnings.warn(f"there is no new checkpoint, {sentence(error)}", stacklevel=2)
        self.written = time.perf_counter()

    @property
    def _is_compiled(self) -> bool:
        return self.machine is not None

    def _compiled(self) -> tuple[CompiledResidual | None, str]:
        """Return the machine code of the training, or None and the reason.

        A resumed training uses machine code if it did before, so that the result is the same.
        """
        execution, budget, saved = self.execution, self.budget, self.saved
        again = saved is not None and saved.history.compiled
        if saved is not None and budget.epochs is not None and not again:
            execution = replace(execution, compiled=execution.compiled or False)
        batch = self.method.batch or self.kind.default_batch(self.trained, self.objective)
        return compile_for_training(
            self.trained,
            self.objective,
            self.kind,
            execution,
            seconds=math.inf if again else budget.seconds,
            epochs=None if again else budget.epochs,
            steps=self.kind.steps(len(self.pairs), batch),
        )

    def _choose_device(self) -> None:
        """Take the faster device, where that is left to be chosen; no one is left waiting."""
        execution = self.execution
        if str(execution.device) != AUTO:
            return
        if processes.count() > 1:
            raise InputError("device = auto: several processes must name theirs, cpu or cuda")
        batch = self.method.batch or self.kind.default_batch(self.model, self.objective)
        choice = device_for(self.model, self.data, self.objective, batch)
        self.execution = replace(execution, device=choice.device)
        self.device_reason = choice.reason

    def _choose_by_time(self) -> None:
        restarts = self.method.restarts
        part = self.budget.part(0.5 / restarts) if restarts > 1 else self.budget
        batch = self.method.batch
        self._take(by_time(self.kind.name, self.trained, self.pairs, self.objective, part, batch))

    def _take(self, name: str) -> None:
        self.kind, self.identity["optimizer"] = BY_NAME[name], name

    def _identity(self) -> dict[str, Any]:
        """Return the values, as JSON types, that must be equal for a training to be resumed."""
        model, method = self.model, self.method
        own = {"shift": model.shift.tolist(), "scale": model.scale.tolist()}
        return {
            "architecture": model.name,
            "arguments": model.arguments,
            "dtype": str(model.scale.dtype).removeprefix("torch."),
            "start": model.metadata.get("start_fingerprint"),
            "fixed weights": [n for n, p in model.named_parameters() if not p.requires_grad],
            # normalisation by the states may differ by rounding on another machine
            "normalisation": None if self.normalise else own,
            "dataset": self.data.dataset.fingerprint,
            "optimizer": self.kind.name,
            "objective": asdict(self.objective),
            "batch": method.batch,
            "learning rate": method.learning_rate,
            "restarts": method.restarts,
            "seed": method.seed,
        }
