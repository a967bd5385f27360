"""Additive couplings whose functions are linear combinations of given functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import plain, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.basis import (
    SignedPermutations,
    checked_degree,
    equivariant_coefficients,
    moves_of_terms,
    restricted,
    terms,
    total_degrees,
)
from vpintegrator.nn.basis_folding import (
    MergedTerms,
    formulas_at,
    merge_terms,
    unmoved,
    values_of_components,
)
from vpintegrator.nn.folding import given
from vpintegrator.nn.formulas import Formulas
from vpintegrator.nn.shears import LinearShear
from vpintegrator.nn.split import Blocks, as_blocks, check_compatible, others
from vpintegrator.nn.symmetry import generated_group
from vpintegrator.nn.tensor_arguments import last_size
from vpintegrator.nn.univariate import HARMONICS, POLYNOMIALS, Univariate, families


class BasisCoupling(nn.Module):
    r"""A sweep of additive couplings by polynomials, and Fourier sums of angles, on every state.

    For each block a of components in turn, with b the components not in a:

    .. math:: z_a \mapsto z_a + \sum_e c_e\, \varphi_e(z_b), \qquad
        \varphi_e(x) = \prod_i T_{e_i}(x_i), \quad |e| \le \text{degree},

    products of Chebyshev polynomials :math:`T_n` of the components up to a total degree, or of
    sines and cosines of those that are angles. Functions of the components, given as formulas, may
    join the components as further variables of the polynomials. Like ``AdditiveCoupling`` each step
    is a shear, so volume is kept and the inverse explicit, whatever the coefficients. The
    parameters enter linearly, step by step: least squares find them in seconds, to rounding where
    the flow is smooth. Away from the states it was trained on, a polynomial runs off; a sum of
    neurons does not.

    Parameters
    ----------
    dim : int
        Components of a state, at least 2. The layer acts on the last axis of (..., dim).
    degree : int
        Largest total degree of a term; of an angle the order of the harmonic counts.
    periodic : sequence of int
        Components that are angles, in radians.
    cyclic : sequence of int
        Components that no function depends on.
    rates : sequence of int
        Components that the sweep leaves as they are, and without which nothing moves: every term
        has a function of one of them that vanishes with it. So where all of them are zero the layer
        is the identity, exactly.
    expressions : sequence of str
        Formulas such as ``exp(z[0] - z[1])``, of the components as they are before normalisation
        (see ``set_units``). A block makes use of those that depend only on the other components,
        and that the symmetries take to one another or to their negatives.
    split : "coordinates", "halves" or blocks of indices
        Blocks in the order of the sweep; "halves" for (q, p).
    sweep : sequence of int, optional
        Numbers of the blocks in the order in which they are updated, each as often as it is named;
        by default each once. The shears of a block that comes twice have coefficients of their own;
        one that is not named stays as it is.
    symmetries : sequence of (dim, dim), optional
        The layer commutes with the group they generate, signed permutations. Only the terms that
        the group allows have parameters, so it costs nothing and saves most of them.
    initial_scale : float
        Size of the initial coefficients of degree 1; those of degree n are :math:`n^2` times
        smaller.

    Raises
    ------
    InputError
        If the symmetries mix blocks of the split, are other matrices than signed permutations, or
        leave no term; if the sweep moves a rate.

    References
    ----------
    Dinh, Krueger, Bengio, NICE, arXiv 1410.8516, section 3.2, for the shear; Trefethen,
    Approximation Theory and Approximation Practice, SIAM 2013, chapter 3, for the polynomials.

    Examples
    --------
    >>> layer = vp.nn.BasisCoupling(dim=2, degree=3, periodic=[0])  # an angle and its momentum
    >>> z = torch.rand(5, 2, dtype=torch.float64)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    volume_preserving = True
    prolongable = True
    state_shift: torch.Tensor
    state_scale: torch.Tensor

    def __init__(
        self,
        dim: int,
        degree: int = 6,
        *,
        periodic: Sequence[int] = (),
        cyclic: Sequence[int] = (),
        rates: Sequence[int] = (),
        expressions: Sequence[str] = (),
        split: Blocks = "coordinates",
        sweep: Sequence[int] | None = None,
        symmetries: Any = (),
        initial_scale: float = 1e-3,
    ) -> None:
        super().__init__()
        self.dim = whole("dim", dim)
        self.degree = checked_degree(degree)
        self.blocks = as_blocks(split, dim)
        self.sweep = self._checked(range(len(self.blocks)) if sweep is None else sweep)
        moved = [self.blocks[a] for a in sorted({*self.sweep})]
        still = others([index for block in moved for index in block], dim)
        if not {*rates}.issubset(still):
            raise InputError(
                f"rates must be among the components that stay as they are, {still}, not {[*rates]}"
            )
        self.kinds = families(dim, periodic, rates)
        self.cyclic = {*cyclic}
        group = generated_group(symmetries, dim)
        check_compatible([*moved, still], group)
        moves = moves_of_terms(group)
        self.formulas = [Formulas((), dim) for _ in self.blocks]
        if len(expressions):
            self._place_formulas(Formulas(expressions, dim), group)
        self._read: dict[int, list[bool]] = {}
        # degree of the first term of each parameter of a block
        degrees = {a: self._place_terms(a, moves) for a in sorted({*self.sweep})}
        each = torch.cat([degrees[a] for a in self.sweep])
        if not len(each):
            raise InputError(
                f"no function of degree {degree} is allowed by the {len(group)} symmetries; take a "
                "higher degree"
            )
        counts = [len(degrees[a]) for a in self.sweep]
        self.shares = [slice(sum(counts[:i]), sum(counts[: i + 1])) for i in range(len(counts))]
        scales = initial_scale / each**2
        self.coefficients = nn.Parameter((scales * torch.randn(len(scales))).double())

    def _checked(self, sweep: Sequence[int]) -> list[int]:
        numbers = [plain("sweep", a, (int,)) for a in sweep]
        if not numbers or not all(0 <= a < len(self.blocks) for a in numbers):
            raise InputError(
                f"sweep must name some of the blocks 0 ... {len(self.blocks) - 1}, not {numbers}"
            )
        return numbers

    def _place_terms(self, a: int, moves: SignedPermutations) -> torch.Tensor:
        """Give a block its terms, and say of what degrees its parameters are."""
        block, rest = self.blocks[a], others(self.blocks[a], self.dim)
        variables = restricted(moves, rest)
        kinds = [self.kinds[index] for index in rest]
        if len(self.formulas[a]):
            places, signs = self._moves[a]
            variables = (
                torch.cat([variables[0], places + len(rest)], 1),
                torch.cat([variables[1], signs], 1),
            )
            kinds += [POLYNOMIALS] * len(self.formulas[a])
        indices = terms(self.degree, kinds, [index in self.cyclic for index in rest])
        sources, factors, count = equivariant_coefficients(
            indices, kinds, variables, restricted(moves, block)
        )
        used = (factors != 0).any(1)
        chosen = torch.tensor(indices, dtype=torch.long).view(len(indices), len(kinds))[used]
        size = torch.tensor(total_degrees(chosen.tolist(), self.degree, kinds))
        sources, factors = sources[used], factors[used]
        self._constant(f"block_{a}", torch.tensor(block))
        self._choose(a, chosen)
        self._constant(f"sources_{a}", sources)
        placed = torch.zeros(len(chosen), self.dim, dtype=torch.float64)
        placed[:, block] = factors
        self._constant(f"factors_{a}", placed)
        degrees = torch.zeros(count).index_put(
            (sources[factors != 0],), size.unsqueeze(1).expand_as(sources)[factors != 0].float()
        )
        return degrees.clamp(min=1)

    def _place_formulas(self, formulas: Formulas, group: torch.Tensor) -> None:
        """Give each block the formulas that it can use."""
        moves, closed = formulas.moves(group)
        self._moves = []
        for a, block in enumerate(self.blocks):
            usable = [n for n in closed if not formulas.depends[n].intersection(block)]
            texts = [formulas.texts[n] for n in usable]
            self.formulas[a] = Formulas(texts, self.dim)
            self._moves.append(restricted(moves, usable))
            for name in ("shift", "scale"):
                self.register_buffer(f"formula_{name}_{a}", torch.zeros(len(texts)).double())
        if not any(map(len, self.formulas)):
            raise InputError(
                "each of the expressions depends on components of every block of the split, or is "
                "not respected by the symmetries; leave them out"
            )
        for name in ("shift", "scale"):
            self.register_buffer(f"state_{name}", torch.zeros(self.dim).double())
        self.set_units(torch.zeros(self.dim), torch.ones(self.dim))

    def set_units(self, shift: torch.Tensor, scale: torch.Tensor) -> None:
        """Say that the states are (z - shift) / scale, z being what the formulas are about.

        Formulas are normalised too, to their median and spread at states like these; symmetries
        that take one to another, or change its sign, are respected.
        """
        if not any(map(len, self.formulas)):
            return
        with torch.no_grad():
            self.state_shift.copy_(shift)
            self.state_scale.copy_(scale)
            for a, formulas in enumerate(self.formulas):
                if not len(formulas):
                    continue
                middle, size = formulas.units(shift, scale, self._moves[a])
                self.get_buffer(f"formula_shift_{a}").copy_(middle)
                self.get_buffer(f"formula_scale_{a}").copy_(size)

    def _constant(self, name: str, value: torch.Tensor) -> None:
        self.register_buffer(name, value, persistent=False)

    def _choose(self, a: int, chosen: torch.Tensor) -> None:
        """Store the function of each variable in each term (term, variable) of a block.

        The variables that occur are also kept as plain booleans: reading a tensor in every shear
        would make a GPU wait.
        """
        self._constant(f"chosen_{a}", chosen)
        self._read[a] = chosen.any(0).tolist()

    def prolong(self, smaller: BasisCoupling) -> None:
        """Become the map of a layer of the same components and symmetries, of no higher degree.

        Its sweep may be the beginning of this one.
        """
        with torch.no_grad():
            coefficients = torch.zeros_like(self.coefficients)
            for i, a in enumerate(smaller.sweep):
                terms_known = smaller.get_buffer(f"chosen_{a}").tolist()
                known = dict(zip(map(tuple, terms_known), smaller._matrix(i), strict=True))
                own, factors = coefficients[self.shares[i]], self.get_buffer(f"factors_{a}")
                sources = self.get_buffer(f"sources_{a}")
                for n, e in enumerate(self.get_buffer(f"chosen_{a}").tolist()):
                    if tuple(e) not in known:
                        continue
                    for k, component in enumerate(self.blocks[a]):
                        factor = factors[n, component]
                        if factor:
                            own[sources[n, k]] = known[tuple(e)][component] / factor
            self.coefficients.copy_(coefficients)
            buffers = dict(self.named_buffers())
            for name, value in smaller.state_dict().items():  # of formulas
                if name in buffers:
                    buffers[name].copy_(value)

    def _univariate(self, x: torch.Tensor, kind: Univariate) -> torch.Tensor:
        """Return the functions of one component, (...) to (..., function)."""
        return torch.stack(kind.values(x, self.degree), dim=-1)

    def _matrix(self, i: int) -> torch.Tensor:
        """Return coefficients (term, dim) of a shear of the sweep, zero outside its block."""
        a = self.sweep[i]
        sources, factors = self.get_buffer(f"sources_{a}"), self.get_buffer(f"factors_{a}")
        own = self.coefficients if len(self.sweep) == 1 else self.coefficients[self.shares[i]]
        values = own.index_select(0, sources.flatten()).view(sources.shape)
        block = self.blocks[a]
        if len(block) == 1:
            return values * factors
        return (
            torch.zeros_like(factors).index_copy(1, self.get_buffer(f"block_{a}"), values) * factors
        )

    def move(self, z: torch.Tensor, i: int) -> torch.Tensor:
        """Return the increment of states by one shear of the sweep, zero outside its block."""
        a = self.sweep[i]
        chosen = self.get_buffer(f"chosen_{a}")
        if not len(chosen):  # the symmetries leave no term of this degree
            return torch.zeros_like(z)
        phi: torch.Tensor | None = None
        for j, index in enumerate(others(self.blocks[a], self.dim)):
            if not self._read[a][j]:
                continue
            u = self._univariate(z[..., index], self.kinds[index])
            u = u.index_select(-1, chosen[:, j])
            phi = u if phi is None else phi * u
        if len(formulas := self.formulas[a]):
            shifts = self.get_buffer(f"formula_shift_{a}").unbind()
            scales = self.get_buffer(f"formula_scale_{a}").unbind()
            values = formulas(z * self.state_scale + self.state_shift)
            known = self.dim - len(self.blocks[a])
            for j, value, shift, scale in zip(
                range(known, known + len(formulas)), values, shifts, scales, strict=True
            ):
                if self._read[a][j]:
                    u = self._univariate((value - shift) / scale, POLYNOMIALS)
                    u = u.index_select(-1, chosen[:, j])
                    phi = u if phi is None else phi * u
        matrix = self._matrix(i)
        if phi is None:  # at most a constant
            return matrix.sum(0).expand_as(z)
        return phi @ matrix

    def at(self, values: torch.Tensor) -> BasisCoupling:
        """Return the coupling of the other components where the last ones have these values (m,).

        Terms that differ in functions of the last components alone become one. No symmetries are
        built into it, as values break them.

        Raises
        ------
        InputError
            If the sweep moves one of the last components.
        """
        return coupling_at(self, values)

    def shears(self) -> list[LinearShear]:
        """Return the shears of the sweep, in order."""
        own = [[self.coefficients]]
        return [
            LinearShear(a, own, self.blocks[a], partial(self.move, i=i), self.shares[i])
            for i, a in enumerate(self.sweep)
        ]

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        last_size("z", z, {"dim": self.dim})
        for i in range(len(self.sweep)):
            z = z + self.move(z, i)
        return z

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """Return the states that ``forward`` maps to z."""
        last_size("z", z, {"dim": self.dim})
        for i in reversed(range(len(self.sweep))):
            z = z - self.move(z, i)
        return z

    def extra_repr(self) -> str:
        return (
            f"dim={self.dim}, degree={self.degree}, blocks={self.blocks}, sweep={self.sweep}, "
            f"parameters={self.coefficients.numel()}"
        )


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
            periodic=[c for c in range(n) if layer.kinds[c] is HARMONICS],
            split=inside,
            sweep=[inside.index(block) for block in moved],
            initial_scale=0.0,
        )
    found.degree = layer.degree
    merged = {}
    if any(map(len, layer.formulas)):
        units = (layer.state_shift, layer.state_scale)
        texts = values_of_components(values, range(n, layer.dim), *units)
        found._moves = [unmoved(0) for _ in inside]
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


