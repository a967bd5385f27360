"""Models in safetensors files: tensors, and text that says how to build the model round them.

The header of the file holds, as strings: ``format`` ("vpintegrator-model"), ``version``,
``architecture`` (its name), ``arguments`` (JSON), ``dtype``, and the model's ``metadata`` (JSON).
Nothing in such a file is ever executed, and reading one takes time and memory in proportion to its
size, whatever it says.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from vpintegrator.arguments import as_path
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.errors import InputError
from vpintegrator.models.base import Integrator
from vpintegrator.models.family import KEY, FamilyConditions
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.models.wrapped import NAME as WRAPPED
from vpintegrator.models.wrapped import WrappedModel, check_model, is_own
from vpintegrator.nn.tensor_arguments import as_dtype
from vpintegrator.runtime.devices import check_device
from vpintegrator.storage.file_kinds import LARGEST_HEADER
from vpintegrator.storage.files import check_version, replacing
from vpintegrator.storage.reading import check_kind, read_json

FORMAT = "vpintegrator-model"
VERSION = 1
_MOST_TENSORS = 50_000
_ANY_SIZE = 1_000  # sizes, such as a degree, that files of few numbers may have


def save(model: Integrator, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a model to a safetensors file.

    Parameters
    ----------
    model : Integrator
        Model of a registered architecture; its ``metadata`` (strings) is stored with it.
    path : path
        Conventionally ends in ``.safetensors``.
    overwrite : bool
        Whether an existing file may be replaced.

    Raises
    ------
    InputError
        If the file exists and may not be replaced, the model is of no registered architecture, or
        its metadata are no texts.

    Examples
    --------
    >>> model = vp.models.VolumePreservingFeedForward(dim=2)
    >>> vp.save(model, "feed-forward.safetensors", overwrite=True)
    """
    check_model(model, "model")
    if is_own(model):
        raise InputError(
            f"{type(model).__name__} does not say of how many components and for which step it is: "
            "save vp.wrap(module, dim=..., step=...)"
        )
    wrapped = isinstance(model, WrappedModel)
    if not wrapped and ARCHITECTURES.get(model.name) is not type(model):
        raise InputError(
            f"only the architectures {', '.join(ARCHITECTURES)} can be saved, not a "
            f"{type(model).__name__}, which could not be found again; make it known by "
            "vpintegrator.models.register, or take the state_dict() of it"
        )
    if not all(isinstance(part, str) for pair in model.metadata.items() for part in pair):
        raise InputError("the metadata of a model must be texts; write others as JSON")
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "architecture": WRAPPED if wrapped else model.name,
        "arguments": json.dumps(model.arguments),
        "structure": model.structure.text,
        "dtype": str(model.shift.dtype).removeprefix("torch."),
        "metadata": json.dumps(model.metadata),
    }
    tensors = model.state_dict()
    if isinstance(model, WrappedModel):
        header["class"] = model.class_name
        tensors = {name: value.clone() for name, value in tensors.items()}  # they may share memory
    # as bytes: the library's own writer leaves a temporary file of its own when it is killed, and
    # has an exception of its own for a full disk
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data = safetensors.torch.save(on_cpu, metadata=header)
    with replacing(path, overwrite) as temporary:
        temporary.write_bytes(data)


def save_somewhere(model: Integrator, path: str | os.PathLike[str], overwrite: bool) -> None:
    """Write a model that took long to train; if not to ``path``, then to another place.

    Raises
    ------
    InputError
        If it cannot be written to ``path``; the message says why, and where it is now.
    """
    path = Path(path)
    try:
        return save(model, path, overwrite)
    except InputError as error:
        reason = str(error)
    except OSError as error:
        reason = f"cannot write {error.filename or path}: {error.strerror or error}"
    for folder in (path.parent, Path.cwd(), Path(tempfile.gettempdir())):
        names = (folder / f"{path.stem}-{number}{path.suffix}" for number in itertools.count(2))
        other = next(name for name in names if not os.path.lexists(name))
        try:
            save(model, other)
        except (InputError, OSError):
            continue
        raise InputError(f"{reason}; the trained model is kept in {other}")
    raise InputError(f"{reason}; nor can the trained model be kept anywhere else")


