"""Data and style for the figures of a model: its training, and its attention in one window."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.arguments import check_integrator
from vpintegrator.errors import InputError
from vpintegrator.plotting.style import PAPER, Style
from vpintegrator.storage.reading import read_json

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_CURVES = ("epoch", "seconds", "training_error", "validation_error")


@dataclass(frozen=True)
class TrainingCourse:
    """Course of a training, from a model file or a history.

    Attributes
    ----------
    name
        Name of the model; empty for a history.
    optimizer, stopped_by, best_epoch, best_validation_error, test_error
        Attributes of the same names in :class:`vpintegrator.training.History`.
    epoch, seconds, training_error, validation_error
        The curves, (epoch,); those of a model file are thinned to some hundred epochs.
    """

    name: str
    optimizer: str
    stopped_by: str
    best_epoch: int
    best_validation_error: float
    test_error: float
    epoch: np.ndarray
    seconds: np.ndarray
    training_error: np.ndarray
    validation_error: np.ndarray


@dataclass(frozen=True)
class ModelScene:
    """A model made ready for drawing.

    Attributes
    ----------
    model, style
        Model to draw, and style of the figures.
    where, name
        The path of its file, or ``"model"``, and how the figures call it.
    """

    model: Integrator
    where: str = "model"
    style: Style = PAPER

    @property
    def name(self) -> str:
        return self.model.name if self.where == "model" else Path(self.where).stem

    @cached_property
    def training(self) -> TrainingCourse | None:
        """Course of the training by the metadata of the model, None if they have no training.

        Raises
        ------
        InputError
            If the metadata are damaged, or the training ended before the first epoch.
        """
        text = self.model.metadata.get("training")
        if text is None:
            return None
        return _training(self.name, read_json(text, self.where), self.where)

    @cached_property
    def attention(self) -> dict[str, np.ndarray]:
        """The weights of :func:`attention_in` in the :func:`first_window` of a rollout.

        There are none where the model does not say of which system it is.
        """
        with suppress(InputError):
            return attention_in(self.model, first_window(self.model))
        return {}


def first_window(model: Integrator) -> np.ndarray:
    """Return the first window (window, dim) of the first orbit of a rollout with seed 0.

    Raises
    ------
    InputError
        If the model does not say of which system it is, or there is no such orbit.
    """
    from vpintegrator.rollout.diagnostics.first_window import first_windows
    from vpintegrator.rollout.flow import as_flow
    from vpintegrator.rollout.start import find_system

    system = find_system({model.name: model}, None)
    initial = system.sample_initial(1, np.random.default_rng(0))
    return first_windows(as_flow(model, system), initial)[0]


def attention_in(model: Integrator, window: Any) -> dict[str, np.ndarray]:
    """Return weights (head, time, time) of the attention layers that act, by place in the model.

    Raises
    ------
    InputError
        If the window is none of states (window, dim) of the model, or the model has no attention.
    """
    import torch

    from vpintegrator.nn import attention_weights

    try:
        states = torch.as_tensor(np.asarray(window, dtype=np.float64)).to(model.shift)
    except (TypeError, ValueError):
        raise InputError(f"window: {window!r} is no array of numbers") from None
    if states.shape != (model.window, model.dim):
        raise InputError(
            f"window has shape {tuple(states.shape)}, but the model {model.name} reads windows of "
            f"shape ({model.window}, {model.dim})"
        )
    found = {
        # an average over symmetries: take the term of the identity
        place: weights[(0,) * (weights.ndim - 3)].reshape(-1, *weights.shape[-2:]).cpu().numpy()
        for place, weights in attention_weights(model, states).items()
    }
    if not found:
        raise InputError(f"the model {model.name} has no attention")
    return found


def model_scene(source: Any, style: Style = PAPER) -> ModelScene:
    """Return the scene of a model or of a model file.

    Raises
    ------
    InputError
        If the file is no model.
    """
    if isinstance(source, str | os.PathLike):
        from vpintegrator.models import load

        return ModelScene(load(source), os.fspath(source), style)
    check_integrator(source)
    return ModelScene(source, style=style)


def read_training(source: Any) -> TrainingCourse:
    """Return the training of a model, of the path of its file, or of a history.

    Raises
    ------
    InputError
        If the file is no model, or says nothing or nonsense of its training.
    """
    if hasattr(source, "summary"):
        return _training("", source.summary(), "history")
    scene = model_scene(source)
    if scene.training is None:
        raise InputError(
            f"{scene.where} holds no record of a training; train it with vp-train or vp.train"
        )
    return scene.training


def _training(name: str, told: dict[str, Any], where: str) -> TrainingCourse:
    try:
        curves = [np.asarray(told[key], dtype=float) for key in _CURVES]
        if curves[0].ndim != 1 or len({curve.shape for curve in curves}) != 1:
            raise ValueError
        if not np.isfinite(curves[:2]).all():
            raise ValueError
        least, test = (float(told[key]) for key in ("best_validation_error", "test_error"))
        best, words = int(told["best_epoch"]), [str(told[k]) for k in ("optimizer", "stopped_by")]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(
            f"{where}: the record of the training is damaged; train the model anew to draw it"
        ) from None
    if not len(curves[0]):
        raise InputError(f"{where}: its training ended before the first epoch; train it for longer")
    return TrainingCourse(name, words[0], words[1], best, least, test, *curves)
