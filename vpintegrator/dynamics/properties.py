"""Definition of a system, and the properties that follow from it: dimension, time, kind."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from vpintegrator.dynamics.chart import ChartEquations
from vpintegrator.dynamics.equations import Equations, ScalarFunction, as_array, is_tensor
from vpintegrator.dynamics.expressions.algebra import TooLong
from vpintegrator.dynamics.expressions.evaluation import (
    LARGEST_HAMILTONIAN,
    can_be_written,
    written,
)
from vpintegrator.dynamics.expressions.nodes import (
    Call,
    Expression,
    Number,
    Product,
    Sum,
    Symbol,
    Value,
)
from vpintegrator.dynamics.plot import Plot
from vpintegrator.dynamics.reading import read_parameters, read_state_and_formulas
from vpintegrator.dynamics.section import ENERGY, constant, read_section, section_equations
from vpintegrator.dynamics.structure import Structure
from vpintegrator.errors import InputError, nearest

_NUMERIC = ("reversing_symmetry", "periodic")  # tables of numbers only


@dataclass(frozen=True)
class Definition:
    """All that makes a :class:`System`: equations, their structure, and the texts of the file.

    Reading a file makes one; charts, return maps, families and open parameters make others of it.

    Attributes
    ----------
    text, name, source
        The text, the short name of the system, and the source of the text for messages.
    title, subject, reference, description, function
        Entries of the file.
    equations
        Equations as formulas.
    parameters, definitions
        Values of the parameters, and the parameters as written.
    defaults
        ``step``, ``steps`` and ``time`` where the file suggests them.
    initial_table
        Table ``[initial_conditions]``; None without one.
    divergence_free, is_canonical
        Structure that was found, or is declared of measured states.
    plot
        Options of figures.
    chart
        Equations of the chart and the definition of the system in it; None without a chart.
    flow, return_table
        Definition of the flow of a return map, and the table ``[return_map]``.
    broken
        Structure that was left out as it fails at some states, in words.
    withheld
        Whether equations are known and left out, see :meth:`System.without_equations`.
    """

    text: str
    name: str
    source: str
    title: str
    subject: str
    reference: str
    description: str
    function: str
    equations: Equations
    parameters: Mapping[str, Any]
    definitions: Mapping[str, Any]
    defaults: dict[str, Any]
    initial_table: Mapping[str, Any] | None = None
    divergence_free: bool = False
    is_canonical: bool = False
    plot: Plot = field(default_factory=Plot)
    chart: tuple[ChartEquations, Definition] | None = None
    flow: Definition | None = None
    return_table: Mapping[str, Any] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    withheld: bool = False

    def without_equations(self) -> Definition:
        """Return the definition that a file of measured states could declare."""
        chart = None
        if self.chart is not None:
            there, definition = self.chart
            equations = there.equations.without_formulas()
            there = replace(there, equations=equations, base=there.base.without_formulas())
            chart = there, definition.without_equations()
        keeps = self.divergence_free or self.is_canonical
        equations = self.equations.without_formulas()
        return replace(
            self,
            text="",
            function="",
            equations=replace(equations, divergence_free=keeps, symplectic=self.is_canonical),
            defaults={},
            initial_table=None,
            plot=Plot(),
            chart=chart,
            flow=None,
            return_table={},
            withheld=True,
        )

    def in_canonical_order(self) -> Definition:
        """Return the definition with positions first and then momenta, for states alone.

        It has no initial conditions or chart.
        """
        e = self.equations
        order = [*e.order, *range(len(e.order), len(e.components))]
        place = {old: new for new, old in enumerate(order)}

        equations = replace(
            e,
            components=tuple(e.components[i] for i in order),
            symbols=tuple(e.symbols[i] for i in order),
            arrays={name: tuple(place[i] for i in array) for name, array in e.arrays.items()},
            vector_field=tuple(e.vector_field[i] for i in order) if e.vector_field else (),
            stages=tuple({place[i]: value for i, value in stage.items()} for stage in e.stages),
            reversing_symmetries=tuple(
                tuple({place[j]: c for j, c in rho[i].items()} for i in order)
                for rho in e.reversing_symmetries
            ),
            periods={place[i]: period for i, period in e.periods.items()},
            order=(),
        )
        return replace(self, equations=equations, initial_table=None, chart=None)

    def with_open(self, names: Sequence[str]) -> Definition:
        """Return the definition with some parameters left open, as variables of the formulas.

        Raises
        ------
        InputError
            If there is no such parameter, or it is no number that can be left open: a list, or one
            on which the dimension or an index depends.
        """
        known = {name: value for name, value in self.parameters.items() if type(value) is not list}
        for k, name in enumerate(names):
            if name not in known or name in names[:k]:
                hint = "" if name in known else nearest(name, known)
                hint = hint or f" (it has: {', '.join(known) or 'none'})"
                raise InputError(
                    f"{self.name} has no parameter '{name}' that could vary, a single number that "
                    f"is named once{hint}"
                )
        try:
            return self._with_open(names)
        except (TooLong, ArithmeticError, RecursionError, InputError) as error:
            long = "the equations are too long where they are no numbers"
            reason = error if isinstance(error, InputError) else long
            raise InputError(
                f"the parameter {', '.join(names)} of {self.name} cannot vary: {reason}"
            ) from None

    def _with_open(self, names: Sequence[str]) -> Definition:
        e = self.equations
        flow = None
        if self.withheld:
            equations = replace(e, open=tuple(e.algebra.symbol(name) for name in names))
        elif self.flow is None:
            # symmetries and periods stay those of the given equations
            scope = read_parameters(e.definitions, e.source, names)
            table = {key: entry for key, entry in e.table.items() if key not in _NUMERIC}
            equations = replace(
                read_state_and_formulas(table, e.source, scope, e.definitions),
                table=e.table,
                reversing_symmetries=e.reversing_symmetries,
                periods=e.periods,
                open=tuple(scope.values[name] for name in names),  # type: ignore[misc]
            )
        else:
            flow = self.flow.with_open([name for name in names if name != ENERGY])
            base = flow.equations
            energy = self.definitions.get(ENERGY)
            symbols = {symbol.name: symbol for symbol in base.open}
            level: Value | None = None
            if ENERGY in names:
                level = symbols[ENERGY] = base.algebra.symbol(ENERGY)
            elif energy is not None:
                level = constant(base, energy, f"{base.source}, [return_map] {ENERGY}")
            section = read_section(base, self.return_table, base.source, level)
            equations = replace(
                section_equations(section, like=e), open=tuple(symbols[name] for name in names)
            )
        plot = replace(self.plot, coordinates={})
        return replace(self, equations=equations, flow=flow, plot=plot, chart=None)


class SystemProperties:
    """Properties of a system that follow from its definition; the base of :class:`System`.

    Parameters
    ----------
    definition
        Definition of the system.
    family
        Family, a :class:`Family`, if this is the system of its extended states; else None.
    """

    def __init__(self, definition: Definition, family: Any = None) -> None:
        self.definition = definition
        self.family = family
        equations = definition.equations
        self.text = definition.text
        self.name = definition.name
        self._source = definition.source
        self.title = definition.title
        self.subject = definition.subject
        self.reference = definition.reference
        self.description = definition.description
        self.function = definition.function
        self.equations: Equations = equations
        self.parameters = definition.parameters
        self.definitions = definition.definitions
        self.defaults = definition.defaults
        self.plot = definition.plot
        self.return_table = definition.return_table
        self.divergence_free = definition.divergence_free
        self.is_canonical = definition.is_canonical
        self.reversing_symmetries = [_matrix(rho) for rho in equations.reversing_symmetries]
        self.periods = {i: float(period) for i, period in equations.periods.items()}
        self.invariants = _scalars(equations, equations.invariants)
        self.coordinates = _scalars(equations, definition.plot.coordinates)

    @property
    def dim(self) -> int:
        """Number of components of the state."""
        return len(self.equations.components)

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the state's components, ``z1`` or ``q[0]``."""
        return self.equations.components

    @property
    def canonical_order(self) -> tuple[int, ...]:
        """Numbers of the components with positions first, then their momenta, then others.

        Empty where states have this order; it follows from the names of the components.
        """
        order = self.equations.order
        return (*order, *range(len(order), self.dim)) if order else ()

    @property
    def explicit_time(self) -> int | None:
        """Number of the component that is the time, the last; None where nothing depends on it."""
        return self.equations.explicit_time

    @property
    def time(self) -> str | None:
        """Name of the time where the equations depend on it, else None."""
        return None if self.explicit_time is None else self.components[self.explicit_time]

    @property
    def period(self) -> float | None:
        """Period of the equations in time, None where there is none.

        Examples
        --------
        >>> system = vp.load_system('''
        ... state = ["q", "p"]
        ... time = "t"
        ... period = "2*pi/omega"
        ... hamiltonian = "p**2/2 - cos(q) - q*cos(omega*t)"
        ... parameters = { omega = 2 }
        ... ''')
        >>> system.components, system.period
        (('q', 'p', 't'), 3.14159...)
        """
        return None if self.explicit_time is None else self.periods.get(self.explicit_time)

    @property
    def phase_dim(self) -> int:
        """Number of components without the time: the dimension of phase space."""
        return self.dim - (self.explicit_time is not None)

    @property
    def is_hamiltonian(self) -> bool:
        """Whether the system was given by a Hamiltonian over positions and momenta."""
        return self.equations.hamiltonian is not None

    @property
    def structure(self) -> Structure:
        """Structure of the flow or of the map; of measured states, as their file declares it."""
        pairs = zip(*self.equations.halves, strict=True) if self.is_canonical else ()
        rhos = self.reversing_symmetries
        return Structure.of(self._form or "none", rhos, periods=self.periods, pairs=pairs)

    @property
    def _form(self) -> str:
        return "symplectic" if self.is_canonical else "volume" if self.divergence_free else ""

    @property
    def kind(self) -> str:
        """Kind of system in words: Hamiltonian, divergence-free, not divergence-free, or measured.

        A map is a symplectic map, volume-preserving map, or map. Measured states follow the file's
        declaration: measured, symplectic; measured, volume-preserving; measured, no structure;
        measured, positions of a mechanical system.
        """
        if self.is_lagrangian:
            return "measured, positions of a mechanical system"
        form = self._form.replace("volume", "volume-preserving")
        if self.is_measured:
            unknown = not form and self.equations.divergence_free is None
            return "measured" if unknown else f"measured, {form or 'no structure'}"
        if self.is_discrete:
            return f"{form} map".strip()
        flows = {"symplectic": "Hamiltonian", "volume": "divergence-free"}
        return flows.get(self._form, "not divergence-free")

    @property
    def is_measured(self) -> bool:
        """Whether only states are known, and no equations (``measured = true`` in the file)."""
        return not (self.equations.vector_field or self.is_discrete)

    @property
    def is_lagrangian(self) -> bool:
        """Whether states are said to be positions of a mechanical system, without velocities.

        Examples
        --------
        >>> vp.load_system('measured = true\\nlagrangian = true\\nstate = ["q"]').is_lagrangian
        True
        """
        return self.is_measured and bool(self.equations.table.get("lagrangian"))

    @property
    def is_discrete(self) -> bool:
        """Whether this is a map that is iterated, and no differential equation.

        Examples
        --------
        >>> system = vp.load_system('''
        ... state = ["q", "p"]
        ... symplectic = true
        ... parameters = { K = 0.5 }
        ... [[map]]
        ... p = "p + K*sin(q)"
        ... [[map]]
        ... q = "q + p"
        ... ''')
        >>> system.is_discrete, system.kind, system.map([0.0, 1.0])
        (True, 'symplectic map', array([1., 1.]))
        """
        return self.equations.is_map

    @property
    def may_preserve_volume(self) -> bool:
        """Whether volume is preserved, or the states are measured and nothing else is declared.

        Positions without velocities fill no volume that is kept.
        """
        base = self if self.family is None else self.family.system
        undeclared = base.equations.divergence_free is None and not base.is_lagrangian
        return self.divergence_free or (base.is_measured and undeclared)

    @property
    def is_exact(self) -> bool:
        """Whether no solver computes states: a map by formula is only iterated."""
        return bool(self.equations.stages)

    def require_equations(self, what: str) -> None:
        """Raise InputError where ``what`` needs the equations and they are not known."""
        if self.is_measured:
            reason = f"the equations of {self.name}, which are not known: its states were measured"
            if self.derivatives:
                reason = (
                    f"the Python function of {self.name}, which files do not hold; give it with "
                    f"--system {self.function or 'module:name'}, in Python with system= or "
                    "dataset.with_system"
                )
            raise InputError(f"{what} needs {reason}")

    @property
    def has_formulas(self) -> bool:
        """Whether formulas say the vector field or the map: of files and of recorded functions."""
        return bool(self.equations.vector_field or (self.is_discrete and self.equations.is_map))

    @property
    def derivatives(self) -> str:
        """Source of derivatives: formulas, autograd, finite differences, or none (empty).

        Only functions of Python that were not recorded have autograd or finite differences.
        """
        return "formulas" if self.has_formulas else self.equations.table.get("derivatives", "")

    def require_formulas(self, what: str) -> None:
        """Raise InputError where ``what`` needs formulas and there are none."""
        self.require_equations(what)

    def require_vector_field(self, what: str) -> None:
        """Raise InputError where ``what`` needs a vector field and there is none, or none known."""
        self.require_equations(what)
        if self.is_discrete:
            raise InputError(
                f"{what} needs a vector field, but {self.name} is a map: its steps are iterations"
            )

    @cached_property
    def functions(self) -> list[str]:
        """Functions in the vector field that are no polynomials, as expressions of ``z[0]``, ...

        Where it depends on time those of its derivative by that too: a step is over some of it. Of
        a map those in its stages.
        """
        stages = [value for stage in self.equations.stages for value in stage.values()]
        return self._functions_in([*self.equations.vector_field, *stages])

    @cached_property
    def hamiltonian_functions(self) -> list[str]:
        """Names of the given functions in the Hamiltonian, whose gradients are the forces."""
        hamiltonian = self.equations.hamiltonian
        return [] if hamiltonian is None else self._functions_in([hamiltonian])

    @cached_property
    def hamiltonian_formula(self) -> str:
        """The Hamiltonian as an expression of ``z[0]``, ...; empty if none is known, or too long.

        Parameters have their values; of a family they are components.
        """
        h = self.equations.hamiltonian
        known = isinstance(h, Expression) and can_be_written(h, LARGEST_HAMILTONIAN)
        return written(h, self._names) if known else ""  # type: ignore[arg-type]

    @cached_property
    def field_formulas(self) -> list[str]:
        """The vector field as expressions of ``z[0]``, ...; none if it is unknown, or too long."""
        e = self.equations
        rates = [rate for rate in e.vector_field if isinstance(rate, Expression)]
        if e.is_map or not all(can_be_written(rate, LARGEST_HAMILTONIAN) for rate in rates):
            return []
        return [written(rate, self._names) for rate in e.vector_field]

    def _functions_in(self, formulas: Sequence[Value]) -> list[str]:
        """Return the functions in formulas that are no polynomials, as expressions of ``z[0]``, ...

        The formulas, the vector field or the Hamiltonian, are polynomials in the components and
        these functions. Sines and cosines of angles that the system declares are left out, as
        Fourier sums hold them; so is what is very long.
        """
        e = self.equations
        if e.explicit_time is not None:
            e.algebra.allow_derivatives()
            time = e.symbols[e.explicit_time]
            formulas = [*formulas, *(e.algebra.gradient(f).get(time, 0) for f in formulas)]
        angles = {e.symbols[i] for i in e.periods}
        functions: dict[Expression, None] = {}
        powers: dict[Expression, set[Number]] = {}
        seen: set[int] = set()
        stack: list[Value] = list(formulas)[::-1]
        while stack:
            value = stack.pop()
            if not isinstance(value, Expression) or value.number in seen:
                continue
            seen.add(value.number)
            match value:
                case Sum(terms=terms):
                    stack.extend(term for term, _ in terms)
                case Product(factors=factors):
                    for base, exponent in factors:
                        if isinstance(exponent, int) and exponent > 0:
                            stack.append(base)
                        else:
                            powers.setdefault(base, set()).add(exponent)
                case Call(function=function, arguments=arguments):
                    turning = function.name in ("sin", "cos") and _is_of(arguments[0], angles)
                    if not turning:
                        functions[value] = None
        for base, exponents in powers.items():
            for exponent in exponents:
                # 1/r**2 is a polynomial in 1/r
                ratios = [exponent / other for other in exponents if other != exponent]
                if not any(ratio == int(ratio) > 0 for ratio in ratios):
                    functions[e.algebra.product([(base, exponent)])] = None  # type: ignore[index]
        texts = [written(f, self._names) for f in functions if f.depends and can_be_written(f)]
        return texts[:MOST_FUNCTIONS]

    @property
    def _names(self) -> dict[Symbol, str]:
        return {symbol: f"z[{i}]" for i, symbol in enumerate(self.equations.symbols)}

    @property
    def cyclic(self) -> list[int]:
        """Numbers of the components that the vector field does not depend on; none of maps."""
        if self.is_discrete:
            return []
        rates = [f for f in self.equations.vector_field if isinstance(f, Expression)]
        used = {
            symbol for symbol in self.equations.symbols for f in rates if f.depends & symbol.depends
        }
        symbols = enumerate(self.equations.symbols)
        return [i for i, symbol in symbols if self.has_formulas and symbol not in used]

    @property
    def conserved(self) -> list[int]:
        """Numbers of the components that stay as they are."""
        if self.definition.flow is not None:
            return []
        if self.is_discrete:
            changed = set[int]().union(*self.equations.stages)
            return [i for i in range(self.dim) if i not in changed]
        return [i for i, value in enumerate(self.equations.vector_field) if value == 0]

    @property
    def contracts(self) -> bool:
        """Whether it is known to change volume, so that the exact change can be computed."""
        known = self.is_exact if self.is_discrete else not self.is_measured
        return known and not self.divergence_free

    @property
    def moving(self) -> list[int]:
        """Numbers of all other components, without the time: those in which a solution can err."""
        time = self.explicit_time if self.family is None else self.family.system.explicit_time
        still = {time, *self.conserved}
        return [i for i in range(self.dim) if i not in still] or list(range(self.dim))

    @property
    def initial_table(self) -> Mapping[str, Any]:
        """The table ``[initial_conditions]`` of the system file."""
        for each in filter(None, (self.definition, self.definition.flow)):
            if each.initial_table is not None:
                return each.initial_table
        raise InputError(
            f"{self._source} suggests no initial states; add a table [initial_conditions]"
        )

    def require_map(self) -> None:
        """Raise InputError for systems of differential equations."""
        if not self.is_discrete:
            raise InputError(
                f"{self.name} is no map: it has a vector field, and solve gives its states"
            )

    def checked_state(self, state: Any) -> Any:
        """Return states (..., dim) as an array or a tensor.

        Raises
        ------
        InputError
            If they have another number of components.
        """
        state = state if is_tensor(state) else as_array(state)
        if not state.shape or state.shape[-1] != self.dim:
            raise InputError(
                f"a state of {self.name} has {self.dim} components in its last dimension, but the "
                f"array given has shape {tuple(state.shape)}"
            )
        return state

    def __repr__(self) -> str:
        values = "".join(f", {k}={reprlib.repr(v)}" for k, v in self.parameters.items())
        return f"<System {self.name}: {self.title}, dim {self.dim}{values}>"


def _scalars(equations: Equations, values: Mapping[str, Value]) -> dict[str, Callable[..., Any]]:
    return {name: ScalarFunction(equations, value, name) for name, value in values.items()}


def _matrix(rows: Sequence[Mapping[int, Number]]) -> np.ndarray:
    return np.array([[float(row.get(j, 0)) for j in range(len(rows))] for row in rows])


MOST_FUNCTIONS = 64


def _is_of(argument: Value, angles: set[Symbol]) -> bool:
    """Whether an argument is a linear combination of angles."""
    terms = [term for term, _ in argument.terms] if isinstance(argument, Sum) else [argument]
    return all(term in angles for term in terms)
