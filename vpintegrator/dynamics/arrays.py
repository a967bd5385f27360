"""States as NumPy arrays or torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vpintegrator.errors import InputError


def is_tensor(state: object) -> bool:
    """Whether this is a torch tensor, found out without importing torch."""
    return type(state).__module__.partition(".")[0] == "torch" or hasattr(
        type(state), "__torch_function__"
    )


def as_array(state: Any) -> np.ndarray:
    """Return a floating-point (or complex) array of the state.

    Raises
    ------
    InputError
        If it is none of numbers.
    """
    try:
        array = np.asarray(state)
        return array if np.issubdtype(array.dtype, np.inexact) else array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"expected an array of numbers, not {type(state).__name__} with other contents"
        ) from None


def float_array(state: Any) -> np.ndarray:
    """Return doubles of an array or a tensor."""
    return np.asarray(state.detach().cpu() if is_tensor(state) else state).astype(np.float64)


def as_given(values: np.ndarray, state: Any) -> Any:
    """Return values as a tensor where the state is one, else as they are."""
    return state.new_tensor(values) if is_tensor(state) else values


def stack_numpy(values: Sequence[Any], like: np.ndarray) -> np.ndarray:
    """Put components of shape (...) together into (..., component)."""
    result = np.empty((*like.shape, len(values)), dtype=like.dtype)
    for i, value in enumerate(values):
        result[..., i] = value
    return result


def stack_torch(values: Sequence[Any], like: Any) -> Any:
    """Stack values as a tensor; plain numbers become tensors like ``like``."""
    import torch

    if not values:
        return like.new_empty((*like.shape, 0))
    return torch.stack(
        [v if isinstance(v, torch.Tensor) else torch.full_like(like, v) for v in values], dim=-1
    )
