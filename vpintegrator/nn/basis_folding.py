"""Couplings and potentials of polynomials at values of their last variables, multiplied out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.folding import given
from vpintegrator.nn.formulas import Formulas, with_values
from vpintegrator.nn.split import others
from vpintegrator.nn.univariate import Univariate

if TYPE_CHECKING:
    from vpintegrator.nn.basis_coupling import BasisCoupling
    from vpintegrator.nn.basis_potential import BasisPotential

Potential = TypeVar("Potential", bound="BasisPotential")


class _Merged(NamedTuple):
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


def _merged(
    chosen: torch.Tensor,
    kinds: Sequence[Univariate],
    degree: int,
    known: Mapping[int, torch.Tensor],
) -> _Merged:
    """Return terms (term, variable) where some variables, by their numbers, have values."""
    chosen = chosen.cpu()
    factors = torch.ones(len(chosen), dtype=torch.float64)
    for j, value in known.items():
        factors = factors * torch.stack(kinds[j].values(value, degree))[chosen[:, j]]
    left = [j for j in range(len(kinds)) if j not in known]
    if not left:
        return _Merged(chosen.new_zeros(1, 0), chosen.new_zeros(len(chosen)), factors)
    rows, place = chosen[:, left].unique(dim=0, return_inverse=True)
    return _Merged(rows, place, factors)


class _Formulas(NamedTuple):
    """Formulas of which some components have values: those that are left, and what others are."""

    left: list[int]
    texts: list[str]
    values: dict[int, torch.Tensor]  # normalised values of the other formulas


def _formulas_at(
    formulas: Formulas, values: Mapping[int, float], shift: torch.Tensor, scale: torch.Tensor
) -> _Formulas:
    """Return formulas at given values of components; ``shift`` and ``scale`` normalise them."""
    z = torch.zeros(len(formulas.components), dtype=torch.float64)
    for place, number in enumerate(formulas.components):
        z[place] = values.get(number, 0.0)
    alone = [n for n, depends in enumerate(formulas.depends) if depends.issubset(values)]
    left = [n for n in range(len(formulas)) if n not in alone]
    texts = [with_values(formulas.texts[n], values) for n in left]
    found = formulas(z) if alone else []
    units = [(found[n] - shift[n].cpu()) / scale[n].cpu() for n in alone]
    return _Formulas(left, texts, dict(zip(alone, (u.double() for u in units), strict=True)))


def _values_of_components(
    values: torch.Tensor, numbers: Sequence[int], shift: torch.Tensor, scale: torch.Tensor
) -> dict[int, float]:
    """Return values as formulas are about, by the numbers of components, from normalised ones."""
    own = values * scale.cpu().double()[-len(values) :] + shift.cpu().double()[-len(values) :]
    return dict(zip(numbers, own.tolist(), strict=True))


def coupling_at(layer: BasisCoupling, values: torch.Tensor) -> BasisCoupling:
    """See ``BasisCoupling.at``."""
    values = given(values)
    n = layer.dim - len(values)
    moved = [layer.blocks[a] for a in layer.sweep]
    inside = [block for block in layer.blocks if max(block) < n]
    if sum(map(len, inside)) != n or any(block not in inside for block in moved):
        raise InputError(
            f"the sweep moves one of the last {len(values)} components, which are to have values"
        )
    with torch.random.fork_rng(devices=[]):
        found = type(layer)(
            n,
            1,
            periodic=[c for c in range(n) if layer.kinds[c] is Univariate.HARMONICS],
            split=inside,
            sweep=[inside.index(block) for block in moved],
            initial_scale=0.0,
        )
    found.degree = layer.degree
    merged = {}
    if any(map(len, layer.formulas)):
        units = (layer.state_shift, layer.state_scale)
        texts = _values_of_components(values, range(n, layer.dim), *units)
        found._moves = [_unmoved(0) for _ in inside]
        for name in ("shift", "scale"):
            own = layer.get_buffer(f"state_{name}")[:n].clone()
            found.register_buffer(f"state_{name}", own)
    else:
        texts = {}
    for a in sorted({*layer.sweep}):
        b = inside.index(layer.blocks[a])
        merged[a] = _merge_block(layer, found, (a, b), values, texts)
    parts, masks = [], []
    for a in layer.sweep:
        b = inside.index(layer.blocks[a])
        masks.append(found.get_buffer(f"factors_{b}")[:, inside[b]] != 0)
    for i, (a, mask) in enumerate(zip(layer.sweep, masks, strict=True)):
        terms, used = merged[a]
        matrix = terms.sum(layer._matrix(i))[used][:, layer.blocks[a]]
        parts.append(matrix[mask])
    ends = torch.tensor([0, *map(len, parts)]).cumsum(0).tolist()
    found.shares = [slice(ends[i], ends[i + 1]) for i in range(len(parts))]
    found.coefficients = nn.Parameter(torch.cat(parts))
    return found.to(layer.coefficients)


def _unmoved(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the action of the trivial group on ``count`` formulas."""
    return torch.arange(count).unsqueeze(0), torch.ones(1, count, dtype=torch.float64)


