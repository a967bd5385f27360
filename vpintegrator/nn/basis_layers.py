"""Potentials and couplings that are linear combinations of given functions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Self

import torch
from torch import nn

from vpintegrator.arguments import plain, whole
from vpintegrator.errors import InputError
from vpintegrator.nn.basis import (
    LARGEST_COUNT,
    POLYNOMIALS,
    SECULAR,
    SignedPermutations,
    Terms,
    Univariate,
    beside,
    checked_degree,
    checked_weights,
    families,
    moves_of_terms,
    restricted,
)
from vpintegrator.nn.formulas import Formulas, FormulaVariables
from vpintegrator.nn.layer import (
    Device,
    Dtype,
    InvertibleLayer,
    Layer,
    check_vanishing,
    joined,
    on_cpu,
)
from vpintegrator.nn.shears import LinearShear
from vpintegrator.nn.split import Blocks, as_blocks, check_compatible, others
from vpintegrator.nn.symmetry import SignedGroup, generated_group


class NoTermsError(InputError):
    """Symmetries leave no term of a potential."""


class BasisPotential(Layer):
    r"""A polynomial in the Chebyshev basis, with harmonics of angles.

    .. math:: V(x) = \sum_e c_e\, \varphi_e(x), \qquad
        \varphi_e(x) = \prod_i T_{e_i}(x_i), \quad |e| \le \text{degree}

    Functions of x, given as formulas, may join the components as further variables of the
    polynomials. So may parameters k, :math:`V = V(x, k)`: its gradient is by x alone.

    Parameters
    ----------
    size : int
        Components of x and of the gradient.
    degree : int
        Largest total degree of a term; of an angle the order of the harmonic counts.
    periodic : sequence of int
        Components that are angles, in radians.
    cyclic : sequence of int
        Components that V does not depend on.
    expressions : sequence of str
        Formulas such as ``sigmoid(z[0])``, of components and parameters as they are before
        normalisation (see ``set_units``). Those count that the group takes to one another or to
        their negatives.
    components : sequence of int, optional
        The numbers i of the ``z[i]`` that x and k hold; by default 0, 1, ...
    group : Tensor, (element, size + m, size + m), optional
        Invariance group of V, signed permutations of (x, k); only invariant terms are there. Or a
        pair of these and a sign for each, with :math:`V(S (x, k)) = \pm V(x, k)`.
    parameters : int
        Number m of parameters k, whose numbers follow those of x.
    vanishing : sequence of int
        Parameters at zero of which V is constant: every term has a function of one of them that
        vanishes with it.
    involved : sequence of sequences of int
        A term has a function of at least one component of each; by default any term will do.
    differentiated : sequence of int
        Components by which alone V is differentiated, if not by all. Of one among these that is an
        angle or cyclic, a term may be linear, where it does not depend on the others among these:
        V is not periodic (cyclic) then, but its derivatives are.
    allowed : callable, optional
        Further condition on a term, given the index of its function of each variable. The group
        must take terms that meet the condition to such terms.
    weights : sequence of float
        Weight of each component, and of each parameter, in the degree of a term: a product of
        functions of orders :math:`e_i` has degree :math:`\sum_i w_i e_i`. By default one. Quadratic
        terms are there whatever the weights.
    initial_scale : float, optional
        Size of the initial coefficients of degree 1, by default 1e-3; those of degree n are
        :math:`n^2` times smaller.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If the group holds other matrices than signed permutations, or leaves no term or none of the
        expressions; if an expression is of other components.

    Examples
    --------
    >>> V = vp.nn.BasisPotential(2, degree=4, periodic=[0])
    >>> D = torch.func.jacrev(V.gradient)(torch.rand(2))
    >>> bool(torch.allclose(D, D.mT))  # that of a gradient is symmetric
    True
    """

    prolongable = True
    shown = ("size", "degree")
    largest_count = LARGEST_COUNT
    first_scale = 1e-3

    @on_cpu
    def __init__(
        self,
        size: int,
        degree: int = 6,
        *,
        periodic: Sequence[int] = (),
        cyclic: Sequence[int] = (),
        expressions: Sequence[str] = (),
        components: Sequence[int] | None = None,
        group: torch.Tensor | SignedGroup | None = None,
        parameters: int = 0,
        vanishing: Sequence[int] = (),
        involved: Sequence[Sequence[int]] = (),
        differentiated: Sequence[int] = (),
        allowed: Callable[[Sequence[int]], bool] | None = None,
        weights: Sequence[float] = (),
        initial_scale: float | None = None,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.size = whole("size", size)
        self.degree = checked_degree(degree)
        self.parameter_count = whole("parameters", parameters, 0)
        read = size + parameters
        self.differentiated = tuple(differentiated)
        check_vanishing(vanishing, parameters)
        self.components = list(range(read) if components is None else components)
        if group is None:
            group = torch.eye(read, dtype=torch.float64).unsqueeze(0)
        group, turned = group if isinstance(group, tuple) else (group, torch.ones(len(group)))
        moves = self._component_moves = moves_of_terms(group)
        self.formulas = self._respected(expressions, group) if len(expressions) else None
        count = 0 if self.formulas is None else len(self.formulas.shift)
        kinds = families(read, periodic, [size + i for i in vanishing])
        for j in self.differentiated:
            if j in periodic or j in cyclic:
                kinds[j] = SECULAR
        kinds += [POLYNOMIALS] * count
        self.weights = checked_weights(weights, read)
        moving = self.differentiated or self._moving()

        def is_allowed(e: Sequence[int]) -> bool:  # a function of parameters alone has no gradient
            return (
                any(e[j] for j in moving)
                and self._has_periodic_derivatives([(e[j], kinds[j]) for j in self.differentiated])
                and all(any(e[j] for j in block) for block in involved)
                and (allowed is None or allowed(e))
            )

        self.terms = Terms.equivariant(
            self.degree,
            kinds,
            moves if self.formulas is None else beside(moves, self.formulas.formulas.action),
            (torch.zeros(len(group), 1, dtype=torch.long), turned.unsqueeze(1)),
            absent=[index in cyclic for index in range(read)],
            most=self.largest_count,
            allowed=is_allowed,
            weights=self.weights + [1.0] * count,
            **self.factory_kwargs,
        )
        if not self.terms.count:
            raise NoTermsError(
                f"no potential of degree {degree} is allowed by the symmetries; take a higher one"
            )
        degrees = self.terms.degrees.clamp(min=1).float()
        scale = self.first_scale if initial_scale is None else initial_scale
        start = torch.randn(self.terms.count, dtype=torch.float32) * (scale / degrees**2)
        self.coefficients = nn.Parameter(start.to(**self.factory_kwargs))
        self._extend()

    def _extend(self) -> None:
        """Register what a derived class adds, when the terms are known."""

    @staticmethod
    def _has_periodic_derivatives(factors: Sequence[tuple[int, Univariate]]) -> bool:
        """Whether a factor x stands alone: then its derivatives are periodic although x is not."""
        linear = (1, SECULAR) in factors
        return not linear or sum(index > 0 for index, _ in factors) == 1

    def _moving(self) -> list[int]:
        """Return the numbers of the variables that depend on x."""
        argument = {*self.components[: self.size]}
        read = self.size + self.parameter_count
        depends = [] if self.formulas is None else self.formulas.formulas.depends
        changing = [n for n, of in enumerate(depends) if argument.intersection(of)]
        return [*range(self.size), *(read + n for n in changing)]

    def _respected(self, expressions: Sequence[str], group: torch.Tensor) -> FormulaVariables:
        """Return the formulas that the group allows."""
        formulas = Formulas(expressions, max(self.components) + 1, self.components)
        formulas = formulas.respected(group)
        if not len(formulas):
            raise InputError("the symmetries respect none of the expressions; leave them out")
        return FormulaVariables(formulas, **self.factory_kwargs)

    def _variables(
        self, x: torch.Tensor
    ) -> tuple[list[torch.Tensor], list[dict[int, torch.Tensor]]]:
        """Return the variables of the polynomials, and the derivatives of formulas by x."""
        variables = list(x.unbind(-1))  # (...) each
        if self.formulas is None:
            return variables, []
        values, slopes = self.formulas.with_slopes(x)
        return variables + values, slopes

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\nabla V` (..., size) by x at variables (..., size + m)."""
        variables, inner = self._variables(x)
        moving = self._moving()
        values = []
        slopes = {}
        for j, x_j in enumerate(variables):
            jet = self.terms.jet(j, x_j, int(j in moving))
            values.append(jet[0])
            if j in moving:
                slopes[j] = jet[1]
        coefficients = self.terms.coefficients(self.coefficients)[:, 0]  # (term,)
        # products of all the others, from those before and those after
        before = [coefficients.expand(values[0].shape)]
        for u in values[:-1]:
            before.append(before[-1] * u)  # (..., term)
        after: torch.Tensor | None = None
        result: dict[int, torch.Tensor] = {}
        for j in reversed(range(len(variables))):
            if j in slopes:
                part = before[j] * slopes[j]  # (..., term)
                result[j] = (part if after is None else part * after).sum(-1)  # (...)
            after = values[j] if after is None else after * values[j]  # (..., term)
        for j, by_component in enumerate(inner, self.size + self.parameter_count):
            for i, slope in by_component.items():
                if j in result and i < self.size:
                    result[i] = result[i] + result[j] * slope
        return torch.stack([result[j] for j in range(self.size)], -1)  # (..., size)

    @torch.no_grad()
    def gradient_jet(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        r"""Return the derivatives of :math:`\nabla V` by the parameters and by x.

        For potentials without formulas.

        Parameters
        ----------
        x : (state, size + m)

        Returns
        -------
        by_parameters : (state, size, parameter)
        by_states : (state, size, size)
        """
        assert self.formulas is None
        jets = [
            self.terms.derivatives(j, x_j, 2 if j < self.size else 0)
            for j, x_j in enumerate(x.unbind(-1))
        ]
        c = self.terms.coefficients(self.coefficients)[:, 0]  # (term,)
        weights = self.terms.parameter_weights()[0]  # (term, parameter)
        components = range(self.size)
        product = self.terms.product
        # (state, size, parameter)
        slopes = torch.stack([product(jets, {i: 1}) for i in components], 1) @ weights
        curvature = x.new_zeros(len(x), self.size, self.size)  # (state, size, size)
        for i in components:
            for j in components[i:]:
                value = product(jets, {i: 2} if i == j else {i: 1, j: 1}) @ c  # (state,)
                curvature[:, i, j] = curvature[:, j, i] = value
        return slopes, curvature

    @torch.no_grad()
    def at(self, parameters: torch.Tensor) -> Self:
        """Return the potential of x at parameters (m,), which are multiplied out."""
        result = copy.deepcopy(self)
        result.parameter_count = 0
        result.components = self.components[: self.size]
        known = dict(enumerate(self._functions_of(parameters), self.size))
        if self.formulas is not None:
            result.formulas, values = self.formulas.at(parameters)
            known |= {len(self.components) + n: value for n, value in values.items()}
        result.terms, c = self.terms.at(known, self.coefficients)
        result.coefficients = nn.Parameter(c)
        result._extend()
        return result.to(self.coefficients)

    def _functions_of(self, parameters: torch.Tensor) -> torch.Tensor:
        """Return the arguments (m,) of the univariate functions of parameters."""
        return parameters

    @torch.no_grad()
    def prolong(self, smaller: BasisPotential) -> None:
        """Take the coefficients of a potential of the same components and no higher degree."""
        self.coefficients.copy_(self.terms.prolonged(smaller.terms, smaller.coefficients))
        self.adapt_like(smaller)


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
        rest = others(self.blocks[a], len(self.kinds))
        formulas = self._formulas(a)
        actions = restricted(moves, rest)
        count = 0 if formulas is None else len(formulas.shift)
        return Terms.equivariant(
            self.degree,
            [self.kinds[index] for index in rest] + [POLYNOMIALS] * count,
            actions if formulas is None else beside(actions, formulas.formulas.action),
            restricted(moves, self.blocks[a]),
            absent=[index in self.cyclic for index in rest],
            **self.factory_kwargs,
        )

    def _set_terms(self, terms: Sequence[Terms]) -> None:
        """Set the terms of each shear of the sweep."""
        self.terms: Sequence[Terms] = nn.ModuleList(terms)  # type: ignore[assignment]
        ends = [0, *accumulate(each.count for each in terms)]
        self.shares = [slice(ends[i], ends[i + 1]) for i in range(len(terms))]

    def _place_formulas(self, formulas: Formulas) -> None:
        """Give each block the formulas that it can use."""
        for a, block in enumerate(self.blocks):
            usable = [n for n, read in enumerate(formulas.depends) if read.isdisjoint(block)]
            if usable:
                read = FormulaVariables(formulas.part(usable), **self.factory_kwargs)
                self.formulas[str(a)] = read
        if not len(self.formulas):
            raise InputError(
                "each of the expressions depends on components of every block of the split, or is "
                "not respected by the symmetries; leave them out"
            )

    def _formulas(self, a: int) -> FormulaVariables | None:
        """Return the formulas of a block."""
        by_block: Any = dict(self.formulas)
        return by_block.get(str(a))

    def prolong(self, smaller: BasisCoupling) -> None:
        """Take the coefficients of a smaller layer, so that both are the same map.

        Components and symmetries are the same, and its degree is no higher. Its sweep may be the
        beginning of this one.
        """
        with torch.no_grad():
            coefficients = torch.zeros_like(self.coefficients)
            for i in range(len(smaller.sweep)):
                share = smaller.coefficients[smaller.shares[i]]
                coefficients[self.shares[i]] = self.terms[i].prolonged(smaller.terms[i], share)
            self.coefficients.copy_(coefficients)
            self.adapt_like(smaller)

    def _matrix(self, i: int) -> torch.Tensor:
        """Return coefficients (term, dim) of a shear of the sweep, zero outside its block."""
        share = self.coefficients if len(self.sweep) == 1 else self.coefficients[self.shares[i]]
        values = self.terms[i].coefficients(share)  # (term, component)
        block = self.get_buffer(f"block_{self.sweep[i]}")
        return values.new_zeros(len(values), self.dim).index_copy(1, block, values)  # (term, dim)

    def move(self, x: torch.Tensor, i: int) -> torch.Tensor:
        """Return the increment (..., dim) of states by one shear of the sweep.

        ``x`` are the variables (..., dim + m): states and parameters. It is zero outside the block.
        """
        a = self.sweep[i]
        terms = self.terms[i]
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
        result.parameter_count = 0
        result.kinds = self.kinds[: self.dim]
        result.formulas = nn.ModuleDict()
        parts = []
        for i, a in enumerate(self.sweep):
            rest = others(self.blocks[a], len(self.kinds))
            known = {j: parameters[c - self.dim] for j, c in enumerate(rest) if c >= self.dim}
            if (formulas := self._formulas(a)) is not None:
                remaining, values = formulas.at(parameters)
                known |= {len(rest) + n: value for n, value in values.items()}
                if remaining is not None:
                    result.formulas[str(a)] = remaining
            parts.append(self.terms[i].at(known, self.coefficients[self.shares[i]]))
        result._set_terms([terms for terms, _ in parts])
        result.coefficients = nn.Parameter(torch.cat([c for _, c in parts]))
        return result.to(self.coefficients)

    def shears(self) -> list[LinearShear]:
        """Return the shears of the sweep, in order."""
        plain = not len(self.formulas)
        return [
            LinearShear(
                a,
                self.coefficients,
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
        a = self.sweep[i]
        terms = self.terms[i]
        read = len(self.kinds)
        block = self.blocks[a]
        seen = others(self.blocks[a], read)
        moving = [terms.occurs[j] and not terms.kinds[j].required for j in range(len(seen))]
        jets = [terms.derivatives(j, z[:, n], int(moving[j])) for j, n in enumerate(seen)]
        values = terms.product(jets, {})  # (state, term)
        # (state, component, parameter)
        by_parameters = torch.stack([values @ weights for weights in terms.parameter_weights()], 1)
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
