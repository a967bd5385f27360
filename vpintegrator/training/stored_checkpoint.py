"""Reading checkpoints, which may come from anybody: all is checked before it is used."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from vpintegrator.arguments import not_negative, whole
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.storage.files import check_version
from vpintegrator.training.checkpoint import FORMAT, FORMAT_VERSION, Checkpoint, Stage
from vpintegrator.training.generator import check_generator_state
from vpintegrator.training.history import CURVES, ENDINGS, Budget, History
from vpintegrator.training.loop import TrainingState
from vpintegrator.training.optimizers.state import State, Tensors, check_tensor

_LARGEST = 2**62
_LONGEST = 1 << 24  # characters of a text in the header
_GROUPS = ("model", "best", "kept", "optimizer", "history", "generator")
# whatever else a damaged file makes the libraries say
_DAMAGE = (
    SafetensorError,
    OSError,
    KeyError,
    TypeError,
    ValueError,
    RecursionError,
    AttributeError,
)


def load_checkpoint(
    path: str | os.PathLike[str], identity: dict[str, Any], model: Integrator
) -> Checkpoint:
    """Read a checkpoint and make sure that it belongs to this training.

    Parameters
    ----------
    path
        The file.
    identity
        Identity of this training.
    model
        Model with the sizes that the weights must have; it is not changed.

    Raises
    ------
    InputError
        If there is none, it is damaged, or it belongs to another training.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no checkpoint {path} to resume from")
    with _opened(path) as (file, header):
        version = check_version(path, header.get("format_version"), FORMAT_VERSION)
        saved = _table(path, header, "identity")
        _check_identity(path, saved, identity, version)
        return _understood(path, header, _read_groups(path, file), identity, model, version)


