"""Derivatives of the stages of implicit Runge-Kutta methods, by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    z, *values = (x.detach().double().cpu().numpy() for x in (state, *parameters))
    with np.errstate(all="ignore"):
        solution = solve(state=np.ascontiguousarray(z), parameters=values)
    slopes = torch.from_numpy(solution).to(state)
    if not torch.is_grad_enabled():
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
