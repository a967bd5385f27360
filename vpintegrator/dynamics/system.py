"""A dynamical system, z' = f(z) or a map: its equations, and functions of them."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.arguments import grouped
from vpintegrator.dynamics.arrays import as_array, is_tensor, stack_numpy, stack_torch
from vpintegrator.dynamics.bodies import Bodies, read_bodies
from vpintegrator.dynamics.body_identities import check_bodies, images_of
from vpintegrator.dynamics.chart import Chart
from vpintegrator.dynamics.chart_equations import ChartEquations, read_chart
from vpintegrator.dynamics.claims import Claims
from vpintegrator.dynamics.equations import plain_values, read_equations
from vpintegrator.dynamics.expressions import (
    LARGEST_HAMILTONIAN,
    Expression,
    Number,
    TooLong,
    Value,
    can_be_written,
    readable,
    written,
)
from vpintegrator.dynamics.field_functions import functions_in
from vpintegrator.dynamics.formula_map import FormulaMap
from vpintegrator.dynamics.identities import check_identities
from vpintegrator.dynamics.initial_conditions import InitialConditions
from vpintegrator.dynamics.map_identities import check_map
from vpintegrator.dynamics.plot import Plot, read_plot
from vpintegrator.dynamics.return_parts import return_parts
from vpintegrator.dynamics.returning import ReturnMap
from vpintegrator.dynamics.section import constant, read_section, section_equations
from vpintegrator.dynamics.section_states import OwnStates, SectionStates
from vpintegrator.dynamics.state_function import (
    ScalarFunction,
    StateFunction,
    as_matrices,
)
from vpintegrator.dynamics.trial import Point, Trial
from vpintegrator.errors import InputError
from vpintegrator.rich_display import RichDisplay
from vpintegrator.storage.toml import check_keys, read_toml

if TYPE_CHECKING:
    from vpintegrator.dynamics.family import Family

_LONGEST_TEXT = 20_000
_LARGEST_DEFAULT = 10**15
_LONGEST_NAME = 100
_FEW = 3  # numbers of a list that stand in a line
_RETURNS = 10  # steps of a trajectory of a return map, unless a recipe says otherwise
_TOLERANCE = 1e-13  # solver tolerance of return maps
ENERGY = "energy"  # a parameter of return maps
_DEFAULTS = {"step": float, "steps": int, "time": float}


class System(RichDisplay, by="system"):
    r"""A system of ordinary differential equations, or a map, described by a TOML text.

    .. math:: \dot z = f(z), \qquad \text{or} \qquad z_{n+1} = M(z_n)

    Where the equations depend on time, it is the last component of the state, with
    :math:`\dot t = 1` (the extended phase space), so that the system is autonomous like any other.

    A discrete system is a map that is iterated, with ``map`` instead of ``vector_field``; its step
    is 1, and its time counts iterations.

    States and time are dimensionless. Every function takes a NumPy array or a torch tensor of
    shape (..., dim) and returns the same kind; they are vectorised over the leading dimensions.
    Use :func:`vpintegrator.load_system` to make one.

    Parameters
    ----------
    text
        The system file's text.
    name
        A short name, such as ``rigid-body``.
    parameters
        Values that replace those of the file.
    source
        Source of the text, for messages.

    Attributes
    ----------
    name, title, subject, reference, description, text
        Entries of the file; the subject is a heading of the catalogue, such as "Mechanics".
    parameters
        Parameter values by name: numbers, or lists for arrays.
    definitions
        Parameters as written, ``"2/3"`` and not 0.666...; with the text they make an equal system.
    equations
        Equations as formulas.
    invariants
        Functions of the state that are constant along every solution, by name.
    divergence_free
        Whether the flow, or the map, preserves phase-space volume.
    is_canonical
        Whether it keeps the form :math:`dq \wedge dp` of states (q, p): Hamiltonian flows, and
        symplectic maps, and measured states of which the file claims it.
    reversing_symmetries
        Matrices :math:`\rho`, (dim, dim), with :math:`f(\rho z) = -\rho f(z)` and
        :math:`\rho^2 = I`; of a map M, :math:`\rho M \rho M = \mathrm{id}`.
    bodies
        Bodies of the state, with the translations, rotations and permutations that are symmetries,
        a :class:`Bodies`; None if the file declares none.
    periods
        Periods of the components that are angles, by the number of the component. States hold
        angles that are continued over full turns, not reduced to one period.
    function
        ``module:name`` of the Python function that the text describes; else empty. Nothing imports
        it by itself.
    defaults
        ``step``, ``steps`` and ``time`` where the file suggests them.
    plot
        Options of figures: planes, a sphere, a Poincare section.
    coordinates
        Functions of the state that pictures use beside its components, by name.
    chart
        Coordinates in which the system preserves volume or is simpler, a :class:`Chart`; None where
        the file declares none.
    flow
        Flow of a return map; None for other systems.
    family
        Family, a :class:`Family`, if this is the system of its extended states; else None.

    Raises
    ------
    InputError
        If the text is not a valid system or claims what does not hold.

    Examples
    --------
    >>> system = vp.load_system("pendulum", g=1.0)
    >>> system.vector_field(np.array([0.0, 2.0]))
    array([ 2., -0.])
    >>> float(system.invariants["energy"](np.array([0.0, 2.0])))
    1.0
    """

    time_name = "t"  # for messages
    family: Family | None = None
    flow: System | None = None
    return_table: Mapping[str, Any]
    bodies: Bodies | None
    chart: Chart | None
    divergence_free: bool
    is_canonical: bool
    invariants: dict[str, Callable[[Any], Any]]
    coordinates: dict[str, Callable[[Any], Any]]

    def __init__(
        self,
        text: str,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        source: str | None = None,
    ) -> None:
        source = source or name or "system"
        given = plain_values(parameters or {}, source)
        self._read(text, read_toml(text, source), name, given, source)

    @classmethod
    @grouped(claims=Claims)
    def from_function(
        cls,
        f: Callable[..., Any],
        dim: int | None = None,
        components: Sequence[str] | None = None,
        *,
        claims: Claims,
        sample: Any = None,
        step: float | None = None,
        parameters: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> System:
        r"""Make a system of a Python function f(t, y), the right-hand side of y' = f(t, y).

        The function is called with symbols in the place of numbers. Where it computes with
        operators and functions of NumPy, PyTorch or ``math`` it becomes formulas, and the system is
        like one of a file: with exact derivatives, machine code and parameters that can vary.

        Parameters
        ----------
        f
            ``f(t, y)``, ``f(y, t)`` or ``f(y)`` of a state y of shape (dim,), with ``parameters``
            by keyword. A function for batches takes (..., dim) or (dim, ...).
        dim
            Number of components of a state.
        components
            Names of the components; by default q and p if a Hamiltonian is given, else y1, y2, ...
        claims
            Claims about the system, each checked: the attributes of
            :class:`vpintegrator.dynamics.Claims` are given as keywords: ``hamiltonian``,
            ``divergence_free``, ``reversing_symmetries``, ``invariants``, ``periodic``, ``period``.
        sample
            Distribution of initial states: a tuple (low, high) of the corners of a box, numbers or
            arrays; an array of states (state, dim); or a table as in a system file. By default the
            components are uniform between -1 and 1.
        step
            The step that datasets and comparisons take by default.
        parameters
            Values of the function's parameters, numbers or lists of them, by name.
        name
            Name of the system; by default the function's name.

        Raises
        ------
        InputError
            If f cannot be called so, returns something else, or a claim does not hold; the message
            says by how much it fails, and where.

        Examples
        --------
        >>> def pendulum(t, y, g=1.0):
        ...     q, p = y
        ...     return np.array([p, -g * np.sin(q)])
        >>> system = vp.System.from_function(pendulum, dim=2, parameters={"g": 9.81}, step=0.1)
        >>> system.divergence_free, system.parameters
        (True, {'g': 9.81})
        """
        module = importlib.import_module("vpintegrator.dynamics.functions.from_function")
        given = f, dim, components, claims, sample, step, parameters, name
        made: System = module.system_from_function(*given)
        return made

    @classmethod
    @grouped(claims=Claims)
    def from_hamiltonian(
        cls,
        hamiltonian_function: Callable[..., Any],
        degrees_of_freedom: int | None = None,
        components: Sequence[str] | None = None,
        *,
        claims: Claims,
        sample: Any = None,
        step: float | None = None,
        parameters: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> System:
        """Make a Hamiltonian system of a Python function H, with NumPy's functions or PyTorch's.

        Parameters
        ----------
        hamiltonian_function
            ``H(z)`` of a state z = (q, p), ``H(q, p)`` of its halves or, where it depends on time,
            ``H(t, z)`` or ``H(t, q, p)``; a number.
        degrees_of_freedom
            Half the number of components of a state.
        components, claims, sample, step, parameters, name
            Arguments of :meth:`from_function`.

        Raises
        ------
        InputError
            As by :meth:`from_function`.

        Examples
        --------
        >>> system = vp.System.from_hamiltonian(lambda q, p: p @ p / 2 - np.cos(q[0]), 1)
        >>> system.structure, system.vector_field([0.0, 2.0]).tolist()
        ('Hamiltonian', [2.0, -0.0])
        """
        module = importlib.import_module("vpintegrator.dynamics.functions.from_function")
        given = (hamiltonian_function, degrees_of_freedom, components, claims, sample, step)
        made: System = module.system_from_hamiltonian(*given, parameters, name)
        return made

    def _read(
        self, text: str, table: Mapping[str, Any], name: str | None, given: Any, source: str
    ) -> None:
        self.text = text
        self.title = _string(table, "title", source) or (name or "untitled system")
        self.name = _short_name(name or "-".join(self.title.lower().split()))
        self.subject = _string(table, "subject", source)
        self.reference = _string(table, "reference", source)
        self.description = _string(table, "description", source)
        self.function = _string(table, "function", source)
        if "return_map" in table:
            self._source, self.defaults = source, {"step": 1.0, "steps": _RETURNS}
            with _within_reach(source):
                self._read_return_map(table, given)
            return
        self._source, self.defaults = source, _read_defaults(table, source)
        with _within_reach(source):
            self.equations, self.parameters = read_equations(table, source, given)
            if self.is_discrete:
                _check_map_defaults(self.defaults, source)
            self.definitions = dict(self.equations.definitions)
            self._check()
        self._initial_table = table.get("initial_conditions")
        if self._initial_table is not None:
            _ = self.initial_conditions  # a mistake in them is told now

    def _read_return_map(self, table: Mapping[str, Any], given: dict[str, Any]) -> None:
        """Take the flow for the flow, and the section for the system."""
        own, source = table["return_map"], self._source
        if not isinstance(own, Mapping):
            raise InputError(f"{source}: 'return_map' must be a table, written [return_map]")
        energy, given = own.get("energy"), dict(given)
        if ENERGY not in table.get("parameters", {}):
            energy = given.pop(ENERGY, energy)
        elif energy is not None:
            raise InputError(f"{source}, [parameters] {ENERGY}: this is that of the return map")
        rest = {key: entry for key, entry in table.items() if key != "return_map"}
        self.flow = flow = _Flow(self, rest, given)
        e, value = flow.equations, None
        self.parameters, self.definitions = dict(flow.parameters), dict(flow.definitions)
        if energy is not None:
            value = constant(e, energy, f"{source}, [return_map] energy")
            self.parameters[ENERGY] = float(value)  # type: ignore[arg-type]
            self.definitions[ENERGY] = energy
        section = read_section(e, own, source, value)
        self.equations, self.return_table = section_equations(section), own
        self.title += ": return map"
        self.bodies, self.chart, self.plot, self.coordinates = None, None, Plot(), {}
        volume = section.flow.hamiltonian is not None
        self.divergence_free = volume or (section.stroboscopic and flow.divergence_free)
        self.is_canonical = section.is_canonical or (self.divergence_free and self.dim == 2)
        e = self.equations
        self.reversing_symmetries = [_matrix(rho) for rho in e.reversing_symmetries]
        self.periods = {i: float(period) for i, period in e.periods.items()}
        self.invariants = {n: ScalarFunction(e, value, n) for n, value in e.invariants.items()}
        self._initial_table = own.get("initial_conditions")
        if self._initial_table is not None:
            _ = self.initial_conditions  # a mistake in them is told now

    def _check(self, points: list[Point] | None = None) -> None:
        """Check what the equations claim, and note what there is beside them."""
        source, equations = self._source, self.equations
        self.bodies = read_bodies(equations, source)
        trial = Trial(equations, images_of(self.bodies), points)
        if equations.stages:
            self.divergence_free, self.is_canonical = check_map(equations, source)
        else:
            self.divergence_free = check_identities(trial, source)
            self.is_canonical = equations.hamiltonian is not None or bool(equations.symplectic)
        if self.bodies is not None:
            check_bodies(trial, self.bodies, source)
        self.plot = read_plot(equations, source)
        self.reversing_symmetries = [_matrix(rho) for rho in equations.reversing_symmetries]
        self.periods = {i: float(period) for i, period in equations.periods.items()}
        self.invariants = {
            name: ScalarFunction(equations, expression, name)
            for name, expression in equations.invariants.items()
        }
        self.coordinates = {
            name: ScalarFunction(equations, expression, name)
            for name, expression in self.plot.coordinates.items()
        }
        chart = read_chart(trial, source)
        self.chart = None if chart is None else Chart(chart, _Transported(self, chart))

    @property
    def dim(self) -> int:
        """Number of components of the state."""
        return len(self.equations.components)

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the state's components, ``z1`` or ``q[0]``."""
        return self.equations.components

    @property
    def clock(self) -> int | None:
        """Number of the component that is the time, the last; None where nothing depends on it."""
        return self.equations.clock

    @property
    def time(self) -> str | None:
        """Name of the time where the equations depend on it, else None."""
        return None if self.clock is None else self.components[self.clock]

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
        return None if self.clock is None else self.periods.get(self.clock)

    @property
    def phase_dim(self) -> int:
        """Number of components without the time: the dimension of phase space."""
        return self.dim - (self.clock is not None)

    @property
    def is_hamiltonian(self) -> bool:
        """Whether the system was given by a Hamiltonian over positions and momenta."""
        return self.equations.hamiltonian is not None

    @property
    def structure(self) -> str:
        """Structure in words: Hamiltonian, divergence-free, not divergence-free, or measured.

        A map is a symplectic map, volume-preserving map, or map. Measured states follow the file's
        declaration: measured, symplectic; measured, volume-preserving; measured, no structure.
        """
        if self.is_measured:
            claimed = self.equations.divergence_free
            if self.is_canonical:
                return "measured, symplectic"
            if claimed is None:
                return "measured"
            return "measured, volume-preserving" if claimed else "measured, no structure"
        if self.is_discrete:
            kept = "symplectic" if self.is_canonical else "volume-preserving"
            return f"{kept} map" if self.is_canonical or self.divergence_free else "map"
        if self.is_hamiltonian:
            return "Hamiltonian"
        return "divergence-free" if self.divergence_free else "not divergence-free"

    @property
    def is_measured(self) -> bool:
        """Whether only states are known, and no equations (``measured = true`` in the file)."""
        return not (self.equations.vector_field or self.is_discrete)

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
        >>> system.is_discrete, system.structure, system.map([0.0, 1.0])
        (True, 'symplectic map', array([1., 1.]))
        """
        return self.equations.is_map

    @property
    def may_preserve_volume(self) -> bool:
        """Whether volume is preserved, or the states are measured and nothing else is claimed."""
        base = self if self.family is None else self.family.system
        unclaimed = base.is_measured and base.equations.divergence_free is None
        return self.divergence_free or unclaimed

    @property
    def is_exact(self) -> bool:
        """Whether no solver computes states: a map by formula is only iterated."""
        return bool(self.equations.stages)

    def require_equations(self, what: str) -> None:
        """Raise InputError where ``what`` needs the equations and they are not known."""
        if self.is_measured and self.derivatives:
            given = self.function or "module:name"
            raise InputError(
                f"{what} needs the Python function of {self.name}, which files do not hold; give "
                f"it with --system {given}, in Python with system= or dataset.with_system"
            )
        if self.is_measured:
            raise InputError(
                f"{what} needs the equations of {self.name}, which are not known: its states were "
                "measured"
            )

    @property
    def has_formulas(self) -> bool:
        """Whether formulas say the vector field or the map: of files and of recorded functions."""
        return bool(self.equations.vector_field or (self.is_discrete and self.equations.is_map))

    @property
    def derivatives(self) -> str:
        """Source of derivatives: formulas, autograd, finite differences, or none (empty).

        Only functions of Python that were not recorded have autograd or finite differences.
        """
        own = self.equations.table.get("derivatives", "")
        return "formulas" if self.has_formulas else _known_derivatives(own, self._source)

    def require_formulas(self, what: str) -> None:
        """Raise InputError where ``what`` needs formulas and there are none."""
        self.require_equations(what)

    def with_parameters(self, values: Mapping[str, Any]) -> System:
        """Return the system with other values of some parameters.

        Raises
        ------
        InputError
            If there is no such parameter, or a value is none.

        Examples
        --------
        >>> vp.load_system("pendulum").with_parameters({"g": 9.81}).parameters["g"]
        9.81
        """
        return System(self.text, self.name, {**self.definitions, **plain_values(values, self.name)})

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
        e = self.equations
        if not isinstance(e.hamiltonian, Expression) or not can_be_written(
            e.hamiltonian, LARGEST_HAMILTONIAN
        ):
            return ""
        return written(e.hamiltonian, {symbol: f"z[{i}]" for i, symbol in enumerate(e.symbols)})

    @cached_property
    def field_formulas(self) -> list[str]:
        """The vector field as expressions of ``z[0]``, ...; none if it is unknown, or too long."""
        e = self.equations
        rates = [rate for rate in e.vector_field if isinstance(rate, Expression)]
        if e.is_map or not all(can_be_written(rate, LARGEST_HAMILTONIAN) for rate in rates):
            return []
        names = {symbol: f"z[{i}]" for i, symbol in enumerate(e.symbols)}
        return [written(rate, names) for rate in e.vector_field]

    def _functions_in(self, formulas: Sequence[Value]) -> list[str]:
        e = self.equations
        later: list[Value] = []
        if e.clock is not None:
            e.algebra.allow_derivatives()
            later = [e.algebra.gradient(f).get(e.symbols[e.clock], 0) for f in formulas]
        return functions_in([*formulas, *later], e)

    @property
    def cyclic(self) -> list[int]:
        """Numbers of the components that the vector field does not depend on.

        Of maps, only the time since the start of return maps that have it.
        """
        if self.is_discrete:
            returns = self.equations.returns
            return [len(returns.kept)] if returns is not None and returns.return_times else []
        used = 0
        for value in self.equations.vector_field:
            used |= value.depends if isinstance(value, Expression) else 0
        symbols = enumerate(self.equations.symbols)
        return [i for i, symbol in symbols if self.has_formulas and not used & symbol.depends]

    @property
    def conserved(self) -> list[int]:
        """Numbers of the components that stay as they are."""
        if self.flow is not None:
            return []
        if self.is_discrete:
            changed = set[int]().union(*self.equations.stages)
            return [i for i in range(self.dim) if i not in changed]
        return [i for i, value in enumerate(self.equations.vector_field) if value == 0]

    @property
    def moving(self) -> list[int]:
        """Numbers of all other components, without the time: those in which a solution can err."""
        time = self.clock if self.family is None else self.family.system.clock
        still = {time, *self.conserved}
        return [i for i in range(self.dim) if i not in still] or list(range(self.dim))

    def map(self, state: Any) -> Any:
        """Return the image of a state under one step of a discrete system, shape (..., dim).

        Raises
        ------
        InputError
            If this is no map, or the state is none of it.
        """
        tensor = is_tensor(state)
        state = self._checked(state)
        if self.equations.returns is not None:
            rows = np.asarray(state, dtype=np.float64).reshape(-1, self.dim)
            found = self.iteration()(rows).reshape(state.shape)
            return state.new_tensor(found) if tensor else found
        if tensor:
            columns = self._formula_map.columns(state.unbind(-1), "torch")
            return stack_torch(columns, state[..., 0])
        with np.errstate(all="ignore"):  # escaping orbits are not finite
            columns = self._formula_map.columns([*np.moveaxis(state, -1, 0)], "numpy")
        return stack_numpy(columns, state[..., 0])

    def map_jacobian(self, state: Any) -> np.ndarray:
        """Return derivatives of a map by formula, shape (..., dim, dim); NumPy alone."""
        if self.flow is not None:
            raise InputError(f"{self.name} is a return map, which has no formula to differentiate")
        state = np.asarray(self._checked(state))
        with np.errstate(all="ignore"):
            found = self._formula_map.jacobian(np.moveaxis(state, -1, 0))
        return np.moveaxis(found, (0, 1), (-2, -1))

    def partway(self, states: np.ndarray, parts: int) -> np.ndarray | None:
        """Return states (state, dim) of a discrete system on the way to their images.

        Those after equal parts of the stages of a map by formula, or of the way of a return map,
        shape (part + 1, state, dim); None where it has fewer stages, or no sections between. Where
        a state on the edge of a section has no way, the way of another is given, with that first.
        """
        if self.flow is not None:
            way = return_parts(self.flow_back, states, np.empty((len(states), 0)), parts)
            return None if way is None else way[0]
        return self._formula_map.partway(states, parts)

    def iteration(
        self, rtol: float = _TOLERANCE, atol: float = _TOLERANCE
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Return the map of states (n, dim), of a return map with tolerances for its solutions.

        NaN where the iterate is not finite, or the solution does not come back.
        """
        if self.equations.returns is None:
            return self.map
        none = np.empty((1, 0))
        return lambda rows: self.flow_back.images(
            rows, np.broadcast_to(none, (len(rows), 0)), rtol, atol
        )[0]

    @cached_property
    def flow_back(self) -> ReturnMap:
        """Integrator of a return map: from the section back to the section."""
        if self.equations.returns is None:
            raise InputError(f"{self.name} is no return map")
        return ReturnMap(self.equations.returns)

    def _checked(self, state: Any) -> Any:
        """Return a state of the map: an array or a tensor."""
        if not self.is_discrete:
            raise InputError(
                f"{self.name} is no map: it has a vector field, and solve gives its states"
            )
        state = state if is_tensor(state) else as_array(state)
        if not state.shape or state.shape[-1] != self.dim:
            raise InputError(
                f"a state of {self.name} has {self.dim} components in its last dimension, but the "
                f"array given has shape {tuple(state.shape)}"
            )
        return state

    def vector_field(self, state: Any) -> Any:
        """Return the right-hand side :math:`f(z)`, shape (..., dim)."""
        return self._field(state)

    def vector_field_by_component(self, components: np.ndarray) -> np.ndarray:
        """Evaluate the vector field with components first, (dim, ...): fastest for NumPy."""
        result = np.empty_like(components)
        for i, value in enumerate(self._field.made("numpy")(*components)):
            result[i] = value
        return result

    def jacobian(self, state: Any) -> Any:
        r"""Return the matrix :math:`\partial f_i / \partial z_j`, shape (..., dim, dim)."""
        positions, entries = self._jacobian
        return as_matrices(entries(state), positions, self.dim)

    def jacobian_by_component(self, components: np.ndarray) -> np.ndarray:
        """Evaluate the Jacobian with components first: (dim, ...) to (dim, dim, ...)."""
        positions, entries = self._jacobian
        result = np.zeros((self.dim, *components.shape), dtype=components.dtype)
        for place, value in zip(positions, entries.made("numpy")(*components), strict=True):
            result[place] = value
        return result

    def hamiltonian(self, state: Any) -> Any:
        """Return H(q, p), or H(q, p, t), shape (...).

        Raises
        ------
        InputError
            If the system was not given by a Hamiltonian.
        """
        if self._hamiltonian is None:
            raise InputError(f"{self.name} has no Hamiltonian: it is given by a vector field")
        return self._hamiltonian(state)

    def divergence(self, state: Any) -> Any:
        r"""Return the divergence :math:`\sum_i \partial f_i / \partial z_i`, shape (...)."""
        self.require_vector_field("the divergence")
        return self._divergence(state)

    @property
    def initial_table(self) -> Mapping[str, Any]:
        """The table ``[initial_conditions]`` of the system file."""
        if self.flow is not None and self._initial_table is None:
            return self.flow.initial_table
        if self._initial_table is None:
            raise InputError(
                f"{self._source} suggests no initial states; add a table [initial_conditions]"
            )
        return self._initial_table

    @cached_property
    def initial_conditions(self) -> InitialConditions | SectionStates:
        """The distribution of initial states that the system file suggests."""
        if self.flow is not None:
            return self.section_states(self._initial_table, f"{self._source}, [return_map]")
        return InitialConditions(self, self.initial_table, self._source)

    def section_states(self, table: Mapping[str, Any] | None, source: str) -> SectionStates:
        """Initial states of a return map, of a distribution of its own or of the flow's (None)."""
        flow = self.flow
        assert flow is not None

        def of_flow(count: int, generator: np.random.Generator, _: Any) -> np.ndarray:
            return flow.sample_initial(count, generator)

        own = OwnStates(self.name, self.equations, self.invariants)
        return SectionStates(self.flow_back, own, table, of_flow, source)

    def sample_initial(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Draw ``count`` initial states, (count, dim), from the suggested distribution."""
        return self.initial_conditions.sample(count, generator)

    def __reduce__(self) -> tuple[Any, ...]:
        # text travels between processes, not what was derived from it
        return _again, (self.text, self.name, json.dumps(self.definitions), self._source)

    def __repr__(self) -> str:
        values = ", ".join(f"{k}={_in_short(v)}" for k, v in self.parameters.items())
        return (
            f"<System {self.name}: {self.title}, dim {self.dim}{', ' + values if values else ''}>"
        )

    @cached_property
    def _formula_map(self) -> FormulaMap:
        return FormulaMap(self.equations)

    @cached_property
    def _field(self) -> StateFunction:
        self.require_vector_field("this")
        return StateFunction(self.equations, self.equations.vector_field)

    @cached_property
    def _jacobian(self) -> tuple[list[tuple[int, int]], StateFunction]:
        self.require_vector_field("the Jacobian matrix")
        with _within_reach(self._source):
            entries = self.equations.jacobian
        return list(entries), StateFunction(self.equations, list(entries.values()))

    @cached_property
    def _hamiltonian(self) -> ScalarFunction | None:
        h = self.equations.hamiltonian
        return None if h is None else ScalarFunction(self.equations, h, "hamiltonian")

    @cached_property
    def _divergence(self) -> ScalarFunction:
        with _within_reach(self._source):
            return ScalarFunction(self.equations, self.equations.divergence, "divergence")


class _Transported(System):
    """A system in the coordinates of its chart: nothing but equations, symmetries and angles."""

    def __init__(self, parent: System, chart: ChartEquations) -> None:
        self._parent = parent
        for name in ("text", "title", "name", "subject", "reference", "description"):
            setattr(self, name, getattr(parent, name))
        self._source = f"{parent._source}, [chart]"
        self.equations, self.parameters = chart.equations, parent.parameters
        self.definitions, self.defaults = parent.definitions, parent.defaults
        self._initial_table = None
        self._check(chart.points)

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_chart, (self._parent,)


class _Flow(System):
    """Flow of a return map, read from the same file."""

    def __init__(self, parent: System, table: Mapping[str, Any], given: dict[str, Any]) -> None:
        self._parent = parent
        self._read(parent.text, table, parent.name, given, parent._source)

    def __reduce__(self) -> tuple[Any, ...]:
        return _flow_of, (self._parent,)


def _flow_of(parent: System) -> System:
    assert parent.flow is not None
    return parent.flow


def _in_chart(parent: System) -> System:
    assert parent.chart is not None
    return parent.chart.system


@lru_cache(8)
def _again(text: str, name: str, definitions: str, source: str) -> System:
    """Return an equal system; the same one if it was made here before, for it takes a while."""
    return System(text, name, json.loads(definitions), source)


@contextmanager
def _within_reach(source: str) -> Iterator[None]:
    """Tell in a sentence where formulas are too long, too deep or too large."""
    try:
        yield
    except RecursionError:
        raise InputError(f"{source}: the equations are nested too deeply") from None
    except TooLong as error:
        raise InputError(f"{source}: the equations write out to {error}") from None
    except ArithmeticError:
        raise InputError(
            f"{source}: the derivatives of the equations have a constant that is too large, or no "
            "real number"
        ) from None


def _in_short(value: Any) -> str:
    """Return a parameter; of a long list the first numbers."""
    if not isinstance(value, list):
        return str(value)
    more = f", ... {len(value)} in all" if len(value) > _FEW else ""
    return f"[{', '.join(map(str, value[:_FEW]))}{more}]"


def _matrix(rows: Sequence[Mapping[int, Number]]) -> np.ndarray:
    matrix = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        for j, entry in row.items():
            matrix[i, j] = float(entry)
    return matrix


def _string(table: Mapping[str, Any], key: str, source: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise InputError(f"{source}, {key}: expected text in quotes, found {value!r}")
    several = key in ("description", "reference")
    return readable(value, f"{source}, {key}", _LONGEST_TEXT, lines=several)


def _known_derivatives(given: Any, source: str) -> str:
    if given not in ("", "autograd", "finite differences"):
        raise InputError(f"{source}, derivatives: expected 'autograd' or 'finite differences'")
    return str(given)


def _short_name(name: str) -> str:
    """Return a name that can be part of a file's name, and leads to no other folder."""
    return re.sub(r"[\x00-\x1f\x7f/\\:]+", "-", name).strip("-. ")[:_LONGEST_NAME] or "system"


def _read_defaults(table: Mapping[str, Any], source: str) -> dict[str, Any]:
    defaults = table.get("defaults", {})
    if not isinstance(defaults, Mapping):
        raise InputError(f"{source}: 'defaults' must be a table, written [defaults]")
    check_keys(defaults, _DEFAULTS, f"{source}, [defaults]")
    result = {}
    for key, value in defaults.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        whole = isinstance(value, int) or _DEFAULTS[key] is float
        if not number or not whole or not 0 < value <= _LARGEST_DEFAULT:
            raise InputError(
                f"{source}, [defaults] {key}: expected a positive "
                f"{'whole number' if _DEFAULTS[key] is int else 'number'}, found {value!r}"
            )
        result[key] = _DEFAULTS[key](value)
    return result


def _check_map_defaults(defaults: dict[str, Any], source: str) -> None:
    """A step of a map is one iteration."""
    if defaults.setdefault("step", 1.0) != 1:
        raise InputError(
            f"{source}, [defaults] step: a step of a map is one iteration; leave it out (the key "
            "'iterations' says how many times its stages are applied in one)"
        )
