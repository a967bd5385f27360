"""Checks of tensors and dtypes, with the same messages for every layer."""

from __future__ import annotations

from typing import Any

import torch

from vpintegrator.errors import InputError


def last_size(argument: str, x: torch.Tensor, sizes: dict[str, int]) -> None:
    """Raise InputError unless the last axes of ``x`` have the given sizes (by name, in order)."""
    expected = tuple(sizes.values())
    if x.ndim < len(expected) or tuple(x.shape[-len(expected) :]) != expected:
        axes = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise InputError(f"{argument} must end in axes ({axes}), but has shape {tuple(x.shape)}")


def as_dtype(dtype: Any) -> torch.dtype:
    """Return the floating-point dtype that a torch dtype or its name ("float64") gives."""
    value = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(value, torch.dtype) or not value.is_floating_point:
        raise InputError(f"dtype must be float32 or float64, not {dtype!r}")
    return value
