"""Bessel functions of tensors, with derivatives.

PyTorch's own functions have errors of 5e-7 (PyTorch 2.13, |x| < 30) and no derivatives. SciPy
computes the values here, also those of tensors on a GPU.
"""

from __future__ import annotations

from typing import Any

import torch

from vpintegrator.dynamics.expressions.bessel import HIGHEST, of_order


class BesselFunction(torch.autograd.Function):
    """J_n(x), differentiable any number of times by its recurrence."""

    @staticmethod
    def forward(x: Any, order: int) -> Any:
        """Compute the value."""
        value = of_order(order, x.detach().cpu().numpy())
        return torch.as_tensor(value, dtype=x.dtype, device=x.device)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep the argument for derivatives."""
        x, ctx.order = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Multiply a gradient by the derivative."""
        return gradient * _slope(ctx.saved_tensors[0], ctx.order), None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, _: Any) -> Any:
        """Multiply a tangent by the derivative."""
        return tangent * _slope(ctx.saved_tensors[0], ctx.order)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, order: int) -> Any:
        """Compute the values of a batch."""
        return bessel(order, x), in_dims[0]


def bessel(order: int, x: Any) -> Any:
    """Return J_n of a tensor."""
    return BesselFunction.apply(x, order)


def _slope(x: Any, order: int) -> Any:
    if order == 0:
        return -bessel(1, x)
    if order == HIGHEST:
        return bessel(order - 1, x) - order / x * bessel(order, x)
    return (bessel(order - 1, x) - bessel(order + 1, x)) / 2
