"""Multihead softmax attention in an exactly volume-preserving, reversible transformer."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from vpintegrator.models.arguments import CouplingArguments, HeadArguments, argument
from vpintegrator.models.base import Integrator
from vpintegrator.models.coupling_layers import couplings, in_words
from vpintegrator.nn import AttentionCoupling, Composition


class VolumePreservingMultiheadTransformer(Integrator):
    r"""``depth`` units of couplings by multihead softmax attention and of pointwise couplings.

    The attention of the standard transformer, over the whole window and with several heads, as the
    function inside additive couplings: :math:`X_a \mapsto X_a + g(X_b)` for each block of
    components in turn. So the map of windows preserves volume exactly although softmax does not, it
    is explicitly invertible, and with reversing symmetries it is reversible.

    Raises
    ------
    InputError
        If attention_width is not divisible by heads, or symmetries mix blocks of the split.

    References
    ----------
    New here; made of Vaswani et al., arXiv 1706.03762, and Dinh, Krueger, Bengio (NICE),
    arXiv 1410.8516.

    Examples
    --------
    >>> model = vp.models.VolumePreservingMultiheadTransformer(dim=4, window=3, depth=1, heads=2)
    >>> Z = torch.rand(5, 3, 4, dtype=torch.float64)
    >>> bool(torch.allclose(model.inverse(model(Z)), Z))
    True
    """

    name = "vpmt"
    attention_mixes_alone = True

    @dataclass(frozen=True, kw_only=True)
    class Arguments(CouplingArguments, HeadArguments):
        """See the class."""

        dim: int = argument(help="Components of a state, at least 2.", least=2)
        window: int = argument(3, "Time steps read.", least=1)
        prediction_window: int | None = argument(
            1, "Time steps predicted, None for all of them.", least=1
        )
        width: int = argument(16, "Hidden units of the pointwise couplings.")
        stiefel: bool = argument(
            False, "Keep the projections of the heads on the Stiefel manifold."
        )

    def network(self, a: Arguments) -> nn.Module:
        """Return couplings by attention and pointwise couplings by turns."""
        if a.functions != "neurons":
            self.description = f"{type(self).description}, and {in_words(a)}"
        layers: list[nn.Module] = []
        for _ in range(a.depth):
            attention = AttentionCoupling(
                a.dim,
                a.window,
                width=a.attention_width,
                heads=a.heads,
                split=a.split_blocks,
                symmetries=a.group,
                stiefel=a.stiefel,
                initial_scale=a.initial_scale,
            )
            layers += [attention, *couplings(a)]
        return Composition(*layers)
