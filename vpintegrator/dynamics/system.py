"""A dynamical system, z' = f(z) or a map: its equations, and functions of them."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import attrgetter, methodcaller
from typing import Any

import numpy as np

from vpintegrator.arguments import called, of_kind, whole
from vpintegrator.dynamics.chart import Chart
from vpintegrator.dynamics.definition import read_definition, within_reach
from vpintegrator.dynamics.equations import (
    MatrixFunction,
    ScalarFunction,
    StateFunction,
    as_given,
    float_array,
    is_tensor,
    stack_rows,
)
from vpintegrator.dynamics.formula_map import FormulaMap
from vpintegrator.dynamics.initial_conditions import InitialConditions
from vpintegrator.dynamics.properties import Definition, SystemProperties
from vpintegrator.dynamics.reading import plain_value
from vpintegrator.dynamics.return_map import ReturnMap, SectionStates
from vpintegrator.dynamics.section import ENERGY
from vpintegrator.dynamics.trial_states import holding_at
from vpintegrator.errors import InputError
from vpintegrator.rich_display import displayed

SMALLEST_TOLERANCE = 2.3e-14  # SciPy takes no relative tolerance below 100 times the rounding unit
OF_STACKS = 16  # smallest tolerance over rounding errors: so for stacks of 256 it is these
_TOLERANCE = 1e-13  # solver tolerance of return maps
_SIZED = 50  # initial states of a flow that show the sizes of its components


class System(SystemProperties):
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
        The system file's text, or a definition that was made of one.
    name
        A short name, such as ``rigid-body``.
    parameters
        Values that replace those of the file.
    source
        Source of the text, for messages.
    origin
        Function that makes this system of another, and that system; they take the place of the text
        when the system is pickled or gets other parameters.
    family
        Family of which this is the system of extended states.

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
        Whether it keeps the form :math:`dq \wedge dp` of positions and momenta, see
        :attr:`canonical_order`: Hamiltonian flows, and
        symplectic maps, and measured states of which the file declares it.
    reversing_symmetries
        Matrices :math:`\rho`, (dim, dim), with :math:`f(\rho z) = -\rho f(z)` and
        :math:`\rho^2 = I`; of a map M, :math:`\rho M \rho M = \mathrm{id}`.
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
        If the text is not a valid system or declares what does not hold.

    Examples
    --------
    >>> system = vp.load_system("pendulum", g=1.0)
    >>> system.vector_field(np.array([0.0, 2.0]))
    array([ 2., -0.])
    >>> float(system.invariants["energy"](np.array([0.0, 2.0])))
    1.0
    """

    flow: System | None = None
    chart: Chart[System] | None = None

    def __init__(
        self,
        text: str | Definition,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        source: str | None = None,
        *,
        origin: tuple[Callable[[System], System], System] | None = None,
        family: Any = None,
    ) -> None:
        if isinstance(text, Definition):
            definition = text
        else:
            definition = read_definition(text, name, parameters, source)
        super().__init__(definition, family)
        self._origin = origin
        if definition.flow is not None:
            self.flow = System(definition.flow, origin=(attrgetter("flow"), self))
        if definition.chart is not None:
            chart, there = definition.chart
            system = System(there, origin=(attrgetter("chart.system"), self))
            self.chart = Chart(chart, system)
        for each in () if definition is text else (self.flow, self):
            if each is not None and each.definition.initial_table is not None:
                _ = each.initial_conditions  # a mistake in them is told now

    @classmethod
    def of_text(
        cls,
        text: str,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        source: str | None = None,
    ) -> System:
        """Return the system of a text; the same one if it was read before, which takes a while."""
        try:
            values = json.dumps(parameters)
        except (TypeError, ValueError):  # values that are none: the system says which
            return System(text, name, parameters, source)
        return _read(text, name, values, source)

    @classmethod
    def from_function(
        cls,
        f: Callable[..., Any],
        dim: int | None = None,
        components: Sequence[str] | None = None,
        *,
        hamiltonian: Callable[..., Any] | None = None,
        divergence_free: bool | None = None,
        reversing_symmetries: Sequence[Any] = (),
        invariants: Mapping[str, Callable[..., Any]] | None = None,
        periodic: Mapping[str, float | str] | Sequence[str] | None = None,
        period: float | str | None = None,
        sample: Any = None,
        step: float | None = None,
        parameters: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> System:
        r"""Make a system of a Python function f(t, y), the right-hand side of y' = f(t, y).

        The function is called with an array of symbols in the place of numbers. Where it computes
        with operators and functions of NumPy it becomes formulas, and the system is like one of a
        file: with exact derivatives, machine code and parameters that can vary. Other functions are
        called, as those with decisions or of PyTorch.

        Parameters
        ----------
        f
            ``f(t, y)``, ``f(y, t)`` or ``f(y)`` of a state y of shape (dim,), with ``parameters``
            by keyword. A function for batches takes (..., dim) or (dim, ...). It may return the
            same array at each call. Where its values are those of single precision, there is a
            warning, and solvers take tolerances of :attr:`smallest_tolerance` at least.
        dim
            Number of components of a state.
        components
            Names of the components; by default q and p if a Hamiltonian is given, else y1, y2, ...
        hamiltonian, divergence_free, reversing_symmetries, invariants, periodic, period
            Declared properties, each checked: H of a state, or of positions and momenta; whether
            the flow preserves volume, None to find out; matrices (dim, dim), or the signs on their
            diagonals, with f(rho z) = -rho f(z); functions of the state that are constant along
            solutions, by name; periods of angles by the name of the component, or names for
            periods of 2 pi; and the period in time.
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
            If f cannot be called so, returns something else, such as complex numbers, or a declared
            property does not hold; the message says by how much it fails, and where.

        Examples
        --------
        >>> def pendulum(t, y, g=1.0):
        ...     q, p = y
        ...     return np.array([p, -g * np.sin(q)])
        >>> system = vp.System.from_function(pendulum, dim=2, parameters={"g": 9.81}, step=0.1)
        >>> system.divergence_free, system.parameters
        (True, {'g': 9.81})
        """
        claims: dict[str, Any] = {"name": name}
        claims |= {"hamiltonian": hamiltonian, "divergence_free": divergence_free, "period": period}
        claims |= {"reversing_symmetries": reversing_symmetries, "invariants": invariants}
        claims |= {"periodic": periodic, "sample": sample, "step": step, "parameters": parameters}
        letter = "y" if hamiltonian is None else "q"
        called("f", f)
        return _of_functions(f, dim, components, letter, **claims)

    @classmethod
    def from_hamiltonian(
        cls,
        hamiltonian_function: Callable[..., Any],
        degrees_of_freedom: int | None = None,
        components: Sequence[str] | None = None,
        *,
        reversing_symmetries: Sequence[Any] = (),
        invariants: Mapping[str, Callable[..., Any]] | None = None,
        periodic: Mapping[str, float | str] | Sequence[str] | None = None,
        period: float | str | None = None,
        sample: Any = None,
        step: float | None = None,
        parameters: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> System:
        """Make a Hamiltonian system of a Python function H, with NumPy's functions or PyTorch's.

        Parameters
        ----------
        hamiltonian_function
            ``H(z)`` of a state, ``H(q, p)`` of its positions and momenta or, where it depends on
            time, ``H(t, z)`` or ``H(t, q, p)``; a number. Arguments go by their names, in any
            order; where these tell nothing, positions come before momenta.
        degrees_of_freedom
            Half the number of components of a state.
        components
            Names of the components. Names such as ``x, px, y, py`` tell positions from momenta;
            where they do not, the first half are positions.
        reversing_symmetries, invariants, periodic, period, sample, step, parameters, name
            As in :meth:`from_function`.

        Raises
        ------
        InputError
            As by :meth:`from_function`.

        Examples
        --------
        >>> system = vp.System.from_hamiltonian(lambda q, p: p @ p / 2 - np.cos(q[0]), 1)
        >>> system.kind, system.vector_field([0.0, 2.0]).tolist()
        ('Hamiltonian', [2.0, -0.0])
        """
        called("the Hamiltonian", hamiltonian_function)
        dim = None
        if degrees_of_freedom is not None:
            dim = 2 * whole("degrees_of_freedom", degrees_of_freedom)
        claims: dict[str, Any] = {"hamiltonian": hamiltonian_function, "name": name}
        claims |= {"reversing_symmetries": reversing_symmetries, "invariants": invariants}
        claims |= {"periodic": periodic, "period": period, "sample": sample, "step": step}
        claims["parameters"] = parameters
        return _of_functions(None, dim, components, "q", **claims)

    @classmethod
    def from_map(
        cls,
        turn: Callable[..., Any],
        dim: int | None = None,
        components: Sequence[str] | None = None,
        *,
        structure: str | None = None,
        reversing_symmetries: Sequence[Any] = (),
        invariants: Mapping[str, Callable[..., Any]] | None = None,
        periodic: Mapping[str, float | str] | Sequence[str] | None = None,
        sample: Any = None,
        parameters: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> System:
        r"""Make a discrete system of a Python function from a state to the next one.

        Parameters
        ----------
        turn
            ``turn(z)`` of a state of shape (dim,), or of its components one by one,
            ``turn(x, px)``, with NumPy's functions or PyTorch's, and with ``parameters`` by
            keyword. A function for batches takes (..., dim) or (dim, ...).
        dim, components, sample, parameters, name
            Arguments of :meth:`from_function`. Names such as ``x, px, y, py`` tell positions from
            momenta; where they do not, the state of a symplectic map has all positions first.
            Default names are x1, x2, ...
        structure
            ``symplectic``, ``volume`` or ``none``; by default what is found.
        reversing_symmetries
            Matrices :math:`\rho`, or the signs on their diagonals, with
            :math:`\rho M \rho M = \mathrm{id}`.
        invariants, periodic
            Arguments of :meth:`from_function`.

        Raises
        ------
        InputError
            If the function cannot be called so, returns something else, or a declared property
            does not hold; the message says by how much it fails, and where.

        Examples
        --------
        >>> def turn(x, px, K=0.6):
        ...     px = px + K * np.sin(x)
        ...     return x + px, px
        >>> standard = vp.System.from_map(turn, dim=2, periodic=["x1"])
        >>> standard.kind, standard.map([0.0, 1.0])
        ('symplectic map', array([1., 1.]))
        """
        called("turn", turn)
        claims: dict[str, Any] = {"structure": structure, "invariants": invariants}
        claims |= {"reversing_symmetries": reversing_symmetries, "periodic": periodic}
        claims |= {"sample": sample, "parameters": parameters, "name": name}
        return _of_functions(turn, dim, components, "x", is_map=True, **claims)

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
        if self._origin is not None:
            derive, parent = self._origin
            return derive(parent.with_parameters(values))
        return System(self.text, self.name, {**self.definitions, **plain_value(values, self.name)})

    @cached_property
    def canonical(self) -> System:
        """The system with all positions first and then their momenta; itself where it is so.

        Examples
        --------
        >>> system = vp.load_system('''
        ... state = ["x", "px", "y", "py"]
        ... hamiltonian = "(px**2 + py**2 + x**2 + y**2)/2"
        ... ''')
        >>> system.canonical_order, system.canonical.components
        ((0, 2, 1, 3), ('x', 'y', 'px', 'py'))
        """
        if not self.canonical_order:
            return self
        definition = self.definition.in_canonical_order()
        return System(definition, origin=(attrgetter("canonical"), self), family=self.family)

    def with_open(self, names: Sequence[str]) -> System:
        """Return the system with some parameters left open: variables of its formulas.

        Its functions take values of these parameters, (..., name), beside states: for calculations
        in which each trajectory has parameters of its own.

        Parameters
        ----------
        names
            Parameters that are single numbers, in any order.

        Raises
        ------
        InputError
            If there is no such parameter, or it is no number that can be left open: a list, or one
            on which the dimension or an index depends.

        Examples
        --------
        >>> body = vp.load_system("rigid-body").with_open(["I1", "I2"])
        >>> state = np.array([0.6, 0.8, 0.0])
        >>> body.vector_field(state, np.array([[2.0, 1.0], [4.0, 1.0]]))[:, 2]
        array([0.24, 0.36])
        >>> body.invariants["energy"](state, np.array([[2.0, 1.0], [4.0, 1.0]]))
        array([0.41 , 0.365])
        """
        of_kind("names", names, (list, tuple), "a list of names of parameters")
        names = tuple(str(name) for name in names)
        definition = self.definition.with_open(names)
        return System(definition, origin=(methodcaller("with_open", names), self))

    def without_equations(self) -> System:
        """Return the system as a file of measured states could declare it: without its equations.

        These are the names and order of the components, the form that is kept, reversing
        symmetries, angles, a chart, and the time with its period. Formulas, invariants, states
        between those of the data, and values of parameters within formulas are left out.

        Examples
        --------
        >>> body = vp.load_system("rigid-body").without_equations()
        >>> body.kind, len(body.reversing_symmetries), body.invariants
        ('measured, volume-preserving', 3, {})
        """
        if self.is_measured:
            return self
        return System(
            self.definition.without_equations(), origin=(methodcaller("without_equations"), self)
        )

    def holding_at(self, states: np.ndarray, tolerance: float) -> System:
        """Return the system without structure that fails at states; ``broken`` says what fails.

        Parameters
        ----------
        states
            States (state, dim), such as those of a dataset.
        tolerance
            Largest relative defect of structure that holds.

        Examples
        --------
        >>> damped = vp.load_system('''
        ... state = ["x", "y"]
        ... vector_field = { x = "y", y = "-x - y*where(x > 4, 1, 0)" }
        ... initial_conditions = { distribution = "uniform", low = -1, high = 1 }
        ... ''')
        >>> damped.divergence_free
        True
        >>> damped.holding_at(np.array([[5.0, 0.0]]), tolerance=1e-9).divergence_free
        False
        """
        if not self.has_formulas or self.flow is not None or not self.equations.is_local:
            return self
        definition = holding_at(self.definition, states, tolerance)
        if definition is self.definition:
            return self
        derive = methodcaller("holding_at", states, tolerance)
        return System(definition, origin=(derive, self), family=self.family)

    def map(self, state: Any, parameters: Sequence[Any] = ()) -> Any:
        """Return the image of a state under one step of a discrete system, shape (..., dim).

        ``parameters`` are the values of open parameters, one by one.

        Raises
        ------
        InputError
            If this is no map, the state is none of it, or a return map is to be differentiated.
        """
        self.require_map()
        state = self.checked_state(state)
        if self.equations.returns is None and is_tensor(state):
            columns = self._formula_map.columns(state.unbind(-1), "torch", parameters)
            return stack_rows(columns, state[..., 0], -1)
        if self.equations.returns is None:
            return self._formula_map.images(state, parameters)
        if parameters or (is_tensor(state) and state.requires_grad):
            raise InputError(f"{self.name} is a return map: it has no derivative in PyTorch")
        rows = float_array(state).reshape(-1, self.dim)
        return as_given(self.iteration()(rows).reshape(state.shape), state)

    def map_jacobian(self, state: Any, parameters: Sequence[Any] = ()) -> np.ndarray:
        """Return derivatives of a map by formula, shape (..., dim, dim); NumPy alone."""
        if self.flow is not None:
            raise InputError(f"{self.name} is a return map, which has no formula to differentiate")
        self.require_map()
        state = np.asarray(self.checked_state(state))
        with np.errstate(all="ignore"):
            derivatives = self._formula_map.jacobian(np.moveaxis(state, -1, 0), parameters)
        return np.moveaxis(derivatives, (0, 1), (-2, -1))

    def states_between(self, states: np.ndarray, parts: int) -> np.ndarray | None:
        """Return states (state, dim) of a discrete system on the way to their images.

        Those after equal parts of the stages of a map by formula, or of the way of a return map,
        shape (part + 1, state, dim); None where it has fewer stages, or no sections between. Where
        a state on the edge of a section has no way, the way of another is given, with that first.
        """
        if self.equations.returns is not None:
            return self.section_map.states_between(states, parts)
        return self._formula_map.states_between(states, parts)

    def iteration(
        self,
        rtol: float = _TOLERANCE,
        atol: float = _TOLERANCE,
        parameters: np.ndarray | None = None,
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Return the map of states (n, dim), of a return map with tolerances for its solutions.

        Each state has its own values of open parameters, (n, name). The image is NaN where the
        iterate is not finite, or the solution does not come back.
        """
        if self.equations.returns is not None:
            return self.section_map.iteration(rtol, atol, parameters)
        return self.map if parameters is None else self._formula_map.iteration(parameters)

    @cached_property
    def section_map(self) -> ReturnMap:
        """Solver of a return map: from the section back to the section."""
        if self.equations.returns is None:
            raise InputError(f"{self.name} is no return map")
        if self.flow is None:
            return ReturnMap(self.equations)
        try:
            states = self._states_of_flow(_SIZED, np.random.default_rng(0), None)
        except InputError:  # a flow without initial states, or with a few given ones
            return ReturnMap(self.equations)
        return ReturnMap(self.equations, np.abs(states).max(axis=0))

    @property
    def smallest_tolerance(self) -> float:
        """Smallest tolerance that solutions can meet: the limit of double precision for formulas.

        A function in single precision has a larger one: below, a solver would reject every step.
        """
        return SMALLEST_TOLERANCE

    def vector_field(self, state: Any, parameters: Any = None) -> Any:
        """Return the right-hand side :math:`f(z)`, shape (..., dim); of values of open parameters.

        States (..., dim) and parameters (..., name) have the same leading dimensions, or one of
        them has fewer.
        """
        return self._field(state, parameters)

    def of_trajectories(self, rows: Any) -> System:
        """Return the flow of some trajectories of a stack: that of all, unless parameters vary."""
        return self

    def vector_field_by_component(self, components: Any, parameters: Sequence[Any] = ()) -> Any:
        """Evaluate the vector field with components first, (dim, ...): fastest for NumPy.

        ``parameters`` are the values of open parameters, one by one.
        """
        return stack_rows(self._field.by_component(components, parameters), components[0])

    def jacobian(self, state: Any) -> Any:
        r"""Return the matrix :math:`\partial f_i / \partial z_j`, shape (..., dim, dim)."""
        return self._jacobian(state)

    def jacobian_by_component(self, components: Any, parameters: Sequence[Any] = ()) -> Any:
        """Evaluate the Jacobian with components first: (dim, ...) to (dim, dim, ...)."""
        return self._jacobian.matrices_by_component(components, parameters)

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

    @cached_property
    def initial_conditions(self) -> InitialConditions | SectionStates:
        """The distribution of initial states that the system file suggests."""
        of_flow = self.flow is not None
        table = self.definition.initial_table if of_flow else self.initial_table
        return self.states_of(table, self._source + ", [return_map]" * of_flow)

    def states_of(
        self, table: Mapping[str, Any] | None, source: str
    ) -> InitialConditions | SectionStates:
        """Return the distribution of a table ``[initial_conditions]``.

        Parameters
        ----------
        table
            The table. Of a return map it is a distribution of the map's own states, and None stands
            for that of the flow.
        source
            Name of the file, for messages.
        """
        if self.flow is None:
            return InitialConditions(self, table or {}, source)
        return SectionStates(self.section_map, self, table, self._states_of_flow, source)

    def _states_of_flow(
        self, count: int, generator: np.random.Generator, parameters: np.ndarray | None
    ) -> np.ndarray:
        """Return initial states of the flow of a return map, of the parameters of each."""
        flow = self.flow
        open_ = self.equations.open
        assert flow is not None
        places = [k for k, symbol in enumerate(open_) if symbol.name != ENERGY]
        if parameters is not None and places:
            return flow.initial_conditions.sample(count, generator, parameters[:, places])
        if open_ and self._origin is not None and self._origin[1].flow is not None:
            flow = self._origin[1].flow
        return flow.sample_initial(count, generator)

    def sample_initial(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Draw ``count`` initial states, (count, dim), from the suggested distribution."""
        return self.initial_conditions.sample(count, generator)

    def _repr_markdown_(self) -> str:
        return displayed(self, "markdown_of")

    def __reduce__(self) -> tuple[Any, ...]:
        # text travels between processes, not what was derived from it
        if self._origin is not None:
            return self._origin[0], self._origin[1:]
        return System.of_text, (self.text, self.name, self.definitions, self._source)

    @cached_property
    def _formula_map(self) -> FormulaMap:
        return FormulaMap(self.equations)

    @cached_property
    def _field(self) -> StateFunction:
        self.require_vector_field("this")
        return self.equations.field

    @cached_property
    def _jacobian(self) -> MatrixFunction:
        self.require_vector_field("the Jacobian matrix")
        with within_reach(self._source):
            return MatrixFunction(self.equations, self.equations.jacobian)

    @cached_property
    def _hamiltonian(self) -> ScalarFunction | None:
        h = self.equations.hamiltonian
        return None if h is None else ScalarFunction(self.equations, h, "hamiltonian")

    @cached_property
    def _divergence(self) -> ScalarFunction:
        with within_reach(self._source):
            return ScalarFunction(self.equations, self.equations.divergence, "divergence")


@lru_cache(16)
def _read(text: str, name: str | None, values: str, source: str | None) -> System:
    return System(text, name, json.loads(values), source)


def _of_functions(*arguments: Any, **claims: Any) -> System:
    """Return a system of Python functions; their module is loaded when it is used."""
    module = importlib.import_module("vpintegrator.dynamics.function_system")
    system: System = module.system_of(*arguments, **claims)
    return system
