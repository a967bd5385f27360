"""Systems of Python functions: recorded as formulas where that is possible, else called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vpintegrator.dynamics.claims import Claims
from vpintegrator.dynamics.functions.calls import FunctionCall, Values, read_call, recorded
from vpintegrator.dynamics.functions.description import (
    TIME,
    claimed,
    component_names,
    heading,
    initial_table,
    parameter_values,
    period_table,
    period_text,
)
from vpintegrator.dynamics.functions.traced_text import texts
from vpintegrator.dynamics.functions.tracing import NotTraceable, Tape, Traced
from vpintegrator.dynamics.system import System
from vpintegrator.errors import InputError
from vpintegrator.toml import toml_text

CHECKED = 16  # states at which a function and its formulas are compared
_AGREEMENT = 1e-11  # relative: other orders of the same operations
_EXACT = 1e-12  # relative error of a claim about derivatives by formula or autograd


class GivenFunction:
    """A function with all that was said of it, in the words of system files.

    Attributes
    ----------
    call
        The vector field; None where only a Hamiltonian is given.
    hamiltonian, invariants
        Functions of the state that were given beside it.
    components, parameters, claims
        As given.
    name, values, tables
        The name, and the entries of a system file but for formulas.
    """

    def __init__(
        self,
        function: Callable[..., Any] | None,
        components: list[str],
        claims: Claims,
        sample: Any,
        step: float | None,
        parameters: Any,
        name: str | None,
    ) -> None:
        self.components, self.claims = components, claims
        self.parameters = parameter_values(parameters, components)
        self.call = None if function is None else read_call(function, "f", self.parameters)
        self.hamiltonian: FunctionCall | None = None
        if claims.hamiltonian is not None:
            self.hamiltonian = _state_function(claims.hamiltonian, "hamiltonian", self.parameters)
        self.invariants = {
            str(key): _state_function(value, f"invariants, {key}", self.parameters)
            for key, value in _dictionary(claims.invariants, "invariants").items()
        }
        self.name, words = heading(function or claims.hamiltonian, name)  # type: ignore[arg-type]
        self.values: dict[str, Any] = {**words, "state": components, **claimed(claims, components)}
        self.tables: dict[str, Mapping[str, Any]] = {
            "periodic": period_table(claims.periodic, components),
            "initial_conditions": initial_table(sample, components),
            "defaults": {} if step is None else {"step": _positive(step)},
        }

    @property
    def source(self) -> str:
        """For messages."""
        return f"function {self.name}"

    def text(self, formulas: Mapping[str, Any], timed: bool, fixed: Sequence[str] = ()) -> str:
        """A system file with formulas, or keys in their place."""
        values, tables = dict(self.values), dict(self.tables)
        if timed:
            values["time"] = TIME
            if self.claims.period is not None:
                values["period"] = period_text(self.claims.period)
        tables["parameters"] = {k: v for k, v in self.parameters.items() if k not in fixed}
        for key, entry in formulas.items():
            (tables if isinstance(entry, Mapping) else values)[key] = entry
        return toml_text(values, dict(sorted(tables.items(), key=lambda entry: _place(entry[0]))))

    def recorded_text(self, fixed: Sequence[str] = ()) -> str:
        """The system file of the formulas that the functions are.

        Parameters
        ----------
        fixed
            Parameters that are numbers in the formulas.

        Raises
        ------
        NotTraceable
            If no formulas say what they do.
        """
        tape = Tape()
        symbols = [tape.symbol(name) for name in self.components]
        time = tape.symbol(TIME)
        parameters = {
            name: value if name in fixed else _symbolic(tape, name, value)
            for name, value in self.parameters.items()
        }

        def of(call: FunctionCall, count: int) -> list[Any]:
            return recorded(call, symbols, time, parameters, count)

        dim = len(self.components)
        found: list[Any] = []
        if self.hamiltonian is not None:
            found += of(self.hamiltonian, 1)
        elif self.call is not None:
            found += of(self.call, dim)
        for call in self.invariants.values():
            found += of(call, 1)
        taken = (*self.components, *self.parameters, TIME)
        written, auxiliary = texts(found, tape, taken)
        timed = time.number in {o.number for o in _below(found)}
        formulas: dict[str, Any] = {"auxiliary": auxiliary} if auxiliary else {}
        if self.hamiltonian is not None:
            formulas["hamiltonian"], written = written[0], written[1:]
        else:
            names = self.components
            formulas["vector_field"] = dict(zip(names, written, strict=False))
            written = written[dim:]
        if self.invariants:
            formulas["invariants"] = dict(zip(self.invariants, written, strict=True))
        return self.text(formulas, timed, fixed)


def system_from_function(
    function: Callable[..., Any],
    dim: int | None,
    components: Sequence[str] | None,
    claims: Claims,
    sample: Any,
    step: float | None,
    parameters: Mapping[str, Any] | None,
    name: str | None,
) -> System:
    """See :meth:`vpintegrator.System.from_function`."""
    names = component_names(dim, components, claims.hamiltonian is not None)
    given = GivenFunction(function, names, claims, sample, step, parameters, name)
    return _made(given)


def system_from_hamiltonian(
    hamiltonian: Callable[..., Any],
    degrees_of_freedom: int | None,
    components: Sequence[str] | None,
    claims: Claims,
    sample: Any,
    step: float | None,
    parameters: Mapping[str, Any] | None,
    name: str | None,
) -> System:
    """See :meth:`vpintegrator.System.from_hamiltonian`."""
    dim = None if degrees_of_freedom is None else 2 * degrees_of_freedom
    names = component_names(dim, components, True)
    if claims.hamiltonian is not None:
        raise InputError("from_hamiltonian takes the Hamiltonian first; leave hamiltonian= out")
    claims = Claims(**{**vars(claims), "hamiltonian": hamiltonian})
    given = GivenFunction(None, names, claims, sample, step, parameters, name)
    return _made(given)


def _made(given: GivenFunction) -> System:
    whole = [name for name, value in given.parameters.items() if isinstance(value, int)]
    reasons = []
    for fixed in [(), whole] if whole else [()]:
        try:
            return _of_formulas(given, given.recorded_text(fixed))
        except NotTraceable as error:
            reasons.append(str(error))
    raise InputError(f"{given.source} cannot be recorded as formulas: {reasons[0]}")


def _of_formulas(given: GivenFunction, text: str) -> System:
    """The system of recorded formulas, its claims checked, compared with the function."""
    system, exact = None, None
    try:
        system = System(text, given.name, source=given.source)
        if system.divergence_free or given.claims.divergence_free is False:
            exact = system
    except InputError as error:
        exact = None
        problem = error
    if exact is None:
        # constants of a Python function are rounded, and claims hold to that
        try:
            rounded = System(f"rounded = true\n{text}", given.name, source=given.source)
        except InputError:
            if system is None:
                raise problem from None
            rounded = system
        exact = rounded if system is None or rounded.divergence_free else system
    _compare_with_function(given, exact)
    return exact


def _compare_with_function(given: GivenFunction, system: System) -> None:
    """Compare a function with the formulas that were recorded.

    Raises
    ------
    InputError
        If the Hamiltonian that was given is that of another vector field.
    NotTraceable
        If the function is none of its arguments alone.
    """
    if given.call is None:
        return
    generator = np.random.default_rng(0)
    states = system.sample_initial(CHECKED, generator)
    times = states[:, -1] if system.clock is not None else np.zeros(CHECKED)
    dim = len(given.components)
    called = Values(given.call, dim, given.parameters, states[:, :dim], times)
    found, expected = called(states[:, :dim], times), system.vector_field(states)[:, :dim]
    scale = 1 + np.abs(np.nan_to_num(found)).max(axis=1)
    defect = np.abs(found - expected).max(axis=1) / scale
    if (worst := int(np.nanargmax(np.r_[0, defect])) - 1) >= 0 and defect[worst] > _AGREEMENT:
        where = place(given.components, states[worst])
        if given.hamiltonian is not None:
            raise InputError(
                f"{given.source}, hamiltonian: f is not (dH/dp, -dH/dq), they differ by "
                f"{defect[worst] * scale[worst]:.3g} at {where}"
            )
        raise NotTraceable(
            f"two calls with one state do not give the same, they differ by "
            f"{defect[worst] * scale[worst]:.3g} at {where}"
        )


def place(components: Sequence[str], state: np.ndarray) -> str:
    """A state as messages write it."""
    named = [f"{name} = {x:.6g}" for name, x in zip(components[:4], state, strict=False)]
    return ", ".join(named) + (", ..." if len(components) > 4 else "")


def _state_function(function: Any, what: str, parameters: Mapping[str, Any]) -> FunctionCall:
    return read_call(function, what, parameters, halves=True)


def _symbolic(tape: Tape, name: str, value: Any) -> Any:
    if isinstance(value, list):
        return np.array([tape.symbol(f"{name}[{i}]") for i in range(len(value))], dtype=object)
    return tape.symbol(name)


def _below(values: Sequence[Any]) -> list[Traced]:
    """What recorded values are made of, themselves included."""
    seen: dict[int, Traced] = {}
    stack = [value for value in values if isinstance(value, Traced)]
    while stack:
        node = stack.pop()
        if node.number not in seen:
            seen[node.number] = node
            stack.extend(o for o in node.operands if isinstance(o, Traced))
    return list(seen.values())


_ORDER = ("parameters", "auxiliary", "vector_field", "map", "invariants", "periodic")


def _place(table: str) -> int:
    return _ORDER.index(table) if table in _ORDER else len(_ORDER)


def _dictionary(value: Any, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{what} are a dictionary of functions by name, not {value!r}")
    return value


def _positive(step: Any) -> float:
    if isinstance(step, bool) or not isinstance(step, int | float | np.number) or not step > 0:
        raise InputError(f"step = {step!r} must be a positive number")
    return float(step)