def load(
    path: str | os.PathLike[str],
    device: str | torch.device = "cpu",
    *,
    module: torch.nn.Module | None = None,
) -> Integrator:
    """Read a model written by ``save``.

    Parameters
    ----------
    path : path
    device : str or torch.device
    module : torch.nn.Module, optional
        New module of the same class and sizes, for the file of a wrapped module
        (:func:`vpintegrator.wrap`); the module gets the weights. Nothing is imported or executed
        for a file.

    Returns
    -------
    Integrator
        Model in the dtype of the file, with its ``metadata``, in evaluation mode.

    Raises
    ------
    InputError
        If there is no such file, or it is not a model of this package, or was made by a version
        with other architectures; or if there is no such device.

    Examples
    --------
    >>> vp.save(vp.models.ResidualNetwork(dim=2), "model.safetensors", overwrite=True)
    >>> vp.load("model.safetensors").name
    'resnet'
    """
    check_device(str(device))
    path = as_path("path", path)
    header, tensors = _read(path)
    check_version(path, header.get("version"), VERSION)
    name = header.get("architecture", "")
    if name == WRAPPED:
        model: Integrator = _wrapped(path, header, tensors, module)
        model.metadata = _metadata(path, header)
        return model.to(device).eval()
    if module is not None:
        raise InputError(f"{path} holds a model of this package, {name}; leave out module")
    if name not in ARCHITECTURES:
        raise InputError(
            f"{path} holds a model of the architecture {name!r}, which this vpintegrator does not "
            f"know (it knows {', '.join(ARCHITECTURES)}); update vpintegrator, or import the "
            "module that registers it"
        )
    model = _build(path, ARCHITECTURES[name], header, tensors)
    _fill(path, model, tensors)
    model.metadata = _metadata(path, header)
    return model.to(device).eval()


def _wrapped(
    path: Path,
    header: dict[str, str],
    tensors: dict[str, torch.Tensor],
    module: torch.nn.Module | None,
) -> WrappedModel:
    """Return the module given by the user, filled with the weights of a file."""
    own = header.get("class", "of one's own")
    if not isinstance(module, torch.nn.Module):
        raise InputError(
            f"{path} holds the weights of a module {own}, whose code is not in the file: give a "
            "new one to be filled, as in vp.load(path, module=Net())"
        )
    where = f"the header of {path} does not describe a wrapped module"
    arguments = read_json(header.get("arguments", ""), f"{where}: its arguments")
    names = ("dim", "window", "prediction_window")
    if {*arguments} != {*names} or not all(type(arguments[name]) is int for name in names):
        raise InputError(f"{where}: expected dim, window and prediction_window")
    module = module.to(as_dtype(header.get("dtype", "")))
    dim, window, predicted = (arguments[name] for name in names)
    model = WrappedModel(module, dim=dim, step=None, window=window, predicted=predicted)
    _fill(path, model, tensors, f"the module given, while the file is of {own}")
    return model


