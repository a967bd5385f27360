"""Checkpoints: a training that was interrupted goes on as if it had not been."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from vpintegrator.errors import InputError
from vpintegrator.models import Model
from vpintegrator.models.stored import CURVES, History
from vpintegrator.storage.files import check_output, check_version, replacing
from vpintegrator.storage.reading import check_kind, read_json
from vpintegrator.training.optimizers import Optimizer
from vpintegrator.training.options import Budget, TrainingOptions

FORMAT = "vpintegrator-checkpoint"
VERSION = 1
EVERY = 30.0  # seconds between two writings; the state is copied thirty times as often

Tensors = dict[str, torch.Tensor]


class Checkpoint:
    """State of a training after its last epoch, in a safetensors file.

    It has the weights, the best weights, the moments and the random numbers of the optimizer, and
    the history. The file is replaced every thirty seconds, and when the training ends.

    Parameters
    ----------
    path
        The file; a training begins where there is none.

    Raises
    ------
    InputError
        If the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = check_output(path, overwrite=True)
        self.training = ""
        self.header: dict[str, str] = {}
        self.tensors: Tensors = {}
        self.epochs = 0  # of the state that is kept
        self.kept = time.perf_counter()
        self.written = self.kept

    def identify(
        self, model: Model, inputs: torch.Tensor, budget: Budget, options: TrainingOptions
    ) -> None:
        """Note the training that the state belongs to, before its first epoch.

        Parameters
        ----------
        model
            The model, of which class and arguments count.
        inputs
            Validation windows, which tell the data.
        budget, options
            Limits and options.
        """
        told = {
            "class": type(model).__qualname__,
            "arguments": model.arguments,
            "limits": [budget.seconds, budget.epochs, budget.target],
            "options": {**asdict(options), "loss": str(options.loss)},
        }
        digest = hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode())
        digest.update(inputs.detach().cpu().contiguous().numpy().tobytes())
        self.training = digest.hexdigest()

    def resume(self, model: Model, optimizer: Optimizer, history: History) -> Tensors | None:
        """Set model, optimizer and history to the state of the file; return the best weights.

        Returns
        -------
        dict of tensors or None
            None where there is no file.

        Raises
        ------
        InputError
            If the optimizer keeps no state, or the file is damaged or that of another training.
        """
        optimizer.state()  # an optimizer that keeps none says so before the first epoch
        if not self.path.exists():
            return None
        header, tensors = self._read()
        told = read_json(header.get("history", ""), f"the history of {self.path}")
        if header.get("training") != self.training or told.get("seed") != history.seed:
            raise InputError(
                f"{self.path} is the checkpoint of another training: of another model or dataset, "
                "or with other options; give another file, or remove this one"
            )
        parts: dict[str, Tensors] = {"weights": {}, "best": {}, "optimizer": {}, "curves": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        for name in _names(history):
            setattr(history, name, told[name])
        for name in CURVES:
            setattr(history, name, parts["curves"][name].tolist())
        history.epoch = [int(epoch) for epoch in history.epoch]
        history.stopped_by = ""
        model.load_state_dict(parts["weights"])
        optimizer.restore(parts["optimizer"])
        return parts["best"]

    def note(
        self,
        model: Model,
        best: Tensors,
        optimizer: Optimizer,
        history: History,
        last: bool = False,
    ) -> None:
        """Write the state between two epochs if the last writing is long ago.

        Parameters
        ----------
        model, best, optimizer, history
            The model, its best weights so far, the optimizer and the history.
        last
            Whether the training ends, so that the state is written in any case.
        """
        now = time.perf_counter()
        if now - self.kept < EVERY / 30 and not last:
            return
        self.kept = now
        values = {name: getattr(history, name) for name in _names(history)}
        parts: dict[str, Tensors] = {
            "weights": model.state_dict(),
            "best": best,
            "optimizer": optimizer.state(),
        }
        self.tensors = {
            f"{part}.{name}": tensor.detach().cpu().contiguous().clone()
            for part, tensors in parts.items()
            for name, tensor in tensors.items()
        }
        self.header = {
            "format": FORMAT,
            "version": str(VERSION),
            "training": self.training,
            "history": json.dumps(values),
        }
        self.epochs = len(history.epoch)
        if now - self.written >= EVERY or last:
            self.write(history)

    def write(self, history: History) -> None:
        """Replace the file by the last state that was kept; the history may be of a later one."""
        if not self.tensors:
            return
        curves = {
            f"curves.{name}": torch.tensor(
                getattr(history, name)[: self.epochs], dtype=torch.float64, device="cpu"
            )
            for name in CURVES
        }
        data = safetensors.torch.save(self.tensors | curves, metadata=self.header)
        with replacing(self.path, overwrite=True) as temporary:
            temporary.write_bytes(data)
        self.tensors = {}
        self.written = time.perf_counter()

    def _read(self) -> tuple[dict[str, str], Tensors]:
        check_kind(self.path, "checkpoint")
        try:
            with safetensors.safe_open(self.path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                header: dict[str, Any] = file.metadata() or {}
        except (safetensors.SafetensorError, OSError, RuntimeError) as error:
            raise InputError(
                f"{self.path} is damaged ({error}); remove it, and the training begins anew"
            ) from None
        check_version(self.path, header.get("version"), VERSION)
        return header, tensors


def _names(history: History) -> list[str]:
    """Return the names of the values of a history that are no curves."""
    return [each.name for each in fields(history) if each.name not in CURVES]
