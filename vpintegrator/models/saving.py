"""Models in safetensors files: tensors, and text that says how to build the model round them.

The header of the file holds, as strings: ``format`` ("vpintegrator-model"), ``version``, ``class``
(a name of this package, or module and name of another class), ``arguments``, ``structure``,
``coordinates`` (order and chart) and ``metadata`` as JSON, and ``dtype``. Nothing in such a file is
ever executed.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Mapping
from inspect import Parameter
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from vpintegrator.arguments import as_path, positive
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.errors import InputError
from vpintegrator.models.arguments import arguments_of
from vpintegrator.models.family import KEY, FamilyConditions
from vpintegrator.models.model import Model
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.models.wrapped import WrappedModel, check_model, is_own
from vpintegrator.nn.layer import as_dtype
from vpintegrator.runtime.devices import check_device
from vpintegrator.storage.files import check_version, replacing
from vpintegrator.storage.reading import check_kind, read_json

FORMAT = "vpintegrator-model"
VERSION = 1


def save(model: Model, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a model to a safetensors file.

    Parameters
    ----------
    model : Model
        The model; its ``metadata`` (strings) is stored with it.
    path : path
        Conventionally ends in ``.safetensors``.
    overwrite : bool
        Whether an existing file may be replaced.

    Raises
    ------
    InputError
        If the file exists and may not be replaced, the model cannot be built from its arguments,
        or its metadata are no texts.

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
    required = [n for n, a in arguments_of(type(model)).items() if a.default is Parameter.empty]
    lacking = [name for name in required if name not in model.arguments]
    if lacking and not isinstance(model, WrappedModel):
        raise InputError(
            f"a {type(model).__name__} cannot be built again, for {lacking[0]} is no plain value; "
            "build its layers in the __init__ of a class, or take state_dict()"
        )
    if not all(isinstance(part, str) for pair in model.metadata.items() for part in pair):
        raise InputError("the metadata of a model must be texts; write others as JSON")
    try:
        arguments = json.dumps(model.arguments)
    except TypeError as error:
        raise InputError(f"the arguments of the model cannot be stored: {error}") from None
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "class": _class_of(model),
        "arguments": arguments,
        "structure": model.structure.text,
        "coordinates": json.dumps(model.coordinates.arguments),
        "dtype": str(model.scale.dtype).removeprefix("torch."),
        "metadata": json.dumps(model.metadata),
    }
    # clones: modules of the user may share memory
    tensors = {n: t.detach().cpu().contiguous().clone() for n, t in model.state_dict().items()}
    # as bytes: the library's own writer leaves a temporary file of its own when it is killed, and
    # has an exception of its own for a full disk
    data = safetensors.torch.save(tensors, metadata=header)
    with replacing(path, overwrite) as temporary:
        temporary.write_bytes(data)


def save_somewhere(model: Model, path: str | os.PathLike[str], overwrite: bool) -> None:
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
    model: type[Model] | torch.nn.Module | None = None,
) -> Model:
    """Read a model written by ``save``.

    Parameters
    ----------
    path : path
    device : str or torch.device
    model : class or Module, optional
        For the file of a model of your own: its class; of a wrapped module
        (:func:`vpintegrator.wrap`): a new module of the same class and sizes, which gets the
        weights. Nothing is imported or executed for a file.

    Returns
    -------
    Model
        Model in the dtype of the file, with its ``metadata``, in evaluation mode.

    Raises
    ------
    InputError
        If there is no such file or device, it is not a model of this package, or ``model`` is
        missing or of another class.

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
    name = header.get("class", "")
    where = f"the header of {path} does not describe a {name} model"
    arguments = read_json(header.get("arguments", ""), f"{where}: its arguments")
    if name in ARCHITECTURES and model is not None:
        raise InputError(f"{path} holds a model of this package, {name}; leave out model")
    own: Any = ARCHITECTURES.get(name, model)
    if isinstance(own, torch.nn.Module):
        own = own.to(as_dtype(header.get("dtype", "")))
        arguments, own = {"module": own, **arguments}, WrappedModel
    elif not (isinstance(own, type) and issubclass(own, Model)):
        raise InputError(
            f"{path} holds a model of the class {name!r}, which is none of this package "
            f"({', '.join(ARCHITECTURES)}): give the class, or a new module to be filled, as in "
            "vp.load(path, model=MyModel)"
        )
    count = sum(tensor.numel() for tensor in tensors.values())
    result = built_of_file(own, arguments, header.get("dtype", ""), count, where)
    try:
        result.set_coordinates(**read_json(header.get("coordinates", "{}"), "coordinates"))
    except (InputError, TypeError) as error:
        raise InputError(f"{where}: {error}") from None
    if own is not ARCHITECTURES.get(name) and _class_of(result) != name:
        raise InputError(f"{path} holds a model of the class {name}, not a {_class_of(result)}")
    _fill(path, result, tensors)
    result.metadata = _metadata(path, header)
    return result.to(device).eval()