def _read(path: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    check_kind(path, "model")
    try:
        with path.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            if size > LARGEST_HEADER:
                raise InputError(
                    f"{path} is not a safetensors file or is damaged; give a model written by "
                    "vp-train"
                )
            text = stream.read(size).decode()
        entries = read_json(text, f"{path} is not a safetensors file or is damaged: its header")
        header = entries.get("__metadata__", {})
        if not isinstance(header, dict) or not all(isinstance(v, str) for v in header.values()):
            raise InputError(f"{path} is damaged: the metadata in its header must be texts")
        if len(entries) > _MOST_TENSORS:
            raise InputError(f"{path} holds {len(entries)} tensors, too many for a model")
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except InputError:
        raise
    except (safetensors.SafetensorError, OSError, UnicodeDecodeError, RuntimeError) as error:
        raise InputError(
            f"{path} is not a safetensors file or is damaged ({error}); give a model written by "
            "vp-train"
        ) from None
    return header, tensors


def _build(
    path: Path,
    architecture: type[Integrator],
    header: dict[str, str],
    tensors: dict[str, torch.Tensor],
) -> Integrator:
    where = f"the header of {path} does not describe a {architecture.name} model"
    arguments = read_json(header.get("arguments", ""), f"{where}: its arguments")
    known = set(architecture.Arguments.declared()) - {"dtype", "shift", "scale"}
    if unknown := sorted(set(arguments) - known):
        raise InputError(
            f"{where} of this version, which has no argument {unknown[0]!r}; its arguments must be "
            f"among {', '.join(sorted(known))}"
        )
    if "dim" not in arguments:
        raise InputError(f"{where}: dim is missing")
    shift = tensors.get("shift")
    dim = arguments["dim"]
    if shift is not None and isinstance(dim, int) and shift.shape != (dim,):
        raise InputError(
            f"the tensors in {path} do not fit the architecture {architecture.name} with its "
            f"stored arguments: dim = {dim}, but 'shift' is {_shown(shift)}"
        )
    numbers = sum(tensor.numel() for tensor in tensors.values())
    arguments["dtype"] = header.get("dtype", "")
    return made_of_file(architecture, arguments, numbers, where)


def made_of_file(
    architecture: type[Integrator], arguments: dict[str, Any], numbers: int, where: str
) -> Integrator:
    """Make a model of the arguments that a file of so many numbers names.

    Raises
    ------
    InputError
        If the arguments make no model, or a size is larger than any of a file of so many numbers.
    """
    for name, value in arguments.items():
        if type(value) is int and value > max(numbers, _ANY_SIZE):
            raise InputError(
                f"{where}: {name} = {value} is out of proportion to the {numbers} numbers that the "
                "file holds"
            )
    try:
        return architecture(**arguments)
    except (InputError, TypeError, ValueError, ArithmeticError, RuntimeError, MemoryError) as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{where}: {detail}") from None


def _fill(
    path: Path, model: Integrator, tensors: dict[str, torch.Tensor], of_user: str = ""
) -> None:
    """Copy tensors into the model; their names and shapes must be those of its arguments."""
    expected = model.state_dict()
    what = of_user or f"the architecture {model.name} with its stored arguments"
    where = f"the tensors in {path} do not fit {what}"
    damaged = "" if of_user else "; the file is damaged"
    strange = sorted(set(expected) ^ set(tensors))
    if strange:
        what = "missing" if strange[0] in expected else "not expected"
        raise InputError(f"{where}: {strange[0]!r} is {what}{damaged}")
    for name, tensor in expected.items():
        found = tensors[name]
        if found.shape != tensor.shape or found.dtype != tensor.dtype:
            raise InputError(f"{where}: {name!r} is {_shown(found)}, not {_shown(tensor)}{damaged}")
        if found.is_floating_point() and not torch.isfinite(found).all():
            raise InputError(f"{path}: {name!r} holds numbers that are not finite")
    model.load_state_dict(tensors)
    # stored values must be values that ``set_normalisation`` accepts unchanged
    shift, scale = tensors["shift"], tensors["scale"]
    try:
        model.set_normalisation(shift, scale, tensors.get("spread"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if not all(
        torch.allclose(kept, given, rtol=1e-4, atol=1e-4)
        for kept, given in ((model.shift, shift), (model.scale, scale))
    ):
        raise InputError(f"{path}: shift and scale do not respect the reversing symmetries")
    model.load_state_dict(tensors)


def _shown(tensor: torch.Tensor) -> str:
    return f"{tuple(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"


def _metadata(path: Path, header: dict[str, str]) -> dict[str, str]:
    """Read the metadata of a model, and check the entries that computations use."""
    where = f"{path}: the metadata of the model"
    metadata = read_json(header.get("metadata", "{}"), where)
    if any(value is None or isinstance(value, dict | list) for value in metadata.values()):
        raise InputError(f"{where} must be an object of texts")
    metadata = {key: str(value) for key, value in metadata.items()}
    for key in ("parameters", "training"):
        if key in metadata:
            read_json(metadata[key], f"{where}: {key}")
    if KEY in metadata:
        FamilyConditions.from_text(metadata[KEY], f"{where}: family")
    if "region" in metadata:
        Domain.from_text(metadata["region"], f"{where}: region")
    if "step" in metadata:
        try:
            step = float(metadata["step"])
        except ValueError:
            step = 0.0
        if not 0 < step < math.inf:
            raise InputError(f"{where}: step must be a positive number, not {metadata['step']!r}")
    return metadata
