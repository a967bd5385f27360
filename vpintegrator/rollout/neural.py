"""Iterating a learned map, and differentiating it."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.errors import InputError
from vpintegrator.maps.cursor import Cursor

if TYPE_CHECKING:
    import torch

    from vpintegrator.compiled import CompiledModel
    from vpintegrator.models import Integrator

WORTH = 5000  # evaluations from which on compiling pays
_JACOBIANS = 200_000  # entries of all Jacobians computed at a time
_COLUMNS = 128  # columns of a Jacobian at a time
_TIMED = 256  # steps after which the time of a model that has one is set anew


class LearnedCursor(Cursor):
    """Trajectories of a model from first windows (trajectory, window, dim) of its dtype and device.

    Attributes
    ----------
    model
        It is evaluated in ``eval`` mode and put back into the mode it was in.
    compiled
        The same as machine code, to be used instead.

    Notes
    -----
    Repeated addition of the time step rounds every sum the same way. So times are computed from the
    number of steps, and the model reads them within a period if there is one. A late phase is as
    accurate as an early one.
    """

    def __init__(
        self,
        model: Integrator,
        windows: torch.Tensor,
        compiled: CompiledModel | None = None,
    ) -> None:
        self.model, self.compiled = model, compiled
        self._failed = ~windows.isfinite().flatten(1).all(dim=1)
        # windows that are not finite give NaN
        self._window = windows.masked_fill(self._failed[:, None, None], math.nan)
        # states predicted already but not yet asked for
        self._waiting = windows[:, :0].clone()
        self._timed = getattr(model, "explicit_time", False) and model.window == 1
        self._first_times, self._steps = windows[:, -1, -1].clone(), 0
        if self._timed:
            self._set_times()

    def advance(self, count: int) -> np.ndarray:
        return self.advance_tensor(count).double().cpu().numpy()

    def advance_tensor(self, count: int) -> torch.Tensor:
        """Return the next ``count`` states as a tensor (trajectory, count, dim), no gradient."""
        import torch

        if not self._timed:
            return self._advance(count)
        parts = [self._window[:, :0]]
        while count:
            part = min(count, _TIMED - self._steps % _TIMED)
            states = self._advance(part)
            times = self._times(torch.arange(self._steps + 1, self._steps + part + 1).to(states))
            states[..., -1] = torch.where(states[..., -1].isfinite(), times, torch.nan)
            parts.append(states)
            self._steps, count = self._steps + part, count - part
            if self._steps % _TIMED == 0:
                self._set_times()
        return torch.cat(parts, dim=1)

    def _times(self, steps: torch.Tensor) -> torch.Tensor:
        """Return times (trajectory, count) after numbers of steps."""
        return self._first_times[:, None] + self.model.get_buffer("advance") * steps

    def _set_times(self) -> None:
        """Give the model the time of its next step, within a period if there is one."""
        import torch

        times = self._times(torch.full((1,), self._steps).to(self._window))
        period = self.model.coordinates.periods.get(self.model.dim - 1)
        self._window[..., -1] = times if period is None else times % period

    def _advance(self, count: int) -> torch.Tensor:
        """Return the next states in the components of the model."""
        import torch

        window, new = self.model.window, self.model.prediction_window
        if self.compiled is not None and not self._waiting.shape[1] and count % new == 0:
            read = self._window[:, window - self.compiled.window :]
            states = advanced(self.compiled, read, count // new)
            last = torch.cat([self._window, states[:, -window:]], dim=1)
            self._window = last[:, -window:].contiguous()
            return _nan_after_divergence(states, self._failed)
        # room for the window before and for the last prediction, which may go beyond
        states = self._window.new_empty((len(self._window), window + count + new, self.model.dim))
        known = window + self._waiting.shape[1]
        states[:, :window] = self._window
        states[:, window:known] = self._waiting
        # a prediction starts from the last states predicted, not from the last asked for
        if self.compiled is not None and known < window + count:
            calls = -(-(window + count - known) // new)
            read = states[:, known - self.compiled.window : known]
            states[:, known : known + calls * new] = advanced(self.compiled, read, calls)
            known += calls * new
        if known < window + count:
            # weights that are computed from others (Stiefel) are computed once
            cached = torch.nn.utils.parametrize.cached()
            with evaluating(self.model), torch.inference_mode(), cached:
                while known < window + count:
                    states[:, known : known + new] = self.model.predict(
                        states[:, known - window : known]
                    )
                    known += new
        self._waiting = states[:, window + count : known].clone()
        self._window = states[:, count : window + count].clone()
        return _nan_after_divergence(states[:, window : window + count], self._failed)


@contextmanager
def evaluating(model: Integrator) -> Iterator[None]:
    from vpintegrator.runtime.threads import torch_threads

    training = model.training
    model.eval()
    try:
        with torch_threads():
            yield
    finally:
        model.train(training)


def compile_for(
    model: Integrator, trajectories: int, compiled: bool | None, windows: Any = None
) -> CompiledModel | None:
    """Compile the model; return None if that is not wanted, or by default not possible.

    Machine code is used only if it agrees with PyTorch at random windows and some of those given.

    Raises
    ------
    InputError
        If it is wanted and impossible. A warning gives the reason if ``compiled`` is None.
    """
    if compiled is False:
        return None
    from vpintegrator.compiled import NotCompilable, compile_model, wanted_on

    compiled = wanted_on(model.scale.device.type, compiled)
    if compiled is False:
        return None
    windows = None if windows is None else windows[:, -model.window :]
    try:
        with evaluating(model):
            return compile_model(model, trajectories, windows)
    except NotCompilable as reason:
        if compiled:
            raise InputError(f"{model.name} cannot be compiled: {reason}") from None
        warnings.warn(f"{model.name} runs in PyTorch, not compiled: {reason}", stacklevel=3)
        return None


def advanced(machine: CompiledModel, windows: torch.Tensor, calls: int) -> torch.Tensor:
    """Return the predictions of :meth:`CompiledModel.advance` from windows as a tensor."""
    import torch

    return torch.from_numpy(machine.advance(windows.numpy(), calls)[0])


def network_jacobian(model: Integrator, windows: Any) -> np.ndarray:
    """Return Jacobian matrices of the model's map of windows (n, window, dim), in float64.

    Shape (n, window * dim, window * dim), time before component, by forward-mode differentiation.
    """
    import torch

    windows = np.asarray(windows, dtype=np.float64)
    size = model.window * model.dim
    result = np.empty((len(windows), size, size))
    if size > _COLUMNS:  # a part of the columns at a time, which stays in a cache
        columns = np.eye(size)
        for k, start in itertools.product(range(len(windows)), range(0, size, _COLUMNS)):
            some = columns[:, start : start + _COLUMNS]
            image = network_tangent(model, windows[k : k + 1], some)[0]
            result[k, :, start : start + _COLUMNS] = image
        return result
    part = max(1, _JACOBIANS // size**2)
    jacobian = torch.func.vmap(torch.func.jacfwd(model))
    with evaluating(model), torch.no_grad():
        for start in range(0, len(windows), part):
            rows = slice(start, start + part)
            values = jacobian(as_windows(model, windows[rows]))
            result[rows] = values.reshape(-1, size, size).double().cpu().numpy()
    return result


def network_tangent(model: Integrator, windows: Any, vectors: np.ndarray) -> np.ndarray:
    """Return images (n, window * dim, k) of tangent vectors under the derivative, in float64.

    ``vectors`` are (n, window * dim, k), or (window * dim, k) for all windows (n, window, dim).
    """
    import torch

    given = as_windows(model, windows)
    vectors = np.broadcast_to(vectors, (len(given), *vectors.shape[-2:]))
    rows = torch.from_numpy(np.ascontiguousarray(vectors.swapaxes(-1, -2))).to(given)
    rows = rows.unflatten(-1, (model.window, model.dim))

    def image(window: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
        return torch.func.jvp(model, (window,), (vector,))[1]

    with evaluating(model), torch.no_grad():
        images = torch.func.vmap(torch.func.vmap(image, (None, 0)))(given, rows)
    return images.flatten(-2).mT.double().cpu().numpy()


def as_windows(model: Integrator, initial: Any) -> torch.Tensor:
    """Return first windows (trajectory, window, dim) with the dtype and device of the model."""
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


def _nan_after_divergence(states: torch.Tensor, failed: torch.Tensor) -> torch.Tensor:
    """Return states with NaN after the first state that is not finite.

    ``failed`` (trajectory,) says which had failed before, and is brought up to date.
    """
    import torch

    # only finite ones have a finite sum; a GPU would be waited for
    if states.device.type == "cpu" and states.sum().isfinite() and not failed.any():
        return states
    bad = ~torch.isfinite(states).all(dim=-1)
    gone = (bad.cumsum(dim=1) > 0) | failed[:, None]
    failed |= gone.any(dim=1)
    return torch.where(gone[..., None], torch.nan, states)
