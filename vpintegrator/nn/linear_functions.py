"""Numbers that are linear functions of constants of motion, as symmetries allow them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.symmetry import orbit_parameters, signed_permutations
from vpintegrator.nn.tensor_arguments import as_dtype


class LinearFunctions(nn.Module):
    """Numbers x_i(k) = x_i0 + sum_j k_j x_ij of constants of motion k.

    For all S of a group x_i(k) = sign_i x_p(i)(S k). With rates among the k it is the sum over
    these alone, which vanishes with them.

    Parameters
    ----------
    group : Tensor, (element, m, m)
        Action of each S on the m constants k: signed permutations.
    images, signs : Tensor, (element, count)
        p and the sign of each number under each S.
    rates : sequence of int
        Numbers of the rates among the constants.
    opposite : Tensor, (count,), optional
        For each number, the number that is its negative.
    initial_scale : float
        Standard deviation of the initial parameters.

    Raises
    ------
    InputError
        If a symmetry is no signed permutation, or exchanges rates with others.

    Examples
    --------
    >>> from vpintegrator.nn.linear_functions import LinearFunctions
    >>> odd = torch.tensor([[[1.0]], [[-1.0]]])  # k, and -k
    >>> own = torch.zeros(2, 1, dtype=torch.long)
    >>> x = LinearFunctions(odd, own, torch.ones(2, 1))  # even in k, so constant
    >>> len(x.entries), x(torch.zeros(5, 1, dtype=torch.float64)).shape
    (1, torch.Size([5, 1]))
    """

    sources: torch.Tensor
    factors: torch.Tensor

    def __init__(
        self,
        group: torch.Tensor,
        images: torch.Tensor,
        signs: torch.Tensor,
        *,
        rates: Sequence[int] = (),
        opposite: torch.Tensor | None = None,
        initial_scale: float = 1e-2,
        dtype: torch.dtype | str = torch.float64,
    ) -> None:
        super().__init__()
        moves = signed_permutations(group)
        if moves is None:
            raise InputError(
                "attention that reads conserved components respects symmetries that are sign "
                "flips and permutations of these; give fewer symmetries"
            )
        places, turns = moves
        self.count, self.rates = images.shape[1], sorted(rates)
        if self.rates:  # terms are the k_j, or 1 and these
            number = {k: t for t, k in enumerate(self.rates)}
            if any(int(p) not in number for p in places[:, self.rates].flatten()):
                raise InputError("the symmetries exchange rates with other conserved components")
            places = torch.tensor([[number[int(p)] for p in row[self.rates]] for row in places])
            turns = turns[:, self.rates]
        else:
            places = torch.cat([torch.zeros(len(places), 1).long(), places + 1], 1)
            turns = torch.cat([torch.ones(len(turns), 1), turns], 1)
        links = []
        for place, turn, image, sign in zip(places, turns, images, signs, strict=True):
            found = place[:, None] * self.count + image
            links.append((found, turn[:, None] * sign))
            if opposite is not None:
                links.append((found[:, opposite], -links[-1][1][:, opposite]))
        sources, factors, count = orbit_parameters(links)
        dtype = as_dtype(dtype)
        self.register_buffer("sources", sources, persistent=False)
        self.register_buffer("factors", factors.to(dtype), persistent=False)
        self.entries = nn.Parameter(initial_scale * torch.randn(count, dtype=dtype))

    def forward(self, k: torch.Tensor) -> torch.Tensor:
        """Return the numbers (..., count) at k (..., m)."""
        if not len(self.entries):
            return k.new_zeros(*k.shape[:-1], self.count)
        chosen = self.entries.index_select(0, self.sources.flatten())
        weights = chosen.view(self.sources.shape) * self.factors
        if self.rates:
            return k[..., self.rates] @ weights
        return weights[0] + k @ weights[1:]


def as_weighting(
    group: torch.Tensor, conserved: int, kind: str, rates: Sequence[int] = (), **options: object
) -> LinearFunctions:
    """Return entries (n n) of weightings A(k) = S^T A(S k) S, skew or arbitrary, of states (z, k).

    Parameters
    ----------
    group : Tensor, (element, n + m, n + m)
    conserved : int
        m.
    kind : {"skew", "arbitrary"}
    rates : sequence of int
        Rates among the last m components, with which the weighting vanishes, by number.

    Raises
    ------
    InputError
        As ``LinearFunctions``; or if the group mixes k with others.
    """
    n = group.shape[-1] - conserved
    if bool(group[:, :n, n:].any() or group[:, n:, :n].any()):
        raise InputError("the symmetries mix what is conserved with states; give fewer symmetries")
    moves = signed_permutations(group[:, :n, :n])
    if moves is None:
        raise InputError(
            "attention that reads conserved components respects symmetries that are sign flips "
            "and permutations; give fewer symmetries"
        )
    places, signs = moves
    images = (places.unsqueeze(2) * n + places.unsqueeze(1)).flatten(1)
    of_entries = (signs.unsqueeze(2) * signs.unsqueeze(1)).flatten(1)
    transposed = torch.arange(n * n).view(n, n).mT.flatten() if kind == "skew" else None
    return LinearFunctions(
        group[:, n:, n:],
        images,
        of_entries,
        rates=rates,
        opposite=transposed,
        **options,  # type: ignore[arg-type]
    )
