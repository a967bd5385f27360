"""The network of the rigid body that benchmarks of a step measure: read from a file, or trained."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch

import vpintegrator as vp
from vpintegrator.models import Model, VolumePreservingFeedForward

STEP = 0.2


def network_options(
    train_seconds: float,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """``--network`` and ``--train-seconds``, given as ``network`` and ``train_seconds``."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        file = click.option(
            "--network",
            type=click.Path(dir_okay=False, path_type=Path),
            help="File of the network: it is read, or written if there is none.",
        )
        seconds = click.option(
            "--train-seconds", default=train_seconds, show_default=True, help="If there is none."
        )
        return file(seconds(function))

    return decorate


def trained(path: Path | None, seconds: float, **arguments: Any) -> Model:
    """The network of a file, or a new one of some arguments, written there."""
    if path is not None and path.exists():
        return vp.load(path)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        data = vp.generate("rigid-body", Path(folder) / "rigid-body.h5", step=STEP)
        symmetries = data.system.reversing_symmetries
        model = VolumePreservingFeedForward(dim=3, reversing_symmetries=symmetries, **arguments)
        vp.train(model, data, seconds=seconds, seed=0)
    if path is not None:
        vp.save(model, path)
    return model
