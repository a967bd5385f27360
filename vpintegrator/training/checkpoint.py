"""Checkpoints: everything that a training needs to continue exactly.

A safetensors file: nothing in it is ever executed or unpickled, and it is replaced in one move.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from vpintegrator.errors import InputError
from vpintegrator.storage.tensors import write_tensors
from vpintegrator.training.history import CURVES, Budget, History
from vpintegrator.training.loop import TrainingState
from vpintegrator.training.optimizers.state import Tensors

FORMAT = "vpintegrator-checkpoint"
FORMAT_VERSION = 5


@dataclass(frozen=True)
class Stage:
    """Progress of a training with several random starts.

    Attributes
    ----------
    done
        Number of finished trials.
    epochs, seconds
        Epochs of the finished trials, and seconds since the training began.
    error
        Smallest validation error of the finished trials.
    """

    done: int = 0
    epochs: int = 0
    seconds: float = 0.0
    error: float = math.inf


@dataclass(frozen=True)
class Checkpoint:
    """A training at the end of an epoch.

    Attributes
    ----------
    identity
        Values that must be equal to resume: model, dataset, optimizer, loss, seed and others.
    budget
        Budget of the training.
    history
        Up to now, of the trial at hand if there are random starts.
    moment
        Weights, the optimizer's state and the random numbers now.
    best
        The best weights so far, of the trial at hand.
    stage, kept
        Progress of the random starts, and the best weights of finished ones.
    version
        Version of the file; before version 5 errors were relative to the size of states, not their
        spread.
    """

    identity: dict[str, Any]
    budget: Budget
    history: History
    training_state: TrainingState
    best: Tensors
    stage: Stage = field(default_factory=Stage)
    kept: Tensors = field(default_factory=dict)
    version: int = FORMAT_VERSION

    def rescaled(self, factor: float) -> Checkpoint:
        """Return the checkpoint with all errors multiplied by a factor."""
        history, state = self.history, self.training_state.optimizer
        names = ("best_validation_error", "improved_error")
        changed: dict[str, Any] = {name: factor * getattr(history, name) for name in names}
        for name in ("training_error", "validation_error"):
            changed[name] = [factor * error for error in getattr(history, name)]
        numbers = {k: v * factor if k == "best" else v for k, v in state.numbers.items()}
        return replace(
            self,
            history=replace(history, **changed),
            training_state=replace(self.training_state, optimizer=replace(state, numbers=numbers)),
            stage=replace(self.stage, error=factor * self.stage.error),
        )

    @property
    def seconds(self) -> float:
        """Seconds used since the training began."""
        trial = self.history.used
        return max(trial, self.stage.seconds) if not self.in_trial else self.stage.seconds + trial

    @property
    def in_trial(self) -> bool:
        """Whether the random starts are not over."""
        restarts = self.identity.get("restarts", 1)
        return restarts > 1 and self.stage.done < restarts

    def continued(self, given: Budget, path: str | os.PathLike[str]) -> Budget:
        """Return the budget to go on with: that given, or the former one.

        Raises
        ------
        InputError
            If it was used up before.
        """
        budget = given
        if given.seconds is None and given.epochs is None:
            budget = replace(
                self.budget,
                target=self.budget.target if given.target is None else given.target,
                patience=self.budget.patience if given.patience is None else given.patience,
            )
        finished = not self.in_trial and self.history.stopped_by == "seconds"
        epochs, least = self.stage.epochs + self.history.epochs, self.stage.epochs + 1
        if budget.seconds is not None and self.seconds >= budget.seconds and not finished:
            used, option = f"{self.seconds:.1f} seconds", f"seconds = {budget.seconds:g}"
        elif budget.epochs is not None and epochs > max(budget.epochs, least):
            used, option = f"{epochs} epochs", f"epochs = {budget.epochs}"
        else:
            return budget
        raise InputError(
            f"{path} holds {used} of training, so that {option}, counted from the beginning, "
            "leaves nothing to do; give more, or nothing to go on with the former budget"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, replacing an older one.

        Raises
        ------
        InputError, OSError
            If it cannot be written.
        """
        groups: dict[str, Tensors] = {
            "model": self.training_state.model,
            "best": self.best,
            "kept": self.kept,
            "optimizer": self.training_state.optimizer.tensors,
            "history": {
                name: torch.tensor(getattr(self.history, name), dtype=torch.float64)
                for name in CURVES
            },
            "generator": {"state": self.training_state.generator},
        }
        tensors = {
            f"{group}/{name}": tensor.clone()  # the format takes no tensor twice
            for group, entries in groups.items()
            for name, tensor in entries.items()
        }
        scalars = {k: v for k, v in vars(self.history).items() if not isinstance(v, list)}
        header = {
            "format": FORMAT,
            "format_version": str(FORMAT_VERSION),
            "identity": json.dumps(self.identity),
            "budget": json.dumps(asdict(self.budget)),
            "history": json.dumps(scalars),
            "stage": json.dumps(asdict(self.stage)),
            "numbers": json.dumps(self.training_state.optimizer.numbers),
        }
        write_tensors(path, tensors, header, overwrite=True)
