"""Polynomials that are constant along the flows of quadratic functions, which rotate planes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from vpintegrator.errors import InputError
from vpintegrator.nn.basis import POLYNOMIALS, RADIUS, Terms, Univariate, checked_degree
from vpintegrator.nn.layer import Device, Dtype, on_cpu
from vpintegrator.nn.sums_of_products import MARGIN, Order, SumOfProducts

RESONANT = 1e-3  # sum of frequencies, relative to the largest, that is zero
LARGEST_COUNT = 5_000  # coefficients

Column = tuple[tuple[int, ...], tuple[int, ...], int]  # j, m and part of a coefficient


class _PlaneFunctions(Univariate):
    r"""Functions of a point w = x + iy of a plane, by their behaviour under rotations.

    They are :math:`T_j(2 |w|^2 - 1)` times the real and the imaginary part of :math:`w^m`, in the
    order of their degrees 2j + m.
    """

    def functions(self, degree: int) -> list[tuple[int, int, int]]:
        """Return j, m and the part (0 real, 1 imaginary) of the functions up to a degree."""
        return [
            (j, n - 2 * j, part)
            for n in range(degree + 1)
            for j in range(n // 2 + 1)
            for part in range(2 if n > 2 * j else 1)
        ]

    def orders(self, degree: int) -> list[int]:
        return [2 * j + m for j, m, _ in self.functions(degree)]


PLANE_FUNCTIONS = _PlaneFunctions("PLANE_FUNCTIONS")


class _PlaneTables:
    """Values and derivatives of all functions of a plane up to a degree.

    What is selected is computed once, on the CPU, before a compiler traces the function.
    """

    def __init__(self, degree: int) -> None:
        self.degree = degree
        self.radial = torch.tensor([j for j, *_ in PLANE_FUNCTIONS.functions(degree)])
        orders: list[Order] = [(), (0,), (1,), (0, 0), (0, 1), (1, 1)]  # by x (0) and y (1)
        self.picks = {order: self._picks(order) for order in orders}

    def _picks(self, order: Order) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the place of each function's derivative of w^m among all powers, and its factor.

        The derivatives are d/dx w^m = m w^(m-1) and d/dy w^m = i m w^(m-1).
        """
        turns = sum(order)  # by a quarter
        signs = ((1, -1, -1), (1, 1, -1))
        places = []
        factors = []
        for _, m, part in PLANE_FUNCTIONS.functions(self.degree):
            lower = max(m - len(order), 0)
            places.append((part + turns) % 2 * (self.degree + 1) + lower)
            factors.append(math.perm(m, len(order)) * signs[part][turns])
        return torch.tensor(places), torch.tensor(factors)

    def __call__(self, x: torch.Tensor, y: torch.Tensor, highest: int) -> dict[Order, torch.Tensor]:
        """Return functions (function, ...), and their derivatives up to the highest."""
        real = [torch.ones_like(x)]
        imaginary = [torch.zeros_like(x)]
        for _ in range(self.degree):
            a = real[-1]
            b = imaginary[-1]
            real.append(x * a - y * b)
            imaginary.append(x * b + y * a)
        powers = torch.stack(real + imaginary)  # (part * power, ...)
        places = self.radial.to(x.device)
        radial = [
            torch.stack(each).index_select(0, places) * RADIUS**k
            for k, each in enumerate(
                POLYNOMIALS.jet(RADIUS * (2 * (x * x + y * y) - 1), self.degree // 2, highest)
            )
        ]  # (function, ...) each
        slopes = (4 * x, 4 * y)  # of 2 |w|^2 - 1

        def power(order: Order = ()) -> torch.Tensor:
            """Return derivatives (function, ...) of w^m."""
            index, factors = self.picks[order]
            picked = powers.index_select(0, index.to(x.device))
            return picked * factors.to(x).view(-1, *[1] * x.ndim)

        def derivative(order: Order) -> torch.Tensor:
            result = radial[0] * power(order)
            if len(order) == 1:
                result = result + radial[1] * slopes[order[0]] * power()
            if len(order) == 2:
                i, k = order
                mixed = slopes[i] * power((k,)) + slopes[k] * power((i,))
                curvature = radial[2] * slopes[i] * slopes[k]
                curvature = curvature + 4 * radial[1] if i == k else curvature
                result = result + radial[1] * mixed + curvature * power()
            return result

        return {order: derivative(order) for order in self.picks if len(order) <= highest}


class InvariantPolynomial(SumOfProducts):
    r"""A polynomial that is constant along the flows of quadratic functions of its variables.

    .. math:: S(u) = \sum_{j, m} \mathrm{Re}\Bigl(c_{jm} \prod_k T_{j_k}(2 |w_k|^2 - 1)\,
        w_k^{m_k}\Bigr), \qquad w_k = \frac{u_{2k} + i u_{2k+1}}{r_k}, \qquad
        \sum_k \omega_{gk} m_k = 0

    with :math:`w^{-m} = \bar w^m`, over all terms up to a total degree, and radii :math:`r_k` of
    the training states. The sums over k vanish for each quadratic function g: S has only terms that
    rotations of the planes by the angles :math:`\omega_{gk} t` leave as they are.

    Parameters
    ----------
    frequencies : Tensor, (function, plane)
        The :math:`\omega`, see :class:`vpintegrator.nn.Rotations`.
    degree : int
        Largest total degree of a term.
    centre : Tensor, (2 * plane,), optional
        Point about which the planes turn, by default 0.
    initial_scale : float
        Size of the initial coefficients, by default 0.
    device, dtype
        As in layers of torch.nn.

    Raises
    ------
    InputError
        If there are more than 5,000 coefficients, or none.

    Examples
    --------
    >>> momentum = torch.tensor([[1.0, -1.0]])  # planes that turn against each other
    >>> S = vp.nn.InvariantPolynomial(momentum, degree=4, initial_scale=0.1, dtype=torch.float64)
    >>> u = torch.rand(4, dtype=torch.float64)
    >>> x, y, X, Y = S.gradient(u)
    >>> bool((u[1] * x - u[0] * y - u[3] * X + u[2] * Y).abs() < 1e-15)
    True
    """

    shown = ("size", "degree")

    @on_cpu
    def __init__(
        self,
        frequencies: torch.Tensor,
        degree: int = 6,
        *,
        centre: torch.Tensor | None = None,
        initial_scale: float = 0.0,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.degree = checked_degree(degree)
        omega = frequencies.double()  # (function, plane)
        planes = omega.shape[1]
        self.size = 2 * planes
        self.parameter_count = 0
        each = _columns(omega / omega.abs().amax(1, keepdim=True), degree)
        columns = [*itertools.islice(each, LARGEST_COUNT + 1)]
        columns.sort(key=lambda column: 2 * sum(column[0]) + sum(map(abs, column[1])))
        if not columns:
            raise InputError(f"no polynomial of degree {degree} has these invariants; take 2")
        if len(columns) > LARGEST_COUNT:
            raise InputError(
                f"degree = {degree} in {self.size} components gives more than {LARGEST_COUNT:,} "
                "coefficients; take a lower degree"
            )
        parts = *_products(columns, degree), len(columns)
        kinds = [PLANE_FUNCTIONS] * planes
        self.terms = Terms(degree, kinds, *parts, **self.factory_kwargs)
        self._plane_tables = {each: _PlaneTables(each) for each in set(self.terms.highest)}
        self.powers = torch.tensor(sorted({m for _, m, _ in columns})).double()  # (power, plane)
        start = initial_scale * torch.randn(len(columns), dtype=torch.float32)
        self.coefficients = nn.Parameter(start.to(**self.factory_kwargs))
        self.prepare(self.size)
        if centre is not None:
            self.box_shift.copy_(centre)

    @property
    def kept(self) -> torch.Tensor:
        r"""Orthonormal :math:`\omega` (function, plane) of all functions that S keeps, exactly."""
        _, sizes, rows = torch.linalg.svd(self.powers.mT @ self.powers)
        return rows[int((sizes > 1e-9).sum()) :]

    @torch.no_grad()
    def adapt(self, x: torch.Tensor) -> None:
        """Take the radii of variables x (state, size)."""
        squares = (x.double() - self.box_shift).square().unflatten(1, (-1, 2)).sum(2)
        radii = MARGIN * squares.amax(0).sqrt()  # (plane,)
        radii = torch.where(radii > 0, radii, torch.ones_like(radii))
        self.box_scale.copy_(radii.repeat_interleave(2))

    @torch.no_grad()
    def prolong(self, smaller: InvariantPolynomial) -> None:
        """Take the coefficients of a polynomial of the same invariants and no higher degree."""
        self.coefficients.copy_(self.terms.prolonged(smaller.terms, smaller.coefficients))
        self.adapt_like(smaller)

    def variable(self, component: int) -> int:
        return component // 2

    def _tables(self, x: torch.Tensor, orders: Sequence[Order]) -> dict[tuple[int, Order], Any]:
        variables = ((x - self.box_shift) / self.box_scale).unbind(-1)  # (...) each
        highest = max(map(len, orders), default=0)
        tables: dict[tuple[int, Order], Any] = {}
        for k, degree in enumerate(self.terms.highest):
            x_k, y_k = variables[2 * k : 2 * k + 2]
            for order, table in self._plane_tables[degree](x_k, y_k, highest).items():
                tables[k, tuple(2 * k + i for i in order)] = table  # (function, ...)
        return tables


def _powers(planes: int, degree: int, are_signed: bool = True) -> Iterator[tuple[int, ...]]:
    """Yield all m with sums of sizes up to a degree, or those that are not negative."""
    if not planes:
        yield ()
        return
    for first in range(-degree if are_signed else 0, degree + 1):
        for others in _powers(planes - 1, degree - abs(first), are_signed):
            yield (first, *others)


def _columns(frequencies: torch.Tensor, degree: int) -> Iterator[Column]:
    """Yield j, m and part of each coefficient, those of no powers first."""
    planes = frequencies.shape[1]
    nothing = (0,) * planes
    yield from ((j, nothing, 0) for j in _powers(planes, degree // 2, False) if any(j))
    # those of -m are the conjugates of those of m
    each = [m for m in _powers(planes, degree) if next((k for k in m if k), 0) > 0]
    sums = torch.tensor(each, dtype=torch.float64).view(-1, planes) @ frequencies.mT
    resonant = (sums.abs() < RESONANT).all(1).tolist()  # (power,)
    for m in itertools.compress(each, resonant):
        left = (degree - sum(map(abs, m))) // 2
        yield from ((j, m, part) for j in _powers(planes, left, False) for part in range(2))


def _products(
    columns: Sequence[Column], degree: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ``chosen``, ``sources`` and ``factors`` of the real products of the coefficients.

    The real part of a product of complex numbers is a sum of products of real and imaginary parts,
    with an even number of the latter; the imaginary part has those of an odd number.
    """
    number = {each: n for n, each in enumerate(PLANE_FUNCTIONS.functions(degree))}
    chosen = list[list[int]]()
    sources = list[int]()
    factors = list[int]()
    for source, (j, m, part) in enumerate(columns):
        for parts in itertools.product(*(range(2 if n else 1) for n in m)):
            turns = sum(parts)  # by a quarter
            if turns % 2 == part:
                conjugate = sum(own for own, n in zip(parts, m, strict=True) if n < 0)
                each = zip(j, m, parts, strict=True)
                chosen.append([number[a, abs(n), own] for a, n, own in each])
                sources.append(source)
                factors.append((-1) ** (turns // 2 + conjugate))
    return torch.tensor(chosen), torch.tensor(sources)[:, None], torch.tensor(factors)[:, None]
