"""The affine map of one step."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from vpintegrator.models.arguments import IntegratorArguments
from vpintegrator.models.base import Integrator
from vpintegrator.nn.affine_map import AffineMap


class LinearMap(Integrator):
    r"""A one-step affine map :math:`z \mapsto A z + b`.

    A and b follow from pairs of states by least squares: ``optimizer = "linear"``. The map has the
    structure that the pairs give it: exact states of a linear symplectic map give a symplectic A to
    rounding. A quadratic generating function (``sgf`` of degree 2) is symplectic for any pairs.

    Examples
    --------
    >>> model = vp.models.LinearMap(dim=2)
    >>> model(torch.ones(1, 1, 2, dtype=torch.float64)).tolist()  # the identity at first
    [[[1.0, 1.0]]]
    """

    name = "linear"

    @dataclass(frozen=True, kw_only=True)
    class Arguments(IntegratorArguments):
        """See the class."""

        one_step = True

    def network(self, a: Arguments) -> nn.Module:
        """Return the layer, which is the identity at first."""
        self.description = "linear map"
        return AffineMap(a.dim)
