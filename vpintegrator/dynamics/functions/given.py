"""Python functions with their declared properties, and the system file of their formulas."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from vpintegrator.dynamics.claims import Claims
from vpintegrator.dynamics.conjugate import canonical_order
from vpintegrator.dynamics.expressions import check_name
from vpintegrator.dynamics.functions.calls import FunctionCall, read_call, recorded
from vpintegrator.dynamics.functions.traced_text import number_text, texts
from vpintegrator.dynamics.functions.tracing import NotTraceable, Tape, Traced
from vpintegrator.dynamics.reading import MAXIMUM_DIMENSION
from vpintegrator.errors import InputError, printable
from vpintegrator.storage.toml import toml_text

TIME = "t"
_PERIOD = "2*pi"
_MOST_POINTS = 4096
_LONGEST_DESCRIPTION = 2000


@dataclass
class GivenFunction:
    """A function with all that was said of it, in the words of system files.

    Attributes
    ----------
    function
        The vector field or map; None where only a Hamiltonian is given.
    sample, step
        Distribution of initial states, and step, as the user gave them.
    halves
        Numbers of the positions and of the momenta.
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

    key: ClassVar[str] = "vector_field"

    function: Callable[..., Any] | None
    components: list[str]
    claims: Claims
    sample: Any
    step: float | None
    parameters: Any
    name: Any

    def __post_init__(self) -> None:
        claims, components = self.claims, self.components
        half, order = len(components) // 2, list(range(len(components)))
        if claims.hamiltonian is not None:
            order = [*canonical_order(components, "components")] or order
        self.halves = order[:half], order[half : 2 * half]
        self.parameters = parameter_values(self.parameters, components)
        self.call = None if self.function is None else self.read(self.function)
        self.hamiltonian: FunctionCall | None = None
        if claims.hamiltonian is not None:
            self.hamiltonian = self._scalar(claims.hamiltonian, "hamiltonian")
        self.invariants = {
            str(key): self._scalar(value, f"invariants, {key}")
            for key, value in _dictionary(claims.invariants, "invariants").items()
        }
        self.name, words = heading(self.function or claims.hamiltonian, self.name)  # type: ignore[arg-type]
        self.values: dict[str, Any] = {
            **words,
            "state": components,
            **declared_keys(claims, components),
        }
        self.tables: dict[str, Mapping[str, Any]] = {
            "periodic": period_table(claims.periodic, components),
            "initial_conditions": initial_table(self.sample, components),
            "defaults": {} if self.step is None else {"step": _positive(self.step)},
        }

    def _scalar(self, function: Any, what: str) -> FunctionCall:
        return read_call(function, what, self.parameters, self.halves)

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Return the function with other values of some parameters.

        Raises
        ------
        InputError
            If the function has no such parameter, or a value is none.
        """
        for name in changes:
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise InputError(f"the function has no parameter '{name}' (it has: {known})")
        return replace(self, parameters={**self.parameters, **changes})

    def recordings(self) -> Iterator[Sequence[str]]:
        """Yield names of parameters that are numbers in formulas: none, then whole numbers."""
        yield ()
        if whole := [name for name, value in self.parameters.items() if isinstance(value, int)]:
            yield whole

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
            if key == "measured":  # what was found takes the place of what was declared
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


def component_names(dim: int | None, components: Any, hamiltonian: bool) -> list[str]:
    """Names of components: those given, or ``q, p``, ``q1, ..., p1, ...``, or ``y1, y2, ...``.

    Raises
    ------
    InputError
        If there are none, or their number is not ``dim``.
    """
    if components is not None:
        if isinstance(components, str):
            components = [name.strip() for name in components.split(",")]
        if not isinstance(components, list | tuple) or not components:
            shown = printable(repr(components), 80)
            raise InputError(f"components are a list of names, not {shown}")
        names = [str(name) for name in components]
        if dim is not None and len(names) != dim:
            raise InputError(f"dim = {dim}, but there are {len(names)} names of components")
        for name in names:
            check_name(name, "components")
        if len(set(names)) < len(names):
            raise InputError(f"components: a name is there twice: {', '.join(names)}")
        return names
    if dim is None:
        raise InputError("say how many components a state has: dim=2, or components=['q', 'p']")
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer):
        raise InputError(f"dim = {dim!r} must be a whole number")
    if not 1 <= dim <= MAXIMUM_DIMENSION:
        raise InputError(f"dim = {dim} must be 1 to {MAXIMUM_DIMENSION}")
    half, odd = divmod(int(dim), 2)
    if hamiltonian and not odd:
        return ["q", "p"] if half == 1 else [f"{x}{i + 1}" for x in "qp" for i in range(half)]
    return [f"y{i + 1}" for i in range(dim)]


def parameter_values(parameters: Any, components: Sequence[str]) -> dict[str, Any]:
    """Return values of parameters as numbers and lists of numbers of Python.

    Raises
    ------
    InputError
        If a value is none, or a name is taken.
    """
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        shown = printable(repr(parameters), 80)
        raise InputError(f"parameters are a dictionary, as in {{'k': 1.0}}, not {shown}")
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        check_name(str(name), "parameters")
        if name in components:
            raise InputError(f"parameters: '{name}' is a component of the state")
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or array.ndim > 1 or not np.isfinite(array).all():
            raise InputError(f"parameters: {name} = {value!r} must be a number, or a list of them")
        found[name] = array.tolist()
    return found


def initial_table(sample: Any, components: Sequence[str]) -> dict[str, Any]:
    """Return the table ``[initial_conditions]`` that ``sample`` means.

    Raises
    ------
    InputError
        If it is neither a table, nor a box (low, high), nor an array of states.
    """
    dim = len(components)
    if sample is None:
        return {"distribution": "uniform", "low": -1, "high": 1}
    if isinstance(sample, Mapping):
        return {key: v.tolist() if isinstance(v, np.ndarray) else v for key, v in sample.items()}
    try:
        if isinstance(sample, tuple) and len(sample) == 2:
            low, high = (np.broadcast_to(np.asarray(s, np.float64), dim) for s in sample)
            if not (np.isfinite([low, high]).all() and (low <= high).all()):
                raise ValueError
            return {"distribution": "uniform", "low": low.tolist(), "high": high.tolist()}
        points = np.asarray(sample, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != dim or not np.isfinite(points).all():
            raise ValueError
    except (TypeError, ValueError):
        raise InputError(
            "sample must be a tuple (low, high) of the corners of a box, an array of states "
            f"(state, {dim}), or a dictionary as the table [initial_conditions] of a system file"
        ) from None
    if len(points) > _MOST_POINTS:
        raise InputError(f"sample holds {len(points)} states, more than {_MOST_POINTS}")
    return {"distribution": "points", "points": points.tolist()}


def symmetry_tables(symmetries: Any, components: Sequence[str]) -> list[dict[str, str]]:
    """Return reversing symmetries as tables of expressions.

    Raises
    ------
    InputError
        If one is no matrix of the size of a state.
    """
    dim, tables = len(components), []
    if not isinstance(symmetries, list | tuple | np.ndarray | None):
        raise InputError(f"reversing_symmetries are a list of matrices, not {symmetries!r}")
    for given in symmetries if symmetries is not None else ():
        try:
            matrix = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.empty(0)
        matrix = np.diag(matrix) if matrix.shape == (dim,) else matrix
        if matrix.shape != (dim, dim) or not np.isfinite(matrix).all():
            raise InputError(
                f"reversing_symmetries are matrices ({dim}, {dim}) or the {dim} signs on their "
                f"diagonals, not {printable(repr(given), 80)}"
            )
        rows = {}
        for i, row in enumerate(matrix):
            terms = [
                {1.0: name, -1.0: f"-{name}"}.get(c, f"({number_text(c)})*{name}")
                for name, c in zip(components, row, strict=True)
                if c
            ]
            if not np.array_equal(row, np.eye(dim)[i]):
                rows[components[i]] = " + ".join(terms) or "0"
        tables.append(rows)
    return tables


def period_table(periodic: Any, components: Sequence[str]) -> dict[str, str]:
    """Return periods of angles as expressions, by the name of the component.

    Raises
    ------
    InputError
        If it names none of the state.
    """
    if periodic is None:
        return {}
    if isinstance(periodic, str):
        periodic = [periodic]
    if isinstance(periodic, list | tuple) and all(isinstance(name, str) for name in periodic):
        periodic = dict.fromkeys(periodic, _PERIOD)
    if not isinstance(periodic, Mapping):
        shown = printable(repr(periodic), 80)
        raise InputError(f"periodic are periods by names of components, or names, not {shown}")
    for name in periodic:
        if name not in components:
            raise InputError(f"periodic: there is no component '{name}' ({', '.join(components)})")
    return {name: period_text(value) for name, value in periodic.items()}


def period_text(value: Any) -> str:
    """Return a period as an expression."""
    if isinstance(value, str):
        return value
    if not isinstance(value, int | float | np.number) or not np.isfinite(value):
        raise InputError(f"a period is a number or an expression, not {printable(repr(value), 80)}")
    return number_text(float(value))


def heading(function: Callable[..., Any], name: str | None) -> tuple[str, dict[str, str]]:
    """Return the short name of a function's system, and its title and description."""
    own = getattr(function, "__name__", type(function).__name__)
    name = str(name) if name is not None else own.replace("_", "-").strip("-<>")
    words = {"title": printable(name)}
    text = inspect.getdoc(function) if inspect.isroutine(function) else None
    if text and text.isascii():
        words["description"] = printable(text, _LONGEST_DESCRIPTION)
    return name, words


def declared_keys(claims: Claims, components: Sequence[str]) -> dict[str, Any]:
    """Return the keys of a system file for declared properties, but for formulas."""
    found: dict[str, Any] = {}
    if not isinstance(claims.divergence_free, bool | None):
        raise InputError(f"divergence_free is True, False or None, not {claims.divergence_free!r}")
    if claims.divergence_free is not None:
        found["divergence_free"] = bool(claims.divergence_free)
    if tables := symmetry_tables(claims.reversing_symmetries, components):
        found["reversing_symmetry"] = tables
    return found
