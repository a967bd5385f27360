"""Trajectories of a model, as arrays or tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.arguments import whole_number
from vpintegrator.errors import InputError
from vpintegrator.rollout.neural import WORTH, LearnedCursor, as_windows, compile_for
from vpintegrator.rollout.observer import first_step

if TYPE_CHECKING:
    import torch

    from vpintegrator.models import Integrator

_PART_VALUES = 500_000  # numbers predicted at a time: they stay in a cache,
_GPU_PART_VALUES = 1 << 26  # or fill a GPU
_LARGEST_PART = 4096  # steps between two calls of progress


def rollout(
    model: Integrator,
    initial: Any,
    steps: int,
    progress: Callable[[str, int, int], None] | None = None,
    compiled: bool | None = None,
) -> Any:
    """Iterate a model from first windows of states.

    Each call of the model reads the last ``model.window`` states and gives the next
    ``model.prediction_window``.

    Parameters
    ----------
    model
        A trained model; or a torch module that maps states to the next ones, see
        :func:`vpintegrator.wrap`.
    initial
        First windows, shape (trajectory, window, dim); also (trajectory, dim) for a one-step model.
        An array or a tensor.
    steps
        Number of time steps after the first state of the window.
    progress
        Called a hundred times or more with the model's name, steps done, and steps in all.
    compiled
        Whether the model runs as machine code (see ``vpintegrator.compiled``), by default from
        5,000 evaluations on. Machine code is equal up to rounding and ten to hundreds of times
        faster; a new model takes seconds to compile. On a GPU models run in PyTorch.

    Returns
    -------
    numpy.ndarray or torch.Tensor
        States of shape (trajectory, steps + 1, dim), in the model's dtype, the first window first.
        An array for an array; a tensor, on the model's device and without gradient, for a tensor.
        A trajectory that diverges is NaN from there on. There is a warning where states leave the
        domain of the training data, see :meth:`vpintegrator.models.Integrator.in_domain`.

    Raises
    ------
    InputError
        If an argument is wrong.

    Examples
    --------
    >>> model = vp.models.VolumePreservingFeedForward(dim=2)
    >>> vp.rollout(model, np.zeros((3, 1, 2)), 10).shape  # (trajectory, time, dim)
    (3, 11, 2)
    """
    import torch

    steps = whole_number("steps", steps)
    model = _as_model(model, initial)
    as_tensor = isinstance(initial, torch.Tensor)
    windows = as_windows(model, initial)
    states = windows.new_empty((len(windows), max(steps + 1, model.window), model.dim))
    states[:, : model.window] = windows
    on_gpu, calls = windows.device.type == "cuda", steps // model.prediction_window
    if compiled is None and calls < WORTH:
        compiled = False
    machine = compile_for(model, len(windows), compiled, windows)
    cursor = LearnedCursor(model, windows, compiled=machine)
    values = _GPU_PART_VALUES if on_gpu else _PART_VALUES
    part = max(min(values // (len(windows) * model.dim), _LARGEST_PART), 1)
    if progress:
        part = max(min(part, steps // 100), 1)
    for known in range(model.window, steps + 1, part):
        count = min(part, steps + 1 - known)
        states[:, known : known + count] = cursor.advance_tensor(count)
        if progress:
            progress(model.name, known + count - 1, steps)
    states = states[:, : steps + 1]
    _warn_outside(model, states, part)
    return states.contiguous() if as_tensor else states.cpu().numpy()


def _as_model(model: Any, initial: Any) -> Any:
    """Return the model, or one made of a module for the components of the states."""
    from vpintegrator.models.wrapped import check_model, is_own, wrap

    check_model(model, "model")
    if not is_own(model):
        return model
    shape = np.shape(initial)
    if len(shape) not in (2, 3):
        raise InputError(
            f"initial has shape {shape}, but a rollout starts from states (trajectory, dim) or "
            "windows (trajectory, window, dim)"
        )
    return wrap(model, shape[-1], window=shape[1] if len(shape) == 3 else 1)


def _warn_outside(model: Integrator, states: torch.Tensor, part: int) -> None:
    """Warn if trajectories (trajectory, time, dim) leave the domain of the training data."""
    # a network of another package has no metadata
    if not {"region", "system"} <= getattr(model, "metadata", {}).keys():
        return
    first = np.full(len(states), -1)
    for start in range(0, states.shape[1], part):
        outside = ~model.in_domain(states[:, start : start + part])
        first_step(first, start, outside.cpu().numpy())
    left = first[first >= 0]
    if left.size:
        warnings.warn(
            f"{model.name}: {left.size} of {len(states)} trajectories leave the domain of the "
            f"training data, first at step {left.min()}; outside a model is a guess "
            "(model.in_domain)",
            stacklevel=3,
        )
