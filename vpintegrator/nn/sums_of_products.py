"""Sums of products of functions of disjoint variables, with two derivatives.

A term is a product of a function of each variable. A variable is a component, or a plane of two.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from vpintegrator.nn.basis import Terms
from vpintegrator.nn.layer import Layer

MARGIN = 1.05  # relative size of the box to the range of the states

Order = tuple[int, ...]  # derivative by these variables, () for the function itself


class _Level(NamedTuple):
    """Summation over the functions of one variable, see ``_Plan``."""

    variable: int
    functions: torch.Tensor  # (item,), index of the variable's function in each item
    members: torch.Tensor  # (group, largest), items of each group, padded by a zero item
    groups: int


class _Plan:
    """Order of summation over terms: variable by variable, the last one first.

    The terms that differ in the last variable alone are summed first, so that the sums over the
    other variables are short: a polynomial of total degree D in n variables costs little more than
    one multiplication for each of its terms.
    """

    def __init__(self, orders: torch.Tensor, variables: Sequence[int]) -> None:
        rows = orders[:, list(variables)]
        keys, self.places = rows.unique(dim=0, return_inverse=True)  # (item, variable), (term,)
        self.items = len(keys)
        self.levels: list[_Level] = []
        for j in reversed(range(len(variables))):
            functions = keys[:, j]
            if j == 0:
                keys = keys[:1]
                group = torch.zeros(len(functions), dtype=torch.long)
            else:
                keys, group = keys[:, :j].unique(dim=0, return_inverse=True)
            counts = torch.bincount(group, minlength=len(keys))
            members = torch.full((len(keys), int(counts.max())), len(functions))
            first = counts.cumsum(0) - counts
            column = torch.arange(len(functions)) - first[group]  # items are sorted by group
            members[group, column] = torch.arange(len(functions))
            self.levels.append(_Level(variables[j], functions, members, len(keys)))


class SumOfProducts(Layer):
    """A linear combination of terms, with gradient, Hessian and the derivatives of each term.

    A derived class has ``terms``, whose functions of each variable ``_tables`` evaluates, and calls
    ``prepare`` when these are known.

    Attributes
    ----------
    size : int
        Components of x, and of the gradient.
    terms : Terms
    coefficients : Parameter, (coefficient,)
    box_shift, box_scale : Tensor, (size + m,)
        Origin and unit of each component, and of each parameter.
    """

    size: int
    terms: Terms
    coefficients: nn.Parameter
    box_shift: torch.Tensor
    box_scale: torch.Tensor

    def prepare(self, read: int) -> None:
        """Register the box of so many components, and compute the order of summation."""
        self.register_buffer("box_shift", torch.zeros(read, **self.factory_kwargs))
        self.register_buffer("box_scale", torch.ones(read, **self.factory_kwargs))
        self._rows = self.terms.chosen.clone()  # on the CPU, wherever the function is
        self._plans: dict[tuple[int, ...], _Plan] = {}
        self.plan()

    def variable(self, component: int) -> int:
        """Return the number of the variable to which a component belongs."""
        return component

    @abstractmethod
    def _tables(self, x: torch.Tensor, orders: Sequence[Order]) -> dict[tuple[int, Order], Any]:
        """Return derivatives (function, ...) of a variable's functions by (variable, order).

        The order names components of that variable alone, in units of ``box_scale``.
        """

    def _of(self, order: Order, variable: int) -> Order:
        """Return the components of an order that belong to a variable."""
        return tuple(i for i in order if self.variable(i) == variable)

    def plan(self, kept: Sequence[int] = ()) -> _Plan:
        """Return the order of summation, with the ``kept`` variables in the end.

        It is computed once, before a compiler traces the function.
        """
        key = tuple(kept)
        if key not in self._plans:
            others = [j for j in range(self._rows.shape[1]) if j not in kept]
            self._plans[key] = _Plan(self._rows, [*kept, *others])
        return self._plans[key]

    def _contracted(
        self,
        tables: dict[tuple[int, Order], torch.Tensor],
        orders: Sequence[Order],
        c: torch.Tensor,
        plan: _Plan,
        kept: int = 0,
    ) -> dict[Order, torch.Tensor]:
        """Return sums over all variables but the first ``kept`` of the plan, (item, ...) by order.

        States come last, so that functions are selected by whole rows.
        """
        terms = self.terms.coefficients(c)[:, 0]  # (term,)
        first = terms.new_zeros(plan.items).index_add(0, plan.places.to(c.device), terms)  # (item,)
        states = next(iter(tables.values())).ndim - 1
        partial: dict[Order, torch.Tensor] = {(): first.view(-1, *[1] * states)}  # (item, ...)
        done: set[int] = set()
        for level in plan.levels[: len(plan.levels) - kept]:
            done.add(level.variable)
            needed = {tuple(i for i in order if self.variable(i) in done) for order in orders}
            new: dict[Order, torch.Tensor] = {}
            for order in needed:
                own = self._of(order, level.variable)
                rest = tuple(i for i in order if i not in own)
                table = tables[level.variable, own]
                # (item, ...)
                items = partial[rest] * table.index_select(0, level.functions.to(c.device))
                padded = torch.cat([items, torch.zeros_like(items[:1])])  # (item + 1, ...)
                # (group * largest, ...)
                members = padded.index_select(0, level.members.flatten().to(c.device))
                new[order] = members.unflatten(0, tuple(level.members.shape)).sum(1)  # (group, ...)
            partial = new
        return partial

    def features(self, x: torch.Tensor, orders: Sequence[Order]) -> list[torch.Tensor]:
        """Return partial derivatives (state, coefficient) of each coefficient's function.

        Parameters
        ----------
        x : (state, size + m)
        orders
            One or two components for each derivative.
        """
        tables = self._tables(x, orders)
        basis = {}
        for order in dict.fromkeys(map(_sorted, orders)):
            product = self.terms.factors
            for j in range(self._rows.shape[1]):
                table = tables[j, self._of(order, j)]
                product = product * table.index_select(0, self.terms.chosen[:, j])
            basis[order] = product  # (term, state)
        empty = x.new_zeros(self.terms.count, len(x))
        sources = self.terms.sources[:, 0]
        # (state, coefficient)
        return [empty.index_add(0, sources, sums).mT for sums in self._unscaled(basis, orders)]

    def partials(
        self, x: torch.Tensor, orders: Sequence[Order], c: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        """Return partial derivatives (...) by one or two components at x."""
        c = self.coefficients if c is None else c
        distinct = list(dict.fromkeys(map(_sorted, orders)))
        sums = self._contracted(self._tables(x, orders), distinct, c, self.plan())
        return self._unscaled({order: part.squeeze(0) for order, part in sums.items()}, orders)

    def _unscaled(
        self, derivatives: dict[Order, torch.Tensor], orders: Sequence[Order]
    ) -> list[torch.Tensor]:
        """Return derivatives by components from those by components in units of the box."""
        slopes = [1 / scale for scale in self.box_scale.unbind()]
        result = []
        for first, *others in orders:
            factor = slopes[first]
            for i in others:
                factor = factor * slopes[i]
            result.append(derivatives[_sorted((first, *others))] * factor)
        return result

    def gradient(self, x: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
        """Return the gradient (..., size) at x (..., size + m), with coefficients c."""
        return torch.stack(self.partials(x, [(i,) for i in range(self.size)], c), -1)

    def gradient_and_hessian(
        self, x: torch.Tensor, c: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return gradient (..., size) and Hessian (..., size, size) at x."""
        n = self.size
        pairs = [(i, j) for i in range(n) for j in range(i, n)]
        result = self.partials(x, [*((i,) for i in range(n)), *pairs], c)
        above = dict(zip(pairs, result[n:], strict=True))
        rows = [above[min(i, j), max(i, j)] for i in range(n) for j in range(n)]
        return torch.stack(result[:n], -1), torch.stack(rows, -1).unflatten(-1, (n, n))


def _sorted(order: Order) -> Order:
    return tuple(sorted(order))
