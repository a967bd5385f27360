"""Fixed points x = g(x) of contractions, by Anderson acceleration."""

from __future__ import annotations

from collections.abc import Callable

import torch

MEMORY = 4  # earlier iterates that a new one is combined of
_MOST_ITERATIONS = 25  # beyond which Newton's method is cheaper
_EXACT, _ROUNDING = 16.0, 1e3  # in units of eps: of defects that are as small as they can be
_RIDGE = 1e-10  # ridge of the normal equations; it slows convergence, and changes no fixed point


def fixed_point(
    start: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor], size: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return fixed points (..., n) of a function of states, and which states have one (..., 1).

    A defect g(x) - x has converged at 16 eps, or at 1,000 eps where it does not become smaller.

    Parameters
    ----------
    start : (..., n)
    function
        g, state by state.
    size : (n,)
        Scale of each component, by which defects are judged.

    References
    ----------
    Walker, Ni, SIAM J. Numer. Anal. 49 (2011) 1715-1735.

    Examples
    --------
    >>> from vpintegrator.nn.fixed_point import fixed_point
    >>> x, found = fixed_point(torch.zeros(1).double(), torch.cos, torch.ones(1).double())
    >>> round(x.item(), 12), found.item()
    (0.739085133215, True)
    """
    eps = torch.finfo(start.dtype).eps
    x, found = start, start
    solved = torch.zeros_like(start[..., :1], dtype=torch.bool)
    before = torch.full_like(start[..., :1], torch.inf)
    moves: list[torch.Tensor] = []
    changes: list[torch.Tensor] = []
    last: tuple[torch.Tensor, torch.Tensor] | None = None
    for _ in range(_MOST_ITERATIONS):
        image = function(x)
        defect = image - x
        length = (defect.abs() / (size + x.abs())).amax(-1, keepdim=True)
        small = (length <= _ROUNDING * eps) & (length >= before)
        found = torch.where(solved, found, image)
        solved = solved | (length <= _EXACT * eps) | small
        if bool((solved | ~length.isfinite()).all()):
            break
        if last is not None:
            moves = [*moves, x - last[0]][-MEMORY:]
            changes = [*changes, defect - last[1]][-MEMORY:]
        last, before = (x, defect), length
        x = image if not changes else image - _combined(moves, changes, defect, size)
    return found, solved


def _combined(
    moves: list[torch.Tensor],
    changes: list[torch.Tensor],
    defect: torch.Tensor,
    size: torch.Tensor,
) -> torch.Tensor:
    """Return the correction of an image by Anderson acceleration."""
    tiny = torch.finfo(defect.dtype).tiny
    columns = torch.stack(changes, -1) / size[:, None]
    lengths = columns.norm(dim=-2, keepdim=True).clamp(min=tiny**0.5)
    columns = columns / lengths
    eye = torch.eye(len(changes), dtype=defect.dtype, device=defect.device)
    gram = columns.mT @ columns + _RIDGE * eye
    right = columns.mT @ (defect / size).unsqueeze(-1)
    weights = torch.linalg.solve_ex(gram, right).result / lengths.mT
    total = torch.stack(moves, -1) + torch.stack(changes, -1)
    return (total @ weights).squeeze(-1)