def _merge_block(
    layer: BasisCoupling,
    found: BasisCoupling,
    numbers: tuple[int, int],
    values: torch.Tensor,
    texts: Mapping[int, float],
) -> tuple[MergedTerms, torch.Tensor]:
    """Give a block its terms; how they come from those of the layer, and which of them are used."""
    a, b = numbers
    n, block, rest = found.dim, layer.blocks[a], others(layer.blocks[a], layer.dim)
    known = {j: values[c - n] for j, c in enumerate(rest) if c >= n}
    kinds = [layer.kinds[c] for c in rest]
    if len(layer.formulas[a]):
        shift, scale = (layer.get_buffer(f"formula_{name}_{a}") for name in ("shift", "scale"))
        of = formulas_at(layer.formulas[a], texts, shift, scale)
        kinds += [POLYNOMIALS] * len(layer.formulas[a])
        known |= {len(rest) + j: value for j, value in of.values.items()}
        found.formulas[b] = Formulas(of.texts, n)
        found._moves[b] = unmoved(len(of.left))
        found.register_buffer(f"formula_shift_{b}", shift[of.left].clone())
        found.register_buffer(f"formula_scale_{b}", scale[of.left].clone())
    merged = merge_terms(layer.get_buffer(f"chosen_{a}"), kinds, layer.degree, known)
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
