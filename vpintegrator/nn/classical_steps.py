"""Steps of explicit classical methods for known equations, in normalised states."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from vpintegrator.dynamics.expressions import ComponentFunction
from vpintegrator.nn.layer import Device, Dtype, Layer
from vpintegrator.nn.units import InUnits


class RungeKuttaStep(InUnits):
    r"""A step of an explicit Runge-Kutta method.

    .. math:: k_i = f\Big( z + h \sum_{j<i} a_{ij} k_j \Big), \qquad z' = z + h \sum_i b_i k_i

    Parameters
    ----------
    rates : callable
        The vector field f: rates of all components, from the components of a state.
    dim : int
        Components of a state.
    stages, weights
        Rows of the tableau after the first, and its weights.
    device, dtype
        As in layers of torch.nn.

    Examples
    --------
    >>> from vpintegrator.nn.classical_steps import RungeKuttaStep
    >>> euler = RungeKuttaStep(lambda q, p: [p, -q], 2, (), (1.0,))
    >>> euler.set_step(0.1)
    >>> euler(torch.tensor([[1.0, 0.0]]))
    tensor([[ 1.0000, -0.1000]])
    """

    shown = ("dim", "weights")
    step: torch.Tensor

    def __init__(
        self,
        rates: ComponentFunction,
        dim: int,
        stages: Sequence[Sequence[float]],
        weights: Sequence[float],
        *,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.rates, self.dim, self.stages, self.weights = rates, dim, stages, weights
        self.register_buffer("step", torch.ones(1, **self.factory_kwargs))
        self.add_units(dim)

    def set_step(self, step: float) -> None:
        """Set the step h, in units of time."""
        self.step.fill_(step)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        x = self.physical(z)  # (..., dim)
        slopes: list[torch.Tensor] = []  # (..., dim) each
        for row in ((), *self.stages):
            values = self.rates(*(x + self._combined(row, slopes)).unbind(-1))  # (...) each
            rates = [torch.as_tensor(v, dtype=x.dtype, device=x.device) for v in values]
            slopes.append(torch.stack([rate.expand_as(x[..., 0]) for rate in rates], -1))
        return z + self._combined(self.weights, slopes) / self.state_scale  # (..., dim)

    def _combined(
        self, row: Sequence[float], slopes: Sequence[torch.Tensor]
    ) -> torch.Tensor | float:
        """Return h times the weighted sum of the slopes."""
        return self.step[0] * sum(w * k for w, k in zip(row, slopes, strict=True) if w)


class Substeps(Layer):
    """Equal steps of a method, one after the other.

    Parameters
    ----------
    method : Layer
        A layer of a step that is set by ``set_step``.
    repeats : int
        Number of substeps.
    """

    shown = ("repeats",)

    def __init__(self, method: Layer, repeats: int) -> None:
        super().__init__()
        self.method, self.repeats = method, repeats
        self.volume_preserving, self.symplectic = method.volume_preserving, method.symplectic

    def set_step(self, step: float) -> None:
        """Set the step of all substeps together, in units of time."""
        self.method.set_step(step / self.repeats)  # type: ignore[operator]

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        for _ in range(self.repeats):
            z = self.method(z)
        return z

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """Return the states that ``forward`` maps to z, of a method that has an inverse."""
        for _ in range(self.repeats):
            z = self.method.inverse(z)  # type: ignore[operator]
        return z
