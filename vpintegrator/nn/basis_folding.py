"""Terms of polynomials at values of some of their variables, multiplied out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from vpintegrator.nn.formulas import Formulas, with_values
from vpintegrator.nn.univariate import Univariate


class MergedTerms(NamedTuple):
    """Terms of the variables that are left: which they are, and what becomes of coefficients."""

    chosen: torch.Tensor  # (new term, variable that is left)
    place: torch.Tensor  # (term,), the new term that each becomes a part of
    factors: torch.Tensor  # (term,), and its factor there

    def sum(self, coefficients: torch.Tensor) -> torch.Tensor:
        """Return coefficients (new term, component) from those of the terms (term, component)."""
        parts = self.factors[:, None] * coefficients.detach().cpu().double()
        return parts.new_zeros(len(self.chosen), parts.shape[1]).index_add(0, self.place, parts)

    def any(self, present: torch.Tensor) -> torch.Tensor:
        """Return the new terms that have a coefficient if the terms (term, component) have one."""
        counts = present.cpu().double()
        counts = counts.new_zeros(len(self.chosen), counts.shape[1]).index_add(
            0, self.place, counts
        )
        return counts > 0


def merge_terms(
    chosen: torch.Tensor,
    kinds: Sequence[Univariate],
    degree: int,
    known: Mapping[int, torch.Tensor],
) -> MergedTerms:
    """Return terms (term, variable) where some variables, by their numbers, have values."""
    chosen = chosen.cpu()
    factors = torch.ones(len(chosen), dtype=torch.float64)
    for j, value in known.items():
        factors = factors * torch.stack(kinds[j].values(value, degree))[chosen[:, j]]
    left = [j for j in range(len(kinds)) if j not in known]
    if not left:
        return MergedTerms(chosen.new_zeros(1, 0), chosen.new_zeros(len(chosen)), factors)
    rows, place = chosen[:, left].unique(dim=0, return_inverse=True)
    return MergedTerms(rows, place, factors)


class FormulasAt(NamedTuple):
    """Formulas of which some components have values: those that are left, and what others are."""

    left: list[int]
    texts: list[str]
    values: dict[int, torch.Tensor]  # normalised values of the other formulas


def formulas_at(
    formulas: Formulas, values: Mapping[int, float], shift: torch.Tensor, scale: torch.Tensor
) -> FormulasAt:
    """Return formulas at given values of components; ``shift`` and ``scale`` normalise them."""
    z = torch.zeros(len(formulas.components), dtype=torch.float64)
    for place, number in enumerate(formulas.components):
        z[place] = values.get(number, 0.0)
    alone = [n for n, depends in enumerate(formulas.depends) if depends.issubset(values)]
    left = [n for n in range(len(formulas)) if n not in alone]
    texts = [with_values(formulas.texts[n], values) for n in left]
    found = formulas(z) if alone else []
    units = [(found[n] - shift[n].cpu()) / scale[n].cpu() for n in alone]
    return FormulasAt(left, texts, dict(zip(alone, (u.double() for u in units), strict=True)))


def values_of_components(
    values: torch.Tensor, numbers: Sequence[int], shift: torch.Tensor, scale: torch.Tensor
) -> dict[int, float]:
    """Return values as formulas are about, by the numbers of components, from normalised ones."""
    own = values * scale.cpu().double()[-len(values) :] + shift.cpu().double()[-len(values) :]
    return dict(zip(numbers, own.tolist(), strict=True))


def unmoved(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the action of the trivial group on ``count`` formulas."""
    return torch.arange(count).unsqueeze(0), torch.ones(1, count, dtype=torch.float64)
