"""The symplectic transformer: attention that keeps the form on windows, then gradient couplings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from vpintegrator.models.arguments import argument
from vpintegrator.models.base import Integrator
from vpintegrator.models.symplectic_layers import SymplecticArguments, in_words, symplectic_layer
from vpintegrator.nn import Composition, SymplecticAttention


class SymplecticTransformer(Integrator):
    r"""``depth`` units of symplectic attention and of a symplectic feed-forward layer.

    .. math:: \psi = F_L \circ A_L \circ \cdots \circ F_1 \circ A_1

    with attention :math:`A_l` over the window and gradient couplings :math:`F_l` of every state.
    The map of windows keeps the form :math:`\sum_t dq_t \wedge dp_t`, summed over the time steps,
    exactly, and is explicitly invertible; with reversing symmetries it is also reversible. That is
    a law of the space of windows: what it does to phase space, rollouts measure.

    Raises
    ------
    InputError
        For sizes that do not fit, or symmetries that do not keep the symplectic form or mix
        positions and momenta.

    Examples
    --------
    >>> model = vp.models.SymplecticTransformer(dim=4, window=3, depth=1)
    >>> Z = torch.rand(5, 3, 4, dtype=torch.float64)
    >>> model.structure.is_symplectic, bool(torch.allclose(model.inverse(model(Z)), Z))
    (True, True)
    """

    name = "spt"
    attention_mixes_alone = True

    @dataclass(frozen=True, kw_only=True)
    class Arguments(SymplecticArguments):
        """See the class."""

        window: int = argument(3, "Time steps read, at least 2.", least=2)
        prediction_window: int | None = argument(
            1, "Time steps predicted, None for all of them.", least=1
        )

    def network(self, a: Arguments) -> nn.Module:
        """Return attention and gradient couplings by turns."""
        self.description = f"symplectic transformer: attention by rotations, then {in_words(a)}"
        layers = [layer for _ in range(a.depth) for layer in (_attention(a), symplectic_layer(a))]
        return Composition(*layers)


def _attention(a: Any) -> nn.Module:
    return SymplecticAttention(a.dim, symmetries=a.group, initial_scale=a.initial_scale)