def stored_identity(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the identity in a checkpoint, as it stands there.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    with _opened(Path(path)) as (_, header):
        return _table(Path(path), header, "identity")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """The file and its header; whatever is wrong in it is told in a sentence."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") != FORMAT:
                raise InputError(f"{path} is not a checkpoint of a training")
            yield file, header
    except InputError:
        raise
    except _DAMAGE as error:
        raise InputError(
            f"{path} is damaged, or no checkpoint: {error}; start afresh without resuming"
        ) from None


def _understood(
    path: Path,
    header: dict[str, str],
    groups: dict[str, Tensors],
    identity: dict[str, Any],
    model: Integrator,
    version: int,
) -> Checkpoint:
    """Return the parts of a file, each checked."""
    wrong = f"{path} is damaged"
    like = model.state_dict()
    for name in ("model", "best", *(("kept",) if groups["kept"] else ())):
        _check_weights(f"{wrong}: {name}", groups[name], like)
    numbers = _table(path, header, "numbers")
    if version < 3 and "damping" in numbers:  # a second-order method, which did not count its steps
        numbers |= {"best": 0.0, "stalled": 0}
    if version < 4:
        numbers = _renamed(groups, numbers)
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LARGEST:
            raise InputError(f"{wrong}: {name} = {_short(value)} is no number of an optimizer")
    budget = _table(path, header, "budget") if "budget" in header else {}
    stage = Stage(**_table(path, header, "stage")) if "stage" in header else Stage()
    whole(f"{wrong}: done", stage.done, 0, identity.get("restarts", 1))
    whole(f"{wrong}: epochs", stage.epochs, 0, _LARGEST)
    not_negative(f"{wrong}: seconds", stage.seconds)
    if not isinstance(stage.error, float) or math.isnan(stage.error):
        raise InputError(f"{wrong}: error = {stage.error!r} is none")
    if stage.done and not groups["kept"]:
        raise InputError(f"{wrong}: the weights of the best start are missing")
    generator = groups["generator"].get("state", torch.empty(0))
    check_generator_state(f"{wrong}: the state of the random numbers", generator)
    optimizer = State(groups["optimizer"], numbers, os.fspath(path))
    return Checkpoint(
        identity=identity,
        budget=_checked(wrong, Budget, **budget),
        history=_history(wrong, _table(path, header, "history"), groups["history"]),
        training_state=TrainingState(groups["model"], optimizer, generator),
        best=groups["best"],
        stage=stage,
        kept=groups["kept"],
        version=version,
    )


def _checked(wrong: str, kind: Any, **values: Any) -> Any:
    """Return an object that checks its values itself."""
    try:
        return kind(**values)
    except InputError as error:
        raise InputError(f"{wrong}: {error}") from None


def _renamed(groups: dict[str, Tensors], numbers: dict[str, float]) -> dict[str, float]:
    """Return the numbers, and the tensors in place, of a state whose names began with kinds."""

    def name(old: str) -> str:
        kind, _, rest = old.partition(".")
        return f"state.{rest}" if kind in ("number", "list", "length") else old

    of_one_iteration = ("list.al.", "length.al")
    optimizer = groups["optimizer"].items()
    groups["optimizer"] = {
        name(key): tensor for key, tensor in optimizer if not key.startswith(of_one_iteration)
    }
    return {name(k): v for k, v in numbers.items() if not k.startswith(of_one_iteration)}


def _table(path: Path, header: dict[str, str], name: str) -> dict[str, Any]:
    text = header[name]
    if len(text) > _LONGEST:
        raise InputError(f"{path} is damaged: its {name} is far too long")
    table = json.loads(text)
    if not isinstance(table, dict):
        raise InputError(f"{path} is damaged: its {name} is no table")
    return table


def _read_groups(path: Path, file: Any) -> dict[str, Tensors]:
    groups: dict[str, Tensors] = {name: {} for name in _GROUPS}
    for key in file.keys():  # noqa: SIM118 - not a dictionary
        group, _, name = key.partition("/")
        if group not in groups:
            raise InputError(f"{path} is damaged: {key} has no meaning")
        groups[group][name] = file.get_tensor(key)
    return groups


def _check_weights(what: str, found: Tensors, like: Tensors) -> None:
    for name in like:
        if name not in found:
            raise InputError(f"{what}/{name} is missing")
        check_tensor(f"{what}/{name}", found[name], like[name].dtype, like[name].shape)
    for name in found:
        if name not in like:
            raise InputError(f"{what}/{name} is of no weight of the model")
    if not (found["shift"].isfinite().all() and ((s := found["scale"]) > 0).all()):
        raise InputError(f"{what} has no sound normalisation")
    if not s.isfinite().all():
        raise InputError(f"{what} has no sound normalisation")


def _history(wrong: str, values: dict[str, Any], curves: Tensors) -> History:
    """Return the history, whose curves version 1 had in the header."""
    epochs = values.pop("epoch", None)
    for name in CURVES:
        if name in values:
            curves[name] = torch.tensor(values.pop(name), dtype=torch.float64)
    count = len(curves["seconds"])
    for name in CURVES:
        check_tensor(f"{wrong}: {name}", curves[name], torch.float64, (count,))
    seconds = curves["seconds"]
    if not (seconds.isfinite() & (seconds >= 0)).all():
        raise InputError(f"{wrong}: its seconds are no times")
    if epochs is not None and epochs != list(range(1, count + 1)):
        raise InputError(f"{wrong}: its epochs are not numbered one by one")
    history = History(**values)
    for name, most in (
        ("seed", None),
        ("parameters", None),
        ("best_epoch", count),
        ("improved_epoch", count),
        ("windows", None),
    ):
        whole(f"{wrong}: {name}", getattr(history, name), 0, most)
    whole(f"{wrong}: rollbacks", history.rollbacks, 0, _LARGEST)
    not_negative(f"{wrong}: share", history.share)
    for name in ("best_validation_error", "test_error", "improved_error"):
        if not isinstance(getattr(history, name), float):
            raise InputError(f"{wrong}: {name} = {getattr(history, name)!r} is no error")
    named = [history.optimizer, history.device, history.device_reason, history.warning]
    named.append(history.not_compiled)
    texts = all(isinstance(text, str) for text in named) and history.stopped_by in ("", *ENDINGS)
    if not texts or not isinstance(history.compiled, bool):
        raise InputError(f"{wrong}: its history makes no sense")
    history.epoch = list(range(1, count + 1))
    for name in CURVES:
        setattr(history, name, curves[name].tolist())
    return history


def _check_identity(
    path: Path, saved: dict[str, Any], identity: dict[str, Any], version: int
) -> None:
    for key, value in json.loads(json.dumps(identity)).items():
        if key not in saved and version == 1:
            continue  # this version did not store the entry
        found = _difference(key, saved.get(key), value)
        if found:
            name, was, now = found
            raise InputError(
                f"{path} is of another training: its {name} was {was}, now it is {now}; use the "
                "same options, or start afresh without resuming"
            )


def _difference(name: str, was: Any, now: Any) -> tuple[str, str, str] | None:
    """Return the first place where two values differ, in words."""
    if was == now:
        return None
    if isinstance(was, dict) and isinstance(now, dict):
        for key in [*now, *was]:
            found = _difference(str(key), was.get(key), now.get(key))
            if found:
                return found
    return name.replace("_", " "), _short(was), _short(now)


def _short(value: Any) -> str:
    if value is None:
        return "not given"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:40]} ... ({len(text)} characters)"
