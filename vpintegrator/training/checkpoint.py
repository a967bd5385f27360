"""Checkpoints: all that it takes to go on with a training as if nothing had happened.

A safetensors file: nothing in it is ever executed or unpickled, and it is replaced in one move.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from vpintegrator.errors import InputError
from vpintegrator.files import check_version, replacing
from vpintegrator.training.history import History

FORMAT = "vpintegrator-checkpoint"
FORMAT_VERSION = 1
Tensors = dict[str, torch.Tensor]


class Resumable(Protocol):
    """An optimizer whose state can be written down."""

    def state(self) -> tuple[Tensors, dict[str, float]]:
        """Tensors and numbers from which ``restore`` goes on exactly."""
        ...

    def restore(self, tensors: Tensors, numbers: dict[str, float]) -> None:
        """Go on from a state."""
        ...


@dataclass(frozen=True)
class Checkpoint:
    """A training at the end of an epoch.

    Attributes
    ----------
    identity
        What must be the same to go on: architecture, dataset, optimizer, loss, seed.
    history
        Up to now.
    model, best
        Weights now, and the best so far.
    optimizer, numbers
        The optimizer's state.
    generator
        State of the random numbers.
    """

    identity: dict[str, Any]
    history: History
    model: Tensors
    best: Tensors
    optimizer: Tensors
    numbers: dict[str, float]
    generator: torch.Tensor

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, replacing an older one."""
        groups = {"model": self.model, "best": self.best, "optimizer": self.optimizer}
        tensors = {
            f"{group}/{name}": tensor.detach().cpu().clone().contiguous()
            for group, entries in groups.items()
            for name, tensor in entries.items()
        }
        tensors["generator/state"] = self.generator
        header = {
            "format": FORMAT,
            "format_version": str(FORMAT_VERSION),
            "identity": json.dumps(self.identity),
            "history": json.dumps(asdict(self.history)),
            "numbers": json.dumps(self.numbers),
        }
        with replacing(path, overwrite=True) as temporary:
            save_file(tensors, temporary, header)


def load_checkpoint(path: str | os.PathLike[str], identity: dict[str, Any]) -> Checkpoint:
    """Read a checkpoint and make sure that it belongs to this training.

    Raises
    ------
    InputError
        If there is none, it is damaged, or it belongs to another training.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no checkpoint {path} to resume from")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") != FORMAT:
                raise InputError(f"{path} is not a checkpoint of a training")
            check_version(path, header.get("format_version"), FORMAT_VERSION)
            groups: dict[str, Tensors] = {
                g: {} for g in ("model", "best", "optimizer", "generator")
            }
            for key in file.keys():  # noqa: SIM118 - not a dictionary
                group, _, name = key.partition("/")
                groups[group][name] = file.get_tensor(key)
        saved = json.loads(header["identity"])
        history = History(**json.loads(header["history"]))
        numbers = json.loads(header["numbers"])
        generator = groups["generator"]["state"]
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is damaged, or no checkpoint: {error}") from None
    for key, value in json.loads(json.dumps(identity)).items():
        if saved.get(key) != value:
            raise InputError(
                f"{path} is of another training: its {key} was {saved.get(key)}, now it is "
                f"{value}; use the same options, or start afresh without resuming"
            )
    return Checkpoint(
        saved, history, groups["model"], groups["best"], groups["optimizer"], numbers, generator
    )
