"""Parameters of a system as arguments of its maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.arguments import real_array
from vpintegrator.dynamics import System
from vpintegrator.dynamics.equations import is_tensor
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

Parameters = Mapping[str, Any]  # values of some parameters of a system by name
Values = Sequence[Any]  # of open parameters, one by one: all arrays, or all tensors


class OpenParameters:
    """A system whose parameters are arguments: left open where values are given.

    Parameters
    ----------
    system
        The system, whose own values hold for the parameters that are not given.
    """

    def __init__(self, system: System) -> None:
        self._systems: dict[tuple[str, ...], System] = {(): system}

    def arrays(
        self, parameters: Parameters | None, windows: Any
    ) -> tuple[System, np.ndarray, list[np.ndarray]]:
        """Return the system with parameters left open, states (n, dim), and the values.

        Parameters
        ----------
        parameters
            Numbers or arrays (n,) by name.
        windows
            Windows (n, 1, dim).

        Raises
        ------
        InputError
            If a parameter does not exist, a value has another shape, or there are no arrays.
        """
        if is_tensor(windows) and windows.requires_grad:
            raise InputError(
                "windows must be an array, not a Tensor with a gradient, which would be lost; call "
                "the map itself, map(states)"
            )
        (system, values) = self._open(parameters)
        states = real_array("windows", windows, None)
        columns = [_column(real_array("parameter", v, None), states.shape[:1]) for v in values]
        return system, states[:, 0], columns

    def tensors(self, parameters: Parameters | None, states: Tensor) -> tuple[System, list[Tensor]]:
        """Return the same with tensors for states (..., dim), after a check of these."""
        import torch

        (system, values) = self._open(parameters)
        dim = self._systems[()].dim
        if not is_tensor(states) or not states.is_floating_point() or states.shape[-1:] != (dim,):
            raise InputError(
                f"states must be a floating-point tensor of shape (..., {dim}), with the "
                f"components of {system.name} last"
            )
        tensors = [torch.as_tensor(v, dtype=states.dtype, device=states.device) for v in values]
        return system, [_column(tensor, states.shape[:-1]) for tensor in tensors]

    def _open(self, parameters: Parameters | None) -> tuple[System, list[Any]]:
        names = tuple(parameters or ())
        if names not in self._systems:
            self._systems[names] = self._systems[()].with_open(names)
        return self._systems[names], list((parameters or {}).values())


def _column(value: Any, shape: tuple[int, ...]) -> Any:
    """Return a number as it is, and other values as those of all states one by one."""
    if value.ndim == 0:
        return value
    try:
        whole = value.expand(shape) if is_tensor(value) else np.broadcast_to(value, shape)
    except (ValueError, RuntimeError):
        raise InputError(
            f"a parameter of shape {tuple(value.shape)} does not broadcast to states of shape "
            f"({', '.join(map(str, shape))}, dim)"
        ) from None
    return whole.reshape(-1)