def _merge_block(
    layer: BasisCoupling,
    found: BasisCoupling,
    numbers: tuple[int, int],
    values: torch.Tensor,
    texts: Mapping[int, float],
) -> tuple[_Merged, torch.Tensor]:
    """Give a block its terms; how they come from those of the layer, and which of them are used."""
    a, b = numbers
    n, block, rest = found.dim, layer.blocks[a], others(layer.blocks[a], layer.dim)
    known = {j: values[c - n] for j, c in enumerate(rest) if c >= n}
    kinds = [layer.kinds[c] for c in rest]
    if len(layer.formulas[a]):
        shift, scale = (layer.get_buffer(f"formula_{name}_{a}") for name in ("shift", "scale"))
        of = _formulas_at(layer.formulas[a], texts, shift, scale)
        kinds += [Univariate.POLYNOMIALS] * len(layer.formulas[a])
        known |= {len(rest) + j: value for j, value in of.values.items()}
        found.formulas[b] = Formulas(of.texts, n)
        found._moves[b] = _unmoved(len(of.left))
        found.register_buffer(f"formula_shift_{b}", shift[of.left].clone())
        found.register_buffer(f"formula_scale_{b}", scale[of.left].clone())
    merged = _merged(layer.get_buffer(f"chosen_{a}"), kinds, layer.degree, known)
    mask = merged.any(layer.get_buffer(f"factors_{a}")[:, block] != 0)
    used = mask.any(1)
    mask = mask[used]
    sources = torch.zeros(mask.shape, dtype=torch.long)
    sources[mask] = torch.arange(int(mask.sum()))
    factors = torch.zeros(len(mask), n, dtype=torch.float64)
    factors[:, block] = mask.double()
    found._constant(f"block_{b}", torch.tensor(block))
    found._choose(b, merged.chosen[used])
    found._constant(f"sources_{b}", sources)
    found._constant(f"factors_{b}", factors)
    return merged, used


def potential_at(
    potential: Potential, values: torch.Tensor, variables: torch.Tensor | None = None
) -> Potential:
    """See ``BasisPotential.at``; ``variables`` are what its functions take for the values."""
    values = given(values, potential.conserved)
    variables = values if variables is None else variables
    size, kinds = potential.size, potential.kinds
    own = potential.components[:size]
    with torch.random.fork_rng(devices=[]):
        found = type(potential)(
            size,
            1,
            components=own,
            initial_scale=0.0,
        )
    found.degree, found.kinds = potential.degree, kinds[:size]
    known = {size + j: value for j, value in enumerate(variables)}
    if len(potential.formulas):
        units = (potential.state_shift, potential.state_scale)
        texts = _values_of_components(values, potential.components[size:], *units)
        shift, scale = potential.formula_shift, potential.formula_scale
        of = _formulas_at(potential.formulas, texts, shift, scale)
        known |= {size + len(values) + j: value for j, value in of.values.items()}
        found.formulas = Formulas(of.texts, max(own) + 1, own)
        found._moves = _unmoved(len(of.left))
        for name, unit in zip(("shift", "scale"), units, strict=True):
            found.register_buffer(f"state_{name}", unit[:size].clone())
        found.register_buffer("formula_shift", shift[of.left].clone())
        found.register_buffer("formula_scale", scale[of.left].clone())
        found.kinds += [Univariate.POLYNOMIALS] * len(of.left)
    merged = _merged(potential.chosen, kinds, potential.degree, known)
    coefficients = potential.coefficients.index_select(0, potential.sources) * potential.factors
    found.chosen = merged.chosen
    found.sources = torch.arange(len(merged.chosen))
    found.factors = torch.ones(len(merged.chosen), dtype=torch.float64)
    found.coefficients = nn.Parameter(merged.sum(coefficients[:, None])[:, 0])
    found.count = len(merged.chosen)
    return found.to(potential.coefficients)
