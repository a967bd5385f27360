"""Functions that fade away from the origin, so that what runs off there does no harm."""

from __future__ import annotations

from collections.abc import Sequence

import torch

END = 1.5  # times where it begins


def tapered(
    z: torch.Tensor, components: Sequence[int], start: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a weight between 1 and 0, and states at which to evaluate a function.

    The weight is the product, over the components, of an even function of each: exactly 1 up to
    ``start``, exactly 0 from ``END`` times that on, twice continuously differentiable in between.
    Signed permutations of the components leave it as it is.

    Parameters
    ----------
    z : (..., dim)
    components
        Components on which the weight depends.
    start
        Bound at which the weight begins to fall.

    Returns
    -------
    inside : Tensor, (..., dim)
        The states, these components brought back to where the weight is not yet zero, so that no
        function of them overflows.
    weight : Tensor, (..., 1)
    """
    end = END * start
    limits = torch.full(z.shape[-1:], torch.inf, dtype=z.dtype, device=z.device)
    limits[list(components)] = end
    x = z[..., list(components)].clamp(-end, end)
    t = ((x * x - start**2) * (1 / (end**2 - start**2))).clamp(min=0)
    s = (1 - t).clamp(min=0)
    weight = (s * s * s * (1 + t * (3 + 6 * t))).prod(-1, keepdim=True)
    return torch.minimum(torch.maximum(z, -limits), limits), weight
