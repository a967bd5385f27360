"""Models in safetensors files: tensors, and text that says how to build the model round them.

The header of the file holds, as strings: ``format`` ("vpintegrator-model"), ``version``, ``class``
(a name of this package, or module and name of another class), ``arguments``, ``structure``,
``coordinates`` (order and chart), ``invariants`` (their sizes, where the map keeps some),
``origin`` and ``record`` as JSON, ``prediction_window``, ``dtype``, and ``checksum``, the SHA-256
of the other entries and of the tensors. Nothing in such a file is ever executed.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from vpintegrator.arguments import as_path, of_kind, positive
from vpintegrator.dynamics import System
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.errors import InputError
from vpintegrator.models.family import UNITS, FamilyParameters, OutsideTraining
from vpintegrator.models.iteration import evaluating
from vpintegrator.models.model import Model
from vpintegrator.models.registry import ARCHITECTURES
from vpintegrator.models.stored import CURVES, History, Member, Origin, Record
from vpintegrator.models.wrapped import WrappedModel
from vpintegrator.nn.invariants import PolynomialInvariants
from vpintegrator.nn.layer import as_dtype
from vpintegrator.runtime.devices import check_device
from vpintegrator.storage.files import check_version, replacing
from vpintegrator.storage.reading import check_kind, read_json

FORMAT = "vpintegrator-model"
VERSION = 2
_COMPARED = 16  # windows on which a model that was written is compared with the one in memory


def save(model: Model, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a model to a safetensors file.

    The file gets its name after the model was built again from what was written, and has given
    the same outputs bit for bit.

    Parameters
    ----------
    model : Model
        The model; its ``origin`` and ``record`` are stored with it.
    path : path
        Conventionally ends in ``.safetensors``.
    overwrite : bool
        Whether an existing file may be replaced.

    Raises
    ------
    InputError
        If the file exists and may not be replaced, or the model is not what its class
        builds from its arguments: a layer was exchanged, added, parametrised or has hooks. Then
        make the change in a class of your own, or save ``vp.wrap`` of a module.

    Examples
    --------
    >>> model = vp.models.VolumePreservingFeedForward(dim=2)
    >>> vp.save(model, "feed-forward.safetensors", overwrite=True)
    """
    words = "a model of this package; of a torch module save vp.wrap(module, dim=..., step=...)"
    of_kind("model", model, Model, words)
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
        "prediction_window": str(model.prediction_window),
        "dtype": str(model.scale.dtype).removeprefix("torch."),
        "origin": _origin_text(model.origin),
        "record": _record_text(model.record),
    }
    if model.invariants is not None:
        header["invariants"] = json.dumps(model.invariants.sizes)
    if model.family is not None:
        header["family"] = json.dumps(asdict(model.family))
    # clones: modules of the user may share memory
    tensors = {n: t.detach().cpu().contiguous().clone() for n, t in model.state_dict().items()}
    header["checksum"] = _checksum(header, tensors)
    # as bytes: the library's own writer leaves a temporary file of its own when it is killed, and
    # has an exception of its own for a full disk
    data = safetensors.torch.save(tensors, metadata=header)
    with replacing(path, overwrite) as temporary:
        temporary.write_bytes(data)
        _check_same(model, *_read(temporary))


def _check_same(
    model: Model, header: Mapping[str, str], tensors: Mapping[str, torch.Tensor]
) -> None:
    """Raise InputError unless a file gives the same, bit for bit, on a few windows.

    The layer that is named is the first to give another result.
    """
    wrapped = isinstance(model, WrappedModel)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(_COMPARED, model.window, model.dim, generator=generator)
    try:
        again = _model(copy.deepcopy(model.core) if wrapped else type(model), header, tensors)
        again.to(model.scale.device)
        with evaluating(model), torch.no_grad():
            windows = model.coordinates.inverse(noise.to(model.scale))  # (window, time, dim)
            middle = [(low + high) / 2 for low, high in model.ranges.values()]
            k = (windows.new_tensor(middle or [0.5] * model.parameter_count),)
            read = k if model.parameter_count else ()
            images, others = (_images(each, windows, *read) for each in (model, again))
        wrong = [n for n, x in images.items() if n not in others or not torch.equal(x, others[n])]
        if not wrong and images.keys() == others.keys():
            return
        # without another result the first layer that raised an error
        (name, *_) = wrong or [name for name in others if name not in images]
        reason = f"the layer {name or 'of the model'!r} is another one"
    except Exception as error:  # whatever a layer of the user raises
        reason = str(error)
    raise InputError(
        f"the model cannot be built again, {reason}; make it in the __init__ of a class of your "
        "own, whose arguments are plain values, and load it by vp.load(path, model=Class), or save "
        "vp.wrap of a module"
    )