def _class_of(model: Model) -> str:
    """Return the name of a model's class in this package, or module and name of another one."""
    kind: type = type(model)
    if ARCHITECTURES.get(model.name) is kind:
        return model.name
    if isinstance(model, WrappedModel):
        kind = type(model.core.get_submodule("module"))
    return f"{kind.__module__}.{kind.__qualname__}"


def _read(path: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    check_kind(path, "model")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return file.metadata() or {}, tensors
    except (safetensors.SafetensorError, OSError, RuntimeError) as error:
        raise InputError(
            f"{path} is not a safetensors file or is damaged ({error}); give a model written by "
            "vp-train"
        ) from None


def built_of_file(
    architecture: type[Any], arguments: Mapping[str, Any], dtype: Any, count: int, where: str
) -> Model:
    """Return a model of the arguments that a file of so many numbers names.

    Raises
    ------
    InputError
        If the arguments make no model, or a size is larger than any of a file of so many numbers.
    """
    for name, value in arguments.items():
        if type(value) is int and value > max(count, 1_000):  # few numbers may have a high degree
            raise InputError(
                f"{where}: {name} = {value} is out of proportion to the {count} numbers that the "
                "file holds"
            )
    options = {"dtype": dtype} if "dtype" in arguments_of(architecture) else {}
    try:
        return architecture(**arguments, **options)
    except (InputError, TypeError, ValueError, ArithmeticError, RuntimeError, MemoryError) as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{where}: {detail}") from None


def _fill(path: Path, model: Model, tensors: dict[str, torch.Tensor]) -> None:
    """Copy tensors into the model; their names and shapes must be those of its arguments."""
    expected = model.state_dict()
    where = f"the tensors in {path} do not fit the class {_class_of(model)} with its arguments"
    if strange := sorted(set(expected) ^ set(tensors)):
        what = "missing" if strange[0] in expected else "not expected"
        raise InputError(f"{where}: {strange[0]!r} is {what}")
    for name, tensor in expected.items():
        stored = tensors[name]
        if stored.shape != tensor.shape or stored.dtype != tensor.dtype:
            raise InputError(f"{where}: {name!r} is {_shown(stored)}, not {_shown(tensor)}")
        if stored.is_floating_point() and not torch.isfinite(stored).all():
            raise InputError(f"{path}: {name!r} holds numbers that are not finite")
    model.load_state_dict(tensors)
    # stored values must be values that ``set_normalisation`` accepts unchanged
    pair = model.shift.clone(), model.scale.clone()
    try:
        model.set_normalisation(*pair, model.coordinates.state_scale)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    kept = zip(pair, (model.shift, model.scale), strict=True)
    if not all(torch.allclose(new, old, rtol=1e-4, atol=1e-4) for old, new in kept):
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
        read_json(metadata.get(key, "{}"), f"{where}: {key}")
    if KEY in metadata:
        FamilyConditions.from_text(metadata[KEY], f"{where}: family")
    if "region" in metadata:
        Domain.from_text(metadata["region"], f"{where}: region")
    try:
        positive("step", float(metadata.get("step", "1")))
    except ValueError:  # an InputError is one, too
        raise InputError(
            f"{where}: step must be a positive number, not {metadata['step']!r}"
        ) from None
    return metadata
