"""A system for every step and parameter as one autonomous system of more components.

The map over a step h of z' = f(z; I) is the map over a step of one of z' = h f(z; I). There h and I
are constants of motion: components of an extended state that stay as they are. A network of such
states is one network for every step and parameter, and what it keeps, volume say, it keeps at each
of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np

from vpintegrator.arguments import real_array
from vpintegrator.dynamics.equations import Equations, hamiltonian_rates, stack_rows
from vpintegrator.dynamics.expressions.algebra import Algebra
from vpintegrator.dynamics.expressions.evaluation import can_be_written, vectorised, written
from vpintegrator.dynamics.expressions.nodes import (
    Expression,
    Number,
    Product,
    Sum,
    Symbol,
    Value,
    tidy,
)
from vpintegrator.dynamics.system import System
from vpintegrator.errors import InputError

_MOST_TERMS = 500  # terms of an expanded formula
_HIGHEST_POWER = 6
CONSTANT = -1  # stands for the coefficient 1

Combination = dict[int, Number]  # factors by number of the coefficient, or CONSTANT


Terms = list[tuple[Combination, Value]]


def separated(
    formulas: Sequence[Value], parameters: int, algebra: Algebra, constant: bool
) -> tuple[list[Value], list[Terms]] | None:
    """Return formulas of states and parameters as sums of coefficients times functions.

    Parameters
    ----------
    parameters
        The parameters as bits of ``depends``.
    constant
        Whether 1 is no coefficient of its own, but known: ``CONSTANT`` in combinations.

    Returns
    -------
    coefficients, terms
        Linearly independent functions of the parameters, and the terms of each formula:
        combinations of coefficients, each with its factor. None where the parameters occur in
        another way, or formulas would become long.
    """
    algebra.allow_derivatives()
    split = [_products(value, parameters, algebra) for value in formulas]
    basis = _Basis()
    if constant:
        basis.reduced(1, CONSTANT)
    coefficients = list[Value]()
    terms = list[Terms]()
    for products in split:
        if products is None:
            return None
        sums = Terms()
        for coefficient, function in products:
            combination = basis.reduced(coefficient, len(coefficients))
            if combination == {len(coefficients): 1}:
                coefficients.append(coefficient)
            sums.append((combination, function))
        terms.append(sums)
    return coefficients, terms


def _products(value: Value, parameters: int, algebra: Algebra) -> list[tuple[Value, Value]] | None:
    """Return a formula as a sum of products of a coefficient and a function of the state."""
    if not isinstance(value, Expression) or not value.depends & parameters:
        return [(1, value)]
    if not value.depends & ~parameters:
        return [(value, 1)]
    products: list[tuple[Value, Value]]
    match value:
        case Sum(constant=constant, terms=terms):
            products = [(1, constant)] if constant else []
            for term, c in terms:
                parts = _products(term, parameters, algebra)
                if parts is None or len(products) + len(parts) > _MOST_TERMS:
                    return None
                products += [(k, algebra.scale(c, function)) for k, function in parts]
            return products
        case Product(factors=factors):
            products = [(1, 1)]
            for base, e in factors:
                mixed = bool(base.depends & parameters and base.depends & ~parameters)
                if mixed and not (isinstance(e, int) and 0 < e <= _HIGHEST_POWER):
                    return None
                powers = [base] * int(e) if mixed else [algebra.product([(base, e)])]
                for power in powers:
                    parts = _products(power, parameters, algebra)
                    if parts is None or len(products) * len(parts) > _MOST_TERMS:
                        return None
                    products = [
                        (algebra.multiply(k, c), algebra.multiply(f, g))
                        for (k, f), (c, g) in product(products, parts)
                    ]
            return products
    return None


class _Basis:
    """Linearly independent formulas among those that came, by exact elimination."""

    def __init__(self) -> None:
        # each row is reduced by those before it; with it, what combination of members it is
        self._rows: list[tuple[int, dict[int, Number], Combination]] = []

    def reduced(self, value: Value, number: int) -> Combination:
        """Return a formula in terms of the members, or as a new one with this number."""
        row = _over_atoms(value)
        combination = Combination()
        for pivot, known, member in self._rows:
            if factor := row.get(pivot, 0):
                factor = tidy(Fraction(factor) / known[pivot])
                row = _minus(row, factor, known)
                combination = _minus(combination, -factor, member)
        if not row:
            return combination
        self._rows.append((min(row), row, _minus({number: 1}, 1, combination)))
        return {number: 1}


def _over_atoms(value: Value) -> dict[int, Number]:
    """A formula as a sum of multiples of others, by the numbers of these; -1 is that of one."""
    constant: Number = 0
    match value:
        case Sum(terms=terms):
            row = {term.number: c for term, c in terms}
            constant = value.constant
        case Expression():
            row = {value.number: 1}
        case _:
            row = {}
            constant = value
    return row | ({-1: constant} if constant else {})


def _minus(left: dict[int, Number], factor: Number, right: dict[int, Number]) -> dict[int, Number]:
    difference = dict(left)
    for key, value in right.items():
        difference[key] = tidy(difference.get(key, 0) - Fraction(factor) * value)
    return {key: value for key, value in difference.items() if value}


STEP = "step"


class Family:
    """A system of which the step and some parameters vary.

    The components that the extended state (z, k) has beyond the state are, where the vector field
    is linear in them, its coefficients, each times the step: of the free rigid body
    :math:`h (1/I_3 - 1/I_2)` and :math:`h (1/I_1 - 1/I_3)`. Otherwise they are the conditions
    themselves.

    Parameters
    ----------
    system : System
        System, with values of the parameters that do not vary.
    conditions : sequence of str
        Names of parameters; "step" is the step.
    step : float, optional
        The step where it does not vary.

    Attributes
    ----------
    conditions
        The names in order.
    coefficients
        The further components k as expressions of the conditions, ``z[0]``, ``z[1]``, ...
    vanishing
        Numbers of those coefficients, from 0 on, at zero of which nothing moves: :math:`k = h c`.
    extended
        The autonomous system of states (z, k), whose map over a step of one is that of the system
        over the step in k.

    Raises
    ------
    InputError
        If there is no such parameter.

    Examples
    --------
    >>> family = vp.dynamics.Family(vp.load_system("pendulum"), ["step", "g"])
    >>> family.coefficients, family.extended.components
    (['z[0]', 'z[1]*z[0]'], ('q', 'p', 'k1', 'k2'))
    """

    def __init__(
        self, system: System, conditions: Sequence[str], step: float | None = None
    ) -> None:
        self.system = system
        self.conditions = tuple(conditions)
        self.step = step
        if not self.conditions or len({*conditions}) < len(self.conditions):
            raise InputError(f"a family needs conditions, each once, not {list(conditions)}")
        if (STEP in self.conditions) == (step is not None):
            raise InputError("give the step of a family where it is none of its conditions")
        if system.is_discrete and step is None:
            raise InputError(f"the step of {system.name}, a map, is one iteration: it cannot vary")
        names = [name for name in self.conditions if name != STEP]
        if not system.is_measured:
            system.require_formulas("a family")
        self._equations = system.with_open(names).equations
        self._open = list(self._equations.open)
        # extended equations, and the coefficients k
        self._extended, self._coefficients, self.vanishing = _extended_equations(self)

    def _written(self, names: Sequence[str]) -> list[str]:
        texts = dict(zip(self._symbols, names, strict=True))
        return [written(value, texts) for value in self._coefficients]

    @property
    def coefficients(self) -> list[str]:
        """The further components as expressions of the conditions."""
        return self._written([f"z[{i}]" for i in range(len(self.conditions))])

    @property
    def words(self) -> str:
        """Description of the family in a sentence: conditions and coefficients."""
        names = ", ".join(self.conditions)
        return f"one model for every {names}, by {', '.join(self._written(self.conditions))}"

    @cached_property
    def extended(self) -> System:
        """The autonomous system of extended states."""
        base = self.system
        equations = self._extended
        definition = replace(
            base.definition,
            source=f"{base.name} with {', '.join(self.conditions)} left open",
            equations=equations,
            initial_table=None,
            plot=replace(base.plot, coordinates={}),
            chart=None,
            flow=None,
        )
        if not (equations.is_map or base.is_measured):
            definition = replace(definition, is_canonical=equations.hamiltonian is not None)
        derive = partial(_extended_system, self.conditions, self.step)
        return System(definition, origin=(derive, base), family=self)

    def carried(self, unit: float | None = None) -> System:
        """Return the system of states (z, conditions), which carry their parameters and their step.

        The conditions stay as they are. Time is that of the system; where the step is one of the
        conditions, it is time in units of the step of a state, times ``unit``.

        Parameters
        ----------
        unit
            The step of all states together, where the step is a condition.

        Examples
        --------
        >>> bodies = vp.dynamics.Family(vp.load_system("rigid-body"), ["I1"], step=0.2).carried()
        >>> bodies.components, list(bodies.invariants)
        (('z1', 'z2', 'z3', 'I1'), ['energy', 'squared_momentum'])
        """
        base = self.system
        equations = self._equations
        algebra = equations.algebra
        hamiltonian = equations.hamiltonian if equations.explicit_time is None else None
        formulas = equations.vector_field if hamiltonian is None else [hamiltonian]
        values = [*formulas]
        if STEP in self.conditions:
            share = algebra.multiply(self._step, tidy(1 / Fraction(repr(unit or 1.0))))
            values = [algebra.multiply(share, value) for value in formulas]
        made = _extended(equations, self._symbols, values, [], hamiltonian is not None)
        positions, momenta = equations.halves
        order = (*positions, *momenta) if base.is_canonical else ()
        made = replace(made, invariants=equations.invariants, order=order)
        definition = replace(
            base.definition,
            source=f"{base.name} with {', '.join(self.conditions)} in the state",
            equations=made,
            initial_table=None,
            plot=replace(base.plot, coordinates={}),
            chart=None,
            flow=None,
            is_canonical=base.is_canonical,
        )
        derive = partial(_carried_system, self.conditions, self.step, unit)
        return System(definition, origin=(derive, base))

    def components(self, conditions: Any) -> np.ndarray:
        """Return the components k (..., m) at values of the conditions (..., condition)."""
        values = real_array("conditions", conditions, None)
        if values.shape[-1:] != (len(self.conditions),):
            raise InputError(
                f"conditions must end in an axis of {', '.join(self.conditions)}, not have the "
                f"shape {values.shape}"
            )
        function = vectorised(self._coefficients, self._symbols, "numpy")
        return stack_rows(function(*np.moveaxis(values, -1, 0)), values[..., 0], -1)

    @cached_property
    def _step(self) -> Symbol | Number:
        algebra = self._equations.algebra
        return algebra.symbol(STEP) if self.step is None else tidy(Fraction(repr(self.step)))

    @cached_property
    def _symbols(self) -> list[Symbol]:
        """Symbols of the conditions."""
        parameters = dict(zip((n for n in self.conditions if n != STEP), self._open, strict=True))
        return [self._step if name == STEP else parameters[name] for name in self.conditions]  # type: ignore[misc]


def _extended_equations(family: Family) -> tuple[Equations, list[Value], list[int]]:
    """Return the equations in coefficients of the field; in the conditions where that fails."""
    equations = family._equations
    step = family._step
    fixed = family.step is not None
    algebra = equations.algebra
    plain: list[Value] = list(family._symbols)
    if equations.is_map:
        return _extended(equations, family._symbols, [], [], False), plain, []
    hamiltonian = equations.hamiltonian if equations.explicit_time is None else None
    formulas = equations.vector_field if hamiltonian is None else [hamiltonian]
    parameters = sum(symbol.depends for symbol in family._open)
    separation = separated(formulas, parameters, algebra, fixed) if formulas else None
    components = [algebra.multiply(step, value) for value in separation[0]] if separation else []
    if (
        separation is None
        or not 0 < len(components) <= len(family.conditions)
        or not all(map(can_be_written, components))  # type: ignore[arg-type]
    ):
        values = [algebra.multiply(step, value) for value in formulas]
        vanishing = [] if fixed else [family.conditions.index(STEP)]
        symbols = family._symbols
        components = plain
    else:
        taken = {symbol.name for symbol in equations.symbols}
        names = [f"k{n + 1}" for n in range(len(components))]
        symbols = [algebra.symbol(f"{name}_" if name in taken else name) for name in names]
        values = [_summed(terms, symbols, step, algebra) for terms in separation[1]]
        known = any(CONSTANT in combination for terms in separation[1] for combination, _ in terms)
        vanishing = [] if known else list(range(len(components)))
    made = _extended(equations, symbols, values, vanishing, hamiltonian is not None)
    return made, components, vanishing


def _summed(terms: Terms, symbols: Sequence[Symbol], step: Value, algebra: Algebra) -> Value:
    """Return a formula in symbols of the coefficients; terms without one contain the step."""
    products = []
    for combination, function in terms:
        weighted = ((step if n == CONSTANT else symbols[n], c) for n, c in combination.items())
        products.append(algebra.multiply(algebra.combine(weighted), function))
    return algebra.add(*products)


def _extended(
    equations: Equations,
    symbols: Sequence[Symbol],
    values: Sequence[Value],
    vanishing: Sequence[int],
    hamiltonian: bool,
) -> Equations:
    """Return equations of states with further components, which stay as they are.

    Parameters
    ----------
    values
        The vector field of the first components, or the Hamiltonian alone.
    vanishing
        Numbers of the symbols whose change of sign turns time round.
    """
    dim = len(equations.symbols)
    field = tuple(values)
    if hamiltonian:
        field = hamiltonian_rates(values[0], equations.symbols, equations.halves, equations.algebra)
    field += (0,) * len(symbols) if field else ()
    stay: list[dict[int, Number]] = [{i: 1} for i in range(dim + len(symbols))]
    rhos = [(*rho, *stay[dim:]) for rho in equations.reversing_symmetries]
    if rhos and vanishing:
        # a map that is reversible turns back where the step does; of others that is not asked for
        back: list[dict[int, Number]] = [
            {dim + n: -1 if n in vanishing else 1} for n in range(len(symbols))
        ]
        rhos.append((*stay[:dim], *back))
    return replace(
        equations,
        components=(*equations.components, *(symbol.name for symbol in symbols)),
        symbols=(*equations.symbols, *symbols),
        vector_field=field,
        hamiltonian=values[0] if hamiltonian else None,
        invariants={},
        explicit_time=None,  # its rate is the step now
        open=(),
        reversing_symmetries=tuple(rhos),
    )


def _extended_system(conditions: Sequence[str], step: float | None, system: System) -> System:
    return Family(system, conditions, step).extended


def _carried_system(
    conditions: Sequence[str], step: float | None, unit: float | None, system: System
) -> System:
    return Family(system, conditions, step).carried(unit)
