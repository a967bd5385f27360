"""A model as a map of arrays: its steps, and the modes in which it computes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import torch

from vpintegrator.arguments import real_array
from vpintegrator.errors import InputError
from vpintegrator.maps.map import checked_windows
from vpintegrator.runtime.threads import torch_threads

P = ParamSpec("P")
T = TypeVar("T")
Predict = Callable[[torch.Tensor, int], torch.Tensor]

_TIMED = 256  # steps after which the time of a model that has one is set anew


def trajectories(
    model: Any,
    windows: torch.Tensor,
    steps: int,
    chunk: int,
    predict: Predict | None = None,
    parameters: torch.Tensor | None = None,
) -> Iterator[torch.Tensor]:
    """Yield the next states of a model in chunks (trajectory, count, dim), without gradient.

    A trajectory that is not finite is NaN from there on. Repeated addition of the time step rounds
    every sum the same way. So the times of a model that has one are computed from the number of
    steps, every 256 steps, and the model reads them within a period if there is one: a late phase
    is as accurate as an early one.

    Parameters
    ----------
    model, windows
        The model, and first windows (trajectory, window, dim) of its dtype and device.
    steps, chunk
        Number of steps, and the largest number of them in a chunk.
    predict
        Function that computes the states of several calls from windows, machine code say; by
        default the model in PyTorch, in ``eval`` mode.
    parameters
        Of a family: parameters of each trajectory (trajectory, p).
    """
    window = model.window
    new = model.prediction_window
    predict = predict or partial(_called, model, () if parameters is None else (parameters,))
    timed = model.explicit_time and window == 1
    done = 0
    calls = _TIMED if timed else max(chunk // new, 1)
    first_times = windows[:, -1, -1].clone()
    failed = ~windows.isfinite().flatten(1).all(dim=1)
    windows = windows.masked_fill(failed[:, None, None], math.nan)
    while done < steps:
        count = min(calls, -(-(steps - done) // new))
        if timed:  # (trajectory, 1 + count), the first within a period if there is one
            steps_done = torch.arange(done, done + count + 1).to(first_times)
            times = first_times[:, None] + model.get_buffer("time_step") * steps_done
            period = model.coordinates.periods.get(model.dim - 1)
            windows[..., -1] = times[:, :1] if period is None else times[:, :1] % period
        failure: BaseException | None = None
        try:
            states = predict(windows, count)
        except Unfinished as error:  # the states before it are known
            states = error.states
            failure = error.__cause__
        if timed:
            states[..., -1] = torch.where(
                states[..., -1].isfinite(), times[:, 1 : 1 + states.shape[1]], torch.nan
            )
        windows = torch.cat([windows, states[:, -window:]], dim=1)[:, -window:].contiguous()
        states = _nan_after_divergence(states, failed)[:, : steps - done]
        done += states.shape[1]
        if states.shape[1]:
            yield from states.split(chunk, dim=1)
        if failure is not None:
            raise failure


class Unfinished(Exception):
    """Failure of a model after some ``states`` (trajectory, count, dim); the cause says which."""

    def __init__(self, states: torch.Tensor) -> None:
        self.states = states


def _called(
    model: Any, k: tuple[torch.Tensor, ...], windows: torch.Tensor, calls: int
) -> torch.Tensor:
    """Return the states (trajectory, calls * new, dim) of several calls in PyTorch."""
    window = model.window
    new = model.prediction_window
    # weights that are computed from others (Stiefel) are computed once
    with evaluating(model), gradients_off(), torch.nn.utils.parametrize.cached():
        states = windows.new_empty((len(windows), window + calls * new, model.dim))
        states[:, :window] = windows
        for known in range(window, window + calls * new, new):
            try:
                images = model.predict(states[:, known - window : known], *k)
                states[:, known : known + new] = images
            except Exception as error:  # whatever a network of the user raises
                raise Unfinished(states[:, window:known]) from error
    return states[:, window:]


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Let a model compute in evaluation mode, on one thread; its modes come back afterwards."""
    with modes_kept(model), torch_threads():
        model.eval()
        yield


@contextmanager
def gradients_off() -> Iterator[None]:
    """Compute without gradients; a network may still differentiate inside its forward.

    Under ``torch.inference_mode`` it could not.
    """
    with torch.inference_mode(False), torch.no_grad():
        yield


@contextmanager
def modes_kept(model: torch.nn.Module) -> Iterator[None]:
    """Give every layer its mode back, training or evaluation: a user may have frozen some."""
    modes = {layer: layer.training for layer in model.modules()}
    try:
        yield
    finally:
        model.train(modes[model])  # layers may do more than to set the flag
        for layer, mode in modes.items():
            layer.training = mode


def with_gradients(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function differentiate, also where it is called under ``torch.inference_mode``."""

    @wraps(function)
    def differentiating(*arguments: P.args, **options: P.kwargs) -> T:
        with torch.inference_mode(False), torch.enable_grad():
            return function(*arguments, **options)

    return differentiating


@torch.inference_mode(False)
def leave_inference(model: torch.nn.Module) -> None:
    """Replace tensors of a model that was made under ``torch.inference_mode`` by trainable ones."""
    made: dict[torch.Tensor, torch.nn.Parameter] = {}  # layers may share parameters
    for layer in model.modules():
        for name, parameter in layer.named_parameters(recurse=False, remove_duplicate=False):
            if parameter.is_inference():
                if parameter not in made:
                    made[parameter] = torch.nn.Parameter(parameter.clone(), parameter.requires_grad)
                layer.register_parameter(name, made[parameter])
        for name, buffer in layer.named_buffers(recurse=False):
            if buffer.is_inference():
                setattr(layer, name, buffer.clone())


def as_parameters(model: Any, parameters: Any, count: int) -> torch.Tensor | None:
    """Return parameters (count, p) with the dtype and device of the model.

    They are one set or many, as an array or by name.
    """
    if parameters is None:
        return None
    if isinstance(parameters, Mapping) and model.family is not None:
        parameters = model.family.values(parameters)
    try:
        return torch.as_tensor(parameters).to(model.scale).expand(count, -1)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"parameters must be numbers of the shape (p,) or ({count}, p), not {parameters!r}"
        ) from None


def as_windows(model: Any, initial: Any) -> torch.Tensor:
    """Return first windows (trajectory, window, dim) with the dtype and device of the model."""
    if not isinstance(initial, torch.Tensor) or initial.is_complex():
        initial = torch.from_numpy(real_array("initial", initial, None))
    check_precision(model)
    return checked_windows(model, initial.detach().to(model.scale))


def check_precision(model: Any) -> None:
    """Raise InputError if a model computes in bfloat16, which NumPy does not have."""
    if model.scale.dtype == torch.bfloat16:
        raise InputError(
            f"{model.name} computes in bfloat16, with three digits and no arrays of NumPy; take "
            "model.float() or model.double()"
        )


def _nan_after_divergence(states: torch.Tensor, failed: torch.Tensor) -> torch.Tensor:
    """Return states with NaN after the first state that is not finite.

    ``failed`` (trajectory,) says which had failed before, and is brought up to date.
    """
    # only finite ones have a finite sum; a GPU would be waited for
    if states.device.type == "cpu" and states.sum().isfinite() and not failed.any():
        return states
    bad = ~torch.isfinite(states).all(dim=-1)
    gone = (bad.cumsum(dim=1) > 0) | failed[:, None]
    failed |= gone.any(dim=1)
    return torch.where(gone[..., None], torch.nan, states)
