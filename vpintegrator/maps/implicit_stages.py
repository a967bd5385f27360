"""Derivatives of the stages of implicit Runge-Kutta methods, by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from vpintegrator.dynamics import System


def differentiable_slopes(
    solve: Callable[..., np.ndarray],
    system: System,
    matrix: np.ndarray,
    state: torch.Tensor,
    parameters: Sequence[torch.Tensor],
) -> torch.Tensor:
    r"""Return the slopes of an implicit Runge-Kutta step with their first and second derivatives.

    .. math:: k_i = f\Big( z + \sum_j a_{ij} k_j;\, p \Big), \qquad
        k \leftarrow k + (I - A \otimes J)^{-1} \big( f(z + A k; p) - k \big)

    The stages are solved without a graph. Newton steps with a constant matrix follow. At the
    solution they change nothing, and each makes one more derivative by z, p and what else f depends
    on exact: if k errs by :math:`O(\delta^n)` at a distance :math:`\delta` in these, the next k
    errs by :math:`O(\delta^{n+1})`.

    Parameters
    ----------
    solve
        Function of arrays of the states and the parameters that returns the slopes.
    system
        System with open parameters.
    matrix
        h a_ij, (stage, stage).
    state, parameters
        States (dim, trajectory), and values of the parameters: of shape () or (trajectory,).

    Returns
    -------
    torch.Tensor
        Slopes (dim, stage, trajectory).
    """
    slopes: torch.Tensor = _Solution.apply(solve, state.detach(), *(p.detach() for p in parameters))
    # forward mode differentiates without gradients, too
    is_forward = torch.autograd.forward_ad._current_level >= 0
    if not (torch.is_grad_enabled() or is_forward or torch._C._are_functorch_transforms_active()):
        return slopes
    dim, stages, count = slopes.shape
    scaled = torch.from_numpy(matrix.copy()).to(state)

    def points(k: torch.Tensor) -> torch.Tensor:
        return state[:, None] + torch.einsum("ij,djn->din", scaled, k)

    with torch.no_grad():
        jacobian = system.jacobian_by_component(points(slopes), parameters)  # (dim, dim, stage, n)
        blocks = torch.einsum("ij,dein->ndiej", scaled, jacobian).reshape(count, dim * stages, -1)
        inverse = torch.linalg.inv_ex(torch.eye(dim * stages).to(blocks) - blocks)[0]
    for _ in range(2):
        defect = system.vector_field_by_component(points(slopes), parameters) - slopes
        change = inverse @ defect.permute(2, 0, 1).reshape(count, -1, 1)  # (n, dim * stage, 1)
        slopes = slopes + change.reshape(count, dim, stages).permute(1, 2, 0)
    return slopes


class _Solution(torch.autograd.Function):
    """Slopes of a solver in NumPy, without derivatives; ``torch.func.vmap`` can batch it."""

    @staticmethod
    def forward(
        solve: Callable[..., np.ndarray], state: torch.Tensor, *parameters: torch.Tensor
    ) -> torch.Tensor:
        z, *values = (x.double().cpu().numpy() for x in (state, *parameters))
        with np.errstate(all="ignore"):
            solution = solve(state=np.ascontiguousarray(z), parameters=values)
        return torch.from_numpy(solution).to(state)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return (None,) * len(ctx.needs_input_grad)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> torch.Tensor:
        return torch.zeros_like(ctx.saved_tensors[0])

    @classmethod
    def vmap(
        cls,
        info: Any,
        in_dims: Any,
        solve: Callable[..., np.ndarray],
        state: torch.Tensor,
        *parameters: torch.Tensor,
    ) -> tuple[torch.Tensor, int]:
        """Take the states of a batch as further trajectories."""
        size = info.batch_size
        count = state.shape[-1]

        def batch(x: torch.Tensor, axis: int | None) -> torch.Tensor:
            """Return a tensor (..., batch * trajectory) of (..., trajectory) and a batch axis."""
            x = x.unsqueeze(-1) if axis is None else x.movedim(axis, -1)  # (..., trajectory, batch)
            return x.mT if x.ndim > 1 else x[:, None]

        _, of_state, *of_parameters = in_dims
        if of_state is not None:
            count = state.movedim(of_state, 0).shape[-1]
        stacked = batch(state, of_state).expand(-1, size, count).reshape(-1, size * count)
        values = [
            p if axis is None and not p.ndim else batch(p, axis).expand(size, count).reshape(-1)
            for p, axis in zip(parameters, of_parameters, strict=True)
        ]
        slopes = cls.apply(solve, stacked, *values)  # (dim, stage, batch * trajectory)
        return slopes.unflatten(-1, (size, count)), 2
