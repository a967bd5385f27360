"""Additive couplings along a ring of sites that are alike: each site is moved by its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.nn.basis_coupling import BasisCoupling
from vpintegrator.nn.layer import InvertibleLayer
from vpintegrator.nn.shears import LinearShear


class SiteCoupling(InvertibleLayer):
    r"""A sweep of additive couplings by polynomials of neighbours on a ring.

    Sites are shared out among colours, such that sites of a colour are farther apart than the
    reach r. For each colour, and each field a of a site, in turn:

    .. math:: z_{a,i} \mapsto z_{a,i} + g(z_{b,j}), \qquad |i - j| \le r, \quad
        (b, j) \ne (a, i)

    with the same polynomial g at all sites i of the colour. Each step is a shear, so volume is kept
    and the inverse is explicit. The number of coefficients does not depend on the number of sites.

    Parameters
    ----------
    dim : int
        Components of a state: fields one after the other, each with a number for each site.
    sites : int
        Sites of the ring, at least 2 r + 1.
    degree, reach : int
        Total degree of the polynomials, and r.
    symmetric : bool
        Whether the sweep goes to and fro.
    initial_scale : float
        Size of the initial coefficients, see ``BasisCoupling``.

    Raises
    ------
    InputError
        If states are not of so many sites, or these are too few for the reach.

    References
    ----------
    McLachlan, Quispel, Splitting methods, Acta Numerica 11 (2002), section 3.

    Examples
    --------
    >>> layer = vp.nn.SiteCoupling(12, sites=12, degree=2, initial_scale=0.1)
    >>> z = torch.rand(5, 12, dtype=torch.float64)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    prolongable = True
    shown = ("dim", "sites", "reach", "sweep")

    def __init__(
        self,
        dim: int,
        sites: int,
        degree: int = 2,
        reach: int = 2,
        *,
        symmetric: bool = False,
        initial_scale: float = 1e-3,
    ) -> None:
        super().__init__()
        self.dim, self.sites, self.reach = whole("dim", dim), whole("sites", sites), reach
        self.fields, rest = divmod(dim, sites)
        if rest:
            raise InputError(f"states of {dim} components are not of {sites} sites alike")
        if sites < 2 * whole("reach", reach) + 1:
            raise InputError(f"a reach of {reach} needs {2 * reach + 1} sites or more, not {sites}")
        self.blocks = [
            [field * sites + site for site in colour]
            for colour in colours(sites, reach)
            for field in range(self.fields)
        ]
        there = range(len(self.blocks))
        self.sweep = [*there, *there[-2:0:-1]] if symmetric else [*there]
        seen = 2 * reach + 1
        own = [[field * seen + reach] for field in range(self.fields)]
        others = [place for place in range(self.fields * seen) if [place] not in own]
        self.stencil = BasisCoupling(
            self.fields * seen,
            degree,
            split=[*own, others],
            sweep=[a % self.fields for a in self.sweep],
            initial_scale=initial_scale,
        )
        around = torch.arange(-reach, reach + 1)
        for a, block in enumerate(self.blocks):
            sites_of = torch.tensor(block) % sites
            near = (sites_of[:, None] + around) % sites  # (site, neighbour)
            fields = sites * torch.arange(self.fields)[:, None]
            places = (near[:, None] + fields).flatten(1)
            self.constant(f"block_{a}", torch.tensor(block))
            self.constant(f"places_{a}", places)

    @property
    def degree(self) -> int:
        """Total degree of the polynomials."""
        return self.stencil.degree

    def move(self, z: torch.Tensor, i: int) -> torch.Tensor:
        """Return the increment of states by one shear of the sweep, zero outside its block."""
        a = self.sweep[i]
        places = self.get_buffer(f"places_{a}")
        seen = z.index_select(-1, places.flatten()).unflatten(-1, places.shape)
        centre = (a % self.fields) * (2 * self.reach + 1) + self.reach
        moved = self.stencil.move(seen, i)[..., centre]
        block = self.get_buffer(f"block_{a}")
        return torch.zeros_like(z).index_copy(-1, block, moved.to(z.dtype))

    def shears(self) -> list[LinearShear]:
        """Return the shears of the sweep, in order."""
        own = [[self.stencil.coefficients]]
        return [
            LinearShear(a, own, self.blocks[a], partial(self.move, i=i), self.stencil.shares[i])
            for i, a in enumerate(self.sweep)
        ]

    def moved(self, z: torch.Tensor, sign: int) -> torch.Tensor:
        for i in range(len(self.sweep))[::sign]:
            z = torch.add(z, self.move(z, i), alpha=sign)
        return z


def colours(sites: int, reach: int) -> Sequence[Sequence[int]]:
    """Return sites of a ring by colours, those of a colour farther apart than the reach.

    Examples
    --------
    >>> from vpintegrator.nn.site_coupling import colours
    >>> colours(7, 1)
    [[0, 2, 4], [1, 3, 5], [6]]
    """
    apart = reach + 1
    whole_turns = sites - sites % apart
    found = [list(range(first, whole_turns, apart)) for first in range(apart)]
    return found + [[site] for site in range(whole_turns, sites)]
