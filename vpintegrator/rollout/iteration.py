"""Trajectories of a map, as arrays or tensors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from vpintegrator.arguments import real_array, whole_number
from vpintegrator.compiled import machine_code
from vpintegrator.errors import InputError, first_line
from vpintegrator.maps import Map
from vpintegrator.maps.map import checked_windows
from vpintegrator.rollout.start import is_model, wrapped
from vpintegrator.runtime.progress import step_bar


def rollout(
    map: Any,
    initial: Any,
    steps: int,
    progress: bool | Callable[[str, int, int], None] | None = None,
    compiled: bool | None = None,
    *,
    parameters: Any = None,
    worth: int = 5000,
    batch: int = 200,
    chunk_values: int = 500_000,
    largest_chunk: int = 4096,
) -> Any:
    """Iterate a map from first windows of states.

    Each call of a model reads the last ``model.window`` states and gives the next
    ``model.prediction_window``.

    Parameters
    ----------
    map
        A map (:class:`vpintegrator.Map`), such as a trained model; or a torch module that maps
        states to the next ones, see :func:`vpintegrator.wrap`.
    initial
        First windows, shape (trajectory, window, dim); also (trajectory, dim) for a one-step map.
        An array or a tensor.
    steps
        Number of time steps after the first state of the window.
    progress
        Called a hundred times or more with the name of the map, steps done, and steps in all; True
        for a bar, False for none. By default a bar appears on a terminal after two seconds.
    compiled
        Whether the map runs as machine code (see ``vpintegrator.compiled``), by default where the
        states to be computed are worth it. Machine code is equal up to rounding and ten to
        hundreds of times faster; a new model takes seconds to compile. On a GPU models run in
        PyTorch.
    parameters
        Of a family: step and parameters by name, numbers or arrays (trajectory,); or in the order
        of ``ranges``, (p,) or (trajectory, p).
    worth, batch
        Evaluations of one state from which on compiling pays. In PyTorch an evaluation of so many
        states as ``batch`` takes twice the time of one state, so 1,000 trajectories of 3,000 steps
        count as 18,000 evaluations.
    chunk_values, largest_chunk
        Numbers and steps computed at a time: they stay in a cache. On a GPU chunks are longer.

    Returns
    -------
    numpy.ndarray or torch.Tensor
        States of shape (trajectory, steps + 1, dim), in the dtype of a model, the first window
        first. An array for an array; a tensor, on the model's device and without gradient, for a
        tensor. A trajectory that diverges is NaN from there on. There is a warning where states
        leave the domain of the training data, see
        :meth:`vpintegrator.models.Model.in_domain`.

    Raises
    ------
    InputError
        If an argument is wrong, or a map of the user raises an exception.

    Examples
    --------
    >>> model = vp.models.VolumePreservingFeedForward(dim=2)
    >>> vp.rollout(model, np.zeros((3, 1, 2)), 10).shape  # (trajectory, time, dim)
    (3, 11, 2)
    """
    steps = whole_number("steps", steps)
    if not isinstance(map, Map):
        shape = np.shape(initial)
        map = wrapped(map, [0, *shape][-1], window=shape[1] if len(shape) == 3 else 1)
    family = map
    # of a model on its device
    windows = _windows(map, initial)
    dim = map.dim
    if not bool((abs(windows) < math.inf).all()):
        raise InputError("initial holds a value that is not finite")
    if parameters is not None:
        map, windows = _with_parameters(map, windows, parameters)
    calls = steps / map.prediction_window
    if compiled is None and calls * (1 + len(windows) / batch) < worth:
        compiled = False
    machine = machine_code(map, windows if map.window > 1 else windows[:, 0], compiled)
    if is_model(map) and map.scale.device.type == "cuda":
        chunk_values <<= 7
    chunk = max(min(chunk_values // (len(windows) * map.dim), largest_chunk), 1)
    if progress:
        chunk = max(min(chunk, steps // 100), 1)
    done = map.window - 1
    chunks = [windows]
    with step_bar(progress) as show:
        try:
            for states in _advance(machine, windows, steps - done, chunk):
                chunks.append(states)
                done += states.shape[1]
                show(map.name, done, steps)
        except InputError:
            raise
        except Exception as error:  # whatever a map of the user raises
            kind = type(error).__name__
            raise InputError(
                f"{map.name} raises {kind} at step {done + 1}: {first_line(error)}"
            ) from error
    if isinstance(windows, np.ndarray):
        return np.ascontiguousarray(np.concatenate(chunks, axis=1)[:, : steps + 1])
    import torch

    states = torch.cat(chunks, dim=1)[:, : steps + 1, :dim].contiguous()
    _warn_outside(family, states, chunk)
    return states if isinstance(initial, torch.Tensor) else states.cpu().numpy()


def _windows(map: Any, initial: Any) -> Any:
    """Return first windows (trajectory, window, dim): tensors for a model, arrays for others."""
    if is_model(map):
        from vpintegrator.models.iteration import as_windows

        return as_windows(map, initial)
    return checked_windows(map, real_array("initial", initial, None))


def _with_parameters(map: Any, windows: Any, parameters: Any) -> tuple[Any, Any]:
    """Return a family as a map of states with parameters beside them, and such windows."""
    if not getattr(map, "ranges", {}):
        raise InputError(f"{map.name} is no family of models, and takes no parameters")
    from vpintegrator.models.iteration import as_parameters
    from vpintegrator.models.wrapped import WithParameters
    from vpintegrator.nn.layer import beside

    k: Any = as_parameters(map, parameters, len(windows))  # (trajectory, p)
    map.coefficients(k)  # of the right number
    return WithParameters(map), beside([windows, k[:, None]])


def _advance(machine: Any, windows: Any, steps: int, chunk: int) -> Iterator[Any]:
    """Yield the next states like the windows; those of a model in PyTorch stay on its device."""
    if isinstance(windows, np.ndarray):
        yield from machine.advance(windows, steps, chunk=chunk)
        return
    import torch

    from vpintegrator.models.iteration import trajectories

    if is_model(machine):
        yield from trajectories(machine, windows, steps, chunk)
    else:
        for states in machine.advance(windows.double().numpy(), steps, chunk=chunk):
            yield torch.from_numpy(states).to(windows)


def _warn_outside(model: Any, states: Any, chunk: int) -> None:
    """Warn if trajectories (trajectory, time, dim) leave the domain of the training data."""
    if model.domain is None or model.system is None:
        return
    inside = [model.in_domain(part).cpu().numpy() for part in states.split(chunk, dim=1)]
    outside = ~np.concatenate(inside, axis=1)
    if outside.any():
        left = outside[outside.any(axis=1)]
        warnings.warn(
            f"{model.name}: {len(left)} of {len(states)} trajectories leave the domain of the "
            f"training data, first at step {left.argmax(axis=1).min()}; outside a model is a guess "
            "(model.in_domain)",
            stacklevel=3,
        )