def _images(model: Model, *inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return what layers give, by their names, in the order in which they end, to the first error.

    The name of the model is empty.
    """
    images: dict[str, torch.Tensor] = {}

    def keep(name: str, layer: torch.nn.Module, given: Any, image: Any) -> None:
        if isinstance(image, torch.Tensor):
            images[name] = image.nan_to_num()

    layers = dict(model.named_modules())
    hooks = [layer.register_forward_hook(partial(keep, name)) for name, layer in layers.items()]
    with suppress(Exception):  # of a layer that was changed: the images are others then
        model(*inputs)
    for hook in hooks:
        hook.remove()
    return images


def _checksum(header: Mapping[str, str], tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256 of the entries of a header and of tensors, as hexadecimal digits."""
    entries = {name: text for name, text in header.items() if name != "checksum"}
    digest = hashlib.sha256(json.dumps(entries, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save_somewhere(model: Model, path: str | os.PathLike[str], overwrite: bool) -> None:
    """Write a model that took long to train; if not to ``path``, then to a temporary folder.

    Raises
    ------
    InputError
        If it cannot be written to ``path``; the message says why, and where it is now.
    """
    try:
        return save(model, path, overwrite)
    except InputError as error:
        reason = str(error)
    except OSError as error:
        reason = f"cannot write {error.filename or path}: {error.strerror or error}"
    other = Path(tempfile.mkdtemp()) / Path(path).name
    save(model, other)
    raise InputError(f"{reason}; the trained model is kept in {other}")


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
        Model in the dtype of the file, with its ``origin`` and ``record``, in evaluation mode.

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
    name = header["class"]
    if name in ARCHITECTURES and model is not None:
        raise InputError(f"{path} holds a model of this package, {name}; leave out model")
    source = ARCHITECTURES.get(name, model)
    is_class = isinstance(source, type) and issubclass(source, Model)
    if source is None or not (is_class or isinstance(source, torch.nn.Module)):
        raise InputError(
            f"{path} holds a model of the class {name!r}, which is none of this package "
            f"({', '.join(ARCHITECTURES)}): give the class, or a new module to be filled, as in "
            "vp.load(path, model=MyModel)"
        )
    try:
        result = _model(source, header, tensors).to(device)
        result.origin = _origin(header["origin"])
        result.record = _record(header["record"])
        return result
    except InputError as error:
        raise InputError(f"{path} holds a model of the class {name}: {error}") from None


def _origin_text(origin: Origin) -> str:
    """Return the JSON text of an origin; the system is the text of its file."""
    system = origin.system
    values = {
        "system": None,
        "step": origin.step,
        "dataset": origin.dataset,
        "fingerprint": origin.fingerprint,
        "domain": None if origin.domain is None else asdict(origin.domain),
        "member": None if origin.member is None else asdict(origin.member),
    }
    if system is not None:
        described = {"text": system.text, "name": system.name, "parameters": system.definitions}
        values["system"] = described
    return json.dumps(values)


def _origin(text: str) -> Origin:
    """Return the origin of a model from its text in a file."""
    values = read_json(text, "its origin")
    system = values.get("system")
    domain = values.get("domain")
    try:
        return Origin(
            system=None if system is None else System.of_text(**system, source="its system"),
            step=None if values["step"] is None else positive("step", values["step"]),
            dataset=of_kind("dataset", values["dataset"], str, "a text"),
            fingerprint=of_kind("fingerprint", values["fingerprint"], str, "a text"),
            domain=None if domain is None else Domain.of_ranges(domain, "its training domain"),
            member=_member(values),
        )
    except (AttributeError, KeyError, TypeError):
        raise InputError("its origin is not what a training writes") from None


def _member(values: Mapping[str, Any]) -> Member | None:
    """Return the family and the values of the member in an origin."""
    member = values.get("member")
    if member is None:
        return None
    try:
        numbers = {name: float(value) for name, value in member["values"].items()}
        return Member(FamilyParameters(**member["family"]), numbers)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError("the family that it is of is not what a training writes") from None


def _record_text(record: Record) -> str:
    """Return the JSON text of a record; the curves are thinned."""
    history = None if record.history is None else record.history.summary()
    return json.dumps(asdict(replace(record, history=None)) | {"history": history})


def _record(text: str) -> Record:
    """Return the record of a training from its text in a file."""
    values = read_json(text, "the record of its training")
    empty = Record(history=History("", 0, 0), search_seconds=0.0)
    try:
        history = values["history"] and History(**_alike(values["history"], empty.history))
        alike = _alike({k: v for k, v in values.items() if v is not None}, empty, "history")
        record = Record(**alike | {"history": history})
        numbers = all(isinstance(error, int | float) for error in record.lead_time_errors)
        lines = all(isinstance(line, str) for line in (*record.search, *record.versions))
        if not (numbers and lines and all(isinstance(row, dict) for row in record.one_step)):
            raise TypeError
        curves = [getattr(history, name) for name in CURVES] if history else [[]]
        if len({*map(len, curves)}) > 1 or not all(
            isinstance(value, int | float) for curve in curves for value in curve
        ):
            raise TypeError
    except (AttributeError, KeyError, TypeError):
        raise InputError("the record of its training is damaged; train the model anew") from None
    return record


def _alike(values: Mapping[str, Any], like: Any, *skipped: str) -> dict[str, Any]:
    """Return values of a dataclass, of the types that another instance has; a list for a tuple."""
    result = {}
    for name, value in values.items():
        if name in skipped:
            continue
        kind = type(getattr(like, name))
        if kind is tuple and isinstance(value, list):
            value = tuple(value)
        if not isinstance(value, (int, float) if kind is float else kind):
            raise TypeError
        result[name] = value
    return result


def _class_of(model: Model) -> str:
    """Return the name of a model's class in this package, or module and name of another one."""
    kind: type = type(model.core if isinstance(model, WrappedModel) else model)
    known = ARCHITECTURES.get(model.name) is kind
    return model.name if known else f"{kind.__module__}.{kind.__qualname__}"


def _read(path: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    """Return the header and the tensors of a file, as they were written.

    Raises
    ------
    InputError
        If there is no such file, it is none of a model, a newer one, or damaged.
    """
    check_kind(path, "model")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            header = file.metadata() or {}
    except (safetensors.SafetensorError, OSError, RuntimeError) as error:
        raise InputError(
            f"{path} is not a safetensors file or is damaged ({error}); give a model written by "
            "vp-train"
        ) from None
    check_version(path, header.get("version"), VERSION)
    if header.get("checksum") != _checksum(header, tensors):
        raise InputError(
            f"{path} is damaged: its checksum is not that of its weights and texts; make it anew, "
            "or take another copy"
        )
    return header, tensors


def _model(
    source: type[Model] | torch.nn.Module,
    header: Mapping[str, str],
    tensors: Mapping[str, torch.Tensor],
) -> Model:
    """Return the model of a file in evaluation mode; torch's random state is left as it is.

    A member of a family has layers of its parameters, in units of the file.

    Parameters
    ----------
    source
        Class of the model, or the module that a wrapped model is filled into.

    Raises
    ------
    InputError
        If the class is another one or does not take the arguments or the weights of the file.
    """
    dtype = as_dtype(header["dtype"])
    arguments, coordinates, origin = (
        read_json(header[name], name) for name in ("arguments", "coordinates", "origin")
    )
    try:
        with torch.random.fork_rng(devices=[]):
            if isinstance(source, torch.nn.Module):
                model: Model = WrappedModel(source.to(dtype), **arguments)
            else:
                model = source(**arguments).to(dtype)
        model.set_coordinates(**coordinates)
        if "invariants" in header:
            sizes = read_json(header["invariants"], "invariants")
            model.keep(PolynomialInvariants(model.dim, **sizes, dtype=dtype))
    except (TypeError, ValueError, ArithmeticError, RuntimeError, MemoryError) as error:
        name = source.__name__ if isinstance(source, type) else type(source).__name__
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{name} does not take its arguments: {detail}") from None
    if header["class"] != _class_of(model):
        raise InputError(f"it is not a {_class_of(model)}")
    if "family" in header:
        model.family = FamilyParameters(**json.loads(header["family"]))
    member = _member(origin)
    if member is not None:
        model.family = member.family
        for name in UNITS:
            model.get_buffer(name).copy_(tensors[name])
        model.set_normalisation(tensors["coordinates.shift"], tensors["coordinates.scale"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideTraining)  # the user was told when it was made
            model = model.at(**member.values)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        _, detail, *_ = str(error).splitlines()
        raise InputError(f"its weights do not fit this class: {detail.strip()}") from None
    model.prediction_window = int(header["prediction_window"])
    return model.eval()
