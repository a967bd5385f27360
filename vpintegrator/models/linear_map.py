"""The affine map of one step that is symplectic or preserves volume."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from vpintegrator.models.arguments import SiteArguments, argument
from vpintegrator.models.base import Integrator
from vpintegrator.names import STRUCTURES
from vpintegrator.nn.affine_map import AffineMap


class LinearMap(Integrator):
    r"""A one-step affine map :math:`z \mapsto A z + b` with exact structure.

    A is symplectic, has determinant 1 or -1, or is any matrix. It follows from pairs of states by
    least squares: ``optimizer = "linear"``. The search of vp-train also tries maps that are the
    same at each site of a ring, whose few numbers follow from few pairs.

    Raises
    ------
    InputError
        If states are not of so many sites, or symplectic states have an odd number of fields.

    Examples
    --------
    >>> model = vp.models.LinearMap(dim=4, structure="symplectic")
    >>> model.symplectic, model.invertible
    (True, True)
    """

    name = "linear"

    @dataclass(frozen=True, kw_only=True)
    class Arguments(SiteArguments):
        """See the class."""

        one_step = True
        structure: str = argument(
            "volume-preserving",
            "What the map keeps: the symplectic form of states (q, p), volume, or nothing.",
            choices=STRUCTURES,
        )

    def network(self, a: Arguments) -> nn.Module:
        """Return the layer, which is the identity at first."""
        kind = "linear map" if a.structure == "none" else f"linear {a.structure} map"
        where = f", the same at {a.sites} sites of a ring" if a.sites > 1 else ""
        self.description = f"{kind}{where}"
        return AffineMap(a.dim, a.structure, a.sites)
