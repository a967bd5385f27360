"""Elementary Hamiltonians: exact terms of the generating function of a known Hamiltonian."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import nn

from vpintegrator.arguments import whole
from vpintegrator.dynamics.expressions.evaluation import ComponentFunction
from vpintegrator.dynamics.expressions.nodes import Expression, Value
from vpintegrator.errors import InputError
from vpintegrator.nn.formulas import InUnits, StateExpressions, deriving, with_values
from vpintegrator.nn.layer import Device, Dtype, on_cpu

ORDERS = (2, 4, 6)  # orders of the methods whose generating functions have these terms
_IN_HESSIAN = 2  # terms with second derivatives: those of further ones cost ten times as much


class ElementaryHamiltonians(InUnits):
    r"""Sum of the first elementary Hamiltonians of a known H, with coefficients.

    .. math:: c_1 H + c_2 H''(f, f) + c_3 H''''(f, f, f, f) + c_4 H'''(f, f, f'f)
        + c_5 H''(f'f, f'f), \qquad f = J \nabla H

    The generating function of the flow over a step h, expanded in h, begins with H of factor h,
    :math:`H''(f, f)` of factor :math:`h^3`, and the last three of factor :math:`h^5`. Where time is
    explicit, f has the component 1 for it.

    Parameters
    ----------
    hamiltonian : str
        H as a formula of ``z[0]``, ``z[1]``, ..., in the expression language of system files.
    size : int
        Components of (q, p), which come first in states.
    order : int
        2 for H alone, 4 with :math:`H''(f, f)`, 6 for all five.
    parameters : int
        Number m of parameters, whose numbers follow those of (q, p): the time is one.
    explicit_time : bool
        Whether the last of these is the time.
    device, dtype
        As in layers of torch.nn.

    Attributes
    ----------
    coefficients : Parameter (term,)
        Coefficients in units in which the gradient of each term has size 1 on the states given to
        ``adapt``.

    Raises
    ------
    InputError
        If the formula is not understood, too long to be differentiated, or constant.

    References
    ----------
    Hairer, Lubich, Wanner, Geometric Numerical Integration, sections VI.5.4 and IX.9.3.

    Examples
    --------
    >>> E = vp.nn.ElementaryHamiltonians("z[1]**2/2 - cos(z[0])", 2)
    >>> E.gradients(torch.tensor([0.0, 1.0])).shape
    torch.Size([5, 2])
    """

    shown = ("hamiltonian", "size", "order")
    term_scale: torch.Tensor

    @on_cpu
    def __init__(
        self,
        hamiltonian: str,
        size: int,
        order: int = 6,
        parameters: int = 0,
        explicit_time: bool = False,
        *,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__(device=device, dtype=dtype)
        self.hamiltonian = hamiltonian
        self.size = whole("size", size)
        self.order = order
        self.parameter_count = whole("parameters", parameters, 0)
        self.explicit_time = explicit_time
        if order not in ORDERS:
            raise InputError(f"order must be one of 2, 4 and 6, not {order!r}")
        self._formulas = _differentiated(hamiltonian, size, order, size + parameters, explicit_time)
        count = self._formulas.count
        self.add_units(size + parameters)
        self.register_buffer("term_scale", torch.ones(count, **self.factory_kwargs))
        self.coefficients = nn.Parameter(torch.zeros(count, **self.factory_kwargs))

    @torch.no_grad()
    def adapt(self, x: torch.Tensor) -> None:
        """Take the units of the coefficients from states x (state, size + m)."""
        self.term_scale.fill_(1.0)
        squares = self.gradients(x.double()).square().sum(-1)  # (state, term)
        size = squares.masked_fill(~squares.isfinite(), 0.0).mean(0).sqrt()  # (term,)
        self.term_scale.copy_(torch.where(size > 0, size, torch.ones(())))

    def gradients(self, x: torch.Tensor) -> torch.Tensor:
        """Return the gradient of each term, (..., term, size), at x (..., size + m)."""
        values = self._formulas.slopes(*self._components(x))
        rows = [_like(value, x[..., 0]) for value in values]
        units = self.state_scale[: self.size] / self.term_scale[:, None]  # (term, size)
        return torch.stack(rows, -1).unflatten(-1, tuple(units.shape)) * units  # (..., term, size)

    def gradient(self, x: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
        """Return the gradient (..., size) of the sum at x (..., size + m)."""
        c = self.coefficients if c is None else c
        return (self.gradients(x) * c[:, None]).sum(-2)  # (..., size)

    def leading(
        self, x: torch.Tensor, c: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gradient (..., size) and Hessian (..., size, size) of the term of H alone."""
        c = self.coefficients if c is None else c
        slopes = self._formulas.leading(*self._components(x))
        first = torch.stack([_like(slope, x[..., 0]) for slope in slopes], -1)  # (..., size)
        gradient = first * self.state_scale[: self.size] * (c[0] / self.term_scale[0])
        return gradient, self.hessian(x, c)

    def hessian(self, x: torch.Tensor, c: torch.Tensor | None = None, k: int = 0) -> torch.Tensor:
        """Return the Hessian (..., size, size) of the term of H, or for k = 1 of H''(f, f)."""
        c = self.coefficients if c is None else c
        n = self.size
        zero = torch.zeros_like(x[..., 0])
        result: dict[tuple[int, int], torch.Tensor] = {}
        if k < len(self._formulas.curvatures):
            places, function = self._formulas.curvatures[k]
            units = self.state_scale
            for (i, j), value in zip(places, function(*self._components(x)), strict=True):
                result[i, j] = _like(value, zero) * (units[i] * units[j])
        rows = [result.get((min(i, j), max(i, j)), zero) for i in range(n) for j in range(n)]
        hessian = torch.stack(rows, -1).unflatten(-1, (n, n))  # (..., size, size)
        return hessian * (c[k] / self.term_scale[k]) if result else hessian

    def at(self, parameters: torch.Tensor) -> ElementaryHamiltonians:
        """Return the terms at parameters (m,)."""
        n = self.size
        values = parameters.double() * self.state_scale[n:].cpu() + self.state_shift[n:].cpu()
        text = with_values(self.hamiltonian, dict(enumerate(values.tolist(), n)))
        result = ElementaryHamiltonians(text, n, self.order, dtype=torch.float64)
        result.set_units(self.state_shift[:n], self.state_scale[:n])
        for name in ("term_scale", "coefficients"):
            getattr(result, name).data.copy_(getattr(self, name))
        return result

    def _components(self, x: torch.Tensor) -> Sequence[torch.Tensor]:
        return self.physical(x).unbind(-1)


@dataclass(frozen=True)
class _Differentiated:
    """Derivatives of the terms as functions of the components."""

    count: int
    slopes: ComponentFunction  # derivative of each term by each component of (q, p)
    leading: ComponentFunction  # derivatives of the first term alone
    # second derivatives of the first terms, by components i <= j
    curvatures: list[tuple[list[tuple[int, int]], ComponentFunction]]
    arguments: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return _differentiated, self.arguments


@lru_cache(maxsize=16)  # a search makes the same for every degree
def _differentiated(
    text: str, size: int, order: int, dim: int, explicit_time: bool
) -> _Differentiated:
    parsed = StateExpressions({"hamiltonian": text}, dim)
    (value,) = parsed.values
    if not isinstance(value, Expression):
        raise InputError(f"hamiltonian must be a function of z[0] ... z[{dim - 1}]")
    failure = f"the elementary Hamiltonians of order {order} cannot be derived"
    with deriving(failure, "; give a lower order"):
        terms = _Terms(parsed, size, explicit_time).up_to(value, order)
        gradients = [parsed.gradient(term) for term in terms]
        slopes = [[row.get(i, 0) for i in range(size)] for row in gradients]
        second: list[dict[tuple[int, int], Value]] = [{} for _ in terms[:_IN_HESSIAN]]
        for result, row in zip(second, slopes, strict=False):
            for i, slope in enumerate(row):
                curvatures = parsed.gradient(slope)
                result |= {(i, j): curvatures[j] for j in range(i, size) if j in curvatures}
    return _Differentiated(
        len(terms),
        parsed.function([slope for row in slopes for slope in row]),
        parsed.function(slopes[0]),
        [([*result], parsed.function([*result.values()])) for result in second],
        (text, size, order, dim, explicit_time),
    )


class _Terms:
    """Builder of the elementary Hamiltonians as formulas."""

    def __init__(self, parsed: StateExpressions, size: int, explicit_time: bool) -> None:
        algebra = self.algebra = parsed.algebra
        self.size = size
        self.moving = parsed.symbols[:size] + (parsed.symbols[-1:] if explicit_time else [])
        self.explicit_time = explicit_time
        # directions, which derivatives leave as they are
        self.first, self.second = (
            [algebra.symbol(f"{name}_{i}") for i in range(len(self.moving))] for name in "vw"
        )

    def up_to(self, H: Value, order: int) -> list[Value]:
        """Return the terms of a generating function of this order."""
        terms = [H]
        if order < ORDERS[1]:
            return terms
        algebra = self.algebra
        half = self.size // 2
        slopes = self._slopes(H)[: self.size]
        field = slopes[half:] + [algebra.scale(-1, slope) for slope in slopes[:half]]
        field += [1] if self.explicit_time else []
        twice = self._along(self._along(H, self.first), self.first)
        terms += self._with(twice, field)
        if order < ORDERS[2]:
            return terms
        change = [self._along(component, field) for component in field]  # f'f
        mixed = self._along(twice, self.second)
        terms += self._with(self._along(self._along(twice, self.first), self.first), field)
        terms += self._with(mixed, field, change)
        terms += self._with(twice, change)
        return terms

    @cached_property
    def _zeros(self) -> list[Value]:
        return [0] * len(self.moving)

    def _slopes(self, value: Value) -> list[Value]:
        gradient = self.algebra.gradient(value)
        return [gradient.get(symbol, 0) for symbol in self.moving]

    def _along(self, value: Value, direction: Sequence[Value]) -> Value:
        """Return the derivative along a direction that is taken as constant."""
        products = zip(self._slopes(value), direction, strict=True)
        return self.algebra.add(*(self.algebra.multiply(a, b) for a, b in products))

    def _with(
        self, value: Value, first: Sequence[Value], second: Sequence[Value] | None = None
    ) -> list[Value]:
        """Return a formula with the directions put in."""
        pairs = zip(self.first + self.second, [*first, *(second or self._zeros)], strict=True)
        return self.algebra.substitute([value], dict(pairs))


def _like(value: torch.Tensor | float, like: torch.Tensor) -> torch.Tensor:
    """Return the values of a formula as a tensor, also where the formula is constant."""
    return value if isinstance(value, torch.Tensor) else torch.full_like(like, value)
