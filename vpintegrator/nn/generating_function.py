"""Scalar functions that generate maps: linear in their coefficients, with two derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch

from vpintegrator.errors import InputError
from vpintegrator.nn.basis import RADIUS, SignedPermutations
from vpintegrator.nn.basis_layers import BasisPotential

MARGIN = 1.05  # relative size of the box to the range of the states
LARGEST_COUNT = 20_000  # terms, before symmetries

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


class GeneratingFunction(BasisPotential):
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

    box_shift: torch.Tensor
    box_scale: torch.Tensor
    largest_count = LARGEST_COUNT
    first_scale = 0.0

    def _extend(self) -> None:
        if self.formulas is not None:
            raise InputError("generating functions take no expressions")
        read = self.size + self.parameter_count
        self.register_buffer("box_shift", torch.zeros(read, **self.factory_kwargs))
        self.register_buffer("box_scale", torch.ones(read, **self.factory_kwargs))
        self._rows = self.terms.chosen.clone()  # on the CPU, wherever the function is
        self._plans: dict[tuple[int, ...], _Plan] = {}
        self.plan()

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

    def _tables(self, x: torch.Tensor, orders: Sequence[Order]) -> dict[tuple[int, int], Any]:
        """Return k-th derivatives (function, ...) of a variable's functions by (variable, k)."""
        variables = ((x - self.box_shift) / self.box_scale).unbind(-1)  # (...) each
        highest = [0] * len(variables)
        for order in orders:
            for j in order:
                highest[j] = max(highest[j], order.count(j))
        tables: dict[tuple[int, int], torch.Tensor] = {}
        for j, (u, kind) in enumerate(zip(variables, self.terms.kinds, strict=True)):
            result = kind.jet(u, self.terms.highest[j], highest[j])
            tables |= {
                (j, k): torch.stack(each) for k, each in enumerate(result)
            }  # (function, ...)
        return tables

    def plan(self, kept: Sequence[int] = ()) -> _Plan:
        """Return the order of summation, with the ``kept`` variables in the end.

        It is computed once, before a compiler traces the function.
        """
        key = tuple(kept)
        if key not in self._plans:
            others = [j for j in range(len(self.terms.kinds)) if j not in kept]
            self._plans[key] = _Plan(self._rows, [*kept, *others])
        return self._plans[key]

    def _contracted(
        self,
        tables: dict[tuple[int, int], torch.Tensor],
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
            needed = {tuple(j for j in order if j in done) for order in orders}
            new: dict[Order, torch.Tensor] = {}
            for order in needed:
                rest = tuple(j for j in order if j != level.variable)
                table = tables[level.variable, order.count(level.variable)]
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
            for j in range(len(self.terms.kinds)):
                product = product * tables[j, order.count(j)].index_select(
                    0, self.terms.chosen[:, j]
                )
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


def _sorted(order: Order) -> Order:
    return tuple(sorted(order))


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
