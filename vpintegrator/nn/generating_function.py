"""Scalar functions that generate maps: linear in their coefficients, with two derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch

from vpintegrator.errors import InputError
from vpintegrator.nn.basis import RADIUS, SignedPermutations
from vpintegrator.nn.basis_layers import BasisPotential
from vpintegrator.nn.sums_of_products import MARGIN, Order, SumOfProducts

LARGEST_COUNT = 20_000  # terms, before symmetries


class GeneratingFunction(SumOfProducts, BasisPotential):
    r"""A polynomial in the Chebyshev basis on the box of the training states.

    .. math:: S(z) = \sum_e c_e\, \prod_i T_{e_i}\!\left(\frac{z_i - b_i}{w_i}\right)

    A ``BasisPotential`` (harmonics of angles, symmetries, parameters; no formulas) with the
    box :math:`b_i \pm w_i` of states instead of a fixed interval, with second derivatives, and with
    the derivatives of its basis functions, from which one least-squares solve gives c.

    Parameters
    ----------
    size : int
        Components of x and of the gradient.
    degree : int
        Largest total degree of a term; of an angle the order of the harmonic counts.
    periodic, cyclic : sequence of int
        Components that are angles, and components that S does not depend on.
    expressions : sequence of str
        None: formulas are refused.
    components : sequence of int, optional
        Numbers of the components that x and k hold; by default 0, 1, ...
    group : Tensor, (element, size + m, size + m), optional
        Invariance group of S, or a pair of it and a sign for each element.
    parameters : int
        Number m of parameters k.
    vanishing : sequence of int
        Parameters at zero of which S is constant.
    involved : sequence of sequences of int
        A term has a function of at least one component of each.
    differentiated : sequence of int
        Components by which alone S is differentiated, if not by all.
    allowed : callable, optional
        Further condition on a term. ``BasisPotential`` describes these arguments in full.
    weights : sequence of float
        Weights of components and parameters in the degree of a term.
    initial_scale : float, optional
        Size of the initial coefficients, by default 0.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        As ``BasisPotential``; if there are more than 20,000 terms.

    Examples
    --------
    >>> S = vp.nn.GeneratingFunction(2, degree=3, initial_scale=0.1)
    >>> z = torch.rand(2)
    >>> H = torch.func.jacrev(S.gradient)(z)
    >>> bool(torch.allclose(H, S.gradient_and_hessian(z)[1]))
    True
    """

    largest_count = LARGEST_COUNT
    first_scale = 0.0

    def _extend(self) -> None:
        if self.formulas is not None:
            raise InputError("generating functions take no expressions")
        self.prepare(self.size + self.parameter_count)

    # the box

    @torch.no_grad()
    def adapt(self, x: torch.Tensor) -> None:
        """Take the box of variables x (state, size + m), as symmetric as the group asks."""
        kinds = self.terms.kinds[: self.size + self.parameter_count]
        fixed, angles = (
            torch.tensor([getattr(kind, name) for kind in kinds])
            for name in ("has_origin", "is_angle")
        )
        middle, half = _box(x.double(), self._component_moves, fixed)
        self.box_shift.copy_(middle)
        self.box_scale.copy_(half.masked_fill(angles, 1.0))

    def at(self, parameters: torch.Tensor) -> Self:
        """Return the function of x at parameters (m,), which are multiplied out."""
        result = super().at(parameters)
        result.box_shift.copy_(self.box_shift[: self.size])
        result.box_scale.copy_(self.box_scale[: self.size])
        return result

    def _functions_of(self, parameters: torch.Tensor) -> torch.Tensor:
        read = slice(self.size, None)
        return (parameters - self.box_shift[read].cpu()) / self.box_scale[read].cpu()

    # values of the basis functions

    def _tables(self, x: torch.Tensor, orders: Sequence[Order]) -> dict[tuple[int, Order], Any]:
        variables = ((x - self.box_shift) / self.box_scale).unbind(-1)  # (...) each
        highest = [0] * len(variables)
        for order in orders:
            for j in order:
                highest[j] = max(highest[j], order.count(j))
        tables: dict[tuple[int, Order], torch.Tensor] = {}
        for j, (u, kind) in enumerate(zip(variables, self.terms.kinds, strict=True)):
            result = kind.jet(u, self.terms.highest[j], highest[j])
            for k, each in enumerate(result):
                tables[j, (j,) * k] = torch.stack(each)  # (function, ...)
        return tables

    def along(
        self, x: torch.Tensor, component: int, order: Order, c: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return coefficients (function, ...) of a derivative as a function of one component alone.

        The derivative is by another component than that one.
        """
        plan = self.plan([component])
        tables = self._tables(x, [order])
        c = self.coefficients if c is None else c
        sums = self._contracted(tables, [order], c, plan, kept=1)[order]  # (item, ...)
        functions = plan.levels[-1].functions
        length = len(self.terms.kinds[component].orders(self.terms.highest[component]))
        scale = torch.ones_like(self.box_scale[0])
        for j in order:
            scale = scale / self.box_scale[j]
        places = torch.zeros(length, dtype=torch.long)
        places[functions] = torch.arange(1, len(functions) + 1)
        padded = torch.cat([torch.zeros_like(sums[:1]), sums * scale])  # (item + 1, ...)
        return padded.index_select(0, places.to(c.device))  # (function, ...)

    def functions_of(
        self, component: int, value: torch.Tensor, derivatives: int = 0
    ) -> list[torch.Tensor]:
        """Return functions (function, ...) of one component, and so many derivatives of them."""
        kind = self.terms.kinds[component]
        scale = self.box_scale[component]
        u = (value - self.box_shift[component]) / scale  # (...)
        result = kind.jet(u, self.terms.highest[component], derivatives)
        return [torch.stack(each) / scale**k for k, each in enumerate(result)]


def _box(
    values: torch.Tensor, action: SignedPermutations, fixed: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return centre and unit of variables (state, variable), as symmetric as a group asks.

    The centre is the mean over the group, (S v)_{p(j)} = s_j v_j, and 0 of ``fixed`` variables.
    """
    # (variable,)
    low = values.amin(0)
    high = values.amax(0)
    places, signs = action
    # (variable,)
    middle = torch.zeros_like(signs).scatter(1, places, signs * (low + high) / 2).mean(0)
    if fixed is not None:
        middle = middle.masked_fill(fixed, 0.0)
    half = MARGIN * torch.maximum(high - middle, middle - low) / RADIUS
    half = torch.where(half > 0, half, torch.ones(()).double())
    return middle, half[places].amax(0)
