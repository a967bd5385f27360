"""Models in safetensors files: tensors, and text that says how to build the model round them.

The header of the file holds, as strings: ``format`` ("vpintegrator-model"), ``version``,
``architecture`` (its name), ``arguments`` (JSON), ``dtype``, and the model's ``metadata`` (JSON).
Nothing in such a file is ever executed.
"""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from typing import Any

import safetensors
import torch

from vpintegrator.errors import InputError
from vpintegrator.files import check_version
from vpintegrator.models.base import Integrator
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.nn.checks import as_dtype
from vpintegrator.tensors import write_tensors

FORMAT = "vpintegrator-model"
VERSION = 1


def save(model: Integrator, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a model to a safetensors file.

    Parameters
    ----------
    model : Integrator
        One of the registered architectures; its ``metadata`` (strings) is stored with it.
    path : path
        Conventionally ends in ``.safetensors``.
    overwrite : bool
        Whether an existing file may be replaced.

    Raises
    ------
    InputError
        If the file exists and may not be replaced, or the model is of no registered architecture.
    """
    if ARCHITECTURES.get(getattr(model, "name", "")) is not type(model):
        raise InputError(
            f"only the architectures {', '.join(ARCHITECTURES)} can be saved, not a "
            f"{type(model).__name__}; take the state_dict() of another model"
        )
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "architecture": model.name,
        "arguments": json.dumps(model.arguments),
        "dtype": str(model.shift.dtype).removeprefix("torch."),
        "metadata": json.dumps(model.metadata),
    }
    write_tensors(path, model.state_dict(), header, overwrite)


def load(path: str | os.PathLike[str], device: str | torch.device = "cpu") -> Integrator:
    """Read a model written by ``save``.

    Parameters
    ----------
    path : path
    device : str or torch.device

    Returns
    -------
    Integrator
        In the dtype it was saved in, with its ``metadata``.

    Raises
    ------
    InputError
        If there is no such file, or it is not a model of this package, or was made by a version
        with other architectures.
    """
    path = Path(path)
    header, tensors = _read(path)
    if header.get("format") != FORMAT:
        raise InputError(
            f"{path} is a safetensors file, but not a model saved by vpintegrator; give a file "
            "written by vp-train or vpintegrator.models.save"
        )
    check_version(path, header.get("version"), VERSION)
    name = header.get("architecture", "")
    if name not in ARCHITECTURES:
        raise InputError(
            f"{path} holds a model of the architecture {name!r}, which this vpintegrator does not "
            f"know (it knows {', '.join(ARCHITECTURES)}); update vpintegrator"
        )
    model = _build(path, ARCHITECTURES[name], header)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        detail = str(error).splitlines()[-1].strip()
        raise InputError(
            f"the tensors in {path} do not fit the architecture {name} with its stored arguments "
            f"({detail}); the file is damaged or from another version"
        ) from None
    return model.to(device)


def _read(path: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a model file")
    if not path.exists():
        raise InputError(f"there is no file {path}; give a model written by vp-train")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(
            f"{path} is not a safetensors file or is damaged ({error}); give a model written by "
            "vp-train"
        ) from None
    return header, tensors


def _build(path: Path, architecture: type[Integrator], header: dict[str, str]) -> Integrator:
    try:
        arguments: Any = json.loads(header.get("arguments", ""))
        metadata: Any = json.loads(header.get("metadata", "{}"))
        known = set(inspect.signature(architecture).parameters) - {"dtype"}
        if not isinstance(arguments, dict) or not set(arguments) <= known:
            raise InputError(f"arguments must be among {', '.join(sorted(known))}")
        if not isinstance(metadata, dict):
            raise InputError("metadata must be an object of strings")
        arguments = architecture.arguments_of_file(arguments)
        model = architecture(**arguments, dtype=as_dtype(header.get("dtype", "")))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"the header of {path} does not describe a {architecture.name} model: {error}"
        ) from None
    model.metadata = {str(key): str(value) for key, value in metadata.items()}
    return model
