"""Iterating a learned map."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.errors import InputError

if TYPE_CHECKING:
    import torch

    from vpintegrator.models import Integrator


def rollout(
    model: Integrator,
    initial: Any,
    steps: int,
    progress: Callable[[str, int, int], None] | None = None,
) -> Any:
    """Iterate a model from first windows of states.

    Each call of the model reads the last ``model.window`` states and gives the next
    ``model.prediction_window``.

    Parameters
    ----------
    model
        A trained model.
    initial
        First windows, shape (trajectory, window, dim); also (trajectory, dim) for a one-step model.
        An array or a tensor.
    steps
        Number of time steps after the first state of the window.
    progress
        Called about a hundred times with the model's name, steps done, and steps in all.

    Returns
    -------
    numpy.ndarray or torch.Tensor
        States of shape (trajectory, steps + 1, dim), in the model's dtype, the first window first.
        An array for an array; a tensor, on the model's device and without gradient, for a tensor.
        A trajectory that diverges is NaN from there on.

    Raises
    ------
    InputError
        If an argument is wrong.
    """
    import torch

    from vpintegrator.threads import torch_threads

    as_tensor = isinstance(initial, torch.Tensor)
    windows = as_windows(model, initial)
    if isinstance(steps, bool) or int(steps) != steps or steps < 0:
        raise InputError(f"steps = {steps!r} must be a whole number, 0 or more")
    steps = int(steps)
    window, new = model.window, model.prediction_window
    training = model.training
    model.eval()
    try:
        with torch_threads(), torch.inference_mode():
            # room for the last call, which may go beyond the last step
            states = windows.new_empty((len(windows), max(steps + 1, window) + new, model.dim))
            states[:, :window] = windows
            known, reported = window, 0
            while known <= steps:
                states[:, known : known + new] = model.predict(states[:, known - window : known])
                known += new
                done = min(known - 1, steps)
                if progress and (done == steps or 100 * (done - reported) >= steps):
                    reported = done
                    progress(model.name, done, steps)
            states = states[:, : steps + 1]
            states = _nan_after_divergence(states)
    finally:
        model.train(training)
    # outside of inference mode, so that the caller can use the tensor in any way
    return states.clone() if as_tensor else states.cpu().numpy()


def as_windows(model: Integrator, initial: Any) -> torch.Tensor:
    """First windows (trajectory, window, dim) in the dtype and on the device of the model."""
    import torch

    like = next(iter([*model.parameters(), *model.buffers()]), torch.empty(0, dtype=torch.float64))
    try:
        if not isinstance(initial, torch.Tensor):
            initial = torch.from_numpy(np.array(initial, dtype=np.float64))
        windows = initial.detach().to(dtype=like.dtype, device=like.device)
    except (TypeError, ValueError):
        raise InputError(f"initial = {initial!r} is not an array of numbers") from None
    if model.window == 1 and windows.ndim == 2:
        windows = windows[:, None]
    if windows.ndim != 3 or windows.shape[1:] != (model.window, model.dim) or not len(windows):
        raise InputError(
            f"initial has shape {tuple(initial.shape)}, but the model {model.name} starts from "
            f"windows of shape (trajectory, {model.window}, {model.dim})"
        )
    return windows


def _nan_after_divergence(states: torch.Tensor) -> torch.Tensor:
    """States with everything after the first that is not finite replaced by NaN."""
    import torch

    bad = ~torch.isfinite(states).all(dim=-1)
    return torch.where(bad.cumsum(dim=1)[..., None] > 0, torch.nan, states)
