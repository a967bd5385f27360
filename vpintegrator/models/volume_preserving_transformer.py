"""The volume-preserving transformer: attention by rotations, then a volume-preserving network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.models.arguments import (
    CouplingArguments,
    RotationArguments,
    TriangularArguments,
    argument,
)
from vpintegrator.models.base import Integrator
from vpintegrator.models.coupling_layers import feed_forward, in_words
from vpintegrator.nn import Composition, CoupledAttention, TimeMixing, VolumePreservingAttention
from vpintegrator.nn.symmetry import invariant_entries


class VolumePreservingTransformer(Integrator):
    r"""``depth`` units of volume-preserving attention and a volume-preserving feed-forward network.

    .. math:: \psi = F_L \circ A_L \circ \cdots \circ F_1 \circ A_1

    with attention :math:`A_l` over the window and feed-forward layers :math:`F_l` of every state.
    With the skew and the coupled weighting the map of windows is exactly volume-preserving and
    explicitly invertible; with reversing symmetries it is also reversible. With the arbitrary
    weighting it is none of these, and ``volume_preserving`` says so. ``published`` makes the
    transformer of the paper.

    Raises
    ------
    InputError
        For sizes that do not fit, symmetries that mix blocks of the split, reversing symmetries
        with the arbitrary weighting, or the skew weighting where they leave only zero.

    References
    ----------
    Brantner, de Romemont, Kraus, Li, Volume-preserving transformers for learning time series data
    with structure, arXiv 2312.11166.

    Examples
    --------
    >>> model = vp.models.VolumePreservingTransformer(dim=3, window=3, depth=1)
    >>> Z = torch.rand(3, 3, dtype=torch.float64)
    >>> round(torch.func.jacrev(model)(Z).reshape(9, 9).det().abs().item(), 12)
    1.0
    """

    name = "vpt"
    attention_mixes_alone = True

    @dataclass(frozen=True, kw_only=True)
    class Arguments(CouplingArguments, TriangularArguments, RotationArguments):
        """See the class; ``weighting`` becomes the one that "auto" stands for."""

        dim: int = argument(help="Components of a state, at least 2.", least=2)
        window: int = argument(3, "Time steps read, at least 2.", least=2)
        prediction_window: int | None = argument(
            1,
            "Time steps predicted, None for all of them. One by default: predicting whole windows "
            "makes of an orbit as many interleaved ones, which drift apart.",
            least=1,
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.weighting == "arbitrary" and len(self.reversing_symmetries):
                raise InputError(
                    'weighting = "arbitrary" has no explicit inverse, so it cannot be made '
                    "reversible; use skew or coupled, or no reversing_symmetries"
                )
            if self.weighting in ("auto", "skew"):
                exists = skew_weighting_exists(self.group)
                if self.weighting == "skew" and not exists:
                    raise InputError(
                        'weighting = "skew": the reversing symmetries leave no skew weighting but '
                        'zero; use "coupled" (or "auto", which chooses it), or fewer '
                        "reversing_symmetries"
                    )
                self._set("weighting", "skew" if exists else "coupled")

    @classmethod
    def published(cls, dim: int, **arguments: Any) -> Self:
        """Make the transformer of arXiv 2312.11166: 162 parameters in three dimensions.

        It reads and predicts windows of three states by three units of attention with the skew
        weighting and two blocks of triangular layers, with tanh, in single precision. The
        initial weights are small, so that the map starts near the identity; those of the paper are
        of size one.

        Parameters
        ----------
        dim
            Components of a state.
        **arguments
            Arguments of the class that replace these. The form with an arbitrary weighting is
            ``weighting="arbitrary", attention_scale=dim**-0.5``: 180 parameters.

        Examples
        --------
        >>> model = vp.models.VolumePreservingTransformer.published(3)
        >>> sum(weight.numel() for weight in model.parameters())
        162
        """
        sizes = {"window": 3, "prediction_window": 3, "depth": 3, "blocks": 2, "linear": 1}
        layers = {"weighting": "skew", "feed_forward": "triangular", "dtype": "float32"}
        return cls(**{"dim": dim, **sizes, **layers, **arguments})

    def network(self, a: Arguments) -> nn.Module:
        """Return attention, time mixing if asked for, and feed-forward layers by turns."""
        self.weighting = a.weighting
        kind = f"{a.weighting} weighting"
        if a.weighting == "arbitrary":
            kind += ", which does not preserve volume"
        self.description = (
            f"volume-preserving transformer: attention by rotations ({kind}), then {in_words(a)}"
        )
        layers: list[nn.Module] = []
        for _ in range(a.depth):
            layers.append(_attention(a))
            if a.time_mixing:
                layers.append(TimeMixing(a.window, initial_scale=a.initial_scale))
            layers += feed_forward(a)
        return Composition(*layers)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, weighting={self.weighting!r}"


def _attention(a: Any) -> nn.Module:
    common = {"symmetries": a.group, "initial_scale": a.initial_scale}
    if a.weighting == "coupled":
        return CoupledAttention(a.dim, a.window, split=a.split_blocks, **common)
    return VolumePreservingAttention(a.dim, a.weighting, scale=a.attention_scale, **common)


def skew_weighting_exists(group: torch.Tensor) -> bool:
    """Whether some skew matrix other than zero is invariant under a group (element, dim, dim)."""
    return len(group) == 1 or invariant_entries("skew", group)[2] > 0
