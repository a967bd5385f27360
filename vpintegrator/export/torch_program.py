"""Export of a model as a program of torch.export, which PyTorch runs without this package."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vpintegrator.compiled.tracing import first_line
from vpintegrator.compiled.verification import verify_model
from vpintegrator.export.description import facts_of
from vpintegrator.export.exported import Exported
from vpintegrator.native import NotCompilable
from vpintegrator.storage.files import replacing

if TYPE_CHECKING:
    from vpintegrator.models import Integrator

_TRACED = 3  # windows: neither none nor one, which PyTorch would take for all that there are
ABOUT = "vpintegrator.json"  # in the file: what the model is


def write_program(model: Integrator, path: Path, verify: bool, overwrite: bool) -> Exported:
    """Write windows (trajectory, window, dim) to the new states of each, in time.

    Raises
    ------
    NotCompilable
        If PyTorch cannot export the model, or what it made gives other numbers.
    """
    about = json.dumps(facts_of(model), indent=1)
    stream = io.BytesIO()
    with quietly():
        torch.export.save(exported(model), stream, extra_files={ABOUT: about})
        if verify:
            stream.seek(0)
            program = torch.export.load(stream).module()
            verify_model(Iterated(model, lambda X: program(torch.from_numpy(X)).numpy()), model)
    with replacing(path, overwrite) as temporary:
        temporary.write_bytes(stream.getvalue())
    return Exported(path, "torch", verify, "" if verify else "it was not asked for")


class Prediction(torch.nn.Module):
    """Module whose forward pass is the prediction of a model, for the export."""

    def __init__(self, model: Integrator) -> None:
        super().__init__()
        self.model = model

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        return self.model.predict(windows)


def example(model: Integrator) -> torch.Tensor:
    """Return example windows."""
    shape = _TRACED, model.window, model.dim
    count = _TRACED * model.window * model.dim
    return torch.linspace(0.1, 0.9, count, dtype=model.scale.dtype).reshape(shape)


def exported(module: Integrator | torch.nn.Module, windows: torch.Tensor | None = None) -> Any:
    """Export a model, or a module of ``windows``, by ``torch.export``, for any number of windows.

    Raises
    ------
    NotCompilable
        If it cannot be exported.
    """
    if windows is None:
        windows, module = example(module), Prediction(module)  # type: ignore[arg-type]
    trajectories = torch.export.Dim("trajectory")
    try:
        with torch.no_grad():
            return torch.export.export(
                module, (windows,), dynamic_shapes=({0: trajectories},), strict=False
            )
    except Exception as error:  # whatever a model of the user's own does
        raise NotCompilable(f"PyTorch cannot follow it: {first_line(error)}") from error


class Iterated:
    """A function of windows, called again and again."""

    def __init__(self, model: Integrator, function: Callable[[np.ndarray], np.ndarray]) -> None:
        self._window, self._function = model.window, function

    def advance(self, windows: np.ndarray, calls: int) -> tuple[np.ndarray, np.ndarray]:
        """Return all states predicted, and the last windows."""
        states = []
        with torch.no_grad():
            for _ in range(calls):
                states.append(self._function(np.ascontiguousarray(windows)))
                windows = np.concatenate([windows, states[-1]], axis=1)[:, -self._window :]
        return np.concatenate(states, axis=1), windows


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress messages and warnings of PyTorch's exporters."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
