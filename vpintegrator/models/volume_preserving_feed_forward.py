"""The volume-preserving feed-forward network: a one-step map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from torch import nn

from vpintegrator.models.arguments import CouplingArguments, TriangularArguments, argument
from vpintegrator.models.base import Integrator
from vpintegrator.models.coupling_layers import feed_forward, in_words
from vpintegrator.nn.composition import Composition


class VolumePreservingFeedForward(Integrator):
    r"""A one-step map made of couplings, or of triangular layers as published.

    .. math:: \psi = F_L \circ \cdots \circ F_1, \qquad \det D\psi = 1

    Exactly volume-preserving and explicitly invertible; with reversing symmetries also reversible.
    ``published`` makes the network of the paper.

    Raises
    ------
    InputError
        For sizes that do not fit, or symmetries that mix blocks of the split.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, arXiv 2312.11166, section 3.2; Dinh et al., arXiv 1410.8516.

    Examples
    --------
    >>> model = vp.models.VolumePreservingFeedForward(
    ...     dim=2, depth=2, functions="polynomial", reversing_symmetries=[[[1, 0], [0, -1]]]
    ... )
    >>> z = torch.rand(1, 2, dtype=torch.float64)
    >>> round(torch.func.jacrev(model)(z).reshape(2, 2).det().item(), 12)
    1.0
    """

    name = "vpff"

    @dataclass(frozen=True, kw_only=True)
    class Arguments(CouplingArguments, TriangularArguments):
        """See the class."""

        one_step = True
        depth: int = argument(3, "Number of coupling sweeps, or of triangular stacks.", least=1)

    @classmethod
    def published(cls, dim: int, **arguments: Any) -> Self:
        """Make the network of arXiv 2312.11166: 135 parameters in three dimensions.

        It has six blocks of a linear and a nonlinear pair of triangular layers, and a linear pair
        at the end, with tanh, in single precision. The initial weights are small, so that the map
        starts near the identity; those of the paper are of size one.

        Parameters
        ----------
        dim
            Components of a state.
        **arguments
            Arguments of the class that replace these.

        Examples
        --------
        >>> model = vp.models.VolumePreservingFeedForward.published(3)
        >>> sum(weight.numel() for weight in model.parameters())
        135
        """
        sizes = {"feed_forward": "triangular", "depth": 1, "blocks": 6, "linear": 1}
        return cls(**{"dim": dim, "dtype": "float32", **sizes, **arguments})

    def network(self, a: Arguments) -> nn.Module:
        """Return ``depth`` sweeps of couplings, or stacks of triangular layers."""
        self.description = f"volume-preserving feed-forward network: one step by {in_words(a)}"
        return Composition(*(layer for _ in range(a.depth) for layer in feed_forward(a)))
