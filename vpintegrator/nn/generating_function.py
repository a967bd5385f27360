"""Scalar functions that generate maps: linear in their coefficients, with two derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch

from vpintegrator.nn.basis import SignedPermutations
from vpintegrator.nn.basis_potential import BasisPotential
from vpintegrator.nn.units import FormulaVariables
from vpintegrator.nn.univariate import RADIUS

MARGIN = 1.05  # relative size of the box to the range of the states
LARGEST_COUNT = 5_000  # terms

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

    def __init__(self, chosen: torch.Tensor, variables: Sequence[int]) -> None:
        rows = chosen[:, list(variables)]
        keys, self.places = rows.unique(dim=0, return_inverse=True)  # (item, variable), (term,)
        self.items = len(keys)
        self.levels: list[_Level] = []
        for j in reversed(range(len(variables))):
            functions = keys[:, j]
            if j == 0:
                keys, group = keys[:1], torch.zeros(len(functions), dtype=torch.long)
            else:
                keys, group = keys[:, :j].unique(dim=0, return_inverse=True)
            counts = torch.bincount(group, minlength=len(keys))
            members = torch.full((len(keys), int(counts.max())), len(functions))
            first = counts.cumsum(0) - counts
            own = torch.arange(len(functions)) - first[group]  # items are sorted by group
            members[group, own] = torch.arange(len(functions))
            self.levels.append(_Level(variables[j], functions, members, len(keys)))


class GeneratingFunction(BasisPotential):
    r"""A polynomial in the Chebyshev basis on the box of the training states.

    .. math:: S(z) = \sum_e c_e\, \prod_i T_{e_i}\!\left(\frac{z_i - b_i}{w_i}\right)

    A ``BasisPotential`` (harmonics of angles, formulas, symmetries, parameters) with the
    box :math:`b_i \pm w_i` of states instead of a fixed interval, with second derivatives, and with
    the derivatives of its basis functions, from which one least-squares solve gives c.

    Parameters
    ----------
    size, degree, ...
        As of ``BasisPotential``. The coefficients are zero unless ``initial_scale`` is given.

    Raises
    ------
    InputError
        As ``BasisPotential``; if there are more than 5,000 terms.

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
        read = self.size + self.parameter_count
        self.register_buffer("box_shift", torch.zeros(read, **self.factory_kwargs))
        self.register_buffer("box_scale", torch.ones(read, **self.factory_kwargs))
        self._rows = self.terms.chosen.clone()  # on the CPU, wherever the function is
        self._plans: dict[tuple[int, ...], _Plan] = {}
        self._plan()

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
        if (own := self.formulas) is not None:
            values = torch.stack(own.formulas(own.physical(x)), -1)  # (state, formula)
            own.scale_to(*_box(values[values.isfinite().all(-1)], own.formulas.action))

    def at(self, parameters: torch.Tensor) -> Self:
        """Return the function of x at parameters (m,), which are multiplied out."""
        result = super().at(parameters)
        result.box_shift.copy_(self.box_shift[: self.size])
        result.box_scale.copy_(self.box_scale[: self.size])
        return result

    def _functions_of(self, parameters: torch.Tensor) -> torch.Tensor:
        own = slice(self.size, None)
        return (parameters - self.box_shift[own].cpu()) / self.box_scale[own].cpu()

    @property
    def degrees(self) -> torch.Tensor:
        """Total degree of what each coefficient multiplies (coefficient,)."""
        return self.terms.degrees

    # values of the basis functions

    def _tables(self, x: torch.Tensor, orders: Sequence[Order]) -> dict[tuple[int, int], Any]:
        """Return k-th derivatives (function, ...) of a variable's functions by (variable, k)."""
        variables = self._scaled_variables(x)
        highest = [0] * len(variables)
        for order in orders:
            for j in order:
                highest[j] = max(highest[j], order.count(j))
        tables: dict[tuple[int, int], torch.Tensor] = {}
        for j, (u, kind) in enumerate(zip(variables, self.terms.kinds, strict=True)):
            result = kind.jet(u, self.degree, highest[j])
            tables |= {
                (j, k): torch.stack(each) for k, each in enumerate(result)
            }  # (function, ...)
        return tables

    def _scaled_variables(self, x: torch.Tensor) -> list[torch.Tensor]:
        variables = list(((x - self.box_shift) / self.box_scale).unbind(-1))  # (...) each
        return variables if self.formulas is None else variables + self.formulas(x)

    def prepare(self, *kept: int) -> None:
        """Compute the summation order for ``along`` before a compiler traces it."""
        for component in kept:
            self._plan([component])

    def _plan(self, kept: Sequence[int] = ()) -> _Plan:
        """Return the order of summation, with the ``kept`` variables in the end."""
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
                chosen = padded.index_select(0, level.members.flatten().to(c.device))
                new[order] = chosen.unflatten(0, tuple(level.members.shape)).sum(1)  # (group, ...)
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
        chain = _Chain(self, x, orders)
        tables = self._tables(x, chain.orders)
        basis = {}
        for order in chain.orders:
            product = self.terms.factors
            for j in range(len(self.terms.kinds)):
                product = product * tables[j, order.count(j)].index_select(
                    0, self.terms.chosen[:, j]
                )
            basis[order] = product  # (term, state)
        empty, sources = x.new_zeros(self.terms.count, len(x)), self.terms.sources[:, 0]
        # (state, coefficient)
        return [empty.index_add(0, sources, sums).mT for sums in chain.resolved(basis)]

    def gradient_features(self, x: torch.Tensor) -> torch.Tensor:
        """Return gradients (state, size, coefficient) of each coefficient's function."""
        return torch.stack(self.features(x, [(i,) for i in range(self.size)]), 1)

    def partials(
        self, x: torch.Tensor, orders: Sequence[Order], c: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        """Return partial derivatives (...) by one or two components at x."""
        chain = _Chain(self, x, orders)
        c = self.coefficients if c is None else c
        sums = self._contracted(self._tables(x, chain.orders), chain.orders, c, self._plan())
        return chain.resolved({order: own.squeeze(0) for order, own in sums.items()})

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

        The derivative is by another component than that one; there are no formulas.
        """
        plan, tables = self._plan([component]), self._tables(x, [order])
        c = self.coefficients if c is None else c
        sums = self._contracted(tables, [order], c, plan, kept=1)[order]  # (item, ...)
        functions = plan.levels[-1].functions
        length = len(self.terms.kinds[component].orders(self.degree))
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
        kind, scale = self.terms.kinds[component], self.box_scale[component]
        u = (value - self.box_shift[component]) / scale  # (...)
        result = kind.jet(u, self.degree, derivatives)
        return [torch.stack(each) / scale**k for k, each in enumerate(result)]


class _Chain:
    """Chain rule: derivatives by components from those by scaled components and formulas."""

    def __init__(self, of: GeneratingFunction, x: torch.Tensor, wanted: Sequence[Order]) -> None:
        self.wanted = wanted
        scale, read = of.box_scale.unbind(), of.size + of.parameter_count
        self.first: dict[int, list[tuple[int, Any]]] = {i: [(i, 1 / scale[i])] for i in range(read)}
        self.second: dict[Order, list[tuple[int, Any]]] = {}
        if of.formulas is not None:
            twice = any(len(order) > 1 for order in wanted)
            self._add_formulas(of.formulas, x, read, twice)
        self.orders = list({order: None for each in wanted for order, _ in self._parts(each)})

    def _add_formulas(
        self, formulas: FormulaVariables, x: torch.Tensor, read: int, twice: bool
    ) -> None:
        for n, slopes in enumerate(formulas.with_slopes(x)[1]):
            for i, slope in slopes.items():
                self.first[i].append((read + n, slope))
        for n, curvatures in enumerate(formulas.curvatures(x) if twice else []):
            for pair, curvature in curvatures.items():
                self.second.setdefault(pair, []).append((read + n, curvature))

    def _parts(self, order: Order) -> list[tuple[Order, Any]]:
        """Return derivatives by variables with their factors in a derivative by components."""
        if len(order) == 1:
            return [((v,), factor) for v, factor in self.first[order[0]]]
        i, j = order
        parts: list[tuple[Order, Any]] = []
        for v, a in self.first[i]:
            parts += [((min(v, w), max(v, w)), a * b) for w, b in self.first[j]]
        return parts + [((v,), factor) for v, factor in self.second.get((min(i, j), max(i, j)), ())]

    def resolved(self, by_variables: dict[Order, torch.Tensor]) -> list[torch.Tensor]:
        """Return the derivatives by components."""
        result = []
        for each in self.wanted:
            total = None
            for order, factor in self._parts(each):
                part = by_variables[order] * factor
                total = part if total is None else total + part
            assert total is not None
            result.append(total)
        return result


def _box(
    values: torch.Tensor, action: SignedPermutations, fixed: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return centre and unit of variables (state, variable), as symmetric as a group asks.

    The centre is the mean over the group, (S v)_{p(j)} = s_j v_j, and 0 of ``fixed`` variables.
    """
    low, high = values.amin(0), values.amax(0)  # (variable,)
    places, signs = action
    # (variable,)
    middle = torch.zeros_like(signs).scatter(1, places, signs * (low + high) / 2).mean(0)
    if fixed is not None:
        middle = middle.masked_fill(fixed, 0.0)
    half = MARGIN * torch.maximum(high - middle, middle - low) / RADIUS
    half = torch.where(half > 0, half, torch.ones(()).double())
    return middle, half[places].amax(0)
