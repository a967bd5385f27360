"""Potentials that are linear combinations of given functions, with their gradients written out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.errors import InputError
from vpintegrator.nn.basis import (
    LARGEST_COUNT,
    Terms,
    beside,
    checked_degree,
    moves_of_terms,
)
from vpintegrator.nn.canonical import SignedGroup
from vpintegrator.nn.formulas import Formulas
from vpintegrator.nn.layer import Device, Dtype, Layer, on_cpu
from vpintegrator.nn.parameters import check_vanishing
from vpintegrator.nn.units import FormulaVariables
from vpintegrator.nn.univariate import POLYNOMIALS, SECULAR, Univariate, families


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
        initial_scale: float | None = None,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.size, self.degree = whole("size", size), checked_degree(degree)
        self.parameter_count = whole("parameters", parameters, 0)
        read, self.differentiated = size + parameters, tuple(differentiated)
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
        moving = self.differentiated or self._moving()

        def is_allowed(e: Sequence[int]) -> bool:  # a function of parameters alone has no gradient
            return (
                any(e[j] for j in moving)
                and self._has_periodic_derivatives([(e[j], kinds[j]) for j in self.differentiated])
                and all(any(e[j] for j in block) for block in involved)
            )

        self.terms = Terms.equivariant(
            self.degree,
            kinds,
            moves if self.formulas is None else beside(moves, self.formulas.formulas.action),
            (torch.zeros(len(group), 1, dtype=torch.long), turned.unsqueeze(1)),
            absent=[index in cyclic for index in range(read)],
            most=self.largest_count,
            allowed=is_allowed,
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
        own = {*self.components[: self.size]}
        read = self.size + self.parameter_count
        depends = [] if self.formulas is None else self.formulas.formulas.depends
        changing = [n for n, of in enumerate(depends) if own.intersection(of)]
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
        values, slopes = [], {}
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
        own, product = range(self.size), self.terms.product
        # (state, size, parameter)
        slopes = torch.stack([product(jets, {i: 1}) for i in own], 1) @ weights
        curvature = x.new_zeros(len(x), self.size, self.size)  # (state, size, size)
        for i in own:
            for j in own[i:]:
                value = product(jets, {i: 2} if i == j else {i: 1, j: 1}) @ c  # (state,)
                curvature[:, i, j] = curvature[:, j, i] = value
        return slopes, curvature

    @torch.no_grad()
    def at(self, parameters: torch.Tensor) -> Self:
        """Return the potential of x at parameters (m,), which are multiplied out."""
        result = copy.deepcopy(self)
        result.parameter_count, result.components = 0, self.components[: self.size]
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
