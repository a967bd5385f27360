"""A system with some of its parameters left open: they are variables of its formulas.

A :class:`System` has numbers for its parameters. Where one calculation is to serve many values of
them, each trajectory its own, they are symbols instead, and arrays when formulas are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from vpintegrator.dynamics.arrays import as_array, stack_numpy
from vpintegrator.dynamics.equations import Equations, read_state_and_formulas
from vpintegrator.dynamics.expressions import (
    Algebra,
    Coefficients,
    ComponentFunction,
    Scope,
    Symbol,
    TooLong,
    Value,
    parse,
    vectorised,
)
from vpintegrator.dynamics.formula_map import FormulaMap
from vpintegrator.dynamics.initial_conditions import InitialConditions
from vpintegrator.dynamics.returning import ReturnMap
from vpintegrator.dynamics.section import constant, read_section, section_equations
from vpintegrator.dynamics.section_states import OwnStates, SectionStates
from vpintegrator.dynamics.system import ENERGY, System
from vpintegrator.errors import InputError, nearest

_NUMERIC = ("reversing_symmetry", "periodic")  # tables of numbers only


class VariedEquations:
    """The equations of a system in which some parameters are symbols.

    Parameters that the file computes from those follow them, as in ``I3 = "2/3*I1"``; all others
    are the system's numbers.

    Parameters
    ----------
    system
        The system, with values for the other parameters.
    names
        The parameters that are left open, single numbers, in any order.

    Attributes
    ----------
    system, names
        System, and names of the parameters left open.
    symbols
        The symbols of these parameters, in their order. Formulas may be differentiated by them.
    equations
        Formulas of the symbols of the state and of these; symmetries and periods are the system's.
    invariants
        Functions of states (..., dim) and parameters (..., name), by name.

    Raises
    ------
    InputError
        If there is no such parameter, or it is no number that can be left open: a list, or one on
        which the dimension or an index depends.

    Examples
    --------
    >>> from vpintegrator.dynamics.varied import VariedEquations
    >>> varied = VariedEquations(vp.load_system("rigid-body"), ["I1", "I2"])
    >>> state = np.array([0.6, 0.8, 0.0])
    >>> varied.vector_field(state, np.array([[2.0, 1.0], [4.0, 1.0]]))[:, 2]
    array([0.24, 0.36])
    >>> varied.invariants["energy"](state, np.array([[2.0, 1.0], [4.0, 1.0]]))
    array([0.41 , 0.365])
    """

    _flow: VariedEquations | None = None

    def __init__(self, system: System, names: Sequence[str]) -> None:
        self.system, self.names = system, tuple(names)
        self._check_names()
        try:
            self.equations, self.symbols = self._read()
        except (TooLong, ArithmeticError, RecursionError):
            raise InputError(
                f"{self._shown} cannot vary: the equations are too long where they are no numbers"
            ) from None
        except InputError as error:  # as it was read with numbers, it is because they are none
            raise InputError(f"{self._shown} cannot vary: {error}") from None
        self.invariants = {
            name: VariedScalar(self, value) for name, value in self.equations.invariants.items()
        }

    @property
    def name(self) -> str:
        """The system's name."""
        return self.system.name

    @property
    def dim(self) -> int:
        """Number of components of the state."""
        return len(self.equations.components)

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the state's components."""
        return self.equations.components

    @property
    def arguments(self) -> tuple[Symbol, ...]:
        """The symbols of the state, and then those of the parameters."""
        return (*self.equations.symbols, *self.symbols)

    def function(self, expressions: Sequence[Value]) -> ComponentFunction:
        """Formulas as a NumPy function of the components and then the parameters, one by one."""
        return vectorised(expressions, self.arguments, "numpy")

    def vector_field(self, state: Any, parameters: Any) -> np.ndarray:
        """Return f(z; parameters), (..., dim), of states (..., dim) and parameters (..., name)."""
        columns, shape = self._columns(state, parameters)
        result = np.empty((*shape, len(self.equations.symbols)))
        for i, value in enumerate(self._field(*columns)):
            result[..., i] = value
        return result

    def map_of(
        self, parameters: np.ndarray, rtol: float = 1e-12, atol: float = 1e-12
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The map of states (trajectory, dim), each with its own parameters (trajectory, name).

        The tolerances are those of solutions of return maps.
        """
        if self.equations.returns is not None:
            return lambda states: self.flow_back.images(states, parameters, rtol, atol)[0]
        columns = [*parameters.T]

        def image(states: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):
                found = self._formula_map.columns([*states.T], "numpy", columns)
            return stack_numpy(found, states[:, 0])

        return image

    @cached_property
    def flow_back(self) -> ReturnMap:
        """Integrator of a return map: from the section back to the section."""
        assert self.equations.returns is not None
        return ReturnMap(self.equations.returns, self.symbols)

    def section_states(self, table: Mapping[str, Any] | None, source: str) -> SectionStates:
        """Initial states of a return map, of a distribution of its own or of the flow's (None)."""
        system, flow = self.system.flow, self._flow
        assert system is not None and flow is not None
        chosen = [k for k, name in enumerate(self.names) if name != ENERGY]

        def of_flow(count: int, generator: np.random.Generator, parameters: Any) -> np.ndarray:
            if parameters is None or not chosen:
                return system.sample_initial(count, generator)
            conditions = InitialConditions(flow, system.initial_table, system.name)
            return conditions.sample(count, generator, parameters[:, chosen])

        own = OwnStates(self.name, self.equations, self.invariants, self.symbols)
        return SectionStates(self.flow_back, own, table, of_flow, source)

    @cached_property
    def _formula_map(self) -> FormulaMap:
        return FormulaMap(self.equations, self.symbols)

    def scaled_field(
        self, steps: np.ndarray, parameters: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Return h f(z; parameters) as a function of states (dim, trajectory), h per trajectory.

        Subexpressions that do not depend on the state are computed once, so that the function is as
        fast as that of a system with numbers.

        Parameters
        ----------
        steps
            Steps h, (trajectory,).
        parameters
            Parameters, (trajectory, name).
        """
        function, constants_of, factors_of = self._scaled
        constants = constants_of(steps, *parameters.T)
        factors = factors_of(*constants)

        def field(components: np.ndarray) -> np.ndarray:
            result = np.empty_like(components)
            values = function(*components, *constants)
            for i, (factor, value) in enumerate(zip(factors, values, strict=True)):
                np.multiply(factor, value, out=result[i])
            return result

        return field

    @cached_property
    def _scaled(self) -> tuple[ComponentFunction, ComponentFunction, ComponentFunction]:
        """The field but for factors, the coefficients in both, and these factors."""
        self.system.require_vector_field("this")
        algebra = self.equations.algebra
        algebra.allow_derivatives()
        step = algebra.symbol("step", varies=False)
        found = Coefficients(self.equations.vector_field, self.equations.symbols, step, algebra)
        arguments = [*self.equations.symbols, *found.symbols]
        return (
            vectorised(found.values, arguments, "numpy"),
            vectorised(found.definitions, [step, *self.symbols], "numpy"),
            vectorised(found.factors, found.symbols, "numpy"),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return VariedEquations, (self.system, self.names)

    @cached_property
    def _field(self) -> ComponentFunction:
        self.system.require_vector_field("this")
        return self.function(self.equations.vector_field)

    @property
    def _shown(self) -> str:
        plural = "parameters" if len(self.names) > 1 else "parameter"
        return f"the {plural} {', '.join(self.names)} of {self.system.name}"

    def _columns(self, state: Any, parameters: Any) -> tuple[list[np.ndarray], tuple[int, ...]]:
        """Components and parameters one by one, and the shape that all of them have together."""
        state, parameters = as_array(state), as_array(parameters)
        wanted = len(self.equations.symbols), len(self.names)
        if (*state.shape[-1:], *parameters.shape[-1:]) != wanted:
            raise InputError(
                f"states (..., {wanted[0]}) and parameters (..., {wanted[1]}) are needed, but the "
                f"arrays given have shapes {state.shape} and {parameters.shape}"
            )
        shape = np.broadcast_shapes(state.shape[:-1], parameters.shape[:-1])
        return [*np.moveaxis(state, -1, 0), *np.moveaxis(parameters, -1, 0)], shape

    def _check_names(self) -> None:
        known = self.system.parameters
        for name in self.names:
            if name not in known:
                there = ", ".join(known) or "none"
                raise InputError(
                    f"{self.system.name} has no parameter '{name}' that could vary"
                    f"{nearest(name, known) or f' (it has: {there})'}"
                )
            if isinstance(known[name], list):
                raise InputError(
                    f"{name} of {self.system.name} is a list of numbers; only parameters that are "
                    "single numbers can vary"
                )
        if len(set(self.names)) < len(self.names):
            raise InputError(f"{self._shown} are named twice")

    def _read_section(self) -> tuple[Equations, tuple[Symbol, ...]]:
        """Return the equations of a return map, and symbols of the parameters left open."""
        system = self.system
        assert system.flow is not None
        self._flow = flow = VariedEquations(system.flow, [n for n in self.names if n != ENERGY])
        e, energy = flow.equations, system.definitions.get(ENERGY)
        symbols = dict(zip(flow.names, flow.symbols, strict=True))
        if ENERGY in self.names:
            energy = symbols[ENERGY] = e.algebra.symbol(ENERGY)
        elif energy is not None:
            energy = constant(e, energy, f"{e.source}, [return_map] {ENERGY}")
        section = read_section(e, system.return_table, e.source, energy)
        found = section_equations(section, like=system.equations)
        return found, tuple(symbols[name] for name in self.names)

    def _read(self) -> tuple[Equations, tuple[Symbol, ...]]:
        if self.system.flow is not None:
            return self._read_section()
        base, algebra = self.system.equations, Algebra()
        symbols = {name: algebra.symbol(name) for name in self.names}
        values: dict[str, Value | tuple[Value, ...]] = {}
        integers: dict[str, int] = {}
        scope = Scope(values, integers, algebra)
        for name, text in base.definitions.items():
            where = f"{base.source}, [parameters] {name}"
            if isinstance(text, Sequence) and not isinstance(text, str):
                values[name] = tuple(parse(entry, scope, where) for entry in text)
                continue
            value = values[name] = symbols[name] if name in symbols else parse(text, scope, where)
            if isinstance(value, int):
                integers[name] = value
        table = {key: entry for key, entry in base.table.items() if key not in _NUMERIC}
        found = read_state_and_formulas(
            table, base.source, values, integers, algebra, base.definitions
        )
        found = replace(
            found,
            table=base.table,
            reversing_symmetries=base.reversing_symmetries,
            periods=base.periods,
        )
        return found, tuple(symbols.values())


class VariedScalar:
    """A scalar function of states (..., dim) and parameters (..., name).

    Parameters
    ----------
    varied
        Equations with open parameters.
    expression
        Expression to compute.
    """

    def __init__(self, varied: VariedEquations, expression: Value) -> None:
        self.expression, self._varied = expression, varied

    def __call__(self, state: Any, parameters: Any) -> np.ndarray:
        columns, shape = self._varied._columns(state, parameters)
        return np.array(np.broadcast_to(self._function(*columns)[0], shape))

    @cached_property
    def _function(self) -> ComponentFunction:
        return self._varied.function([self.expression])
