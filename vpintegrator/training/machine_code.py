"""Residuals as machine code with tensors in and out: on the CPU by way of NumPy, on a GPU as is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from vpintegrator.compiled import CompiledResidual
    from vpintegrator.compiled.gpu import GpuResidual


class MachineCode:
    """Compiled residuals with tensors as arguments and results.

    Parameters
    ----------
    code
        The residuals of a model, compiled for the CPU or for a GPU.
    """

    def __init__(self, code: CompiledResidual | GpuResidual) -> None:
        self.code = code

    def sums(
        self, vector: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        """Return the sums of squares, weighted and as they are, (2,)."""
        return _asked(self.code.sums, vector, inputs, targets)[0]

    def gradient(
        self, vector: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the same sums, and half the gradient of the first sum."""
        squares, half = _asked(self.code.gradient, vector, inputs, targets)
        return squares, half

    def jacobians(
        self, vector: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield J and r, block by block, as ``NormalMatrix`` takes them."""
        for block in self.code.jacobians(*_given(vector, inputs, targets)):
            jacobian, residuals = map(torch.as_tensor, block)
            yield jacobian, residuals


def _asked(method: Callable[..., Any], *tensors: torch.Tensor) -> list[torch.Tensor]:
    found = method(*_given(*tensors))
    return [torch.as_tensor(part) for part in (found if isinstance(found, tuple) else (found,))]


def _given(*tensors: torch.Tensor) -> list[Any]:
    plain = [tensor.detach() for tensor in tensors]
    return [t.numpy() for t in plain] if plain[0].device.type == "cpu" else plain
