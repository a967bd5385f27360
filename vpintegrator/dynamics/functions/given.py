"""Python functions with their declared properties, and the system file of their formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vpintegrator.dynamics.claims import Claims
from vpintegrator.dynamics.functions.calls import FunctionCall, read_call, recorded
from vpintegrator.dynamics.functions.description import (
    TIME,
    claimed,
    heading,
    initial_table,
    parameter_values,
    period_table,
    period_text,
)
from vpintegrator.dynamics.functions.traced_text import texts
from vpintegrator.dynamics.functions.tracing import NotTraceable, Tape, Traced
from vpintegrator.errors import InputError, printable
from vpintegrator.storage.toml import toml_text


class GivenFunction:
    """A function with all that was said of it, in the words of system files.

    Attributes
    ----------
    call
        The vector field; None where only a Hamiltonian is given.
    hamiltonian, invariants
        Functions of the state that were given beside it.
    components, parameters, claims
        Arguments of the user.
    name, values, tables
        The name, and the entries of a system file but for formulas.
    key
        The table of the formulas in a system file.
    """

    key = "vector_field"

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
        self.call = None if function is None else self.read(function)
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

    def read(self, function: Callable[..., Any]) -> FunctionCall:
        """Return the call of a function, with the arguments of its signature."""
        return read_call(function, "f", self.parameters)

    @property
    def source(self) -> str:
        """Name of the function for messages."""
        return f"function {self.name}"

    def text(self, formulas: Mapping[str, Any], timed: bool, fixed: Sequence[str] = ()) -> str:
        """Return a system file with formulas, or keys in their place."""
        values, tables = dict(self.values), dict(self.tables)
        if timed:
            values["time"] = TIME
            if self.claims.period is not None:
                values["period"] = period_text(self.claims.period)
        tables["parameters"] = {k: v for k, v in self.parameters.items() if k not in fixed}
        for key, entry in formulas.items():
            if key == "measured":  # a claim of its own takes the place of that which was given
                values.pop("divergence_free", None)
            (tables if isinstance(entry, Mapping) else values)[key] = entry
        return toml_text(values, dict(sorted(tables.items(), key=lambda entry: _place(entry[0]))))

    def recorded_scalar(self, call: FunctionCall) -> str | None:
        """Return the expression of a function of the state; None where none says what it does."""
        tape = Tape()
        symbols = [tape.symbol(name) for name in self.components]
        parameters = {n: _symbolic(tape, n, value) for n, value in self.parameters.items()}
        try:
            values = recorded(call, symbols, tape.symbol(TIME), parameters, 1)
            (text,), auxiliary = texts(values, tape, (*self.components, *self.parameters, TIME))
        except NotTraceable:
            return None
        return None if auxiliary else text

    def recorded_text(self, fixed: Sequence[str] = ()) -> str:
        """Return the system file of the formulas that the functions are.

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
            formulas[self.key] = dict(zip(names, written, strict=False))
            written = written[dim:]
        if self.invariants:
            formulas["invariants"] = dict(zip(self.invariants, written, strict=True))
        return self.text(formulas, timed, fixed)


def _state_function(function: Any, what: str, parameters: Mapping[str, Any]) -> FunctionCall:
    return read_call(function, what, parameters, halves=True)


def _symbolic(tape: Tape, name: str, value: Any) -> Any:
    if isinstance(value, list):
        return np.array([tape.symbol(f"{name}[{i}]") for i in range(len(value))], dtype=object)
    return tape.symbol(name)


def _below(values: Sequence[Any]) -> list[Traced]:
    """Return the recorded values on which values depend, themselves included."""
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
        shown = printable(repr(value), 80)
        raise InputError(f"{what} are a dictionary of functions by name, not {shown}")
    return value


def _positive(step: Any) -> float:
    if isinstance(step, bool) or not isinstance(step, int | float | np.number) or not step > 0:
        raise InputError(f"step = {step!r} must be a positive number")
    return float(step)
