"""The affine map of one step."""

from __future__ import annotations

import torch

from vpintegrator.models.model import Model
from vpintegrator.nn.feed_forward import AffineMap
from vpintegrator.nn.layer import default_dtype


class LinearMap(Model):
    r"""A one-step affine map :math:`z \mapsto A z + b`.

    A and b follow from pairs of states by least squares: ``optimizer = "linear"``. The map has the
    structure that the pairs give it: exact states of a linear symplectic map give a symplectic A to
    rounding. A quadratic generating function (``sgf`` of degree 2) is symplectic for any pairs.

    Parameters
    ----------
    dim
        Components of a state.
    dtype
        Type of the weights.

    Examples
    --------
    >>> model = vp.models.LinearMap(dim=2)
    >>> model(torch.ones(1, 1, 2, dtype=torch.float64)).tolist()  # the identity at first
    [[[1.0, 1.0]]]
    """

    name = "linear"

    @default_dtype(torch.float64)
    def __init__(self, dim: int, *, dtype: str | torch.dtype = "float64") -> None:
        super().__init__(AffineMap(dim), dim, dtype=dtype, description="linear map")
