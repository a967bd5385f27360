"""Additive couplings whose functions are linear combinations of given functions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import plain, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.basis import (
    SignedPermutations,
    Terms,
    beside,
    checked_degree,
    moves_of_terms,
    restricted,
)
from vpintegrator.nn.formulas import Formulas
from vpintegrator.nn.layer import Device, Dtype, InvertibleLayer, on_cpu
from vpintegrator.nn.parameters import check_vanishing, joined
from vpintegrator.nn.shears import LinearShear
from vpintegrator.nn.split import Blocks, as_blocks, check_compatible, others
from vpintegrator.nn.symmetry import generated_group
from vpintegrator.nn.units import FormulaVariables
from vpintegrator.nn.univariate import POLYNOMIALS, families


class BasisCoupling(InvertibleLayer):
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
    parameters : int
        Number m of parameters, further variables of all functions. The numbers of these variables
        follow those of the components, as in ``periodic``, ``cyclic`` and ``expressions``.
    vanishing : sequence of int
        Parameters at zero of which nothing moves: every term has a function of one of them that
        vanishes with it. So where all of them are zero the layer is the identity, exactly.
    expressions : sequence of str
        Formulas such as ``exp(z[0] - z[1])``, of the variables as they are before normalisation
        (see ``set_units``). A block makes use of those that depend only on the other variables, and
        that the symmetries take to one another or to their negatives.
    split : "coordinates", "halves" or blocks of indices
        Blocks in the order of the sweep; "halves" for (q, p).
    sweep : sequence of int, optional
        Numbers of the blocks in the order in which they are updated, each as often as it is named;
        by default each once. The shears of a block that comes twice have coefficients of their own;
        one that is not named stays as it is.
    symmetries : sequence of (dim + m, dim + m), optional
        The layer commutes with the group they generate, signed permutations of components and of
        parameters. Only the terms that the group allows have coefficients, so it costs nothing and
        saves most of them.
    initial_scale : float
        Size of the initial coefficients of degree 1; those of degree n are :math:`n^2` times
        smaller.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If the symmetries mix blocks of the split, are other matrices than signed permutations, or
        leave no term.

    References
    ----------
    Dinh, Krueger, Bengio, NICE, arXiv 1410.8516, section 3.2, for the shear; Trefethen,
    Approximation Theory and Approximation Practice, SIAM 2013, chapter 3, for the polynomials.

    Examples
    --------
    >>> layer = vp.nn.BasisCoupling(dim=2, degree=3, periodic=[0])  # an angle and its momentum
    >>> z = torch.rand(5, 2)
    >>> bool(torch.allclose(layer.inverse(layer(z)), z))
    True
    """

    prolongable = True
    shown = ("dim", "degree", "blocks", "sweep")

    @on_cpu
    def __init__(
        self,
        dim: int,
        degree: int = 6,
        *,
        periodic: Sequence[int] = (),
        cyclic: Sequence[int] = (),
        parameters: int = 0,
        vanishing: Sequence[int] = (),
        expressions: Sequence[str] = (),
        split: Blocks = "coordinates",
        sweep: Sequence[int] | None = None,
        symmetries: Any = (),
        initial_scale: float = 1e-3,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.dim = whole("dim", dim)
        self.degree = checked_degree(degree)
        self.parameter_count = whole("parameters", parameters, 0)
        self.blocks = as_blocks(split, dim, parameters)
        self.sweep = self._as_sweep(range(len(self.blocks)) if sweep is None else sweep)
        moved = [self.blocks[a] for a in sorted({*self.sweep})]
        check_vanishing(vanishing, parameters)
        read = dim + parameters
        self.kinds = families(read, periodic, [dim + i for i in vanishing])
        self.cyclic = {*cyclic}
        group = generated_group(symmetries, read)
        check_compatible([*moved, others([i for block in moved for i in block], read)], group)
        moves = moves_of_terms(group)
        self.formulas = nn.ModuleDict()  # by the number of the block
        if len(expressions):
            self._place_formulas(Formulas(expressions, read).respected(group))
        for a, block in enumerate(self.blocks):
            self.constant(f"block_{a}", torch.tensor(block))
        distinct = {a: self._terms_of(a, moves) for a in sorted({*self.sweep})}
        self._set_terms([distinct[a] for a in self.sweep])
        each = torch.cat([terms.degrees for terms in self.terms]).clamp(min=1).float()
        if not len(each):
            raise InputError(
                f"no function of degree {degree} is allowed by the {len(group)} symmetries; take a "
                "higher degree"
            )
        scales = initial_scale / each**2
        start = scales * torch.randn(len(scales), dtype=torch.float32)
        self.coefficients = nn.Parameter(start.to(**self.factory_kwargs))

    def _as_sweep(self, sweep: Sequence[int]) -> list[int]:
        numbers = [plain("sweep", a, (int,)) for a in sweep]
        if not numbers or not all(0 <= a < len(self.blocks) for a in numbers):
            raise InputError(
                f"sweep must name some of the blocks 0 ... {len(self.blocks) - 1}, not {numbers}"
            )
        return numbers

    def _terms_of(self, a: int, moves: SignedPermutations) -> Terms:
        rest, formulas = others(self.blocks[a], len(self.kinds)), self._formulas(a)
        own = restricted(moves, rest)
        count = 0 if formulas is None else len(formulas.shift)
        return Terms.equivariant(
            self.degree,
            [self.kinds[index] for index in rest] + [POLYNOMIALS] * count,
            own if formulas is None else beside(own, formulas.formulas.action),
            restricted(moves, self.blocks[a]),
            absent=[index in self.cyclic for index in rest],
            **self.factory_kwargs,
        )

    def _set_terms(self, terms: Sequence[Terms]) -> None:
        """Set the terms of each shear of the sweep."""
        self.terms: Sequence[Terms] = nn.ModuleList(terms)  # type: ignore[assignment]
        ends = [0, *accumulate(own.count for own in terms)]
        self.shares = [slice(ends[i], ends[i + 1]) for i in range(len(terms))]

    def _place_formulas(self, formulas: Formulas) -> None:
        """Give each block the formulas that it can use."""
        for a, block in enumerate(self.blocks):
            usable = [n for n, own in enumerate(formulas.depends) if own.isdisjoint(block)]
            if usable:
                own = FormulaVariables(formulas.part(usable), **self.factory_kwargs)
                self.formulas[str(a)] = own
        if not len(self.formulas):
            raise InputError(
                "each of the expressions depends on components of every block of the split, or is "
                "not respected by the symmetries; leave them out"
            )

    def _formulas(self, a: int) -> FormulaVariables | None:
        """Return the formulas of a block."""
        own: Any = dict(self.formulas)
        return own.get(str(a))

    def prolong(self, smaller: BasisCoupling) -> None:
        """Take the coefficients of a smaller layer, so that both are the same map.

        Components and symmetries are the same, and its degree is no higher. Its sweep may be the
        beginning of this one.
        """
        with torch.no_grad():
            coefficients = torch.zeros_like(self.coefficients)
            for i in range(len(smaller.sweep)):
                own = smaller.coefficients[smaller.shares[i]]
                coefficients[self.shares[i]] = self.terms[i].prolonged(smaller.terms[i], own)
            self.coefficients.copy_(coefficients)
            self.adapt_like(smaller)

    def _matrix(self, i: int) -> torch.Tensor:
        """Return coefficients (term, dim) of a shear of the sweep, zero outside its block."""
        own = self.coefficients if len(self.sweep) == 1 else self.coefficients[self.shares[i]]
        values = self.terms[i].coefficients(own)  # (term, component)
        block = self.get_buffer(f"block_{self.sweep[i]}")
        return values.new_zeros(len(values), self.dim).index_copy(1, block, values)  # (term, dim)

    def move(self, x: torch.Tensor, i: int) -> torch.Tensor:
        """Return the increment (..., dim) of states by one shear of the sweep.

        ``x`` are the variables (..., dim + m): states and parameters. It is zero outside the block.
        """
        a, terms = self.sweep[i], self.terms[i]
        if not len(terms.chosen):  # the symmetries leave no term of this degree
            return torch.zeros_like(x[..., : self.dim])
        variables = [x[..., index] for index in others(self.blocks[a], len(self.kinds))]
        if (formulas := self._formulas(a)) is not None:
            variables += formulas(x)
        phi: torch.Tensor | None = None
        for j, variable in enumerate(variables):
            if terms.occurs[j]:
                (u,) = terms.jet(j, variable)
                phi = u if phi is None else phi * u  # (..., term)
        matrix = self._matrix(i)  # (term, dim)
        if phi is None:  # at most a constant
            return matrix.sum(0).expand_as(x[..., : self.dim])  # (..., dim)
        return phi @ matrix  # (..., dim)

    @torch.no_grad()
    def at(self, parameters: torch.Tensor) -> BasisCoupling:
        """Return the coupling at parameters (m,), which are multiplied out.

        Terms that differ in functions of the parameters alone become one. No symmetries are built
        into it, as values break them.
        """
        result = copy.deepcopy(self)
        result.parameter_count, result.kinds = 0, self.kinds[: self.dim]
        result.formulas = nn.ModuleDict()
        parts = []
        for i, a in enumerate(self.sweep):
            rest = others(self.blocks[a], len(self.kinds))
            known = {j: parameters[c - self.dim] for j, c in enumerate(rest) if c >= self.dim}
            if (formulas := self._formulas(a)) is not None:
                own, values = formulas.at(parameters)
                known |= {len(rest) + n: value for n, value in values.items()}
                if own is not None:
                    result.formulas[str(a)] = own
            parts.append(self.terms[i].at(known, self.coefficients[self.shares[i]]))
        result._set_terms([terms for terms, _ in parts])
        result.coefficients = nn.Parameter(torch.cat([c for _, c in parts]))
        return result.to(self.coefficients)

    def shears(self) -> list[LinearShear]:
        """Return the shears of the sweep, in order."""
        own = [self.coefficients]
        plain = not len(self.formulas)
        return [
            LinearShear(
                a,
                own,
                self.blocks[a],
                partial(self._padded, i=i),
                self.shares[i],
                jet=partial(self._jet, i=i) if plain else None,
            )
            for i, a in enumerate(self.sweep)
        ]

    def _padded(self, x: torch.Tensor, i: int) -> torch.Tensor:
        """Return the increment (..., dim + m) of variables, zero for the parameters."""
        return nn.functional.pad(self.move(x, i), (0, self.parameter_count))

    @torch.no_grad()
    def _jet(self, z: torch.Tensor, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return derivatives of the increments of a block, see ``LinearShear``."""
        a, terms, read = self.sweep[i], self.terms[i], len(self.kinds)
        block, seen = self.blocks[a], others(self.blocks[a], read)
        moving = [terms.occurs[j] and not terms.kinds[j].required for j in range(len(seen))]
        jets = [terms.derivatives(j, z[:, n], int(moving[j])) for j, n in enumerate(seen)]
        values = terms.product(jets, {})  # (state, term)
        # (state, component, parameter)
        by_parameters = torch.stack([values @ own for own in terms.parameter_weights()], 1)
        by_states = z.new_zeros(len(z), len(block), read)  # (state, component, dim + m)
        matrix = terms.coefficients(self.coefficients[self.shares[i]])  # (term, component)
        for j, n in enumerate(seen):
            if moving[j]:
                by_states[..., n] = terms.product(jets, {j: 1}) @ matrix  # (state, component)
        return by_parameters, by_states

    def transform(
        self, z: torch.Tensor, sign: int, parameters: torch.Tensor | None = None
    ) -> torch.Tensor:
        for i in range(len(self.sweep))[::sign]:
            z = torch.add(z, self.move(joined(z, parameters), i), alpha=sign)  # (..., dim)
        return z
