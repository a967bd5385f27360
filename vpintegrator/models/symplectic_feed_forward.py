"""The symplectic feed-forward network: a one-step map of states (q, p)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from vpintegrator.models.arguments import argument
from vpintegrator.models.base import Integrator
from vpintegrator.models.symplectic_layers import SymplecticArguments, in_words, symplectic_layer
from vpintegrator.nn.composition import Composition


class SymplecticFeedForward(Integrator):
    r"""A one-step map of states (q, p) made of gradient couplings, or of published layers.

    .. math:: \psi = F_L \circ \cdots \circ F_1, \qquad D\psi^T J\, D\psi = J

    Exactly symplectic and explicitly invertible; with reversing symmetries also reversible. The
    published networks are its settings without reversing symmetries: G-SympNets are
    ``functions = "neurons"``, LA-SympNets ``layer = "linear-activation"``, HenonNets
    ``layer = "henon"``.

    Raises
    ------
    InputError
        For sizes that do not fit, or symmetries that do not keep the symplectic form or mix
        positions and momenta.

    References
    ----------
    Jin, Zhang, Zhu, Tang, Karniadakis, SympNets, arXiv 2001.03750; Burby, Tang, Maulik,
    arXiv 2007.04496.

    Examples
    --------
    >>> import torch, vpintegrator as vp
    >>> model = vp.models.SymplecticFeedForward(dim=4, functions="polynomial", degree=4)
    >>> z = torch.rand(4, dtype=torch.float64)
    >>> D = torch.func.jacrev(lambda z: model(z[None])[0])(z)
    >>> J = vp.nn.canonical_form(4)
    >>> bool((D.mT @ J @ D - J).abs().max() < 1e-14)
    True
    """

    name = "spff"

    @dataclass(frozen=True, kw_only=True)
    class Arguments(SymplecticArguments):
        """See the class."""

        one_step = True
        depth: int = argument(3, "Number of units.", least=1)

    def network(self, a: Arguments) -> nn.Module:
        """Return ``depth`` units."""
        self.description = f"symplectic feed-forward network: one step by {in_words(a)}"
        return Composition(*(symplectic_layer(a) for _ in range(a.depth)))
